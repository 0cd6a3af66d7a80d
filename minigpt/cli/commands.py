"""The commands: for each its name, its summary, the options of its job, how the job is run, and lines to type.

Two functions stand for a command. The first returns the dataclass of its options. The second takes what argparse has
found, runs the job, and returns the exit status (None is 0). Both import the job themselves, because that takes long
and `minigpt --help` must not wait for it.
"""

from argparse import Namespace
from collections.abc import Callable
from typing import NamedTuple

from minigpt.cli.arguments import given, read


class Command(NamedTuple):
    """A command: what follows `minigpt`, or a group's name, on the command line.

    examples: command lines that its help shows, without the word `minigpt`.
    """

    name: str
    summary: str
    options: Callable[[], type]
    run: Callable[[Namespace], int | None]
    examples: tuple[str, ...]


class Group(NamedTuple):
    """Commands with one word before their names: `minigpt tokenizer train`."""

    name: str
    summary: str
    actions: tuple[Command, ...]


def _train_options() -> type:
    from minigpt.jobs.pretrain import PretrainOptions

    return PretrainOptions


def _train(found: Namespace) -> int:
    from minigpt.device.parallel import started
    from minigpt.jobs.interrupt import STATUS
    from minigpt.jobs.pretrain import PretrainOptions, train

    values = given(PretrainOptions, found)
    with started(found.threads) as ranks:
        job = train(PretrainOptions(**values), ranks, named=values)
    return 0 if job.finished else STATUS + job.stopped_by


def _sample_options() -> type:
    from minigpt.jobs.sample import SampleOptions

    return SampleOptions


def _sample(found: Namespace) -> None:
    from minigpt.jobs.sample import SampleOptions, sample

    sample(read(SampleOptions, found))


def _finetune_options() -> type:
    from minigpt.jobs.finetune import FinetuneOptions

    return FinetuneOptions


def _finetune(found: Namespace) -> int:
    from minigpt.jobs.finetune import FinetuneOptions, finetune, reopen
    from minigpt.jobs.interrupt import STATUS

    values = given(FinetuneOptions, found)
    options = reopen(values) if "resume" in values else FinetuneOptions(**values)
    stopped_by = finetune(options).stopped_by
    return STATUS + stopped_by if stopped_by else 0


def _predict_options() -> type:
    from minigpt.jobs.predict import PredictOptions

    return PredictOptions


def _predict(found: Namespace) -> None:
    from minigpt.jobs.predict import PredictOptions, predict

    predict(read(PredictOptions, found))


def _evaluate_options() -> type:
    from minigpt.jobs.evaluate import EvaluateOptions

    return EvaluateOptions


def _evaluate(found: Namespace) -> None:
    from minigpt.jobs.evaluate import EvaluateOptions, evaluate

    evaluate(read(EvaluateOptions, found))


def _vocabulary_options() -> type:
    from minigpt.jobs.vocabulary import VocabularyOptions

    return VocabularyOptions


def _train_vocabulary(found: Namespace) -> None:
    from minigpt.jobs.vocabulary import VocabularyOptions, train_vocabulary

    train_vocabulary(read(VocabularyOptions, found))


def _encode_options() -> type:
    from minigpt.jobs.vocabulary import EncodeOptions

    return EncodeOptions


def _encode(found: Namespace) -> None:
    from minigpt.jobs.vocabulary import EncodeOptions, encode

    encode(read(EncodeOptions, found))


def _decode_options() -> type:
    from minigpt.jobs.vocabulary import DecodeOptions

    return DecodeOptions


def _decode(found: Namespace) -> None:
    from minigpt.jobs.vocabulary import DecodeOptions, decode

    decode(read(DecodeOptions, found))


def _list_options() -> type:
    from minigpt.jobs.vocabulary import ListOptions

    return ListOptions


def _list_tokens(found: Namespace) -> None:
    from minigpt.jobs.vocabulary import ListOptions, list_tokens

    list_tokens(read(ListOptions, found))


def _download_options() -> type:
    from minigpt.jobs.download import DownloadOptions

    return DownloadOptions


def _download(found: Namespace) -> None:
    from minigpt.jobs.download import DownloadOptions, download

    download(read(DownloadOptions, found))


def _info_options() -> type:
    from minigpt.jobs.info import InfoOptions

    return InfoOptions


def _info(found: Namespace) -> None:
    from minigpt.jobs.info import InfoOptions, info

    info(read(InfoOptions, found))


def _stories_options() -> type:
    from minigpt.jobs.stories import StoriesOptions

    return StoriesOptions


def _stories(found: Namespace) -> None:
    from minigpt.jobs.stories import StoriesOptions, show

    show(read(StoriesOptions, found))


def _check_options() -> type:
    from minigpt.jobs.check import CheckOptions

    return CheckOptions


def _check(found: Namespace) -> int:
    from minigpt.jobs import check
    from minigpt.learn import check_file

    options = read(check.CheckOptions, found)
    if options.file is None:
        happy = check.run(options.seed)
    else:
        limits = {"all_cases": options.all_cases, "time_limit": options.time_limit}
        happy = check_file.run(options.file, options.seed, **limits)
    return 0 if happy else 1


def _lessons_options() -> type:
    from minigpt.learn.lessons import LessonsOptions

    return LessonsOptions


def _lessons(found: Namespace) -> None:
    from minigpt.learn.lessons import LessonsOptions, copy_lessons

    copy_lessons(read(LessonsOptions, found))


RUN = "runs/gpt1-stories-nano"  # what `minigpt train` writes where nothing is given
TUNED = f"{RUN}-sentiment"
def _lesson_options() -> type:
    from minigpt.learn.lesson import LessonOptions

    return LessonOptions


def _lesson(found: Namespace) -> int:
    from minigpt.learn.lesson import LessonOptions, step_through

    return step_through(read(LessonOptions, found))


LESSONS = "my-lessons"

OVERVIEW = (
    f"lessons {LESSONS}",
    "train",
    f'sample {RUN} --prompt "Once upon a time"',
)

TRAIN = Command("train", "pre-train a model on a text", _train_options, _train, (
    "train",
    "train --model gpt2 --data pydocs --tokenizer bpe:4096 --steps 3000",
    f"train --resume --out {RUN}",
    "train --model gpt2 --compare",
))  # fmt: skip

SAMPLE = Command("sample", "write text with a trained model", _sample_options, _sample, (
    f'sample {RUN} --prompt "Once upon a time"',
    'sample gpt2 --prompt "The old man" --tokens 50 --temperature 0',
))  # fmt: skip

FINETUNE = Command(
    "finetune", "teach a pre-trained model a task, from labelled examples", _finetune_options, _finetune, (
        f"finetune {RUN} --task sentiment --train stories:200 --out {TUNED}",
        "finetune gpt2 --task classification --train train.tsv --columns text=document,label=stars --seeds 3",
    ),
)  # fmt: skip

PREDICT = Command("predict", "answer examples with a fine-tuned model", _predict_options, _predict, (
    f"predict {TUNED} {LESSONS}/data/tasks/sentiment.tsv",
    f"predict {TUNED} {LESSONS}/data/tasks/sentiment.tsv --out answers.tsv",
))  # fmt: skip

EVALUATE = Command("eval", "try a task that the model was not trained for", _evaluate_options, _evaluate, (
    f"eval {RUN} perplexity {LESSONS}/data/stories_sample.txt",
    "eval gpt2 winograd wsc273.txt --json winograd.json",
))  # fmt: skip

TOKENIZER = (
    Command("train", "learn a vocabulary from a text", _vocabulary_options, _train_vocabulary, (
        "tokenizer train --data pydocs --vocab 2000 --out runs/words",
        "tokenizer train --kind gpt2 --data pydocs --out runs/bytes",
    )),
    Command("encode", "from text to token ids", _encode_options, _encode, (
        'tokenizer encode runs/words "the old man"',
        f'tokenizer encode {RUN} "Once upon a time"',
    )),
    Command("decode", "from token ids to text", _decode_options, _decode, (
        "tokenizer decode runs/words 10 20 30",
        f"tokenizer decode {RUN} 10 20 30",
    )),
    Command("list", "print every token, what it was merged from, and its id", _list_options, _list_tokens, (
        "tokenizer list runs/words",
        "tokenizer list gpt2",
    )),
)  # fmt: skip

DOWNLOAD = Command("download", "fetch a published model", _download_options, _download, (
    "download gpt2",
    "download gpt2-medium --out models/gpt2-medium",
))  # fmt: skip

INFO = Command("info", "show every tensor of a model, and what it costs", _info_options, _info, (
    "info --model gpt2 --size small --batch 4",
    f"info {RUN} --ops",
))  # fmt: skip

STORIES = Command(
    "stories", "print stories of the story world, or examples of its tasks", _stories_options, _stories, (
        "stories --n 2 --events",
        "stories --task entailment --split test",
        "stories --judge story.txt",
    ),
)  # fmt: skip

CHECK = Command("check", "check every gradient; or judge a file of your own", _check_options, _check, (
    "check",
    f"check {LESSONS}/exercises/06_layernorm.py",
))  # fmt: skip

LEARN = Command("lessons", "copy the lessons and their exercises into a folder", _lessons_options, _lessons, (
    f"lessons {LESSONS}",
))  # fmt: skip

LESSON = Command("lesson", "read a lesson in the terminal, cell by cell", _lesson_options, _lesson, (
    "lesson 03",
    "lesson 06 --cell 12",
))  # fmt: skip

COMMANDS = (
    LESSON,
    LEARN,
    TRAIN,
    SAMPLE,
    FINETUNE,
    PREDICT,
    EVALUATE,
    Group("tokenizer", "train a vocabulary, or use one", TOKENIZER),
    DOWNLOAD,
    INFO,
    STORIES,
    CHECK,
)
