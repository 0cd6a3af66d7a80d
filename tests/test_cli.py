"""The commands as a person types them: what they print, and one clear line for every mistake."""

import os
import shlex
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from minigpt import GPT1, ops
from minigpt.cli import main
from minigpt.cli.commands import COMMANDS
from minigpt.errors import InputError
from minigpt.files import checkpoint
from minigpt.jobs.pretrain import PretrainOptions
from minigpt.jobs.pretrain import memory as step_memory
from minigpt.jobs.pretrain.settings import new_config
from minigpt.models import costs, names

pytestmark = pytest.mark.usefixtures("quick_runs")
SIZES = {"layers": 1, "heads": 2, "embd": 16, "context": 16, "batch": 4, "steps": 4, "eval-every": 4}
SMALL = [word for name, value in SIZES.items() for word in (f"--{name}", str(value))]


@pytest.fixture(scope="module")
def text(tmp_path_factory) -> str:
    path = tmp_path_factory.mktemp("text") / "words.txt"
    path.write_text("the cat sat on the mat. a dog saw the cat.\n" * 120, encoding="utf-8")
    return str(path)


@pytest.fixture(scope="module")
def trained(text, tmp_path_factory) -> str:
    """A model directory."""
    folder = tmp_path_factory.mktemp("models") / "small"
    rate = ["--lr", "0.016"]
    assert main(["train", *SMALL, *rate, "--data", text, "--tokenizer", "char", "--out", str(folder)]) == 0
    return str(folder)


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_info_of_the_paper_size(capsys):
    assert main(["info", "--model", "gpt1", "--size", "paper"]) == 0
    out = capsys.readouterr().out
    assert "116,534,784 parameters" in out
    lines = {line.split()[0]: line for line in out.splitlines() if line}
    assert "768 x 2304" in lines["h.11.attn.c_attn.weight"] and "1,769,472" in lines["h.11.attn.c_attn.weight"]
    assert sum(int(line.split()[-1].replace(",", "")) for name, line in lines.items() if "." in name) == 116_534_784


def test_info_tells_which_implementation_runs_each_operation(trained, capsys):
    assert main(["info", "--model", "gpt2", "--size", "nano", "--ops"]) == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    found = {row[0]: row[1] for row in rows}
    assert found["self_attention"] == found["adam_update"] == "fast" and found["add"] == "reference"
    with ops.using("reference"):
        assert main(["info", trained, "--ops"]) == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines()[1:]]
    assert {row[1] for row in rows} == {"reference"} and {"attention", "gelu"} <= {row[0] for row in rows}


def test_info_of_a_folder(trained, capsys):
    assert main(["info", trained, "--batch", "3"]) == 0
    assert "batch 3 x context 16" in capsys.readouterr().out


def test_train_says_first_what_it_costs_and_what_to_expect(text, tmp_path, capsys):
    assert main(["train", *SMALL, "--data", text, "--tokenizer", "char", "--out", str(tmp_path / "m")]) == 0
    out = capsys.readouterr().out
    announced = out[: out.index("step 0:")]
    for words in ("parameters", "memory", "activations", "minutes", "guessing among"):
        assert words in announced
    assert "best validation loss" in out


def test_sample_is_the_same_for_the_same_seed(trained, capsys):
    texts = []
    for seed in ("1", "1", "2"):
        assert main(["sample", trained, "--prompt", "the cat", "--tokens", "30", "--seed", seed]) == 0
        texts.append(capsys.readouterr().out)
    assert texts[0] == texts[1] != texts[2]
    assert texts[0].startswith("the cat") and len(texts[0]) == len("the cat") + 30 + 1


def test_several_samples_greedy_and_filtered(trained, capsys):
    assert main(["sample", trained, "--samples", "2", "--tokens", "5", "--temperature", "0", "--top-k", "3"]) == 0
    first, second = capsys.readouterr().out.rstrip("\n").split("\n\n")[-2:]
    assert first.strip() == second.strip() != ""


def test_tokenizer_commands(text, tmp_path, capsys):
    folder = str(tmp_path / "bpe")
    assert main(["tokenizer", "train", "--data", text, "--vocab", "60", "--out", folder]) == 0
    capsys.readouterr()
    assert main(["tokenizer", "encode", folder, "the cat sat"]) == 0
    ids = capsys.readouterr().out.split()
    assert len(ids) < len("the cat sat")
    assert main(["tokenizer", "decode", folder, *ids]) == 0
    assert capsys.readouterr().out.strip() == "the cat sat"
    assert main(["tokenizer", "train", "--data", text, "--vocab", "60", "--out", folder]) == 0
    assert "is complete: nothing is left to do" in capsys.readouterr().out
    assert main(["tokenizer", "train", "--data", text, "--vocab", "30", "--out", folder]) == 2
    assert "already holds a merges.txt, with another content" in capsys.readouterr().err


def test_resume_of_a_finished_run_changes_nothing(trained, capsys):
    before = (Path(trained) / "model.safetensors").read_bytes()
    assert main(["train", "--resume", "--out", trained]) == 0
    assert (Path(trained) / "model.safetensors").read_bytes() == before


def bad_files(folder: Path) -> dict[str, str]:
    """Text files that cannot be trained on, by kind."""
    files = {
        "empty": b"",
        "short": b"too short",
        "binary": bytes(range(256)) * 40,
        "latin1": "caf\u00e9 ".encode("latin-1") * 2000,
    }
    for name, content in files.items():
        (folder / name).write_bytes(content)
    paths = {name: folder / name for name in files} | {"missing": folder / "nowhere.txt", "folder": folder}
    return {name: str(path) for name, path in paths.items()}


@pytest.mark.parametrize("kind", ["empty", "short", "binary", "latin1", "missing", "folder"])
def test_text_that_cannot_be_used(kind, tmp_path, capsys):
    out = tmp_path / "out"
    status = main(["train", *SMALL, "--tokenizer", "char", "--data", bad_files(tmp_path)[kind], "--out", str(out)])
    assert_one_line(status, capsys)
    assert not out.exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--embd", "100", "--heads", "12"], "--embd 100 is not a multiple of --heads 12: choose 96 or 108"),
        (["--size", "huge"], "unknown size 'huge' of gpt1: choose nano, mini, paper"),
        (["--batch", "0"], "--batch 0: give 1 or more"),
        (["--batch", "12", "--accumulate", "5"], "cannot be split"),
        (["--dropout", "1"], "dropout rate"),
        (["--lr", "-1"], "--lr -1.0: give 0 or more"),
        (["--lr", "nan"], "--lr nan: give 0 or more"),
        (["--layers", "0"], "--layers 0: give 1 or more"),
        (["--layers", "100000000"], "100,000,000 layers of width 16"),
        (["--seed", "-1"], "--seed -1"),
        (["--threads", "0"], "--threads 0"),
        (["--tokenizer", "bpe:lots"], "--tokenizer bpe:lots"),
        (["--tokenizer", "bpe"], "--tokenizer bpe: give bpe: and the number of tokens, written in digits, as in bpe:"),
        (["--tokenizer", "bpe:0"], "--tokenizer bpe:0: give bpe: and the number of tokens"),
        (["--tokenizer", "bpe:1e9"], "--tokenizer bpe:1e9: give bpe: and the number of tokens"),
        (["--tokenizer", "bpe4096"], "--tokenizer bpe4096 is no kind of tokenizer, and no folder here: give char"),
        (["--tokenizer", "nowhere"], "nowhere"),
        (["--init", "nowhere"], "nowhere"),
        (["--resume"], "there is no resume.safetensors in"),
    ],
)
def test_options_that_cannot_be_used(arguments, words, text, tmp_path, capsys):
    out = tmp_path / "out"
    status = main(["train", *SMALL, "--data", text, "--out", str(out), *arguments])
    assert words in assert_one_line(status, capsys)
    assert not out.exists()


def test_no_gpu_where_one_is_asked_for(text, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("minigpt.device.gpu.cuda_problem", lambda: "this machine has none")
    status = main(["train", *SMALL, "--data", text, "--device", "cuda", "--out", str(tmp_path / "out")])
    assert "no GPU can be used: this machine has none" in assert_one_line(status, capsys)
    monkeypatch.setenv("MINIGPT_DEVICE", "cuda")
    assert_one_line(main(["train", *SMALL, "--data", text, "--out", str(tmp_path / "out")]), capsys)


def test_resume_without_a_run(text, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    status = main(["train", "--resume", "--out", "empty"])
    assert "start without --resume, with an --out that is empty" in assert_one_line(status, capsys)
    assert main(["train", *SMALL, "--data", text, "--tokenizer", "char", "--out", "runs/mine"]) == 0
    capsys.readouterr()
    said = assert_one_line(main(["train", "--resume"]), capsys)
    mine = Path("runs/mine")
    assert said.endswith(f"in runs/gpt1-stories-nano: start without --resume, or give another --out, such as {mine}")
    assert os.listdir("runs") == ["mine"]


def damage(folder: Path, kind: str) -> None:
    weights = folder / "model.safetensors"
    if kind == "truncated":
        weights.write_bytes(weights.read_bytes()[:-100])
    elif kind == "foreign":
        weights.write_bytes(b"not a safetensors file at all, but some text that goes on for a while")
    elif kind == "header":
        weights.write_bytes(b"\xff" * 8 + weights.read_bytes()[8:])
    elif kind == "tensor missing":
        tensors, _ = checkpoint.load_tensors(weights)
        del tensors["h.0.ln_1.weight"]
        checkpoint.save_tensors(weights, tensors)
    elif kind == "tensor misshapen":
        tensors, _ = checkpoint.load_tensors(weights)
        tensors["h.0.ln_1.weight"] = np.ones(3, np.float32)
        checkpoint.save_tensors(weights, tensors)
    elif kind == "another length":
        path = folder / "config.json"
        path.write_text(path.read_text().replace('"n_positions": 16', '"n_positions": 17'))
    elif kind == "config":
        (folder / "config.json").write_text("{")
    elif kind == "another model":
        path = folder / "config.json"
        path.write_text(path.read_text().replace("openai-gpt", "xlnet"))
    elif kind == "no weights":
        weights.unlink()


KINDS = {
    "truncated": "not a whole safetensors file", "foreign": "not a whole safetensors file",
    "header": "not a whole safetensors file", "tensor missing": "h.0.ln_1.weight is missing",
    "tensor misshapen": "h.0.ln_1.weight has shape (3,); the configuration wants (16,)",
    "another length": "n_positions is 17, and the weights were saved with 16",
    "config": "not JSON", "another model": "'xlnet'", "no weights": "model.safetensors does not exist",
}  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_damaged_model_directories(kind, trained, tmp_path, capsys):
    folder = tmp_path / "model"
    folder.mkdir()
    for name, content in contents(Path(trained)).items():
        (folder / name).write_bytes(content)
    damage(folder, kind)
    assert KINDS[kind] in assert_one_line(main(["sample", str(folder), "--tokens", "3"]), capsys)


def test_a_vocabulary_that_does_not_fit_the_weights(trained, text, tmp_path, capsys):
    assert main(["train", *SMALL, "--data", text, "--tokenizer", "bpe:90", "--out", str(tmp_path / "bpe")]) == 0
    for name in ("config.json", "model.safetensors"):
        (tmp_path / "bpe" / name).write_bytes((Path(trained) / name).read_bytes())
    capsys.readouterr()
    assert "do not belong together" in assert_one_line(main(["sample", str(tmp_path / "bpe")]), capsys)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--temperature", "-1"], "temperature -1.0"),
        (["--top-k", "0"], "top-k 0"),
        (["--top-p", "1.5"], "top-p 1.5"),
        (["--tokens", "0"], "--tokens 0"),
        (["--prompt", "\u00fc\u00f1\u00ee"], "\u00fc"),
    ],
)
def test_sampling_options_that_cannot_be_used(arguments, words, trained, capsys):
    assert words in assert_one_line(main(["sample", trained, *arguments]), capsys)


def test_decoding_ids_that_are_none(trained, capsys):
    assert "'x' is not a token id" in assert_one_line(main(["tokenizer", "decode", trained, "3", "x"]), capsys)
    assert "99999" in assert_one_line(main(["tokenizer", "decode", trained, "99999"]), capsys)


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="needs a user who may be refused")
def test_a_folder_without_permission(text, tmp_path, capsys):
    tmp_path.chmod(0o500)
    out = str(tmp_path / "x")
    assert_one_line(main(["train", *SMALL, "--data", text, "--tokenizer", "char", "--out", out]), capsys)


def assert_one_line(status: int, capsys) -> str:
    """Exit status 2, one line of error, no traceback; returns the line."""
    err = capsys.readouterr().err
    assert status == 2, err
    lines = [line for line in err.splitlines() if line.startswith("minigpt:")]
    assert len(lines) == 1 and "Traceback" not in err, err
    assert len(lines[0]) > len("minigpt: ") + 10
    return lines[0]


@pytest.mark.parametrize("words", [["train", "--steps", "1e3"], ["tokenizer", "encode"], ["sample", "x", "--top", "1"]])
def test_what_the_parser_refuses_is_one_line(words, capsys):
    assert "--help" in assert_one_line(main(words), capsys)


def test_numbers_and_options_that_cannot_be(trained, capsys):
    info = [["info", trained, "--size", "nano"], ["info", trained, "--model", "gpt1"]]
    for words in (["stories", "--n", "0"], ["check", "--seed", "-1"], *info):
        assert_one_line(main(words), capsys)


def run(*words: str, **streams) -> subprocess.CompletedProcess:
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parent.parent), "PYTHONIOENCODING": "cp1252"}
    return subprocess.run([sys.executable, "-m", "minigpt", *words], env=environment, timeout=300, **streams)


def test_standard_input_is_utf_8_whatever_the_console_is(text, tmp_path, capsys):
    main(["tokenizer", "train", "--kind", "gpt2", "--data", text, "--vocab", "280", "--out", str(tmp_path)])
    words = "tokenizer", "encode", str(tmp_path)
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    capsys.readouterr()
    assert main([*words, "한글"]) == 0
    typed = capsys.readouterr().out
    assert run(*words, input="한글".encode(), **pipes).stdout.decode() == typed != ""
    wrong = run(*words, input=b"caf\xe9", **pipes)
    assert wrong.returncode == 2 and wrong.stderr.startswith(b"minigpt: what comes on standard input is not UTF-8")


@pytest.mark.skipif(sys.platform == "win32", reason="a shell closes the streams here")
@pytest.mark.parametrize("closed", [">&-", "2>&-"])
def test_closed_streams(text, trained, tmp_path, closed):
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parent.parent)}
    train = " ".join(["train", *SMALL, "--data", text, "--tokenizer", "char", "--out", str(tmp_path / "run")])
    sample = f"sample {trained} --prompt 'the cat' --tokens 3"
    for words, said in (sample, b"the cat"), (train, b"best validation loss"):
        command = f"{sys.executable} -m minigpt {words} {closed}"
        done = subprocess.run(command, shell=True, env=environment, capture_output=True, timeout=300)
        assert done.returncode == 0 and b"Traceback" not in done.stderr, done.stderr
        assert (said in done.stdout) == (closed == "2>&-")


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such pipes")
def test_a_reader_that_goes_early(trained):
    read, write = os.pipe()
    os.close(read)
    done = run("info", "--model", "gpt1", stdout=write, stderr=subprocess.PIPE)
    os.close(write)
    assert done.returncode == 141 and done.stderr == b""


def test_characters_are_taken_from_the_whole_text(tmp_path, capsys):
    text = tmp_path / "text.txt"
    text.write_text("the cat sat on the mat. " * 30 + "Zebra", encoding="utf-8")
    kind = ["--kind", "char", "--data", str(text), "--out", str(tmp_path / "letters")]
    assert main(["tokenizer", "train", *kind]) == 0
    assert main(["tokenizer", "encode", str(tmp_path / "letters"), "Zebra"]) == 0
    words = ["--data", str(text), "--tokenizer", str(tmp_path / "letters"), "--out", str(tmp_path / "run")]
    assert main(["train", *SMALL, *words]) == 0
    assert_one_line(main(["tokenizer", "decode", str(tmp_path / "letters"), "1" * 5000]), capsys)


def status_and_error(words: list[str], capsys) -> tuple[int, str]:
    status = main(words)
    return status, capsys.readouterr().err


def test_the_next_step_after_a_run_can_be_typed(text, tmp_path, capsys):
    folder = str(tmp_path / "my run")
    assert main(["train", *SMALL, "--data", text, "--tokenizer", "char", "--out", folder]) == 0
    last = capsys.readouterr().out.splitlines()[-1]
    assert last.startswith(f'now: minigpt sample "{folder}" --prompt ')
    words = shlex.split(last.removeprefix("now: minigpt "))
    assert main([*words, "--tokens", "3"]) == 0
    assert capsys.readouterr().out.startswith(words[-1])
    assert main(["tokenizer", "train", "--data", text, "--vocab", "60", "--out", str(tmp_path / "bpe")]) == 0
    last = capsys.readouterr().out.splitlines()[-1]
    assert last == f"now: minigpt train --data {text} --tokenizer {tmp_path / 'bpe'}"
    words = shlex.split(last.removeprefix("now: minigpt "))
    assert main([*words, *SMALL, "--out", str(tmp_path / "second")]) == 0


def test_the_next_step_after_a_run_of_an_encoder_fills_in_a_word(text, tmp_path, capsys):
    words = ["--model", "roberta", "--data", text, "--tokenizer", "char", "--out", str(tmp_path / "run")]
    assert main(["train", *SMALL, *words]) == 0
    last = capsys.readouterr().out.splitlines()[-1]
    words = shlex.split(last.removeprefix("now: minigpt "))
    assert words[:2] == ["fill", str(tmp_path / "run")] and words[2].endswith(" [MASK]")
    assert main(words) == 0
    assert len(capsys.readouterr().out.splitlines()) == 5


def test_the_next_step_after_a_text_without_spaces(tmp_path, capsys):
    """Names, one on a line: a prompt of several would need a space, which is no character of this text."""
    names = tmp_path / "names.txt"
    names.write_text("emma\nolivia\nava\nisabella\n" * 200, encoding="utf-8")
    words = ["--data", str(names), "--tokenizer", "char", "--out", str(tmp_path / "run")]
    assert main(["train", *SMALL, *words]) == 0
    last = capsys.readouterr().out.splitlines()[-1]
    words = shlex.split(last.removeprefix("now: minigpt "))
    assert main([*words, "--tokens", "3"]) == 0, last


def test_the_next_step_begins_with_several_words_where_the_text_has_them(tmp_path, capsys):
    """A story that begins "long ago, there lived": "ago" alone is no beginning."""
    text = tmp_path / "text.txt"
    text.write_text("long ago, there lived a cat. " * 100, encoding="utf-8")
    words = ["--data", str(text), "--tokenizer", "char", "--out", str(tmp_path / "run")]
    assert main(["train", *SMALL, *words]) == 0
    prompt = shlex.split(capsys.readouterr().out.splitlines()[-1])[-1]
    assert len(prompt.split()) == 3, prompt


def test_what_the_vocabulary_does_not_know_is_told_before_text_is_written(text, tmp_path, capsys):
    words = ["--data", text, "--tokenizer", "bpe:60", "--out", str(tmp_path / "run")]
    assert main(["train", *SMALL, *words]) == 0
    capsys.readouterr()
    assert main(["sample", str(tmp_path / "run"), "--prompt", "the cat \u00fc7", "--tokens", "3"]) == 0
    told = capsys.readouterr().err
    assert "the vocabulary has no '\u00fc', '7': the model reads the unknown token in their place" in told
    assert main(["sample", str(tmp_path / "run"), "--prompt", "the cat", "--tokens", "3"]) == 0
    assert "the vocabulary has no" not in capsys.readouterr().err


@pytest.mark.usefixtures("set_threads")  # which puts them back
def test_one_thread_is_no_plural(text, tmp_path, capsys):
    words = [*SMALL, "--data", text, "--tokenizer", "char"]
    assert main(["train", *words, "--threads", "2", "--out", str(tmp_path / "a")]) == 0
    assert "2 threads (" in capsys.readouterr().out
    assert main(["train", *words, "--threads", "1", "--out", str(tmp_path / "b")]) == 0
    assert "1 thread (" in capsys.readouterr().out


def test_a_model_that_is_too_large_is_refused_before_a_weight_is_drawn(text, tmp_path, capsys, monkeypatch):
    words = ["train", *SMALL, "--data", text, "--tokenizer", "char", "--out", str(tmp_path / "a")]
    monkeypatch.setattr("minigpt.jobs.pretrain.memory.machine_memory", lambda: 20_000)
    status, error = status_and_error(words, capsys)
    assert status == 2 and "this machine has 19.5 KB: choose a smaller model, --batch or --context" in error
    monkeypatch.setattr("minigpt.jobs.pretrain.memory.machine_memory", lambda: None)  # Windows does not tell
    assert main(words) == 0


def test_a_model_is_as_large_as_what_this_machine_holds_of_it(monkeypatch):
    """For a GPU that is the weights alone, and of several processes each has its own rows of the batch."""
    options = PretrainOptions(model="gpt1", batch=64)
    config = new_config(options, vocab_size=50)
    memory = costs.memory(GPT1, config, 64)
    quarter = costs.memory(GPT1, config, 16)
    monkeypatch.setattr(step_memory, "machine_memory", lambda: 4 * quarter.total)
    with pytest.raises(InputError, match="256 rows at a time, need about"):
        step_memory.check_machine(replace(options, batch=256), GPT1, config)
    elsewhere = SimpleNamespace(size=4, here=1)
    step_memory.check_machine(replace(options, batch=256), GPT1, config, ranks=elsewhere)
    here = SimpleNamespace(size=4, here=4)
    step_memory.check_machine(options, GPT1, config, ranks=here)
    with pytest.raises(InputError, match="32 rows at a time, in 4 processes, need about"):
        step_memory.check_machine(replace(options, batch=128), GPT1, config, ranks=here)
    monkeypatch.setattr(step_memory, "machine_memory", lambda: memory.weights)
    step_memory.check_machine(options, GPT1, config, device="cuda")
    monkeypatch.setattr(step_memory, "machine_memory", lambda: memory.weights - 1)
    with pytest.raises(InputError, match="need about"):
        step_memory.check_machine(options, GPT1, config, device="cuda")


@pytest.mark.parametrize("words", [[], ["help"], ["--help"], ["help", "help"]])
def test_without_a_command_the_overview_is_shown(words, capsys):
    with pytest.raises(SystemExit) as left:
        main(words)
    said = capsys.readouterr().out
    assert left.value.code == 0 and said.count("\n  minigpt ") == 3
    assert {entry.name for entry in COMMANDS} <= set(said.split())


def test_help_of_a_command_shows_the_same_by_two_names(capsys):
    shown = []
    for words in (["help", "train"], ["train", "--help"]):
        with pytest.raises(SystemExit):
            main(words)
        shown.append(capsys.readouterr().out)
    assert shown[0] == shown[1] and "examples:\n  minigpt train\n" in shown[0]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("trian", "no command 'trian'; did you mean train?"),
        ("tokenizer trian", "tokenizer has no command 'trian': choose train, encode, decode, list; did you"),
        ("help samle", "did you mean sample?"),
        ("train --modle gpt2", "minigpt: train has no option --modle; did you mean --model?"),
        ("train --model gtp2", f"none of its values: choose {', '.join(names())}; did you mean gpt2?"),
        ("train --data {text} --size nanno", "did you mean nano?"),
        ("train --data {text} --tokenizer chr", "did you mean char?"),
        ("train --data storeis", "did you mean stories?"),
        ("sample gpt2 --steps 3", "minigpt: sample has no option --steps: it belongs to minigpt train"),
        ("sample gpt2 --prompt -oh", '--prompt needs a value: where it begins with a dash, write --prompt="-oh"'),
        ("train --lr -1e-3", 'write --lr="-1e-3"'),
        ("--steps 5 train", "--steps stands where minigpt expects a command"),
        ("download gpt-2", "did you mean gpt2?"),
        ("sample gpt2-meduim", "did you mean gpt2-medium?"),
        ("sample", "required: MODEL, such as minigpt sample runs/gpt1-stories-nano"),
    ],
)
def test_a_slip_of_the_pen_is_told_what_was_meant(line, words, text, capsys):
    assert words in assert_one_line(main(shlex.split(line.format(text=text))), capsys).replace(LISTED, "")


LISTED = ": choose " + ", ".join(entry.name for entry in COMMANDS)


def test_a_file_that_is_not_there_is_compared_with_those_that_are(trained, tmp_path, capsys):
    (tmp_path / "story.txt").write_text("the cat sat. " * 90, encoding="utf-8")
    error = assert_one_line(main(["train", "--data", str(tmp_path / "stroy.txt")]), capsys)
    assert error.endswith(f"did you mean {tmp_path / 'story.txt'}?")
    folder = tmp_path / "models" / "small"
    shutil.copytree(trained, folder)
    for wrong in (tmp_path / "models" / "smal", tmp_path / "model" / "small"):
        error = assert_one_line(main(["sample", str(wrong)]), capsys)
        assert error.endswith(f"did you mean {folder}?")
    assert "did you mean" not in assert_one_line(main(["sample", str(tmp_path / "quite_another")]), capsys)


def test_what_is_no_model_is_told_what_it_is(text, trained, tmp_path, capsys):
    assert "it is a file" in assert_one_line(main(["sample", text]), capsys)
    assert "it does not exist" in assert_one_line(main(["sample", str(tmp_path / "none")]), capsys)
    (tmp_path / "resume.safetensors").touch()
    error = assert_one_line(main(["sample", str(tmp_path)]), capsys)
    assert f"yet: go on with its run: minigpt train --resume --out {tmp_path}" in error
    long = "the cat sat on the mat. " * 4
    error = assert_one_line(main(["sample", trained, "--prompt", long]), capsys)
    assert "tokens and the model sees 16: give only" in error


def test_an_lstm_of_the_usual_size_can_be_trained(text, tmp_path):
    words = ["--steps", "2", "--eval-every", "2", "--batch", "2", "--data", text, "--tokenizer", "char"]
    assert main(["train", "--model", "lstm", *words, "--out", str(tmp_path / "run")]) == 0


def test_an_option_out_of_range_leaves_no_folder(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert "--steps 0" in assert_one_line(main(["train", "--steps", "0"]), capsys)
    assert list(tmp_path.iterdir()) == []


def test_info_notices_an_altered_configuration(trained, tmp_path, capsys):
    folder = tmp_path / "altered"
    shutil.copytree(trained, folder)
    config = (folder / "config.json").read_text(encoding="utf-8")
    (folder / "config.json").write_text(config.replace('"n_layer": 1', '"n_layer": 2'), encoding="utf-8")
    assert "the weights were saved with 1" in assert_one_line(main(["info", str(folder)]), capsys)
