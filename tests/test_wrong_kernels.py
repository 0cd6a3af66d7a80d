"""The museum's mistakes, made in CUDA kernels: they are caught there, and named, as they are in Python.

Each is a few replacements in the text of a kernel. What the diagnosis must say is what the museum's piece expects.
"""

import pytest

from minigpt.gradcheck.judge import judge
from minigpt.learn.museum.pieces import pieces
from minigpt.ops import cuda
from minigpt.ops.cuda import kernels
from minigpt.ops.cuda.activations import FILES as FILES_OF_ACTIVATIONS

ROOMS = ("distillation_rmsnorm", "activations")
MADE_FOR = {name.removesuffix("_forward") for name in cuda.__all__}
EXPECTED = {piece.name: piece.expects for piece in pieces() if piece.room in ROOMS and piece.op in MADE_FOR}
FILES = FILES_OF_ACTIVATIONS | {op: op for op in ("rmsnorm", "soft_cross_entropy", "cosine_loss")}
DX = "wide(dout_row[i]) * g_row[i] - wide(row[i]) * row_r * mean_d_x_hat"
WRONG = {  # piece of the museum: (operation, what its kernel says, what it says instead, ...)
    "RmsnormWithoutItsStretch": ("rmsnorm", DX, "wide(dout_row[i]) * g_row[i]"),
    "RmsnormAsLayernorm": (
        "rmsnorm",
        "sum_d_x_hat = 0;", "sum_d_x_hat = 0, sum_d = 0;",
        "sum_d_x_hat += wide(dout_row[i])", "sum_d += wide(dout_row[i]) * g_row[i]; sum_d_x_hat += wide(dout_row[i])",
        "wide mean_d_x_hat = warp_sum(sum_d_x_hat) / columns;",
        "wide mean_d_x_hat = warp_sum(sum_d_x_hat) / columns, mean_d = warp_sum(sum_d) / columns;",
        DX, f"{DX} - mean_d",
    ),
    "RmsnormWithoutItsGain": (
        "rmsnorm",
        "sum_d_x_hat += wide(dout_row[i]) * g_row[i] * x_hat", "sum_d_x_hat += wide(dout_row[i]) * x_hat",
        DX, "wide(dout_row[i]) - wide(row[i]) * row_r * mean_d_x_hat",
    ),
    "SoftCrossEntropyWithoutTheTemperature": (
        "soft_cross_entropy", "u.x[j] = dlosses * (p - q)", "u.x[j] = dlosses / temperature * (p - q)",
    ),
    "SoftCrossEntropyWithASquareTooMany": (
        "soft_cross_entropy", "u.x[j] = dlosses * (p - q)", "u.x[j] = dlosses * temperature * (p - q)",
    ),
    "SoftCrossEntropyOfAFixedTeacher": (
        "soft_cross_entropy", "t.x[j] = dlosses * q * (log_total - below - loss)", "t.x[j] = 0",
    ),
    "CosineLossWithoutTheLength": ("cosine_loss", "along_other * y - along_a * x", "along_other * y"),
    "CosineLossWithTheWrongSign": ("cosine_loss", "dcosine = -dloss", "dcosine = dloss"),
    "ExactGeluWithoutTheBell": ("gelu_exact", "cdf + z * DENSITY_AT_0 * exp(wide(-0.5) * z * z)", "cdf"),
    "BellWithoutItsArea": ("gelu_exact", "z * DENSITY_AT_0 * exp", "z * exp"),
    "ExactGeluOfTheTanhForm": (
        "gelu_exact", "slope = cdf + z * DENSITY_AT_0 * exp(wide(-0.5) * z * z);",
        "wide s = sigmoid(2 * C * (z + A * z * z * z)); slope = s + 2 * z * s * (1 - s) * C * (1 + 3 * A * z * z);",
        "wide cdf =", "const wide C = 0.7978845608028654, A = 0.044715; wide cdf =",
    ),
    "ReluOpenEverywhere": ("relu", "slope(z > 0)", "slope(1)"),
    "ReluOfTheGradient": (
        "relu", "wide(numbers.x[j]) * Activation(inputs.x[j]).slope", "max(wide(numbers.x[j]), wide(0))",
    ),
    "SiluWithoutTheSwitch": ("silu", "s + value * (1 - s)", "s"),
    "SiluOfTheSigmoidAlone": ("silu", "s + value * (1 - s)", "s * (1 - s)"),
    "CosineLossExchanged": ("cosine_loss", "pack(da + n", "pack(d_ + n", "pack(db + n", "pack(da + n", "d_ +", "db +"),
}  # fmt: skip


def findings(op: str) -> list:
    """What the judge says of an operation's kernels, in the first trial that they fail."""
    for _, results in judge(op, getattr(cuda, f"{op}_forward"), getattr(cuda, f"{op}_backward")):
        if wrong := [result for result in results if result.word == "wrong"]:
            return wrong
    return []


def test_every_piece_of_the_room_has_its_kernel():
    assert set(WRONG) == set(EXPECTED)


@pytest.mark.slow
@pytest.mark.parametrize("piece", WRONG)
def test_a_wrong_kernel_is_caught_and_named(piece, kernels_on_cpu, monkeypatch):
    op, *texts = WRONG[piece]
    read = kernels._read

    def wrong(name):
        text = read(name)
        if name == f"{FILES[op]}.cu":
            for right, instead in zip(texts[::2], texts[1::2], strict=True):
                assert text.count(right) == 1, f"{name} does not say this once: {right}"
                text = text.replace(right, instead)
        return text

    monkeypatch.setattr(kernels, "_read", wrong)
    said = [result.diagnosis for result in findings(op)]
    assert any(EXPECTED[piece] in diagnosis for diagnosis in said), said


@pytest.mark.slow
@pytest.mark.parametrize("op", sorted({op for op, *_ in WRONG.values()}))
def test_the_right_kernels_are_not_accused(op, kernels_on_cpu):
    assert findings(op) == []
