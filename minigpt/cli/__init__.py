"""The command line: reads options, calls the jobs, and turns a user's mistake into one line and exit status 2."""

import argparse
import dataclasses
import os
import sys

from minigpt import __version__
from minigpt.errors import InputError
from minigpt.files import sections


def main(arguments: list[str] | None = None) -> int:
    """Run a command; returns the exit status.

    0 done, 1 a check failed, 2 a mistake in what was given, 130 Ctrl-C, 141 nobody reads what it prints.
    """
    for name in ("stdin", "stdout", "stderr"):
        if getattr(sys, name) is None:  # closed by whoever called us
            setattr(sys, name, open(os.devnull, "r" if name == "stdin" else "w", encoding="utf-8"))
        elif hasattr(getattr(sys, name), "reconfigure"):  # a Windows console may not know every character
            getattr(sys, name).reconfigure(encoding="utf-8", errors="strict" if name == "stdin" else "replace")
    options = parser().parse_args(arguments)
    try:
        from minigpt.device.gpu import readable_errors
        from minigpt.device.threads import set_threads

        if options.threads is not None:
            set_threads(options.threads)
        from minigpt.device.parallel import processes

        if processes() > 1 and options.command != "train":
            raise InputError(f"minigpt {options.command} runs as one process: only minigpt train shares its work")
        with readable_errors():
            status = options.run(options) or 0
            sys.stdout.flush()
            return status
    except InputError as error:
        print(f"minigpt: {error}", file=sys.stderr)
        return 2
    except BrokenPipeError:  # the reader of our output has gone, as in `minigpt info ... | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except MemoryError as error:
        print(f"minigpt: not enough memory: {error or 'give a smaller model, batch or context'}", file=sys.stderr)
        return 2
    except OSError as error:
        print(f"minigpt: {error.filename or 'a file'}: {error.strerror or error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("\nminigpt: interrupted", file=sys.stderr)
        return 130


WORDS = {  # a word of commands.txt -> what it means to argparse
    "int": {"type": int},
    "float": {"type": float},
    "required": {"required": True},
    "flag": {"action": "store_true"},
    "flag/no": {"action": argparse.BooleanOptionalAction},
    "optional": {"nargs": "?"},
    "several": {"nargs": "*"},
}


class Parser(argparse.ArgumentParser):
    """Says in one line what is wrong."""

    def error(self, message: str):
        self.exit(2, f"minigpt: {message} (see {self.prog} --help)\n")


def parser() -> Parser:
    """The commands and their options, from `commands.txt`."""
    top = Parser(prog="minigpt", description="GPT-1 and GPT-2, every gradient written by hand")
    top.add_argument("--version", action="version", version=f"minigpt {__version__}")
    groups = {"": top.add_subparsers(dest="command", required=True, metavar="COMMAND")}
    commands = sections.read(__file__, "commands.txt")
    shared = commands.pop("every command")
    for heading, arguments in commands.items():
        title, summary = heading.split(": ")
        group, _, name = title.rpartition(" ")
        if not arguments:  # the commands with this word before their names are its actions
            below = groups[""].add_parser(name, help=summary, description=summary)
            groups[name] = below.add_subparsers(dest="action", required=True, metavar="ACTION")
            continue
        description = summary[0].upper() + summary[1:] + "."
        command = groups[group].add_parser(name, help=summary, description=description)
        command.set_defaults(run=RUN[title])
        for line in shared + arguments:
            name, details = _argument(line)
            command.add_argument(name, **details)
    return top


def _argument(line: str) -> tuple[str, dict]:
    """`--tokens N int: how many` -> ("--tokens", {"metavar": "N", "type": int, "help": "how many"})"""
    about, _, text = line.partition(": ")
    name, *words = about.split(" ")
    details = {"help": text or None}
    for word in words:
        key, _, value = word.partition("=")
        if word.startswith("{"):
            details["choices"] = tuple(word[1:-1].split(","))
        elif key in ("default", "dest"):
            details[key] = value
        else:
            details |= WORDS.get(word) or {"metavar": word}
    return name, details


def _given(options, names) -> dict:
    """Those of the options that have one of these names, and that somebody has given."""
    return {name: value for name, value in vars(options).items() if name in names and value is not None}


def _train(options) -> int:
    from minigpt.device.parallel import started
    from minigpt.jobs.pretrain import PretrainOptions, train

    given = _given(options, {field.name for field in dataclasses.fields(PretrainOptions)})
    if options.resume:
        if "out" not in given:
            raise InputError("--resume goes on with the run in a folder: name it with --out")
        extra = sorted(set(given) - {"out", "device", "checkpoint_blocks", "data"})
        if extra:
            raise InputError(f"--resume goes on with the run's own options: leave out --{extra[0].replace('_', '-')}")
    with started(options.threads) as ranks:
        job = train(PretrainOptions(**given), resume=options.resume, ranks=ranks)
    return 0 if job.step == job.options.steps else 130


def _sample(options) -> None:
    from minigpt.jobs.sample import sample

    def write(piece: str) -> None:
        print(piece, end="", flush=True)

    chosen = _given(options, ("samples", "temperature", "top_k", "top_p", "seed", "device"))
    sample(options.folder, options.prompt, n_tokens=options.tokens, write=write, **chosen)


def _finetune(options) -> None:
    from minigpt.jobs.finetune import FinetuneOptions, finetune

    given = _given(options, {field.name for field in dataclasses.fields(FinetuneOptions)})
    finetune(FinetuneOptions(**given | {"columns": _columns(options.columns)}))


def _columns(given: str | None) -> dict[str, str]:
    pairs = [part.partition("=") for part in given.split(",")] if given else []
    if any(not role or not name for role, _, name in pairs):
        raise InputError(f"--columns {given}: give pairs such as text=document,label=stars")
    return {role.strip(): name.strip() for role, _, name in pairs}


def _predict(options) -> None:
    from minigpt.jobs.finetune import predict

    chosen = _given(options, ("layout", "out", "device"))
    predict(options.folder, options.file, columns=_columns(options.columns), **chosen)


def _eval(options) -> None:
    from minigpt.jobs.evaluate import evaluate

    evaluate(**_given(options, vars(options).keys() - {"command", "run", "threads"}))


def _tokenizer_train(options) -> None:
    from minigpt import data, tokenizer
    from minigpt.jobs.run import Run

    Run.start(options.out, instead="")
    if options.kind == "char" and options.vocab is not None:
        raise InputError(f"--vocab {options.vocab}: --kind char has a token for each character, so leave --vocab out")
    size = [] if options.kind == "char" else [4096 if options.vocab is None else options.vocab]
    corpus, parts = data.load(options.data), ("train", "valid")[: 2 - len(size)]  # characters are taken from all of it
    trained = tokenizer.KINDS[options.kind].train((text for part in parts for text in corpus.pieces(part)), *size)
    trained.save(options.out)
    print(f"{trained.vocab_size} tokens: {options.out}")


def _tokenizer_encode(options) -> None:
    from minigpt import tokenizer
    from minigpt.files import hub

    text = tokenizer.load(hub.find(options.folder))
    if options.special and not text.special:
        raise InputError(f"--special: the vocabulary in {options.folder} has no special tokens")
    print(*text.encode(_input(options.text), **({"allowed_special": "all"} if options.special else {})))


def _tokenizer_decode(options) -> None:
    from minigpt import tokenizer
    from minigpt.files import hub

    words = _input(options.text).split()
    wrong = next((word for word in words if not word.isdecimal() or len(word) > 9), None)
    if wrong:
        raise InputError(f"{wrong!r} is not a token id: give whole numbers")
    print(tokenizer.load(hub.find(options.folder)).decode([int(word) for word in words]))


def _tokenizer_list(options) -> None:
    from minigpt import tokenizer
    from minigpt.files import hub

    print(*tokenizer.load(hub.find(options.folder)).listing(), sep="\n")


def _input(words: list[str]) -> str:
    try:
        return " ".join(words) if words else sys.stdin.read().removesuffix("\n")
    except UnicodeDecodeError as error:
        raise InputError(f"what comes on standard input is not UTF-8: {error}") from error


def _download(options) -> None:
    from minigpt.files import hub

    print(hub.download(options.name, options.out, options.source))


def _info(options) -> None:
    from minigpt.jobs import info

    if options.folder and (options.model or options.size):
        raise InputError(f"info {options.folder}: the folder says what its model is: leave --model and --size out")
    if options.folder:
        info.show_folder(options.folder, options.batch)
    else:
        info.show_size(options.model or "gpt1", options.size, options.batch)


def _stories(options) -> None:
    from minigpt.data.stories import show

    if options.n < 1:
        raise InputError(f"--n {options.n}: give 1 or more")
    if options.task:
        show.show_examples(options.task, options.n, options.split, options.seed, options.variety)
    else:
        show.show(options.n, options.seed, options.first, options.variety, options.events)


def _check(options) -> int:
    from minigpt.jobs import check

    return 0 if check.run(options.file, seed=options.seed) else 1


RUN = {
    "train": _train, "sample": _sample, "finetune": _finetune, "predict": _predict, "eval": _eval,
    "tokenizer train": _tokenizer_train, "tokenizer encode": _tokenizer_encode, "tokenizer decode": _tokenizer_decode,
    "tokenizer list": _tokenizer_list, "download": _download, "info": _info, "check": _check,
    "stories": _stories,
}

if __name__ == "__main__":
    sys.exit(main())
