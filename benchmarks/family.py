"""The map of the family: every model learns with as many operations, and then does the same six tasks (lesson 34).

    python benchmarks/family.py           # about six hours on one core; goes on where it was stopped
    python benchmarks/family.py --quick   # a few updates of a teacher and its student, one task, no file
    python benchmarks/family.py --show    # the table of what is recorded

Equal is the number of operations of pre-training: what GPT-1 needs for 1,200 updates of 768 tokens. The multiplications
and additions of the products in one update of each model are counted while it runs, and a model whose update costs
more makes fewer updates. All models have two blocks of width 128 (an encoder-decoder two on each side), the same
vocabulary, rate and text: 10,000 stories of the smallest world. The first 30 % of the operations see windows of 32
tokens, the others windows of 64: a masked model with a table of positions that begins with long windows stays at the
frequencies of its tokens for most of such a training. BERT began with short texts too (appendix A.2 there).

Then each model is fine-tuned for six tasks, with the recipe of lesson 13, and each once more with fresh weights. The
score on validation examples is recorded after each epoch: where it still rises at the end, a row says little about its
model. No row has the loss of a language model beside that of the task. A seed draws the weights, the
windows of the text and the labelled examples; all models of a seed share the last two. The student's teacher is a
RoBERTa of four blocks of the same seed. Its training, and its forward pass in each update of the student, are not
counted. It has five times the operations, since with as many as the others it has hardly begun.

A task puts a start token before a text and a delimiter behind it. All encoders meet these in their pre-training, the
GPTs and ELMo do not.

After so few operations ALBERT, SpanBERT and ELECTRA's generator have hardly begun to learn. So these, and two others
for comparison, are pre-trained once more with five times as many: what then changes was a matter of the budget.
ELECTRA, MASS and T5 are worse at the tasks than their own fresh weights. So they do the tasks once more after five
times as many operations, and so does RoBERTa, since DistilBERT's teacher had as many. And these four do them with the
tables of their pre-training (T5: of tokens and distances, which move farther: see below) and fresh blocks: that tells
which of the two does the harm. For all models it is recorded which share of the squared length of their last states
differs from place to place, with fresh weights and after the pre-training.

T5 knows the order of its words by its tables of distances alone: one number for each distance and head, which is added
to a score. Adam moves a number by about its rate in an update. So in all 180 updates of a fine-tuning for "sentiment"
such a number moves by less than 0.09, and a score needs to move by several units. So T5 does everything once more with
tables of distances that move 100 times as far in each update.

Controls with fresh weights or blocks have two seeds. Only GPT-1's and RoBERTa's fresh weights have all: there are
claims about them.
"""

import argparse
import contextlib
import itertools
import json
import multiprocessing
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import machine
import numpy as np
from transfer import mean_and_half

from minigpt import data, models, ops, tokenizer
from minigpt.data.examples import Example
from minigpt.data.input_transformations import DELIMITER, SPECIAL
from minigpt.data.objectives import Batch, masked
from minigpt.data.stories import tasks
from minigpt.device.threads import set_threads
from minigpt.evaluation import metrics
from minigpt.jobs import finetune
from minigpt.jobs.pretrain import PretrainOptions, prepare
from minigpt.jobs.pretrain.job import Job
from minigpt.jobs.vocabulary import VocabularyOptions, train_vocabulary
from minigpt.learn.counting import Counted, launches_of
from minigpt.models.classifier import Classifier, transfer
from minigpt.models.family.encoder import MASK, Encoder
from minigpt.models.family.encoder_decoder import EncoderDecoder
from minigpt.models.language_model import LanguageModel
from minigpt.models.text_classifier import TextClassifier, answer_ids, answer_texts, kind_for
from minigpt.nn import Module
from minigpt.nn.schedules import warmup_cosine
from minigpt.ops.random_keys import Key

NAME = "family"
STORIES = "stories:10000:1"
VARIETY = 1
FOLDER = Path("runs/family")
NOWHERE = str(FOLDER / "nowhere")  # a run that is not kept
TOKENIZER = VocabularyOptions(kind="gpt1", data=STORIES, vocab=800, out=str(FOLDER / "tokenizer"))
SHORT, LONG = 32, 64  # tokens of a window
LONG_SHARE = 0.7  # of the operations
TOKENS, UPDATES = 768, 1200  # of an update; of GPT-1's training
LONGER = 5  # times the operations, for the teacher and the longer trainings
FARTHER = 100  # times as far do the tables of distances move, for a control
RATE, WARMUP, CLIP = 2e-3, 0.125, 1.0
SEEDS, MOST_SEEDS = 4, 10
FEW_SEEDS = 2  # of most fresh weights
EXAM, EXAM_TOKENS = 0.15, 40_000  # of so many held-out tokens this share is covered in the exam

LABELS = {
    "acceptability": 1000, "sentiment": 240, "similarity": 800, "continuation": 800, "cloze": 400, "endings": 400,
}  # fmt: skip
N_VALID, N_TEST = 100, 500
MORE = 2  # so many times as many examples are made, of which those are taken that fit
BATCH, EPOCHS, TUNING_RATE = 16, 12, 5e-4


ALL, TABLES, NOTHING = "", ", fresh blocks", ", fresh weights"  # how the rows are named
TAKEN = {ALL: None, TABLES: 0, NOTHING: -1}  # so many blocks, see `transfer`; 0: the tables alone


class Row(NamedTuple):
    """One row of the map.

    model: its name in the registry. taken: what it takes over from its pre-training, a key of TAKEN; the rest begins
    the tasks with new weights. frozen: the body stays as it was pre-trained. times: so many times as many operations as
    the others for its pre-training. blocks: how many it has. farther: so many times as far do its tables of distances
    move in each update.
    """

    model: str
    taken: str = ALL
    frozen: bool = False
    times: int = 1
    blocks: int = 2
    farther: int = 1

    @property
    def name(self) -> str:
        """Under which it is recorded."""
        return self.training + self.taken + ", frozen" * self.frozen

    @property
    def training(self) -> str:
        """What its pre-training is recorded under."""
        blocks = "" if self.blocks == 2 else f", {self.blocks} blocks"
        times = "" if self.times == 1 else f", {self.times} times the operations"
        farther = "" if self.farther == 1 else f", distances {self.farther} times as far"
        return self.model + blocks + times + farther

    @property
    def pretrained(self) -> "Row":
        """The row whose model it takes: for fresh weights, only its sizes."""
        return self._replace(taken=ALL, frozen=False, farther=1 if self.taken == NOTHING else self.farther)

    def has_seed(self, seed: int) -> bool:
        """Is this seed measured? Of controls with new weights that no claim is about, only the first are."""
        is_claimed = self in (Row("gpt1", NOTHING), Row("roberta", NOTHING))
        return seed < FEW_SEEDS or self.taken == ALL or is_claimed


MODELS = (
    "gpt1", "roberta", "bert", "electra", "deberta", "xlnet", "albert", "spanbert", "distilbert", "t5", "bart", "mass",
    "elmo", "gpt2",
)  # fmt: skip
TEACHER = Row("roberta", times=LONGER, blocks=4)  # of the student
ROWS = (
    *(Row(model) for model in MODELS),
    TEACHER,
    Row("elmo", frozen=True),
    Row("gpt1", frozen=True),
    *(Row(model, NOTHING) for model in MODELS),
    *(Row(model, times=LONGER) for model in ("roberta", "electra", "mass", "t5")),
    Row("t5", farther=FARTHER),
    Row("t5", farther=FARTHER, times=LONGER),
    Row("t5", NOTHING, farther=FARTHER),
    Row("t5", TABLES, farther=FARTHER),
    *(Row(model, TABLES) for model in ("roberta", "electra", "mass")),
)
STATES = (  # of these the states are compared
    *(Row(model) for model in MODELS),
    *(Row(model, times=LONGER) for model in ("electra", "mass")),
    Row("t5", farther=FARTHER),
    Row("t5", farther=FARTHER, times=LONGER),
)
LONG_ROWS = tuple(Row(model, times=LONGER) for model in ("albert", "spanbert", "gpt1"))  # they do no tasks


# ---------------------------------------------------------------------------------------------------------- operations


def operations(model: LanguageModel, batch: Batch) -> int:
    """Multiplications and additions in the products of one update with this batch, forward and backward."""
    parameters = list(model.parameters())
    arrays = [parameter.data for parameter in parameters]
    for parameter in parameters:
        parameter.data = parameter.data.view(Counted)
    try:
        with ops.using("reference"):
            launches = launches_of(lambda: gradients(model, batch, Key.of(0, 0)))
    finally:
        for parameter, array in zip(parameters, arrays, strict=True):
            parameter.data = array
        model.zero_grad()
    return sum(launch.work for launch in launches if launch.name == "matmul")


def gradients(model: LanguageModel, batch: Batch, key: Key) -> None:
    """The gradient of the loss of a batch arrives in the parameters."""
    model.zero_grad()
    _, cache = model.loss(batch.ids, batch.targets, normalizer=max(1, batch.n_targets), key=key, **batch.inputs)
    model.loss_backward(cache)


# --------------------------------------------------------------------------------------------------------- pre-training


def new_job(row: Row, seed: int) -> Job:
    """A new model with its text, its vocabulary and its optimiser."""
    common = {"data": STORIES, "batch": TOKENS // LONG, "lr": RATE, "steps": UPDATES, "seed": seed, "out": NOWHERE}
    if row.model == "distilbert":
        return prepare(PretrainOptions(model=row.model, teacher=str(folder_of(TEACHER, seed)), **common))
    layers = None if row.model == "elmo" else row.blocks
    return prepare(PretrainOptions(model=row.model, tokenizer=TOKENIZER.out, layers=layers, context=LONG, **common))


def batch_of(job: Job, window: int, step: int) -> Batch:
    """The batch of this update: 768 tokens in windows of this length."""
    windows = data.random_windows(job.train, TOKENS // window, window, job.options.seed, step)
    return job.objective(windows, np.random.default_rng([job.options.seed, step, 1]))


def budget() -> float:
    """The operations that every model has for its pre-training: GPT-1's, in windows of both lengths."""
    job = new_job(Row("gpt1"), 0)
    short, long = (operations(job.model, batch_of(job, window, 0)) for window in (SHORT, LONG))
    return UPDATES * ((1 - LONG_SHARE) * short + LONG_SHARE * long)


def pretrain(row: Row, seed: int, available: float) -> dict:
    """Train the model of a row, and keep it in its folder -> what it cost, and how it does at covered words."""
    started = time.process_time()
    job = new_job(row, seed)
    costs = {window: operations(job.model, batch_of(job, window, 0)) for window in (SHORT, LONG)}
    shares = {SHORT: 1 - LONG_SHARE, LONG: LONG_SHARE}
    updates = {window: round(row.times * available * shares[window] / costs[window]) for window in costs}
    total = sum(updates.values())
    n_targets = 0
    for step in range(total):
        batch = batch_of(job, SHORT if step < updates[SHORT] else LONG, step)
        n_targets += batch.n_targets
        gradients(job.model, batch, Key.of(seed, step))
        with distances_move(job.model, row.farther):
            job.optimizer.step(RATE * warmup_cosine(step / total, WARMUP), CLIP)
    job.model.save(folder_of(row, seed), overwrite=True)
    job.text.save(folder_of(row, seed))
    spent = sum(updates[window] * costs[window] for window in costs)
    figures = {
        "parameters": sum(parameter.data.size for parameter in job.model.parameters()),
        "operations": spent,
        "updates": total,
        "targets": n_targets,
        "seconds": time.process_time() - started,
    }
    return figures | {f"predicted at {window}": predicted(job, window) for window in (SHORT, LONG)}


@contextlib.contextmanager
def distances_move(model: Module, times: int) -> Iterator[None]:
    """An update in here moves the tables of distances so many times as far."""
    tables = [parameter for name, parameter in model.named_parameters() if "distances_embed" in name]
    before = [table.data.copy() for table in tables]
    yield
    if times > 1:
        for table, start in zip(tables, before, strict=True):
            table.data[...] = start + times * (table.data - start)


def predicted(job: Job, window: int) -> float | None:
    """The share of covered tokens of held-out windows that a model predicts; None where it predicts none in place."""
    sees_all = isinstance(job.model, Encoder) and MASK in job.text.ids
    if not sees_all and job.options.model not in ("gpt1", "gpt2"):
        return None
    cover = masked(0, job.model.config.vocab_size, EXAM)
    right = count = 0
    for number, windows in enumerate(data.whole_windows(job.valid[:EXAM_TOKENS], window, 48)):
        covered = cover(windows, np.random.default_rng([1, number])).targets != ops.IGNORED
        covered[:, 0] = False  # before the first token there is nothing
        ids = windows[:, :-1].astype(np.int64)
        seen = np.where(covered, job.text.ids[MASK], ids) if sees_all else ids
        logits, _ = job.model.forward(seen, grad=False)
        if not sees_all:
            logits = np.roll(logits, 1, axis=1)
        right += int((logits[covered].argmax(axis=-1) == ids[covered]).sum())
        count += int(covered.sum())
    return right / count


def differing(model: LanguageModel, windows: np.ndarray) -> float:
    """How much of the mean squared length of its last states is left without their mean? 0: all are the same.

    Of an encoder-decoder, these are the states of the encoder.
    """
    ids = windows[:, :-1].astype(np.int64)
    states = model.encode(ids) if isinstance(model, EncoderDecoder) else model.hidden(ids, grad=False)[0]
    rows = states.reshape(-1, states.shape[-1]).astype(np.float64)
    return float(rows.var(axis=0).sum() / np.square(rows).sum(axis=1).mean())


def compare_states(row: Row, seed: int) -> dict:
    """How much the states of 48 held-out windows differ, with fresh weights and after the pre-training."""
    job = new_job(row, seed)
    windows = next(iter(data.whole_windows(job.valid[:EXAM_TOKENS], LONG, 48)))
    model, _ = models.open_both(folder_of(row, seed))
    fresh = transfer(model, 0, layers=TAKEN[NOTHING], seed=seed)
    return {"fresh": differing(fresh, windows), "pre-trained": differing(model, windows)}


def folder_of(row: Row, seed: int) -> Path:
    """Where the pre-trained model of a row and a seed is."""
    more = f"-{row.blocks}-blocks" * (row.blocks != 2) + f"-{row.times}" * (row.times > 1)
    more += f"-{row.farther}-times-as-far" * (row.farther > 1)
    return FOLDER / f"{row.model}{more}-{seed}"


# ---------------------------------------------------------------------------------------------------------- fine-tuning


def fitting(task_name: str, n: int, split: str, seed: int) -> list[Example]:
    """The first n examples that fit into a window, with room for four special tokens; made once, and kept."""
    kept = FOLDER / "examples" / f"{task_name}-{split}-{seed}.json"
    if kept.is_file():
        values = json.loads(kept.read_text(encoding="utf-8"))
        return [Example(tuple(texts), label, tuple(choices)) for texts, label, choices in values]
    text = tokenizer.load(TOKENIZER.out)
    found = []
    for example in tasks.examples(task_name, MORE * n, split, seed, VARIETY):
        longest = max((len(text.encode(choice)) for choice in example.choices), default=0)
        n_tokens = longest + sum(len(text.encode(one)) for one in example.texts)
        if n_tokens + 4 <= LONG:
            found.append(example)
    found = found[:n]
    kept.parent.mkdir(parents=True, exist_ok=True)
    values = [[example.texts, example.label, example.choices] for example in found]
    kept.write_text(json.dumps(values), encoding="utf-8")
    return found


class Curve(finetune.Tuning):
    """Keeps the validation score of each epoch. farther: see `Row`."""

    def __init__(self, *given, farther: int):
        super().__init__(*given)
        self.farther = farther
        self.scores: list[float] = []

    def learn(self, rows: np.ndarray, key: Key, lr: float) -> tuple[float, float]:
        with distances_move(self.model, self.farther):
            return super().learn(rows, key, lr)

    def evaluated(self, row, better) -> None:
        self.scores.append(100 * row["score"])


def points(row: Row, seed: int, task_name: str, epochs: int = EPOCHS) -> dict:
    """Fine-tune for one task -> its points on test examples, and the curve of its validation scores.

    Points are 100 times a score, here at the epoch with the best validation score. The curve has one for each epoch.
    """
    body, plain = models.open_both(folder_of(row.pretrained, seed))
    text = plain.with_special(SPECIAL)
    task = tasks.TASKS[task_name]
    n_new = text.vocab_size - plain.vocab_size
    body = transfer(body, n_new, layers=TAKEN[row.taken], seed=seed)
    sizes = {"train": LABELS[task_name], "valid": N_VALID, "test": N_TEST}
    splits = {}
    for split, n in sizes.items():
        splits[split] = fitting(task_name, n, split, seed if split == "train" else 0)
    if body.reads_a_source:
        everything = [example for part in splits.values() for example in part]
        classifier = TextClassifier(body, task, answer_ids(answer_texts(task, everything), text))
    else:
        delimiter = None if body.learns_the_next_token else text.ids[DELIMITER]
        classifier = Classifier(body, task, seed=seed, delimiter=delimiter)
    classifier.frozen = row.frozen
    layout = kind_for(body).transformation(task)
    encoded = {
        split: finetune.encode(part, task, text, body.config.n_positions, transformation=layout)
        for split, part in splits.items()
    }
    options = finetune.FinetuneOptions(
        model="", task=task_name, train="", epochs=epochs, batch=BATCH, lr=TUNING_RATE, lm_weight=0.0,
    )  # fmt: skip
    curve = Curve(classifier, encoded["train"], encoded["valid"], options, seed, farther=row.farther)
    curve.finish()
    return {"points": 100 * finetune.evaluate(classifier, encoded["test"]).score, "curve": curve.scores}


def constant(task_name: str) -> float:
    """100 times the score of the best answer that is always the same."""
    task = tasks.TASKS[task_name]
    train = fitting(task_name, LABELS[task_name], "train", 0)
    test = fitting(task_name, N_TEST, "test", 0)
    labels, right = (np.array([example.label for example in part]) for part in (train, test))
    return 100 * metrics.best_constant(task, labels, right)[1]


# ------------------------------------------------------------------------------------------------------------- the map


def train_one(job: tuple[Row, int, float]) -> tuple[str, dict]:
    """One training -> the name of its row, and its figures."""
    row, seed, available = job
    return f"{row.training}, seed {seed}", pretrain(row, seed, available)


def tune_one(job: tuple[Row, int, str]) -> tuple[str, dict]:
    """One fine-tuning -> the name of its row, and its points."""
    row, seed, task_name = job
    started = time.process_time()
    found = points(row, seed, task_name)
    return f"{row.name}, seed {seed}, {task_name}", found | {"seconds": time.process_time() - started}


def compare_one(job: tuple[Row, int]) -> tuple[str, dict]:
    """The states of one model -> the name of its row, and its figures."""
    row, seed = job
    return states_name(row, seed), compare_states(row, seed)


def measure(seeds: int, workers: int) -> None:
    """All that is not recorded: one seed after the other, its trainings first, then its tasks."""
    if not Path(TOKENIZER.out).is_dir():
        train_vocabulary(TOKENIZER)
    available = budget()
    for task_name, seed in itertools.product(LABELS, range(seeds)):
        fitting(task_name, LABELS[task_name], "train", seed)
    for task_name in LABELS:
        key = f"constant, {task_name}"
        if key not in machine.recorded(NAME):
            machine.save(NAME, {key: {"points": constant(task_name)}}, 1)
    with multiprocessing.get_context("spawn").Pool(workers, set_threads, (1,), maxtasksperchild=1) as pool:
        for seed in range(seeds):
            trainings = [row.pretrained for row in ROWS if needs(row, seed)]
            trainings = list(dict.fromkeys(trainings + [row for row in STATES if not is_compared(row, seed)]))
            students = [row for row in trainings if row.model == "distilbert"]
            others = [row for row in trainings if row not in students]
            if students and TEACHER not in others:
                others.insert(0, TEACHER)
            for rows_now in (others, students):
                todo = [(row, seed, available) for row in rows_now if not is_trained(row, seed)]
                keep(pool.imap_unordered(train_one, todo))
            keep(pool.imap_unordered(compare_one, [(row, seed) for row in STATES if not is_compared(row, seed)]))
            rows = [row for row in ROWS if row.has_seed(seed)]
            todo = [(row, seed, name) for row in rows for name in LABELS if not is_tuned(row, seed, name)]
            keep(pool.imap_unordered(tune_one, todo))
        pairs = itertools.product(LONG_ROWS, range(FEW_SEEDS))
        keep(pool.imap_unordered(train_one, [(*pair, available) for pair in pairs if not is_recorded(*pair)]))


def keep(results) -> None:
    """Record rows as they come."""
    for name, found in results:
        numbers = {key: value for key, value in found.items() if isinstance(value, float | int)}  # a curve is a list
        figures = ", ".join(f"{key} {value:.4g}" for key, value in numbers.items())
        print(f"{name}: {figures}", flush=True)
        machine.save(NAME, {name: found}, 1)


def needs(row: Row, seed: int) -> bool:
    """Is its training, or one of its tasks, not recorded yet?"""
    if not row.has_seed(seed):
        return False
    return not is_recorded(row.pretrained, seed) or not all(is_tuned(row, seed, name) for name in LABELS)


def is_trained(row: Row, seed: int) -> bool:
    """Is this training recorded, and its model still there?"""
    return is_recorded(row, seed) and folder_of(row, seed).is_dir()


def is_recorded(row: Row, seed: int) -> bool:
    """Are the figures of this training recorded?"""
    return f"{row.training}, seed {seed}" in machine.recorded(NAME)


def states_name(row: Row, seed: int) -> str:
    """Under which its states are recorded."""
    return f"states of {row.training}, seed {seed}"


def is_compared(row: Row, seed: int) -> bool:
    """Are its states recorded, or not to be measured? After one budget, only the first seeds are."""
    is_left_out = seed >= FEW_SEEDS and row.times == 1
    return is_left_out or states_name(row, seed) in machine.recorded(NAME)


def is_tuned(row: Row, seed: int, task_name: str) -> bool:
    """Is this fine-tuning recorded?"""
    return f"{row.name}, seed {seed}, {task_name}" in machine.recorded(NAME)


def show() -> None:
    """The map: means over seeds, with half of the 95 % interval."""
    rows = machine.recorded(NAME)
    print(f"{'':44}" + "".join(f"{name:>16}" for name in LABELS) + f"{'mean':>8}")
    cells = [f"{rows[f'constant, {name}']['points']:.1f}" for name in LABELS]
    print(f"{'constant answer':44}" + "".join(f"{cell:>16}" for cell in cells))
    for row in ROWS:
        cells, means = [], []
        for name in LABELS:
            keys = [f"{row.name}, seed {seed}, {name}" for seed in range(MOST_SEEDS)]
            found = [rows[key]["points"] for key in keys if key in rows]
            if not found:
                cells.append("")
                continue
            mean, half = mean_and_half(found)
            means.append(mean)
            cells.append(f"{mean:.1f} ± {half:.1f}")
        whole = f"{np.mean(means):8.1f}" if len(means) == len(LABELS) else ""
        print(f"{row.name:44}" + "".join(f"{cell:>16}" for cell in cells) + whole)
    trainings = {}
    for key, row in rows.items():
        if "updates" in row:
            trainings[key] = {name: value for name, value in row.items() if value is not None}
    exams = (f"predicted at {window}" for window in (SHORT, LONG))
    print(machine.table(trainings, ("parameters", "updates", "targets", *exams, "seconds")))


def main() -> None:
    """Run what is not recorded."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--workers", type=int, default=machine.cores())
    parser.add_argument("--quick", action="store_true", help="a few updates of two models and one task, no file")
    parser.add_argument("--show", action="store_true", help="only print what is recorded")
    options = parser.parse_args()
    set_threads(1)
    if options.show:
        return show()
    if options.quick:
        return quick()
    measure(options.seeds, options.workers)
    show()


def quick() -> None:
    """A hundredth of the operations for a teacher and its student, and one task."""
    if not Path(TOKENIZER.out).is_dir():
        train_vocabulary(TOKENIZER)
    print(pretrain(TEACHER, 0, budget() / 100))
    print(pretrain(Row("distilbert"), 0, budget() / 100))
    print(points(Row("distilbert"), 0, "sentiment", epochs=2))


if __name__ == "__main__":
    main()
