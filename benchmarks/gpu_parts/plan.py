"""The parts, in the sequence in which they run: what each shows, how long it takes, what it depends on."""

from typing import NamedTuple

PREDICTED = (
    "Predicted, not yet measured on a GPU: 32 to 33 ms for a step of GPT-2 small, 16 texts of 1024 tokens, in "
    "bfloat16 on an H200.\nMatrix products 20, attention 7 to 8, LayerNorms 0.75, residual sums 0.85, loss and head "
    "1.6, embeddings 0.3,\nclipping and Adam 1.1 to 1.3, gaps 0.5. Compare them with the rows of the part `phases`."
)


class Part(NamedTuple):
    """One part. work: "file.function" in this folder, which is called with a Bench."""

    name: str
    run: int  # 1: is it right? 2: where does the time of a step go? 3: everything else
    shows: str
    expected: int  # seconds on an H200, guessed
    limit: int  # seconds after which it is ended
    work: str
    lines: int = 12  # of its output that are shown at its end; all of it is in the log
    depends: tuple[str, ...] = ()  # besides the package and the file of the work: glob patterns from the root

    @property
    def files(self) -> tuple[str, ...]:
        """Glob patterns of what the result depends on: where one of these files has changed, it is measured again."""
        package = ("minigpt/**/*.py", "minigpt/**/*.cu", "minigpt/**/*.cuh")
        own = f"benchmarks/gpu_parts/{self.work.partition('.')[0]}.py"
        return *package, own, *self.depends


TESTS = ("tests/*.py", "tests/*.h")
PARTS = (
    Part("facts", 1, "the machine, its libraries, how fast it copies and multiplies", 30, 60, "facts.facts", 14),
    Part("right", 1, "GPT-2 small against the reference, twenty steps as on the CPU, the same bits twice", 70, 140,
         "right.right", 10),
    Part("tests", 1, "the tests of kernels and products that need a GPU", 120, 200, "checks.tests", 30, TESTS),
    Part("sanitizer", 1, "compute-sanitizer on every kernel: memory, races, barriers", 120, 210, "checks.sanitizer",
         20),
    Part("nccl", 1, "NCCL adds gradients between GPUs: is it there, and right in one process?", 10, 30, "checks.nccl",
         4),
    Part("rest", 1, "all other tests that need a GPU", 100, 150, "checks.rest", 15, TESTS),
    Part("phases", 2, "a training step, each operation between two events, in three precisions", 60, 150,
         "phases.phases", 48),
    Part("products", 2, "every matrix product of a step by eight algorithms, and what an epilogue costs", 60, 120,
         "products.products", 30),
    Part("torch", 2, "a step and attention against PyTorch: eager, compiled, 50,257 and 50,304 rows", 180, 260,
         "steps.against_torch", 24, ("benchmarks/torch_gpt.py",)),
    Part("decode", 3, "greedy decoding against reading every weight once, and against transformers", 65, 150,
         "steps.decode", 16),
    Part("recorded", 3, "a small step recorded as a CUDA graph", 15, 40, "steps.recorded", 6),
    Part("ladder", 3, "the ladder of kernels: each rung against the one below", 30, 60, "others.ladder", 20,
         ("benchmarks/ladder.py",)),
    Part("host", 3, "what a step costs the processor that launches it", 20, 60, "others.host", 12,
         ("benchmarks/host_cost.py",)),
    Part("kernels", 3, "each kernel against its floor and PyTorch", 90, 180, "operations.kernels", 60),
    Part("lessons", 3, "what the lessons on the GPU measure", 60, 120, "others.lessons", 40, ("lessons/2*.py",)),
    Part("ncu", 3, "Nsight Compute: occupancy, throughput and stalls of the kernels of a step", 90, 150, "others.ncu",
         70),
)  # fmt: skip
RUNS = {1: 520, 2: 530, 3: 540}  # seconds of a whole run: what is left of ten minutes is for copying


def chosen(names: list[str] | None, run: int | None) -> list[Part]:
    """The parts of these names, in the sequence of PARTS; those of a run; or all."""
    if names:
        return [part for part in PARTS if part.name in names]
    return [part for part in PARTS if run is None or part.run == run]


def plan(parts: list[Part], states: dict[str, str]) -> str:
    """The whole plan as lines of text. states: what is known of a part before it begins, by its name."""
    width = max(len(part.name) for part in parts)
    lines = []
    for part in parts:
        minutes = f"{part.expected / 60:4.1f} min, at most {part.limit / 60:4.1f}"
        lines.append(f"  {part.name:<{width}}  {minutes}  {states[part.name]:<9}  {part.shows}")
    to_do = sum(part.expected for part in parts if states[part.name] == "to do")
    lines.append(f"  expected: {to_do / 60:.0f} minutes")
    return "\n".join(lines)
