"""What `minigpt finetune` can be told."""

from dataclasses import dataclass

from minigpt.data import labelled_files
from minigpt.data.examples import KINDS
from minigpt.data.stories import tasks
from minigpt.errors import InputError, check_ranges, check_shares
from minigpt.jobs.option_fields import OnDevice, argument, option
from minigpt.jobs.suites import table as suites

RATE = 0.048  # times 1 / width: the highest learning rate; at width 768 the paper's 6.25e-5


def parse_columns(text: str) -> dict[str, str]:
    """ "text=document,label=stars" -> {"text": "document", "label": "stars"}. Raises InputError."""
    columns = {}
    for part in text.split(","):
        role, _, name = part.partition("=")
        if not role.strip() or not name.strip():
            raise InputError(f"--columns {text}: give pairs such as text=document,label=stars, or text=1,label=2")
        columns[role.strip()] = name.strip()
    return columns


@dataclass(kw_only=True)
class FinetuneOptions(OnDevice):
    """What `minigpt finetune` can be told. None: a default that depends on the others."""

    model: str | None = argument(
        "a model directory, or the name of a downloaded one (default with --resume: that of the run)",
        metavar="MODEL",
        default=None,
        free=True,
    )
    task: str | None = option(
        None,
        f"{', '.join(KINDS)}; a data set: {', '.join(labelled_files.NAMES)}; with --train stories:N one of the story "
        f"world: {', '.join(tasks.TASKS)} (default with --resume: that of the run)",
        metavar="KIND",
    )
    train: str | None = option(
        None,
        "labelled examples: .tsv, .csv, .jsonl; or stories:N (default with --resume: those of the run)",
        metavar="FILE",
        free=True,
    )
    valid: str | None = option(
        None, "chooses the best epoch (default: a tenth of --train; of stories, others)", metavar="FILE", free=True
    )
    test: list[str] | None = option(
        None, "judged once, at the end; may be given several times, for several files", metavar="FILE", free=True
    )
    columns: dict[str, str] | None = option(
        None,
        "where columns are called otherwise: text=document,label=stars; where the first line is an example they are "
        "counted: text=1,label=2",
        metavar="ROLE=NAME,...",
        parse=parse_columns,
    )
    suite: str | None = option(
        None, f"in place of --task and --train, a table of a paper: {', '.join(suites.names('finetune'))}",
        choices=suites.names("finetune"), metavar="NAME",
    )  # fmt: skip
    data: str | None = option(None, "of a suite: the folder in which, or below which, its files are", metavar="FOLDER")
    limit: int | None = option(None, "only the first N examples of each file", metavar="N")
    out: str | None = option(
        None, "folder for the model (default: runs/MODEL-KIND, of a suite runs/MODEL-NAME)", metavar="DIR", free=True
    )
    resume: bool = option(
        False, "go on with the run in --out, exactly where it was last kept; so does the same command once more",
        free=True,
    )  # fmt: skip
    lm_weight: float | None = option(
        None, "of the auxiliary language-model loss (default: 0.5; 0 for a model that sees both sides)", metavar="W"
    )
    epochs: int = option(3, metavar="N")
    batch: int = option(32, "examples in an update", metavar="B")
    lr: float | None = option(None, f"highest learning rate (default: {RATE} / width)", metavar="RATE")
    warmup: float = option(0.002, "of the updates", metavar="SHARE")
    dropout: float | None = option(None, "in the body (default: as it was pre-trained)", metavar="P")
    head_dropout: float = option(0.1, "before the head", metavar="P")
    weight_decay: float = option(0.01, metavar="W")
    clip: float = option(1.0, "longest gradient; 0 is no clipping", metavar="NORM")
    transfer: int | None = option(
        None, "take over only the embeddings and K layers; -1: nothing at all (default: all layers)", metavar="K"
    )
    freeze: bool = option(
        False, "the model stays as it was pre-trained: only the head learns, and of an ELMo the weights of its layers"
    )
    seed: int = option(0, "of new weights, order and dropout", metavar="S")
    seeds: int = option(1, "fine-tune N times, with seeds from S on", metavar="N")

    def __post_init__(self):
        if isinstance(self.test, str):
            self.test = [self.test]

    @property
    def tests(self) -> dict[str, str]:
        """{split: file or stories} of what is judged at the end: "test", and "test 2", ..., where there are several."""
        names = ["test", *(f"test {number}" for number in range(2, 1 + len(self.test or [])))]
        return dict(zip(names, self.test or [], strict=False))

    def check(self) -> None:
        """Raises InputError for an option that is missing or too many, and for a number outside its range."""
        suites.check(self, "finetune", ("task", "train", "valid", "test", "columns"))
        needed = {"MODEL": self.model}
        if self.suite is None:
            needed |= {"--task": self.task, "--train": self.train}
        for name, value in needed.items():
            if value is None:
                raise InputError(f"{name} is missing: give it, or --resume --out FOLDER to go on with a run")
        check_ranges(self, 1, "epochs", "batch", "seeds", "limit")
        check_ranges(self, 0, "seed", "lm_weight", "weight_decay", "clip", "lr")
        check_shares(self, "dropout", "head_dropout", "warmup")
