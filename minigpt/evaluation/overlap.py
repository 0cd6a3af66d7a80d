"""BLEU and ROUGE, as the packages sacrebleu and rouge-score compute them (extra `eval`)."""

import importlib
import importlib.util
import json
from collections.abc import Sequence
from types import ModuleType

from minigpt.errors import InputError
from minigpt.evaluation.metrics import mean_interval
from minigpt.evaluation.report import Measure

ROUGE = {"rouge1": "ROUGE-1", "rouge2": "ROUGE-2", "rougeLsum": "ROUGE-L"}  # L of a summary: of each line of it
DRAWS = 1000  # of sacrebleu's bootstrap
ADVICE = 'pip install "minigpt-by-hand[eval]"'


def missing(module: str) -> bool:
    """Is this package not installed?"""
    return importlib.util.find_spec(module) is None


def bleu(written: Sequence[str], answers: Sequence[str]) -> Measure:
    """BLEU of all sentences together, from 0 to 100 (Papineni et al. 2002; Post 2018), with sacrebleu's 95 % interval.

    written (N,), answers (N,): one for each sentence. Raises InputError where sacrebleu is not installed.
    """
    metric = _package("sacrebleu").BLEU()
    n = len(written)
    if n == 1:
        score = metric.corpus_score(list(written), [list(answers)])
        return Measure("BLEU", score.score, 0.0, 100.0, n)
    score = metric.corpus_score(list(written), [list(answers)], n_bootstrap=DRAWS)
    about = json.loads(score.format(width=6, is_json=True, signature=str(metric.get_signature())))
    half = about.get("confidence_var", 0.0)  # left out where all draws are equal
    mean = about.get("confidence_mean", score.score)
    low = max(0.0, min(mean - half, score.score))
    return Measure("BLEU", score.score, low, max(mean + half, score.score), n)


def rouge(written: Sequence[str], answers: Sequence[str]) -> list[Measure]:
    """ROUGE-1, ROUGE-2 and ROUGE-L, F1 with stems, from 0 to 1 (Lin 2004): the means over all summaries.

    written (N,), answers (N,): one for each summary, a sentence a line. Raises InputError where rouge-score is not
    installed.
    """
    scorer = _package("rouge_score", "rouge_scorer").RougeScorer(list(ROUGE), use_stemmer=True)
    values: dict[str, list[float]] = {name: [] for name in ROUGE}
    for one, wanted in zip(written, answers, strict=True):
        found = scorer.score(wanted, one)
        for name in ROUGE:
            values[name].append(found[name].fmeasure)
    return [Measure(ROUGE[name], *mean_interval(of_all), len(of_all)) for name, of_all in values.items()]


def _package(name: str, module: str = "") -> ModuleType:
    if missing(name):
        raise InputError(f"the package {name} is not installed: {ADVICE}")
    return importlib.import_module(f"{name}.{module}" if module else name)
