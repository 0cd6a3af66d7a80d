"""The commands: for each its name, its summary, the options of its job, and how the job is run.

Two functions stand for a command. The first returns the dataclass of its options. The second takes what argparse has
found, runs the job, and returns the exit status (None is 0). Both import the job themselves, because that takes long
and `minigpt --help` must not wait for it.
"""

from argparse import Namespace
from collections.abc import Callable
from typing import NamedTuple

from minigpt.cli.arguments import given, read


class Command(NamedTuple):
    """A command: what follows `minigpt`, or a group's name, on the command line."""

    name: str
    summary: str
    options: Callable[[], type]
    run: Callable[[Namespace], int | None]


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
        happy = check_file.run(options.file, options.seed)
    return 0 if happy else 1


TOKENIZER = (
    Command("train", "learn a vocabulary from a text", _vocabulary_options, _train_vocabulary),
    Command("encode", "from text to token ids", _encode_options, _encode),
    Command("decode", "from token ids to text", _decode_options, _decode),
    Command("list", "print every token, what it was merged from, and its id", _list_options, _list_tokens),
)

COMMANDS = (
    Command("train", "pre-train a model on a text", _train_options, _train),
    Command("sample", "write text with a trained model", _sample_options, _sample),
    Command("finetune", "teach a pre-trained model a task, from labelled examples", _finetune_options, _finetune),
    Command("predict", "answer examples with a fine-tuned model", _predict_options, _predict),
    Command("eval", "try a task that the model was not trained for", _evaluate_options, _evaluate),
    Group("tokenizer", "train a vocabulary, or use one", TOKENIZER),
    Command("download", "fetch a published model", _download_options, _download),
    Command("info", "show every tensor of a model, and what it costs", _info_options, _info),
    Command("stories", "print stories of the story world, or examples of its tasks", _stories_options, _stories),
    Command("check", "check every gradient; or judge a file of your own", _check_options, _check),
)
