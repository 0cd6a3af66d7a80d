"""Each kernel, forward and backward, against its floor and against PyTorch.

A kernel's floor is the larger of two times: what it must read and write over the measured speed of a copy, and the
multiplications and additions it must make over the measured speed of a product of the same dtype.
"""

import functools

import machine
import numpy as np

from gpu_parts.bench import Bench
from gpu_parts.steps import OTHERS, torch_wait
from minigpt import ops
from minigpt.device import arrays
from minigpt.ops.random_keys import Key

TEXTS = 64  # so many at a time that a kernel takes longer than its launch


def kernels(bench: Bench) -> None:
    """Rows of every operation of a block and of the head, and of the losses of a student, in each dtype."""
    machine.require("torch")
    config = bench.config()
    batch = 2 if bench.quick else TEXTS
    for dtype in bench.dtypes:
        operations(bench, dtype, batch, config.n_positions, config.n_embd, config.n_head, config.vocab_size)
        bench.free()


def row(bench: Bench, name: str, ours, theirs=None, arrays: int = 0, operations: int = 0, dtype="float32") -> None:
    """Measure one operation. arrays: bytes that it must read and write."""
    seconds = bench.seconds(ours)
    floor = max(arrays / bench.bandwidth, operations / bench.rates[dtype])
    found = {"seconds": seconds, "floor": floor, "of floor": floor / seconds}
    if theirs is not None:
        other = bench.seconds(theirs, torch_wait(bench.device))
        found |= {"PyTorch seconds": other, OTHERS: other / seconds}
    bench.note(name, **found)


def operations(bench: Bench, dtype: str, batch: int, time: int, c: int, n_head: int, vocab: int) -> None:
    """Each operation of a block of this size, and the head: forward and backward."""
    import torch
    import torch.nn.functional as F

    normal = functools.partial(bench.normal, dtype=dtype)
    n, width = batch * time, arrays.named_dtype(dtype).itemsize
    size = width * n * c
    x, dout, b = normal(batch, time, c), normal(batch, time, c), normal(c)
    gain, shift = bench.normal(c), bench.normal(c)  # of a LayerNorm: float32 always
    tensor = {}

    def of(array):
        """The same numbers as a tensor that wants a gradient."""
        key = id(array)
        if key not in tensor:
            numbers = torch.from_numpy(arrays.to_numpy(array).astype(np.float32)).to(bench.device)
            tensor[key] = array, numbers.to(getattr(torch, array.dtype.name)).requires_grad_()
        return tensor[key][1]  # the array is kept too: once it is gone, another may have its id

    def pair(name, forward, backward_of, theirs, inputs, bytes_forward, bytes_backward, flops=0):
        """Rows of the forward and the backward pass. theirs: a function of tensors, or None."""
        _, cache = forward()
        gradient = backward_of(cache)
        other_forward = other_backward = None
        if theirs:
            inputs = [of(array) for array in inputs]
            result = theirs(*inputs)
            cotangent = torch.ones_like(result)
            other_forward = lambda: theirs(*inputs)  # noqa: E731
            other_backward = lambda: torch.autograd.grad(result, inputs, cotangent, retain_graph=True)  # noqa: E731
        row(bench, f"{name} forward, {dtype}", forward, other_forward, bytes_forward, flops, dtype)
        row(bench, f"{name} backward, {dtype}", gradient, other_backward, bytes_backward, 2 * flops, dtype)

    pair("layernorm", lambda: ops.layernorm_forward(x, gain, shift),
         lambda cache: lambda: ops.layernorm_backward(dout, cache),
         lambda x, g, b: F.layer_norm(x, (c,), g, b), [x, normal(c), normal(c)], 2 * size, 3 * size)  # fmt: skip
    pair("rmsnorm", lambda: ops.rmsnorm_forward(x, gain), lambda cache: lambda: ops.rmsnorm_backward(dout, cache),
         lambda x, g: F.rms_norm(x, (c,), g, 1e-6), [x, normal(c)], 2 * size, 3 * size)  # fmt: skip
    pair("gelu", lambda: ops.gelu_forward(x), lambda cache: lambda: ops.gelu_backward(dout, cache),
         lambda x: F.gelu(x, approximate="tanh"), [x], 2 * size, 3 * size)  # fmt: skip
    for op, theirs in {"gelu_exact": F.gelu, "relu": F.relu, "silu": F.silu}.items():
        forward, backward = getattr(ops, f"{op}_forward"), getattr(ops, f"{op}_backward")
        pair(op, lambda forward=forward: forward(x),
             lambda cache, backward=backward: lambda: backward(dout, cache), theirs, [x],
             2 * size, 3 * size)  # fmt: skip
    row(bench, f"residual, {dtype}", lambda: ops.add(x, dout), lambda: of(x) + of(dout), 3 * size, 0, dtype)
    key = Key.of(0, 0)
    pair("dropout", lambda: ops.dropout_forward(x, rate=0.1, key=key),
         lambda cache: lambda: ops.dropout_backward(dout, cache), lambda x: F.dropout(x, 0.1), [x],
         2 * size, 2 * size)  # fmt: skip
    w, bias = normal(c, 4 * c), normal(4 * c)
    wide = normal(batch, time, 4 * c)
    pair("linear, C to 4C", lambda: ops.linear_forward(x, w, bias),
         lambda cache: lambda: ops.linear_backward(wide, cache), lambda x, w, b: F.linear(x, w.T, b), [x, w, bias],
         5 * size, 10 * size, 8 * n * c * c)  # fmt: skip
    w2 = normal(4 * c, c)
    pair("mlp", lambda: ops.mlp_forward(x, w, bias, w2, b), lambda cache: lambda: ops.mlp_backward(dout, cache),
         lambda x, w, bias, w2, b: F.linear(F.gelu(F.linear(x, w.T, bias), approximate="tanh"), w2.T, b),
         [x, w, bias, w2, b],
         2 * size, 3 * size, 16 * n * c * c)  # fmt: skip
    qkv = normal(batch, time, 3 * c)

    def attention(qkv):
        heads = (part.view(batch, time, n_head, -1).transpose(1, 2) for part in qkv.split(c, dim=2))
        return F.scaled_dot_product_attention(*heads, is_causal=True).transpose(1, 2).reshape(batch, time, c)

    pair("self_attention", lambda: ops.self_attention_forward(qkv, n_head),
         lambda cache: lambda: ops.self_attention_backward(dout, cache), attention, [qkv],
         4 * size, 8 * size, 2 * n * time * c)  # fmt: skip
    table = normal(vocab, c)
    ids = arrays.to_device(np.random.default_rng(0).integers(vocab, size=(batch, time)), bench.device)
    targets = torch.from_numpy(arrays.to_numpy(ids)).to(bench.device).flatten()

    def loss(x, table):
        return F.cross_entropy((x.flatten(0, 1) @ table.T).float(), targets)

    both = [of(x), of(table)]
    row(bench, f"linear_cross_entropy both ways, {dtype}",  # the forward computes the gradients too
        lambda: ops.linear_cross_entropy_backward(1.0, ops.linear_cross_entropy_forward(x, table, ids)[1]),
        lambda: torch.autograd.grad(loss(*both), both), 2 * size + (4 + width) * vocab * c,
        6 * n * c * vocab, dtype)  # fmt: skip
    pair("cosine_loss", lambda: ops.cosine_loss_forward(x, dout),
         lambda cache: lambda: ops.cosine_loss_backward(1.0, cache),
         lambda a, b: (1 - F.cosine_similarity(a, b, dim=-1)).mean(), [x, dout], 2 * size, 4 * size)  # fmt: skip
    student, teacher = normal(time, vocab), normal(time, vocab)  # of one text: of a batch they are gigabytes

    def soft_loss(student, teacher):
        q = F.softmax(teacher.float() / 2, dim=-1)
        return 4 * F.cross_entropy(student.float() / 2, q)

    pair("soft_cross_entropy", lambda: ops.soft_cross_entropy_forward(student, teacher, temperature=2.0),
         lambda cache: lambda: ops.soft_cross_entropy_backward(1.0, cache), soft_loss, [student, teacher],
         2 * width * time * vocab, 4 * width * time * vocab)  # fmt: skip
    pair("embedding", lambda: ops.embedding_forward(table, ids),
         lambda cache: lambda: ops.embedding_backward(dout, cache),
         lambda table: F.embedding(targets.view(batch, time), table), [table],
         2 * size, size + 4 * vocab * c)  # fmt: skip
