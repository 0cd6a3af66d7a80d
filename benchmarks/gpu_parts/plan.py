"""The parts, the most valuable first: what each shows, how long it takes, what it runs and writes."""

from typing import NamedTuple

ROWS = ("gpu.json",)
TO_DO, LEFT_OUT = "to do", "left out"


class Part(NamedTuple):
    """One part, which is a process of its own."""

    name: str
    run: int  # 1: is it right, and how fast? 2: how fast beside PyTorch? 3 and 4: everything else
    seconds: int  # that it takes on an H200 with 16 cores, guessed
    limit: int  # seconds after which it is ended
    runs: str  # "file.function" in this folder, which is called with a Bench
    shows: str
    writes: tuple[str, ...] = ROWS  # files in the folder of results
    depends: tuple[str, ...] = ()  # besides the package and the file of `runs`: glob patterns from the root

    @property
    def files(self) -> tuple[str, ...]:
        """Glob patterns of what the result depends on: where one of these files has changed, it is measured again."""
        package = ("minigpt/**/*.py", "minigpt/**/*.cu", "minigpt/**/*.cuh")
        own = f"benchmarks/gpu_parts/{self.runs.partition('.')[0]}.py"
        return *package, own, *self.depends


TESTS = ("tests/*.py", "tests/*.h")
TORCH = ("benchmarks/torch_gpt.py",)
WARM = "warm"
PARTS = (
    Part("facts", 1, 20, 60, "facts.facts", "the machine, its libraries, how fast it copies and multiplies"),
    Part(WARM, 1, 60, 100, "warm.warm", "every kernel compiled once, several at a time: no later part has to wait",
         depends=("benchmarks/kernel_variants.py",)),
    Part("right", 1, 60, 120, "right.right", "GPT-2 small against the reference, steps as on the CPU, the same bits"),
    Part("tests", 1, 60, 120, "checks.kernel_tests", "the tests of kernels and products that need a GPU",
         depends=TESTS),
    Part("phases", 1, 45, 90, "phases.phases", "a training step in each precision, each operation between two events"),
    Part("nccl", 1, 10, 30, "checks.nccl", "NCCL adds gradients between GPUs: is it there, and right in one process?"),
    Part("torch", 2, 150, 190, "steps.bfloat16", "a step in bfloat16 against PyTorch: eager, compiled, by two kernels "
         "of attention", depends=TORCH),
    Part("attention", 2, 25, 50, "steps.attention", "attention against each of PyTorch's kernels"),
    Part("float32", 2, 30, 60, "steps.float32", "a step in float32 and in tf32 against PyTorch", depends=TORCH),
    Part("memcheck", 2, 50, 90, "checks.memcheck", "compute-sanitizer on every kernel: inside its arrays?"),
    Part("racecheck", 2, 50, 90, "checks.racecheck", "compute-sanitizer on every kernel: races in shared memory"),
    Part("reference", 3, 50, 100, "checks.reference_tests", "the tests of the reference on a GPU", depends=TESTS),
    Part("rungs", 3, 30, 80, "checks.ladder_tests", "the tests of the ladder of kernels", depends=TESTS),
    Part("rest", 3, 50, 100, "checks.other_tests", "all other tests that need a GPU", depends=TESTS),
    Part("synccheck", 3, 50, 90, "checks.synccheck", "compute-sanitizer on every kernel: barriers"),
    Part("products", 3, 60, 120, "products.products", "every matrix product of a step by eight algorithms, and what "
         "an epilogue costs"),
    Part("decode", 3, 65, 150, "steps.decode", "greedy decoding against reading every weight once, and transformers"),
    Part("recorded", 4, 15, 40, "steps.recorded", "a small step recorded as a CUDA graph"),
    Part("ladder", 4, 30, 60, "others.ladder", "the ladder of kernels: each rung against the one below",
         writes=("ladder.json",), depends=("benchmarks/ladder.py",)),
    Part("host", 4, 20, 60, "others.host", "what a step costs the processor that launches it",
         writes=("host_cost.json",), depends=("benchmarks/host_cost.py",)),
    Part("kernels", 4, 90, 180, "operations.kernels", "each kernel against its floor and PyTorch"),
    Part("lessons", 4, 60, 120, "others.lessons", "what the lessons on the GPU measure", depends=("lessons/2*.py",)),
    Part("ncu", 4, 90, 150, "others.ncu", "Nsight Compute: occupancy, throughput and stalls of the kernels of a step"),
)  # fmt: skip
RUNS = 1, 2, 3, 4
BUDGET = 330  # seconds of a run: two of them fit into eleven minutes
START = 20  # seconds until the first part begins, and after the last one


def chosen(names: list[str] | None, run: int | None) -> list[Part]:
    """The parts of these names, in the sequence of PARTS; those of a run; or all."""
    if names:
        return [part for part in PARTS if part.name in names]
    return [part for part in PARTS if run is None or part.run == run]


def expected(parts: list[Part]) -> int:
    """Seconds that some parts take together."""
    return START + sum(part.seconds for part in parts)


def left_out(parts: list[Part], budget: float | None) -> list[Part]:
    """The parts for which this many seconds would not suffice, if each before them takes what is expected."""
    left = float("inf") if budget is None else budget - START
    out = []
    for part in parts:
        if part.seconds > left:
            out.append(part)
        else:
            left -= part.seconds
    return out


def plan(parts: list[Part], states: dict[str, str], budget: float | None) -> str:
    """The whole plan as lines of text. states: what is known of a part before it begins, by its name.

    budget: seconds for all of it; None: as long as it takes.
    """
    width = max(len(part.name) for part in parts)
    to_do = [part for part in parts if states[part.name] == TO_DO]
    out = left_out(to_do, budget)
    lines = []
    for part in parts:
        seconds = f"{part.seconds:4} s, at most {part.limit:3}"
        state = LEFT_OUT if part in out else states[part.name]
        lines.append(f"  {part.name:<{width}}  {seconds}  {state:<9}  {part.shows}")
    most = "" if budget is None else f", {budget / 60:.1f} at most"
    lines.append(f"  {expected(to_do) / 60:.1f} minutes expected{most}")
    if out:
        lines.append(f"  left out where the others take as long as expected: {', '.join(part.name for part in out)}")
    return "\n".join(lines)
