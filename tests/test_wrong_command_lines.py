"""Two hundred command lines that a newcomer gets wrong: status 2, one line that says what to do, nothing written.

    python tests/test_wrong_command_lines.py      prints all of them with their answers
"""

import contextlib
import io
import os
import re
import shlex
import sys
import tempfile
from pathlib import Path

import pytest
from helpers import each

from minigpt.cli import main

pytestmark = pytest.mark.usefixtures("quick_runs")
SMALL = "--layers 1 --heads 2 --embd 16 --context 16 --batch 4 --steps 2 --eval-every 2"

# {what is wrong: command lines}; RUN is a trained model, T what training needs to be quick.
LINES = {
    "commands": """
        trian
        Train
        tran --data words.txt
        training
        sampel RUN
        generate RUN
        --train
        -train
        -v
        --steps 5 train
        tokenizer
        tokenizer trian
        tokenizer --kind char
        tokenizer words.txt
        tokeniser train
        help trian
        help tokenizer trian
        finetunee RUN
        fine-tune RUN
        pretrain
        evaluate RUN
        dowload gpt2
        lesson x
        story
        checks
        words.txt
        RUN
    """,
    "options": """
        train --modle gpt2
        train --step=5 --btach 3
        train --epochs 3
        train --learning-rate 1e-3
        train --layer-s 3
        train -steps 5
        train --temperature 1
        sample RUN --promt hi
        sample RUN --steps 3
        sample RUN --length 3
        sample RUN --topk 3
        sample RUN --t 3
        finetune RUN --tsk sst2
        finetune RUN --task sst2 --trian words.txt
        eval RUN perplexity words.txt --strides 3
        tokenizer train --size 30 --out x
        tokenizer encode RUN --text hi
        info --sizes paper
        trace --steps 3
        info RUN --layers 3
        stories --number 3
        stories -n 3
        check --sed 3
        lessons x --force
        download gpt2 --output x
        predict RUN words.txt --json x
    """,
    "missing": """
        sample
        finetune
        finetune RUN
        finetune RUN --task sst2
        finetune --task sst2 --train words.txt
        predict
        predict RUN
        eval
        eval RUN
        eval RUN perplexity
        tokenizer train
        tokenizer encode
        tokenizer decode
        tokenizer list
        download
        lessons
        train --steps
        train --data
        train --out
        sample RUN --prompt
        sample RUN --top-k
        stories --task
    """,
    "numbers": """
        train --steps 1e3
        train --steps ten
        train --steps 1.5
        train --steps 0
        train --steps -5
        train --batch 0
        train --batch x
        train --batch 12 --accumulate 5
        train --accumulate 0
        train --lr fast
        train --lr nan
        train --lr -1
        train --lr -1e-3
        train --lr inf
        train --min-lr 1 --lr 0.1 T
        train --dropout 1 T
        train --dropout -0.1 T
        train --dropout nan T
        train --beta2 2
        train --beta2 1
        train --weight-decay -1
        train --clip -1
        train --clip nan
        train --align 2
        train --seed -1
        train --seed x
        train --eval-every 0
        train --warmup -1
        train --layers 0
        train --heads 0
        train --embd 0
        train --context 0
        train T --heads 3
        train T --embd 17
        train T --layers 100000000
        train T --context 100000
        train --threads 0 T
        train --threads x
        train --threads -1 T
        sample RUN --tokens 0
        sample RUN --tokens -3
        sample RUN --tokens 1.5
        sample RUN --samples 0
        sample RUN --seed -1
        sample RUN --seed x
        sample RUN --temperature -1
        sample RUN --temperature nan
        sample RUN --temperature warm
        sample RUN --top-k 0
        sample RUN --top-k 1.5
        sample RUN --top-p 0
        sample RUN --top-p 1.5
        sample RUN --top-p nan
        stories --n 0
        stories --n -1
        stories --n x
        stories --seed -1
        stories --variety 0
        stories --variety 4
        stories --first -1
        stories --task sentiment --variety 9
        info --batch 0
        info --batch x
        trace --batch 0
        trace --layers 0
        trace --heads 3
        trace --seed -1
        trace --dropout 1
        trace --context 5
        trace --model lstm --layers 2
        check --seed -1
        check --seed x
        tokenizer train --data words.txt --vocab 0 --out x
        tokenizer train --data words.txt --vocab -1 --out x
        tokenizer train --data words.txt --vocab x --out x
        tokenizer decode RUN 3 x
        tokenizer decode RUN 99999
        tokenizer decode RUN 1.5
        eval RUN --suite gpt2-table3
        eval RUN --suite gpt2-table3 --data . --shots 2
        eval RUN perplexity words.txt --suite gpt2-table3 --data .
        eval RUN perplexity words.txt --data .
        eval RUN perplexity --limit 3
        finetune RUN --suite glue
        finetune RUN --suite glue --data . --task sst2
        finetune RUN --task sst2 --train words.txt --data .
        finetune --suite glue --data .
        finetune RUN --task sst2 --train words.txt --limit 0
        eval RUN perplexity words.txt --context 0
        eval RUN perplexity words.txt --context 17
        eval RUN perplexity words.txt --stride 0
        eval RUN choice words.txt --limit 0
        eval RUN sentiment words.txt --shots -1
        finetune RUN --task sentiment --train stories:20 --epochs 0
        finetune RUN --task sentiment --train stories:20 --batch 0
        finetune RUN --task sentiment --train stories:20 --lr nan
        finetune RUN --task sentiment --train stories:20 --seeds 0
        finetune RUN --task sentiment --train stories:20 --head-dropout 1
    """,
    "names": """
        train --model gpt3
        train --model GPT2
        train --size huge T
        train --size nanno T
        train --dtype float64
        train --dtype bf16
        train --device gpu
        train --device tpu T
        train --data storeis
        train --data stories:0
        train --data stories:x
        train --data stories:20:9
        train --tokenizer bpe T
        train --tokenizer bpe:lots T
        train --tokenizer chr T
        train --tokenizer gpt2-smal T
        train --init gpt-2 --data words.txt
        train --init nowhere --data words.txt
        info --model gpt5
        info --size papr
        trace --model gpt5
        trace --size papr
        trace --implementation quick
        trace --tensor h.0.atn.c_attn.weight
        trace --tensor 12.dxx
        trace --tensor 9999
        trace --tensor 0
        info --model gpt2 --size paper
        stories --task sentimnt
        stories --task sentiment --split dev
        tokenizer train --kind gtp2 --out x
        tokenizer train --kind char --vocab 30 --out x
        download gpt-2
        download gpt2-smal
        download llama
        eval RUN perplexty words.txt
        eval RUN lambda words.txt
        eval RUN --suite gpt2-table4 --data .
        finetune RUN --suite glu --data .
        eval RUN perplexity words.txt --detokenize wikitxt
        finetune RUN --task sst3 --train words.txt
        finetune RUN --task sentimnt --train stories:20
        finetune RUN --task sentiment --train stories:20 --columns text
    """,
    "files and folders": """
        train --data my_text.txt
        train --data word.txt
        train --data .
        train --data empty.txt
        train --data latin1.txt --tokenizer char
        train --data binary.txt
        train --data tiny.txt --tokenizer char
        train --out words.txt T
        train --out RUN T --lr 0.5
        train --resume --out nowhere
        train --resume --out words.txt
        train --resume --out RUN --steps 50
        sample nowhere
        sample runs/smal
        sample runs
        sample words.txt
        sample .
        sample ""
        sample RUN --prompt ""
        sample RUN --prompt "ü"
        sample RUN --prompt "the cat sat on the mat and saw a dog"
        sample RUN --prompt -x
        info nowhere
        trace nowhere
        trace words.txt
        trace RUN --layers 3
        trace RUN --text ""
        trace RUN --text t
        trace RUN --text "ü!"
        trace RUN --text "the cat sat on the mat and saw a dog"
        trace --json words.txt
        trace --json no/where.json
        info words.txt
        info RUN --size nano
        info RUN --model gpt1
        predict nowhere words.txt
        predict RUN words.txt
        predict words.txt words.txt
        eval nowhere perplexity words.txt
        eval RUN perplexity nowhere.txt
        eval RUN perplexity word.txt
        eval RUN winograd words.txt
        eval RUN lambada words.txt
        eval RUN choice words.txt
        eval RUN perplexity words.txt --shots 3
        eval RUN --suite gpt2-table3 --data .
        eval RUN --suite gpt2-table3 --data nowhere
        eval RUN --suite gpt2-table3 --data . --json no/where.json
        finetune RUN --suite glue --data .
        eval RUN perplexity words.txt --json words.txt
        eval RUN perplexity words.txt --json no/where.json
        finetune nowhere --task sst2 --train words.txt
        finetune RUN --task sst2 --train nowhere.tsv
        finetune RUN --task sst2 --train word.txt
        finetune RUN --task sst2 --train words.txt
        finetune words.txt --task sst2 --train words.txt
        tokenizer encode nowhere hi
        tokenizer encode words.txt hi
        tokenizer encode RUN "ü"
        tokenizer encode RUN hat --special
        tokenizer list nowhere
        tokenizer train --data nowhere.txt --out x
        tokenizer train --data words.txt --out RUN
        tokenizer train --data words.txt --out words.txt
        check nowhere.py
        check words.txt
        check RUN
        lessons words.txt
        lessons x y
        sample RUN RUN
        download gpt2 --from http://example.org --out x
        download gpt2 --from file:///etc --out x
    """,
}
CASES = [(kind, line.strip()) for kind, lines in LINES.items() for line in lines.strip().splitlines()]


def prepare(folder: Path) -> None:
    """What the lines find where they are typed: a text, texts that cannot be used, and the model RUN."""
    text = "the cat sat on the mat. a dog saw the cat.\n" * 60
    (folder / "words.txt").write_text(text, encoding="utf-8")
    (folder / "empty.txt").write_bytes(b"")
    (folder / "tiny.txt").write_text("too short", encoding="utf-8")
    (folder / "latin1.txt").write_bytes("caf\u00e9 ".encode("latin-1") * 500)
    (folder / "binary.txt").write_bytes(bytes(range(256)) * 40)
    words = f"train {SMALL} --data words.txt --tokenizer char --out runs/small"
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        assert main(words.split()) == 0


def answer(line: str) -> tuple[int | str | None, str]:
    """The exit status of a command line, and what it prints on standard error."""
    line = line.replace("RUN", "runs/small")
    if line.endswith(" T") or " T " in line:  # all that training needs goes before what is wrong, which then acts
        rest = line.removeprefix("train ").replace("T ", "", 1).removesuffix(" T")
        kind = "" if "--tokenizer" in rest else "--tokenizer char"
        line = f"train {SMALL} --data words.txt {kind} {rest}"
    error = io.StringIO()
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(error):
        try:
            status = main(shlex.split(line))
        except SystemExit as left:
            status = left.code
    return status, error.getvalue()


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with RUN in it, which is the current one meanwhile."""
    folder = tmp_path_factory.mktemp("place")
    before = os.getcwd()
    os.chdir(folder)
    try:
        prepare(folder)
        yield folder, contents(folder)
    finally:
        os.chdir(before)


def test_there_are_two_hundred_of_them():
    assert len(set(CASES)) >= 200


ADVICE = re.compile(
    r"did you mean|choose|give|leave|minigpt \w+|--help|write --|it (?:has|belongs)|expected|convert|take a|"
    r"its ids are|this is not Python|make it|start without"
)


@each("line", [line for _, line in CASES])
def test_a_wrong_command_line_is_answered_in_one_line_that_says_what_to_do(line, place):
    folder, before = place
    status, said = answer(line)
    assert status == 2, said
    assert "Traceback" not in said
    told = [one for one in re.split(r"[\n\r]", said) if one.startswith("minigpt: ")]
    assert len(told) == 1, said
    assert ADVICE.search(told[0].removeprefix("minigpt: ")), told[0]
    assert contents(folder) == before, "nothing is written"


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        os.chdir(name)
        prepare(Path(name))
        for kind, line in CASES:
            status, said = answer(line)
            last = [one for one in re.split(r"[\n\r]", said) if one.startswith("minigpt: ")]
            print(f"{kind}: minigpt {line}\n    {status} {last[0] if last else repr(said[-200:])}", file=sys.__stdout__)
