"""The player of PTX: what each instruction computes, and mistakes in kernels of a few lines, each of which it finds.

The kernels are written in PTX here, so that neither a compiler nor a GPU is needed.
"""

import numpy as np
import ptx
import pytest
from ptx.arithmetic import divide, fma32, fma64, remainder, to_bfloat16, to_tf32, to_whole, upper_half
from ptx.reader import Address, Constant, Group, Register, read


def kernel(body: str, shared: int = 0, words: str = "") -> str:
    """A kernel f(out, a, n) of these instructions. %rd1 and %rd2 are the addresses of out and a, and %rd3 and %rd4
    those of this thread's word in them; %r1 is the number of the thread, %r2 is n, %r3 is 4 times %r1."""
    variable = f".shared .align 16 .b8 s[{shared}];" if shared else ""
    return f"""
    .version 8.0
    .target sm_90
    .visible .entry f(.param .u64 f_0, .param .u64 f_1, .param .u32 f_2)
    {{
        .reg .pred %p<9>; .reg .b16 %h<9>; .reg .b32 %r<30>; .reg .f32 %f<30>; .reg .b64 %rd<9>; .reg .f64 %d<9>;
        {variable} {words}
        ld.param.u64 %rd1, [f_0]; ld.param.u64 %rd2, [f_1]; ld.param.u32 %r2, [f_2];
        mov.u32 %r1, %tid.x; shl.b32 %r3, %r1, 2;
        mad.wide.u32 %rd3, %r1, 4, %rd1; mad.wide.u32 %rd4, %r1, 4, %rd2;
        {body}
        ret;
    }}
    """


def play(text: str, out, a=None, n: int = 0, threads: int = 64, blocks: int = 1):
    a = np.zeros(1, np.float32) if a is None else a
    ptx.Module(text).get_function("f")((blocks, 1, 1), (threads, 1, 1), (out, a, np.int32(n)))
    return out


def whole_numbers(n: int):
    return np.arange(1, n + 1, dtype=np.float32)


# --- mistakes, each beside the kernel that is right -------------------------------------------------------------------

READ_4 = "ld.global.v4.f32 {%f1, %f2, %f3, %f4}, [%rd4];"
READ = "ld.global.f32 %f1, [%rd4];"
WRITE = "st.global.f32 [%rd3], %f1;"
MIRROR = "xor.b32 %r4, %r1, 63; shl.b32 %r4, %r4, 2;"  # four times the number of the thread opposite
FETCH = "cp.async.ca.shared.global [%r3], [%rd4], 4;"
WAIT = "cp.async.wait_all;"
ALL, WARP = "bar.sync 0;", "bar.warp.sync -1;"

PLANTED = {  # name: (what the right kernel does, what the wrong one does, what is said of it)
    "a read one number too far": (READ + WRITE, "ld.global.f32 %f1, [%rd4+4];" + WRITE, "reads 4 bytes out of bounds"),
    "a read before the first": (READ + WRITE, "ld.global.f32 %f1, [%rd4+-4];" + WRITE, "out of bounds, at byte -4"),
    "a write one number too far": (READ + WRITE, READ + "st.global.f32 [%rd3+4], %f1;", "writes 4 bytes out of bounds"),
    "a read from nowhere": (READ + WRITE, "mov.u64 %rd4, 64; ld.global.f32 %f1, [%rd4];" + WRITE, "in no array"),
    "shared memory that is too small": (
        "st.shared.f32 [%r3], 0f00000000;" + READ + WRITE,
        "st.shared.f32 [%r3+4], 0f00000000;" + READ + WRITE,
        "at byte 256 of 256 of s",
    ),
    "four numbers from the second on": (
        "and.b32 %r4, %r3, 240; mad.wide.u32 %rd4, %r4, 1, %rd2;" + READ_4 + WRITE,
        "add.s64 %rd4, %rd2, 4;" + READ_4 + WRITE,
        "no multiple of 16",
    ),
    "a copy of 4 bytes from half of them": (
        FETCH + WAIT + "ld.shared.f32 %f1, [%r3];" + WRITE,
        "add.s64 %rd4, %rd2, 2;" + FETCH + WAIT + READ + WRITE,
        "no multiple of 4",
    ),
    "no barrier between a write and a read": (
        READ + "st.shared.f32 [%r3], %f1;" + MIRROR + ALL + "ld.shared.f32 %f1, [%r4];" + WRITE,
        READ + "st.shared.f32 [%r3], %f1;" + MIRROR + "ld.shared.f32 %f1, [%r4];" + WRITE,
        "a race|no thread has written",
    ),
    "no barrier between a read and a write": (
        READ + "st.shared.f32 [%r3], %f1;" + MIRROR + ALL + "ld.shared.f32 %f1, [%r4];" + ALL
        + "st.shared.f32 [%r3], %f1;" + WRITE,
        READ + "st.shared.f32 [%r3], %f1;" + MIRROR + ALL + "ld.shared.f32 %f1, [%r4];"
        + "st.shared.f32 [%r3], %f1;" + WRITE,
        "a race: it writes",
    ),
    "a barrier of the warp where one of the block is needed": (
        READ + "st.shared.f32 [%r3], %f1; xor.b32 %r4, %r3, 4;" + WARP + "ld.shared.f32 %f1, [%r4];" + WRITE,
        READ + "st.shared.f32 [%r3], %f1;" + MIRROR + WARP + "ld.shared.f32 %f1, [%r4];" + WRITE,
        "a race|no thread has written",
    ),
    "two threads write the same number": (
        READ + "setp.eq.u32 %p1, %r1, 5; @%p1 st.global.f32 [%rd1], %f1;",
        READ + "st.global.f32 [%rd1], %f1;",
        "a race: it writes",
    ),
    "blocks that write the same number": (
        READ + "mov.u32 %r5, %ctaid.x; setp.eq.u32 %p1, %r5, 0; @%p1 st.global.f32 [%rd3], %f1;",
        READ + WRITE,
        "a race: it writes",
    ),
    "a copy that is not waited for": (
        FETCH + WAIT + "ld.shared.f32 %f1, [%r3];" + WRITE,
        FETCH + "ld.shared.f32 %f1, [%r3];" + WRITE,
        "before a copy has arrived",
    ),
    "a copy that is waited for after the barrier": (
        FETCH + WAIT + ALL + MIRROR + "ld.shared.f32 %f1, [%r4];" + WRITE,
        FETCH + ALL + WAIT + MIRROR + "ld.shared.f32 %f1, [%r4];" + WRITE,
        "a race|before a copy has arrived",
    ),
    "a copy into what others still read": (
        READ + "st.shared.f32 [%r3], %f1;" + MIRROR + ALL + "ld.shared.f32 %f1, [%r4];" + ALL + FETCH + WAIT + WRITE,
        READ + "st.shared.f32 [%r3], %f1;" + MIRROR + ALL + "ld.shared.f32 %f1, [%r4];" + FETCH + WAIT + WRITE,
        "a race: it writes",
    ),
    "shared memory that nobody has written": (
        "st.shared.f32 [%r3], 0f3F800000; ld.shared.f32 %f1, [%r3];" + WRITE,
        "ld.shared.f32 %f1, [%r3];" + WRITE,
        "no thread has written: NaN",
    ),
    "some threads that miss a barrier": (
        READ + ALL + WRITE,
        READ + "setp.lt.u32 %p1, %r1, 40; @%p1 bra MISS;" + ALL + "MISS:" + WRITE,
        "wait for others for ever",
    ),
    "half a warp at an exchange": (
        READ + "mov.b32 %r5, %f1; shfl.sync.bfly.b32 %r6|%p1, %r5, 1, 31, -1;" + WRITE,
        READ + "mov.b32 %r5, %f1; and.b32 %r7, %r1, 16; setp.eq.u32 %p1, %r7, 0; @%p1 bra MISS;"
        + "shfl.sync.bfly.b32 %r6|%p2, %r5, 1, 31, -1; MISS: bar.sync 0;" + WRITE,
        "wait for others for ever",
    ),
    "an exchange with a lane that is not there": (
        READ + "mov.b32 %r5, %f1; shfl.sync.bfly.b32 %r6|%p1, %r5, 4, 31, -1;" + WRITE,
        "setp.ge.u32 %p1, %r1, 48; @%p1 bra GONE;" + READ
        + "mov.b32 %r5, %f1; shfl.sync.bfly.b32 %r6|%p2, %r5, 16, 31, -1;" + WRITE + "GONE:",
        "a lane that is not there",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", PLANTED)
def test_a_mistake_is_found_and_the_right_kernel_passes(name):
    right, wrong, said = PLANTED[name]
    blocks = 2 if "blocks" in name else 1
    for body, fails in ((right, False), (wrong, True)):
        given = kernel(body, shared=256), np.zeros(64, np.float32), whole_numbers(64)
        if fails:
            with pytest.raises(ptx.Fault, match=said):
                play(*given, blocks=blocks)
        else:
            play(*given, blocks=blocks)


def test_an_order_of_threads_that_matters_is_found(monkeypatch):
    """Also where nobody looks for races: the orders give other bits."""
    late = READ + "st.shared.f32 [%r3], %f1;" + MIRROR + "{}ld.shared.f32 %f1, [%r4];" + WRITE
    monkeypatch.setattr(ptx.memory.Memory, "check_read", lambda *_: None)
    monkeypatch.setattr(ptx.memory.SharedMemory, "check_read", lambda *_: None)
    out = play(kernel(late.format(ALL), shared=256), np.zeros(64, np.float32), whole_numbers(64))
    assert (out == whole_numbers(64)[::-1]).all()
    with pytest.raises(AssertionError, match="other bits in another order"):
        play(kernel(late.format(""), shared=256), np.zeros(64, np.float32), whole_numbers(64))


def test_what_is_in_fresh_shared_memory_is_no_number(monkeypatch):
    monkeypatch.setattr(ptx.memory.SharedMemory, "check_read", lambda *_: None)
    out = play(kernel("ld.shared.f32 %f1, [%r3];" + WRITE, shared=256), np.zeros(64, np.float32))
    assert np.isnan(out).all()


def test_a_late_copy_brings_nothing_until_it_is_waited_for(monkeypatch):
    monkeypatch.setattr(ptx.memory.SharedMemory, "check_read", lambda *_: None)
    text = FETCH + "ld.shared.f32 %f1, [%r3];" + WAIT + "ld.shared.f32 %f2, [%r3]; setp.ne.u32 %p1, %r1, 0;"
    out = play(
        kernel(text + "selp.f32 %f1, %f1, %f2, %p1;" + WRITE, shared=256), np.zeros(64, np.float32), whole_numbers(64)
    )
    assert out[0] == 1 and np.isnan(out[1:]).all()


def test_a_fault_names_the_kernel_the_instruction_and_the_thread():
    with pytest.raises(ptx.Fault) as caught:
        play(kernel("ld.global.f32 %f1, [%rd4+8];" + WRITE), np.zeros(64, np.float32), whole_numbers(64))
    assert str(caught.value) == (
        "f: ld.global.f32 %f1, [%rd4+8]: thread (62, 0, 0) of block (0, 0, 0): reads 4 bytes out of bounds, "
        "at byte 256 of an array of 256 (number 1)"
    )


def test_what_a_gpu_would_not_start():
    text = kernel(READ + WRITE, shared=48 * 1024 + 16)
    with pytest.raises(AssertionError, match="bytes of shared memory"):
        play(text, np.zeros(64, np.float32))
    text = kernel(READ + WRITE).replace("    {\n", "    .maxntid 32, 1, 1\n    {\n", 1)
    with pytest.raises(AssertionError, match="a block of 64 threads"):
        play(text, np.zeros(64, np.float32))
    with pytest.raises(AssertionError, match="wrong size"):
        ptx.Module(kernel("")).get_function("f")((1, 1, 1), (1, 1, 1), (np.uint64(0), np.uint64(0), np.int64(1)))


@pytest.mark.parametrize(
    "wrong", ["add.rz.f32 %f1, %f1, %f1;", "atom.global.add.f32 %f1, [%rd3], %f1;", "sin.approx.f32 %f1, %f1;"]
)
def test_an_instruction_that_is_not_played_is_refused(wrong):
    with pytest.raises(NotImplementedError, match=wrong[:8]):
        play(kernel(wrong), np.zeros(64, np.float32))


# --- the reader -------------------------------------------------------------------------------------------------------


def test_the_reader():
    found = read(
        kernel("@!%p1 bra END; ld.shared.v2.f32 {%f1, %f2}, [s+8]; { .reg .b32 %t; mov.b64 {%t, %r1}, %d1; } END:", 32)
    )
    f = found["f"]
    assert list(f.parameters.values()) == ["u64", "u64", "u32"] and f.shared[0][1:] == (16, 32)
    branch, load, move, end = f.instructions[-4:]
    assert (branch.guard, branch.unless, branch.target) == ("%p1", True, len(f.instructions) - 1)
    assert load.operands == (Group((Register("%f1"), Register("%f2"))), Address(("s",), 8))
    assert move.name == "mov" and f.registers["%t"] == np.uint32 and f.registers["%f29"] == np.float32
    assert end.name == "ret" and f.labels == {len(f.instructions) - 1}
    [[one]] = [[i for i in read(kernel("mov.f32 %f1, 0f3F800000;"))["f"].instructions if i.modifiers == ("f32",)]]
    assert one.operands[1] == Constant(0x3F800000, 4)


# --- numbers ----------------------------------------------------------------------------------------------------------

X = np.random.default_rng(0).standard_normal((3, 4096))


def test_fma_rounds_once():
    """Against whole numbers, counted in 2^-30, which are exact. Some sums end in the middle between two floats."""
    rng = np.random.default_rng(1)
    n = 3000
    a, b = (rng.integers(-(2**24), 2**24, size=n).astype(np.float32) for _ in range(2))
    c = (-(a.astype(np.float64) * b) + rng.integers(-99, 99, size=n)).astype(np.float32)
    c[: n // 2] = rng.integers(-4, 4, size=n // 2).astype(np.float32) * np.float32(2.0**-30)
    nearest, below = fma32(a, b, c), fma32(a, b, c, down=True)
    above = np.nextafter(below, np.float32(np.inf))
    counted = [[int(float(x) * 2**30) for x in numbers] for numbers in (c, nearest, below, above)]
    for x, y, z, one, lower, upper in zip(a, b, *counted, strict=True):
        exact = (int(x) * int(y) << 30) + z
        assert lower <= exact < upper and abs(one - exact) == min(exact - lower, upper - exact)


def test_fma_of_doubles_keeps_what_the_product_loses():
    a, b = 1 + 2.0**-30 * np.arange(1, 9), 1 - 2.0**-30 * np.arange(1, 9)
    assert (fma64(a, b, -np.ones(8)) == -((2.0**-30 * np.arange(1, 9)) ** 2)).all()
    with np.errstate(all="ignore"):
        assert np.isinf(fma64(np.array([1e200]), np.array([1e200]), np.array([1.0]))).all()


def test_whole_numbers_as_in_c():
    a, b = np.array([7, -7, 7, -7, 6], np.int32), np.array([2, 2, -2, -2, 3], np.int32)
    assert divide(a, b).tolist() == [3, -3, -3, 3, 2] and remainder(a, b).tolist() == [1, -1, 1, -1, 0]
    big = np.array([2**64 - 1, 2**63 + 12345, 3], np.uint64)
    other = np.array([2**64 - 1, 2**40 + 7, 2**63], np.uint64)
    assert upper_half(big, other).tolist() == [int(x) * int(y) >> 64 for x, y in zip(big, other, strict=True)]
    assert upper_half(a, b).tolist() == [int(x) * int(y) >> 32 for x, y in zip(a, b, strict=True)]
    ends = np.array([3e9, -3e9, np.nan, 5, np.inf], np.float32)
    assert to_whole(ends, np.dtype(np.int32)).tolist() == [2**31 - 1, -(2**31), 0, 5, 2**31 - 1]


def test_rounding_to_fewer_bits():
    ml_dtypes = pytest.importorskip("ml_dtypes")
    x = np.concatenate([X[0].astype(np.float32), np.array([1.00390625, 1.01171875, 3.4e38, np.inf], np.float32)])
    assert (to_bfloat16(x) == x.astype(ml_dtypes.bfloat16).view(np.uint16)).all()
    halfway = np.array([1 + 2.0**-11, -1 - 2.0**-11, 1 + 2.0**-12], np.float32)
    assert to_tf32(halfway).view(np.float32).tolist() == [1 + 2.0**-10, -1 - 2.0**-10, 1]


COMPUTED = {  # instructions that compute %f1 of %f2 and %f3: what they should give
    "add.f32 %f1, %f2, %f3;": lambda a, b: a + b,
    "mul.rn.f32 %f1, %f2, %f3;": lambda a, b: a * b,
    "div.rn.f32 %f1, %f2, %f3;": lambda a, b: a / b,
    "max.f32 %f1, %f2, %f3; neg.f32 %f1, %f1;": lambda a, b: -np.maximum(a, b),
    "copysign.f32 %f1, %f2, %f3;": lambda a, b: np.copysign(b, a),
    "setp.lt.f32 %p1, %f2, %f3; selp.f32 %f1, %f2, %f3, %p1;": np.minimum,
    "setp.gtu.f32 %p1, %f2, %f3; @%p1 mov.f32 %f1, %f2; @!%p1 mov.f32 %f1, %f3;": np.maximum,
    "cvt.sat.f32.f32 %f1, %f2;": lambda a, b: np.clip(a, 0, 1),
    "cvt.f64.f32 %d1, %f2; cvt.f64.f32 %d2, %f3; mul.f64 %d1, %d1, %d2; cvt.rn.f32.f64 %f1, %d1;": lambda a, b: a * b,
    "cvt.rzi.s32.f32 %r5, %f2; cvt.rn.f32.s32 %f1, %r5;": lambda a, b: np.trunc(a) + 0,
    "cvt.rn.bf16.f32 %h1, %f2; cvt.u32.u16 %r5, %h1; shl.b32 %r5, %r5, 16; mov.b32 %f1, %r5;":
        lambda a, b: (to_bfloat16(a).astype(np.uint32) << 16).view(np.float32),
    "cvt.rn.bf16x2.f32 %r5, %f3, %f2; mov.b32 {%h1, %h2}, %r5; mov.b32 %r6, {%h2, %h1}; and.b32 %r6, %r6, -65536;"
    "mov.b32 %f1, %r6;": lambda a, b: (to_bfloat16(a).astype(np.uint32) << 16).view(np.float32),
    "mov.b32 %r5, %f2; shr.s32 %r5, %r5, 31; and.b32 %r5, %r5, 3; cvt.rn.f32.u32 %f1, %r5;": lambda a, b: 3 * (a < 0),
    "mov.b32 %r5, 5; bfi.b32 %r6, %r5, %r1, 4, 3; cvt.rn.f32.u32 %f1, %r6;":
        lambda a, b: np.arange(64) & ~0x70 | 0x50,
}  # fmt: skip


@pytest.mark.parametrize("text", COMPUTED)
def test_instructions(text):
    a, b = X[:2, :64].astype(np.float32)
    body = f"{READ} mov.f32 %f2, %f1; ld.global.f32 %f3, [%rd4+256]; {text} {WRITE}"
    out = play(kernel(body), np.zeros(64, np.float32), np.concatenate([a, b]))
    assert (out == COMPUTED[text](a, b).astype(np.float32)).all()


def test_comparisons_with_what_is_no_number():
    values = np.array([1, np.nan], np.float32)
    for how, expected in {"lt": 0, "ltu": 1, "ne": 0, "neu": 1, "eq": 0, "num": 0, "nan": 1}.items():
        body = f"ld.global.f32 %f2, [%rd2]; ld.global.f32 %f3, [%rd2+4]; setp.{how}.f32 %p1, %f2, %f3;"
        out = play(
            kernel(body + "selp.f32 %f1, 0f3F800000, 0f00000000, %p1;" + WRITE),
            np.zeros(32, np.float32),
            values,
            threads=32,
        )
        assert (out == expected).all(), how


def test_subnormals_are_flushed_where_ptx_says_so():
    tiny = np.full(32, 2.0**-130, np.float32)
    for how, expected in (("add.ftz.f32", 0), ("add.f32", 2.0**-129)):
        out = play(kernel(f"{READ} {how} %f1, %f1, %f1; {WRITE}"), np.ones(32, np.float32), tiny, threads=32)
        assert (out == np.float32(expected)).all()


def test_threads_part_and_meet_again():
    """A loop that each thread leaves after as many rounds as its number says; then all exchange what they have."""
    text = """mov.u32 %r5, 0; mov.u32 %r6, 0;
        AGAIN: setp.ge.u32 %p1, %r5, %r1; @%p1 bra OUT; add.u32 %r5, %r5, 1; add.u32 %r6, %r6, %r5; bra AGAIN;
        OUT: shfl.sync.bfly.b32 %r7|%p2, %r6, 1, 31, -1; cvt.rn.f32.u32 %f1, %r7;"""
    out = play(kernel(text + WRITE), np.zeros(64, np.float32))
    n = np.arange(64) ^ 1
    assert (out == n * (n + 1) // 2).all()


# --- a warp's matrices ------------------------------------------------------------------------------------------------

# Which element the i-th number of a lane is, (row, column), as NVIDIA's manual draws it.
A16 = [
    [(g + 8 * low, 2 * t + one + 8 * right) for right in (0, 1) for low in (0, 1) for one in (0, 1)]
    for g in range(8)
    for t in range(4)
]
B16 = [[(2 * t + one + 8 * low, g) for low in (0, 1) for one in (0, 1)] for g in range(8) for t in range(4)]
A8 = [[(g + 8 * low, t + right) for right in (0, 4) for low in (0, 1)] for g in range(8) for t in range(4)]
B8 = [[(t + below, g) for below in (0, 4)] for g in range(8) for t in range(4)]
C = [[(g + 8 * low, 2 * t + one) for low in (0, 1) for one in (0, 1)] for g in range(8) for t in range(4)]


def fragment(matrix, layout):
    return np.array([[matrix[place] for place in lane] for lane in layout])


@pytest.mark.parametrize("kind", ["bf16", "tf32"])
def test_mma(kind):
    depth, a_places, b_places = (16, A16, B16) if kind == "bf16" else (8, A8, B8)
    rng = np.random.default_rng(0)
    a, b, c = rng.integers(-9, 9, (16, depth)), rng.integers(-9, 9, (depth, 8)), rng.integers(-9, 9, (16, 8))
    words = []
    for matrix, layout in ((a, a_places), (b, b_places)):
        numbers = fragment(matrix, layout).astype(np.float32)
        words.append((to_bfloat16(numbers) if kind == "bf16" else numbers).view(np.uint32).ravel())
    given = np.concatenate([*words, fragment(c, C).astype(np.float32).view(np.uint32).ravel()])
    shape = "m16n8k16" if kind == "bf16" else "m16n8k8"
    text = f"""shl.b32 %r4, %r1, 4; mad.wide.u32 %rd5, %r4, 1, %rd2; mad.wide.u32 %rd6, %r1, 8, %rd2;
        mad.wide.u32 %rd7, %r4, 1, %rd1;
        ld.global.v4.u32 {{%r10, %r11, %r12, %r13}}, [%rd5]; ld.global.v2.u32 {{%r14, %r15}}, [%rd6+512];
        ld.global.v4.f32 {{%f10, %f11, %f12, %f13}}, [%rd5+768];
        mma.sync.aligned.{shape}.row.col.f32.{kind}.{kind}.f32 {{%f1, %f2, %f3, %f4}}, {{%r10, %r11, %r12, %r13}},
            {{%r14, %r15}}, {{%f10, %f11, %f12, %f13}};
        st.global.v4.f32 [%rd7], {{%f1, %f2, %f3, %f4}};"""
    out = play(kernel(text), np.zeros((32, 4), np.float32), given, threads=32)
    assert (out == fragment(a @ b + c, C)).all()
    if kind == "tf32":
        with pytest.raises(ptx.Fault, match="not rounded"):
            play(kernel(text), np.zeros((32, 4), np.float32), given + np.uint32(1), threads=32)
    with pytest.raises(ptx.Fault, match="for ever|out of bounds"):
        play(
            kernel("setp.lt.u32 %p1, %r1, 16; @%p1 bra GONE;" + text + "GONE:"),
            np.zeros((32, 4), np.float32),
            given,
            threads=32,
        )


@pytest.mark.parametrize("trans", ["", ".trans"])
def test_ldmatrix(trans):
    """Four matrices (8,8), one below the other in shared memory."""
    numbers = np.arange(256, dtype=np.uint16).reshape(4, 8, 8)
    text = f"""shl.b32 %r4, %r1, 4; mad.wide.u32 %rd5, %r4, 1, %rd2; mad.wide.u32 %rd7, %r4, 1, %rd1;
        cp.async.cg.shared.global [%r4], [%rd5], 16; cp.async.wait_all; bar.warp.sync -1;
        ldmatrix.sync.aligned.m8n8.x4{trans}.shared.b16 {{%r10, %r11, %r12, %r13}}, [%r4];
        st.global.v4.u32 [%rd7], {{%r10, %r11, %r12, %r13}};"""
    out = play(kernel(text, shared=512), np.zeros((32, 4), np.uint32), numbers, threads=32)
    for lane, words in enumerate(out):
        g, t = lane // 4, lane % 4
        for matrix, word in zip(numbers, words, strict=True):
            pair = (matrix.T if trans else matrix)[g, 2 * t : 2 * t + 2]
            assert word == int(pair[0]) | int(pair[1]) << 16
