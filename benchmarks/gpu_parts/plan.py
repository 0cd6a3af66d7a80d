"""The parts, in the sequence in which they run: what each shows, how long it takes, what it runs and writes."""

from typing import NamedTuple

ROWS = ("gpu.json",)


class Part(NamedTuple):
    """One part, which is a process of its own."""

    name: str
    run: int  # 1: is it right? 2: where does the time of a step go? 3: everything else
    seconds: int  # that it takes on an H100, guessed
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
PARTS = (
    Part("facts", 1, 30, 60, "facts.facts", "the machine, its libraries, how fast it copies and multiplies"),
    Part("warm", 1, 40, 120, "warm.warm", "every kernel compiled once, several at a time: no later part has to wait",
         depends=("benchmarks/kernel_variants.py",)),
    Part("right", 1, 70, 140, "right.right", "GPT-2 small against the reference, steps as on the CPU, the same bits"),
    Part("tests", 1, 130, 200, "checks.kernel_tests", "the tests of kernels and products that need a GPU",
         depends=TESTS),
    Part("memcheck", 1, 70, 120, "checks.memcheck", "compute-sanitizer on every kernel: inside its arrays?"),
    Part("racecheck", 1, 70, 120, "checks.racecheck", "compute-sanitizer on every kernel: races in shared memory"),
    Part("synccheck", 1, 50, 100, "checks.synccheck", "compute-sanitizer on every kernel: barriers"),
    Part("nccl", 1, 10, 30, "checks.nccl", "NCCL adds gradients between GPUs: is it there, and right in one process?"),
    Part("phases", 2, 60, 150, "phases.phases", "a training step, each operation between two events"),
    Part("torch", 2, 170, 260, "steps.bfloat16", "a step in bfloat16 against PyTorch: eager, compiled, by two kernels "
         "of attention", depends=TORCH),
    Part("attention", 2, 25, 60, "steps.attention", "attention against each of PyTorch's kernels"),
    Part("products", 2, 60, 120, "products.products", "every matrix product of a step by eight algorithms, and what "
         "an epilogue costs"),
    Part("float32", 2, 30, 80, "steps.float32", "a step in float32 and in tf32 against PyTorch", depends=TORCH),
    Part("reference", 2, 50, 100, "checks.reference_tests", "the tests of the reference on a GPU", depends=TESTS),
    Part("rungs", 2, 30, 80, "checks.ladder_tests", "the tests of the ladder of kernels", depends=TESTS),
    Part("rest", 2, 50, 100, "checks.other_tests", "all other tests that need a GPU", depends=TESTS),
    Part("decode", 3, 65, 150, "steps.decode", "greedy decoding against reading every weight once, and transformers"),
    Part("recorded", 3, 15, 40, "steps.recorded", "a small step recorded as a CUDA graph"),
    Part("ladder", 3, 30, 60, "others.ladder", "the ladder of kernels: each rung against the one below",
         writes=("ladder.json",), depends=("benchmarks/ladder.py",)),
    Part("host", 3, 20, 60, "others.host", "what a step costs the processor that launches it",
         writes=("host_cost.json",), depends=("benchmarks/host_cost.py",)),
    Part("kernels", 3, 90, 180, "operations.kernels", "each kernel against its floor and PyTorch"),
    Part("lessons", 3, 60, 120, "others.lessons", "what the lessons on the GPU measure", depends=("lessons/2*.py",)),
    Part("ncu", 3, 90, 150, "others.ncu", "Nsight Compute: occupancy, throughput and stalls of the kernels of a step"),
)  # fmt: skip
RUNS = {1: 520, 2: 530, 3: 540}  # seconds of a whole run: what is left of ten minutes is for copying
START = 20  # seconds until the first part begins, and after the last one


def chosen(names: list[str] | None, run: int | None) -> list[Part]:
    """The parts of these names, in the sequence of PARTS; those of a run; or all."""
    if names:
        return [part for part in PARTS if part.name in names]
    return [part for part in PARTS if run is None or part.run == run]


def expected(parts: list[Part]) -> int:
    """Seconds that some parts take together."""
    return START + sum(part.seconds for part in parts)


def plan(parts: list[Part], states: dict[str, str]) -> str:
    """The whole plan as lines of text. states: what is known of a part before it begins, by its name."""
    width = max(len(part.name) for part in parts)
    lines = []
    for part in parts:
        seconds = f"{part.seconds:4} s, at most {part.limit:3}"
        lines.append(f"  {part.name:<{width}}  {seconds}  {states[part.name]:<9}  {part.shows}")
    for run, most in RUNS.items():
        to_do = [part for part in parts if part.run == run and states[part.name] == "to do"]
        if to_do:
            lines.append(f"  run {run}: {expected(to_do) / 60:.1f} minutes expected, {most / 60:.1f} at most")
    return "\n".join(lines)
