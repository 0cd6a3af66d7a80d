"""Adam in packs of 16 bytes: the same numbers, and the same bits, wherever tensors begin and end."""


import cuda_on_cpu
import numpy as np
import pytest
from helpers import error, same, snapshot
from nvcc import spilled

from minigpt import ops
from minigpt.device.arrays import named_dtype
from minigpt.ops import cuda
from minigpt.ops.cuda import kernels

SIZES = (1, 3, 4, 5, 16, 1031)  # less than a pack, whole packs, and packs with a tail
SETTINGS = {"rate": 0.01, "eps": 1e-8, "decay": 0.1, "betas": (0.9, 0.99), "max_norm": 1.0}
OFFSETS = [  # of p, g, m, v and the copy, in numbers from a multiple of 16 bytes
    (0, 0, 0, 0, 0), (1, 1, 1, 1, 1),
    (1, 0, 0, 0, 0), (0, 1, 0, 0, 0), (0, 0, 3, 0, 0), (0, 0, 0, 2, 0), (0, 0, 0, 0, 1),
]  # fmt: skip


def placed(numbers, offset):
    """A copy that begins so many numbers after a multiple of 16 bytes."""
    room = np.zeros(numbers.nbytes + 64, np.uint8)
    begin = -room.ctypes.data % 16 + offset * numbers.itemsize
    array = room[begin : begin + numbers.nbytes].view(numbers.dtype)
    array[...] = numbers
    assert array.ctypes.data % 16 == offset * numbers.itemsize % 16
    return array


@pytest.fixture
def packs_are_checked(monkeypatch):
    """A pack at an address that is no multiple of its alignment is an error, as on a GPU; a processor might read it."""
    read = kernels._read
    plain = "return *({}Packed<Number>*)at;"
    checked = """
        unsigned long long beyond = (unsigned long long)at % alignof(Packed<Number>);
        if (beyond) cpu::bad_address = true;
        return *({}Packed<Number>*)((const char*)at - beyond);"""

    def checking(name):
        text = read(name)
        for const in ("", "const ") if name == "common.cuh" else ():
            assert text.count(plain.format(const)) == 1
            text = text.replace(plain.format(const), checked.format(const))
        return text

    monkeypatch.setattr(kernels, "_read", checking)


def updated(implementation, dtype, offsets, low=True):
    """The norm of the gradients, and then p, m, v and the copy of every tensor, after one update."""
    rng = np.random.default_rng(0)
    tensors, copies = [], []
    for size in SIZES:
        p, g, m, v = rng.standard_normal((4, size)).astype(dtype)
        four = p, g, m, v * v
        tensors.append(tuple(placed(a, offset) for a, offset in zip(four, offsets[:4], strict=True)))
        copies.append(placed(p.astype(named_dtype("bfloat16")), offsets[4]) if low else None)
    decays = [size > 4 for size in SIZES]
    before = snapshot([g for _, g, _, _ in tensors])
    norm = implementation.adam_update(tensors, copies=copies, decays=decays, **SETTINGS)
    if implementation is cuda:
        assert same(before, snapshot([g for _, g, _, _ in tensors])), "gradients are only read"
    made = [a for p, _, m, v in tensors for a in (p, m, v)] + [copy for copy in copies if low]
    return [np.asarray(norm, dtype), *made]


@pytest.mark.parametrize("chunk", [7, 8, 64, 1 << 14])  # of 7, one block after the other begins inside a pack
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_adam_has_the_same_bits_wherever_tensors_begin(dtype, chunk, kernels_on_cpu, packs_are_checked, constants):
    pytest.importorskip("ml_dtypes")
    constants.set(cuda_adam_chunk=chunk)
    with ops.using("reference"):
        expected = updated(ops, dtype, OFFSETS[0])
    aligned = updated(cuda, dtype, OFFSETS[0])
    for a, b in zip(aligned, expected, strict=True):
        limit = 2**-8 if a.dtype.itemsize == 2 else 1e-5 if dtype == np.float32 else 1e-12
        assert a.dtype == b.dtype and error(a.astype(float), b.astype(float)) <= limit
    for offsets in OFFSETS[1:]:
        assert same(aligned, updated(cuda, dtype, offsets)), offsets
    assert same(aligned[: 1 + 3 * len(SIZES)], updated(cuda, dtype, OFFSETS[0], low=False))


def test_a_pack_of_a_narrower_type_is_as_long_as_its_numbers(kernels_on_cpu):
    """Four copies in bfloat16 beside four float32 numbers: 8 bytes, and not 16, of which half belong to a neighbour."""
    text = kernels.source("adam", "float32", PACK=4)
    text += 'extern "C" __global__ void f(int* n) { n[0] = sizeof(Packed<bfloat16>); n[1] = sizeof(Packed<float>); }'
    n = np.zeros(2, np.int32)
    cuda_on_cpu.Module(text).get_function("f")((1, 1, 1), (1, 1, 1), (n,))
    assert n.tolist() == [8, 16]


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_adam_in_packs_finds_room(dtype, tmp_path):
    """Nothing is spilled: what is read stays in registers."""
    text = kernels.source("adam", dtype, PACK=16 // named_dtype(dtype).itemsize)
    for architecture in ("sm_75", "sm_80", "sm_90"):
        assert max(spilled(text, tmp_path, architecture)) == 0
