"""The largest sizes of each model beside the published ones: the same count, or `info` says what differs."""

import subprocess
import sys
from pathlib import Path

import pytest

from minigpt import models
from minigpt.cli.main import main
from minigpt.models import costs

PUBLISHED = {  # parameters as published, or of transformers' class in its published configuration
    "gpt1": {"paper": 116_534_784},
    "gpt2": {"small": 124_439_808, "medium": 354_823_168, "large": 774_030_080, "xl": 1_557_611_200},
    "lstm": {"paper": None},
    "elmo": {"paper": 93_600_000},  # rounded
    "bert": {"base": 110_106_428, "large": 336_226_108},
    "roberta": {"base": 124_697_433, "large": 355_412_057},
    "spanbert": {"base": None},
    "albert": {"base": 11_813_810, "large": 17_847_474},
    "distilbert": {"base": 66_985_530},
    "electra": {"small": 14_196_219, "base": 119_386_427, "large": 354_655_291},  # without what its two networks share
    "deberta": {"base": 139_244_121},
    "xlm": {"base": 141_848_203},  # xlm-mlm-enfr-1024
    "xlnet": {"base": 116_750_336, "large": 360_300_800},
    "mass": {"paper": None},
    "bart": {"base": 139_420_416, "large": 406_291_456},
    "t5": {"small": 60_506_624, "base": 222_903_552, "large": 737_668_096},
    "gpt_neox": {"70m": 70_426_624, "160m": 162_322_944, "410m": 405_334_016, "polyglot-ko-1.3b": 1_331_810_304},
    "llama": {"smollm2-135m": 134_515_008, "tinyllama": 1_100_048_384, "7b": 6_738_415_616},
    "mistral": {"7b": 7_241_732_096},
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_size_is_the_published_one_or_its_card_says_what_differs(name):
    card = models.card(name)
    for size, published in PUBLISHED[name].items():
        found = costs.count(card.model, card.model.Config(**models.size(name, size)))
        if found == published:
            assert card.differs == ""
        elif published is None:
            assert "no count of parameters was published" in card.differs
        else:
            assert f"{published:,}" in card.differs or f"{published / 1e6} million parameters" in card.differs


@pytest.mark.skipif(not Path("/proc/self/status").is_file(), reason="this system does not tell the peak of a process")
def test_counting_a_large_model_takes_no_memory_for_its_weights():
    """Zeros that are never written to take no memory, also where a process keeps what it has freed."""
    script = """
from pathlib import Path
from minigpt.cli import main
main(["info", "--model", "t5", "--size", "base"])
status = Path("/proc/self/status").read_text()
print(int(status.partition("VmHWM:")[2].split()[0]) // 1024)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert int(done.stdout.splitlines()[-1]) < 400, "megabytes; the weights are 892"


def test_every_largest_size_is_compared():
    for card in models.CARDS:
        own = set(card.sizes) - set(models.common_sizes())
        assert set(PUBLISHED[card.name]) <= own and card.usual_size in PUBLISHED[card.name]


def test_info_says_what_differs_where_a_size_is_called_after_a_paper(capsys):
    assert main(["info", "--model", "elmo", "--size", "paper"]) == 0
    shown = capsys.readouterr().out
    assert "331,170,820 parameters" in shown
    assert "not the published model: the released ELMo has 93.6 million parameters" in shown
    assert main(["info", "--model", "elmo"]) == 0  # its usual size is the paper's
    assert "not the published model" in capsys.readouterr().out
    for words in (["--model", "elmo", "--size", "nano"], ["--model", "bert", "--size", "base"], []):
        assert main(["info", *words]) == 0
        assert "not the published model" not in capsys.readouterr().out
