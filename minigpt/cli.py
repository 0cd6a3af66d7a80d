"""The command line: reads options, calls the jobs, and turns a user's mistake into one line and exit status 2."""

import argparse
import dataclasses
import os
import sys
from pathlib import Path

from minigpt.errors import InputError


def main(arguments: list[str] | None = None) -> int:
    """Run a command; returns the exit status: 0 done, 1 a check failed, 2 a mistake in what was given, 130 Ctrl-C."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(encoding="utf-8", errors="replace")  # a Windows console may not know every character
    options = parser().parse_args(arguments)
    try:
        if options.threads is not None:
            from minigpt.backend import set_threads

            set_threads(options.threads)
        from minigpt.backend import readable_errors
        from minigpt.parallel import processes

        if processes() > 1 and options.command != "train":
            raise InputError(f"minigpt {options.command} runs as one process: only minigpt train shares its work")
        with readable_errors():
            return options.run(options) or 0
    except InputError as error:
        print(f"minigpt: {error}", file=sys.stderr)
        return 2
    except BrokenPipeError:  # the reader of our output has gone, as in `minigpt info ... | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except MemoryError as error:
        print(f"minigpt: not enough memory: {error or 'give a smaller model, batch or context'}", file=sys.stderr)
        return 2
    except OSError as error:
        print(f"minigpt: {error.filename or 'a file'}: {error.strerror or error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("\nminigpt: interrupted", file=sys.stderr)
        return 130


def parser() -> argparse.ArgumentParser:
    """The commands and their options."""
    top = argparse.ArgumentParser(prog="minigpt", description="GPT-1 and GPT-2, every gradient written by hand")
    top.add_argument("--version", action="version", version=_version())
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")
    adders = (_add_train, _add_sample, _add_finetune, _add_predict, _add_eval, _add_tokenizer, _add_download)
    for add in (*adders, _add_info, _add_check):
        add(commands)
    return top


def _version() -> str:
    from minigpt import __version__

    return f"minigpt {__version__}"


def _command(commands, name: str, run, summary: str, device: bool = False) -> argparse.ArgumentParser:
    command = commands.add_parser(name, help=summary, description=summary[0].upper() + summary[1:] + ".")
    command.add_argument("--threads", type=int, metavar="N", help="threads for matrix products (default: all cores)")
    if device:
        command.add_argument("--device", choices=("auto", "cpu", "cuda"), help="default: MINIGPT_DEVICE, then auto")
    command.set_defaults(run=run)
    return command


def _add_train(commands) -> None:
    train = _command(commands, "train", _train, "pre-train a model on a text", device=True)
    options = train.add_argument
    options("--model", choices=("gpt1", "gpt2", "lstm"), help="default: gpt1, or what --init names")
    options("--size", metavar="NAME", help="nano (default), mini; gpt1, lstm: paper; gpt2: small, medium, large, xl")
    options("--layers", type=int, metavar="N")
    options("--heads", type=int, metavar="N")
    options("--embd", type=int, metavar="C", help="width of the residual stream")
    options("--context", type=int, metavar="T", help="tokens that the model sees at once")
    options("--data", metavar="WHAT", help="stories (default), stories:N, pydocs, or a UTF-8 text file")
    options("--tokenizer", metavar="T", help="char, bpe:VOCAB, or a folder that holds one; the default fits the data")
    options("--init", metavar="DIR", help="go on from this model, or from a downloaded one: gpt2; a new schedule")
    options("--out", metavar="DIR", help="folder for the model (default: runs/MODEL-DATA-SIZE)")
    options("--resume", action="store_true", help="go on with the run in --out, exactly where it was last kept")
    options("--batch", type=int, metavar="B", help="windows in an update (default: 12)")
    options("--accumulate", type=int, metavar="K", help="compute the batch in K parts, to save memory (default: 1)")
    again = "run each block again in the backward, to save memory; the same numbers; can be changed with --resume"
    options("--checkpoint-blocks", action=argparse.BooleanOptionalAction, help=again)
    options("--steps", type=int, metavar="N", help="updates of the weights (default: 2000)")
    options("--lr", type=float, metavar="RATE", help="highest learning rate (default: 0.256 / width)")
    options("--min-lr", type=float, metavar="RATE", help="where the cosine ends (default: GPT-1's schedule, down to 0)")
    options("--warmup", type=int, metavar="N", help="updates until then (default: a tenth of the steps, at most 2000)")
    options("--dropout", type=float, metavar="P", help="default: 0.1 for the size paper, otherwise 0")
    options("--beta2", type=float, metavar="B", help="memory of Adam's second moment (default: 0.999)")
    options("--weight-decay", type=float, metavar="W", help="default: 0.01")
    options("--clip", type=float, metavar="NORM", help="longest gradient; 0 is no clipping (default: 1)")
    options("--align", type=float, metavar="P", help="share of windows that begin with a line (default: 0)")
    options("--seed", type=int, metavar="S", help="of weights, batches and dropout (default: 0)")
    options("--eval-every", type=int, metavar="N", help="updates between evaluations (default: 1/8 of the steps)")
    low = "what a GPU multiplies (tf32) or computes and keeps (bfloat16) in; weights are float32 (default: float32)"
    options("--dtype", choices=("float32", "tf32", "bfloat16"), help=low)


def _train(options) -> int:
    from minigpt.parallel import started
    from minigpt.train import Options, train

    names = {field.name for field in dataclasses.fields(Options)}
    given = {name: value for name, value in vars(options).items() if name in names and value is not None}
    if options.resume:
        if "out" not in given:
            raise InputError("--resume goes on with the run in a folder: name it with --out")
        extra = sorted(set(given) - {"out", "device", "checkpoint_blocks"})
        if extra:
            raise InputError(f"--resume goes on with the run's own options: leave out --{extra[0].replace('_', '-')}")
    with started(options.threads) as ranks:
        job = train(Options(**given), resume=options.resume, ranks=ranks)
    return 0 if job.step == job.options.steps else 130


def _add_sample(commands) -> None:
    sample = _command(commands, "sample", _sample, "write text with a trained model", device=True)
    sample.add_argument("folder", metavar="MODEL", help="a model directory")
    sample.add_argument("--prompt", metavar="TEXT", help="what the text begins with (default: nothing)")
    sample.add_argument("--tokens", type=int, default=200, metavar="N", help="how many to write (default: 200)")
    sample.add_argument("--samples", type=int, default=1, metavar="N", help="how many texts, in one batch (default: 1)")
    sample.add_argument("--temperature", type=float, default=0.8, help="0 is always the likeliest (default: 0.8)")
    sample.add_argument("--top-k", type=int, metavar="K", help="draw among the K likeliest tokens only")
    sample.add_argument("--top-p", type=float, metavar="P", help="draw among the likeliest that hold probability P")
    sample.add_argument("--seed", type=int, default=0, metavar="S", help="the same seed gives the same text")


def _sample(options) -> None:
    from minigpt.generate import sample

    def write(piece: str) -> None:
        print(piece, end="", flush=True)

    names = ("samples", "temperature", "top_k", "top_p", "seed", "device")
    chosen = {name: getattr(options, name) for name in names}
    sample(options.folder, options.prompt, n_tokens=options.tokens, write=write, **chosen)


def _add_finetune(commands) -> None:
    summary = "teach a pre-trained model a task, from labelled examples"
    command = _command(commands, "finetune", _finetune, summary, device=True)
    options = command.add_argument
    options("model", metavar="MODEL", help="a model directory, or the name of a downloaded one")
    options("--task", required=True, metavar="KIND", help="classification, entailment, similarity, choice; a data set: "
            "sst2, cola, rte, stsb, storycloze, nsmc, question_pair; with --train stories:N one of the story world: "
            "acceptability, sentiment, entailment, similarity, endings, pronouns")  # fmt: skip
    options("--train", required=True, metavar="FILE", help="labelled examples: .tsv, .csv, .jsonl; or stories:N")
    options("--valid", metavar="FILE", help="chooses the best epoch (default: a tenth of --train; of stories, others)")
    options("--test", metavar="FILE", help="judged once, at the end")
    options("--columns", metavar="ROLE=NAME,...", help="where columns are called otherwise: text=document,label=stars")
    options("--out", metavar="DIR", help="folder for the model (default: runs/MODEL-KIND)")
    options("--lm-weight", type=float, metavar="W", help="of the auxiliary language-model loss (default: 0.5)")
    options("--epochs", type=int, metavar="N", help="default: 3")
    options("--batch", type=int, metavar="B", help="examples in an update (default: 32)")
    options("--lr", type=float, metavar="RATE", help="highest learning rate (default: 0.048 / width)")
    options("--warmup", type=float, metavar="SHARE", help="of the updates (default: 0.002)")
    options("--dropout", type=float, metavar="P", help="in the body (default: as it was pre-trained)")
    options("--head-dropout", type=float, metavar="P", help="before the head (default: 0.1)")
    options("--weight-decay", type=float, metavar="W", help="default: 0.01")
    options("--clip", type=float, metavar="NORM", help="longest gradient; 0 is no clipping (default: 1)")
    options("--transfer", type=int, metavar="K", help="take over only the embeddings and K layers; -1: nothing at all")
    options("--seed", type=int, metavar="S", help="of new weights, order and dropout (default: 0)")
    options("--seeds", type=int, metavar="N", help="fine-tune N times, with seeds from S on (default: 1)")


def _finetune(options) -> None:
    from minigpt.finetune import Options, finetune

    names = {field.name for field in dataclasses.fields(Options)}
    given = {name: value for name, value in vars(options).items() if name in names and value is not None}
    finetune(Options(**given | {"columns": _columns(options.columns)}))


def _columns(given: str | None) -> dict[str, str]:
    pairs = [part.partition("=") for part in given.split(",")] if given else []
    if any(not role or not name for role, _, name in pairs):
        raise InputError(f"--columns {given}: give pairs such as text=document,label=stars")
    return {role.strip(): name.strip() for role, _, name in pairs}


def _add_predict(commands) -> None:
    predict = _command(commands, "predict", _predict, "answer examples with a fine-tuned model", device=True)
    predict.add_argument("folder", metavar="MODEL", help="what minigpt finetune wrote")
    predict.add_argument("file", metavar="FILE", help="examples; their answers are not needed")
    predict.add_argument("--task", dest="layout", metavar="KIND", help="how the file is laid out, as for finetune")
    predict.add_argument("--columns", metavar="ROLE=NAME,...", help="as for finetune")
    predict.add_argument("--out", metavar="FILE", help="write the answers here instead")


def _predict(options) -> None:
    from minigpt.finetune import predict

    chosen = {name: getattr(options, name) for name in ("layout", "out", "device")}
    predict(options.folder, options.file, columns=_columns(options.columns), **chosen)


def _add_eval(commands) -> None:
    tasks = ("perplexity", "lambada", "winograd", "choice", "sentiment", "summarise", "translate", "answer")
    command = _command(commands, "eval", _eval, "try a task that the model was not trained for", device=True)
    options = command.add_argument
    options("folder", metavar="MODEL", help="a model directory")
    options("task", metavar="TASK", choices=tasks, help=", ".join(tasks))
    options("file", metavar="FILE", help="a text (perplexity), wsc273.txt (winograd), JSON Lines (the others)")
    options("--context", type=int, metavar="T", help="tokens in a window of perplexity (default: all positions)")
    options("--stride", type=int, metavar="S", help="tokens from window to window (default: the context)")
    kinds = ("none", "wikitext", "ptb", "lambada")
    options("--detokenize", choices=kinds, help="undo how a benchmark splits words (default: none)")
    options("--limit", type=int, metavar="N", help="only the first N items")
    options("--shots", type=int, metavar="K", help="show the first K items as examples (default: 0)")
    options("--seed", type=int, metavar="S", help="of what is drawn (default: 0)")
    options("--json", dest="json_file", metavar="FILE", help="write the results here too")


def _eval(options) -> None:
    from minigpt.zeroshot import evaluate

    given = {name: value for name, value in vars(options).items() if value is not None}
    evaluate(**{name: value for name, value in given.items() if name not in ("command", "run", "threads")})


def _add_tokenizer(commands) -> None:
    summary = "train a vocabulary, or use one"
    actions = commands.add_parser("tokenizer", help=summary, description=summary).add_subparsers(
        dest="action", required=True, metavar="ACTION"
    )
    train = _command(actions, "train", _tokenizer_train, "learn a vocabulary from a text")
    kinds = "words in lower case (gpt1, default), bytes (gpt2), or characters"
    train.add_argument("--kind", choices=("gpt1", "gpt2", "char"), default="gpt1", help=kinds)
    train.add_argument("--data", default="stories", metavar="WHAT", help="as for minigpt train")
    train.add_argument("--vocab", type=int, metavar="N", help="size of the vocabulary (default: 4096; not with char)")
    train.add_argument("--out", required=True, metavar="DIR", help="folder for the vocabulary")
    for name, run, what in (
        ("encode", _tokenizer_encode, "from text to token ids"),
        ("decode", _tokenizer_decode, "from token ids to text"),
        ("list", _tokenizer_list, "print every token, what it was merged from, and its id"),
    ):
        command = _command(actions, name, run, what)
        command.add_argument("folder", metavar="DIR", help="a tokenizer's or a model's folder")
        if name != "list":
            command.add_argument("text", nargs="*", help="default: standard input")
        if name == "encode":
            command.add_argument("--special", action="store_true", help="<|endoftext|> is that token, not plain text")


def _tokenizer_train(options) -> None:
    from minigpt import data, tokenizer

    if any((Path(options.out) / name).exists() for name in ("vocab.json", "tokenizer.json")):
        raise InputError(f"{options.out} already holds a vocabulary: give another --out")
    if options.kind == "char" and options.vocab is not None:
        raise InputError(f"--vocab {options.vocab}: --kind char has a token for each character, so leave --vocab out")
    size = [] if options.kind == "char" else [4096 if options.vocab is None else options.vocab]
    trained = tokenizer.KINDS[options.kind].train(data.load(options.data).pieces("train"), *size)
    trained.save(options.out)
    print(f"{trained.vocab_size} tokens: {options.out}")


def _tokenizer_encode(options) -> None:
    from minigpt import hub, tokenizer

    text = tokenizer.load(hub.find(options.folder))
    if options.special and not text.special:
        raise InputError(f"--special: the vocabulary in {options.folder} has no special tokens")
    print(*text.encode(_input(options.text), **({"allowed_special": "all"} if options.special else {})))


def _tokenizer_decode(options) -> None:
    from minigpt import hub, tokenizer

    words = _input(options.text).split()
    wrong = next((word for word in words if not word.isdecimal()), None)
    if wrong:
        raise InputError(f"{wrong!r} is not a token id: give whole numbers")
    print(tokenizer.load(hub.find(options.folder)).decode([int(word) for word in words]))


def _tokenizer_list(options) -> None:
    from minigpt import hub, tokenizer

    for line in tokenizer.load(hub.find(options.folder)).listing():
        print(line)


def _input(words: list[str]) -> str:
    return " ".join(words) if words else sys.stdin.read().removesuffix("\n")


def _add_download(commands) -> None:
    download = _command(commands, "download", _download, "fetch a published model")
    download.add_argument("name", metavar="NAME", help="gpt1, gpt2, gpt2-medium, gpt2-large or gpt2-xl")
    download.add_argument("--out", metavar="DIR", help="default: NAME in MINIGPT_CACHE, or in ~/.cache/minigpt")
    download.add_argument("--from", dest="source", metavar="URL", help="fetch the files from here, such as a mirror")


def _download(options) -> None:
    from minigpt import hub

    print(hub.download(options.name, options.out, options.source))


def _add_info(commands) -> None:
    info = _command(commands, "info", _info, "show every tensor of a model, and what it costs")
    info.add_argument("folder", nargs="?", metavar="MODEL", help="a model directory; or name a size:")
    info.add_argument("--model", choices=("gpt1", "gpt2", "lstm"), default="gpt1")
    info.add_argument("--size", metavar="NAME", help="nano, mini; paper (default); gpt2: small (default) to xl")
    info.add_argument("--batch", type=int, default=1, metavar="B", help="for the bytes of activations (default: 1)")


def _info(options) -> None:
    from minigpt import info

    if options.folder:
        info.show_folder(options.folder, options.batch)
    else:
        info.show_size(options.model, options.size, options.batch)


def _add_check(commands) -> None:
    check = _command(commands, "check", _check, "check every gradient; or judge a file of your own")
    check.add_argument("file", nargs="?", metavar="FILE", help="a Python file with pairs such as layernorm_forward")
    check.add_argument("--seed", type=int, default=0, metavar="S")


def _check(options) -> int:
    from minigpt import check

    return 0 if check.run(options.file, seed=options.seed) else 1


if __name__ == "__main__":
    sys.exit(main())
