"""Byte-pair encoding against `tokenizers` and `tiktoken`, both written in Rust: learning a vocabulary, and encoding.

    MINIGPT_EVAL_DATA=folder python benchmarks/bpe.py        # about 6 minutes
    python benchmarks/bpe.py --text book.txt --vocabulary folder_of_gpt2 --only encode

Pairs are interleaved, ours and theirs in turn, after one of each that does not count; a ratio is our time / their time.
Training is from a file's text in memory here, and from the file there, which is the fastest way it has; `tokenizers`
takes every core, and in rows that say so one core; we take one. Encoders start cold: a fresh one for each run, as
opposed to "again". Long runs of one kind of character (`--only runs`, about a minute) are timed alone.
"""

import argparse
import os
import random
import statistics
import tempfile
import time
from collections import Counter
from functools import partial
from pathlib import Path

import machine

from minigpt import load_tokenizer
from minigpt.tokenizer import GPT1Tokenizer, GPT2Tokenizer, bpe, gpt2
from minigpt.tokenizer.words import words_of

VOCABULARY = 50_257
MERGES = (1_000, 5_000, 10_000, 20_000, 30_000, 40_000, 50_000)
COLUMNS = ("seconds", "MB/s", "theirs", "ratio", "from", "to", "pairs")


def seconds(function, *arguments) -> float:
    """How long a call takes, by the clock."""
    started = time.perf_counter()
    function(*arguments)
    return time.perf_counter() - started


def cpu_seconds(function, *arguments) -> float:
    """How long a call takes of the processor's time, whatever else the machine does meanwhile."""
    started = time.process_time()
    function(*arguments)
    return time.process_time() - started


def against(ours, theirs, pairs: int, megabytes: float) -> dict:
    """Medians of our seconds, their seconds and the ratio, with its range. Calling `ours` makes what is then timed."""
    times = [(seconds(ours()), seconds(theirs())) for _ in range(pairs + 1)][1:]
    ratios = [a / b for a, b in times]
    mine, other = (statistics.median(column) for column in zip(*times, strict=True))
    row = {"seconds": mine, "MB/s": megabytes / mine, "theirs": other, "ratio": statistics.median(ratios)}
    return row | {"from": min(ratios), "to": max(ratios), "pairs": pairs}


def library_trainer(path: Path, min_frequency: int):
    """A function that learns the same vocabulary with the `tokenizers` library."""
    import tokenizers

    library = tokenizers.Tokenizer(tokenizers.models.BPE())
    library.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=VOCABULARY, min_frequency=min_frequency, show_progress=False, special_tokens=[gpt2.END_OF_TEXT],
        initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet(),
    )
    return partial(library.train, [str(path)], trainer)


def training(path: Path, pairs: int) -> dict:
    """Against the library; and how the time grows with bytes and with merges."""
    text, megabytes = path.read_text(encoding="utf-8"), path.stat().st_size / 1e6
    rows = {}
    for least, note in ((1, "every pair"), (2, "pairs seen twice")):
        learn = partial(GPT2Tokenizer.train, text, VOCABULARY, min_frequency=least, progress=False)
        ours, theirs = partial(partial, learn), partial(library_trainer, path, least)
        rows[f"train {VOCABULARY}, {note}, tokenizers"] = against(ours, theirs, pairs, megabytes)
    rows |= one_core_and_50_mb(text, pairs)
    for part, copies in ((0.1, 1), (0.3, 1), (1, 1), (1, 2), (1, 5)):
        sample = copied(text[: int(part * len(text))], copies)
        size = len(sample.encode("utf-8")) / 1e6
        taken = seconds(partial(GPT2Tokenizer.train, sample, VOCABULARY, min_frequency=1, progress=False))
        rows[f"train {VOCABULARY}, {size:.3g} MB"] = {"seconds": taken, "MB/s": size / taken}
    words = {gpt2.spell(word): n for word, n in Counter(words_of(text)).items()}
    options = {"min_frequency": 1, "ties": "tokenizers", "suffix": "", "alphabet": list(gpt2.BYTE_OF)}
    started = time.perf_counter()
    for k, _ in enumerate(bpe.learn(words, **options), start=1):
        if k in MERGES:
            rows[f"the first {k} merges, words counted"] = {"seconds": time.perf_counter() - started}
        if k == MERGES[-1]:
            break
    return rows


def one_core_and_50_mb(text: str, pairs: int) -> dict:
    """Against the library with one core, and with a text of five times the size, its own letters moved on."""
    rows = {}
    with tempfile.TemporaryDirectory() as folder:
        for copies in (1, 5):
            path = Path(folder) / f"{copies}.txt"
            path.write_text(copied(text, copies), encoding="utf-8")
            megabytes = path.stat().st_size / 1e6
            learn = partial(
                GPT2Tokenizer.train, path.read_text(encoding="utf-8"), VOCABULARY, min_frequency=1, progress=False
            )
            for parallel, cores in (("true", "all cores"), ("false", "one core")):
                if copies == 1 and parallel == "true":
                    continue  # it stands above
                os.environ["TOKENIZERS_PARALLELISM"] = parallel
                name = f"train {VOCABULARY}, {megabytes:.3g} MB, every pair, tokenizers on {cores}"
                theirs = partial(library_trainer, path, 1)
                rows[name] = against(partial(partial, learn), theirs, min(pairs, 3), megabytes)
    del os.environ["TOKENIZERS_PARALLELISM"]
    return rows


def copied(text: str, copies: int) -> str:
    """The text, and further ones of the same size and statistics."""
    return "".join(shifted(text, k) for k in range(copies))


def shifted(text: str, places: int) -> str:
    """Another text of the same size and statistics: its letters moved on in the alphabet."""
    letters = "abcdefghijklmnopqrstuvwxyz"
    moved = letters[places:] + letters[:places]
    return text.translate(str.maketrans(letters + letters.upper(), moved + moved.upper()))


def runs(n_bytes: int) -> dict[str, str]:
    """Texts of one long run each, of about this many bytes in UTF-8: most are one word, or a few."""
    rng = random.Random(0)
    return {
        "one letter": "a" * n_bytes,
        "random letters": "".join(rng.choices("abcdefghijklmnopqrstuvwxyz", k=n_bytes)),
        "digits": "".join(rng.choices("0123456789", k=n_bytes)),
        "CJK": "".join(map(chr, rng.choices(range(0x4E00, 0xA000), k=n_bytes // 3))),
        "spaces": " " * n_bytes,
        "line ends": "\n" * n_bytes,
        "DNA": "".join(rng.choices("ACGT", k=n_bytes)),
        "one mark": ":" * n_bytes,
    }


def long_runs(folders: dict[str, Path]) -> dict:
    """100 KB and 1 MB of one kind of character: encoded with released vocabularies; 100 KB as a text to learn from."""
    rows = {}
    for name, folder in folders.items():
        if not folder.is_dir():
            print(f"left out: there is no {folder}")
            continue
        tokenizer = load_tokenizer(folder)
        if isinstance(tokenizer, GPT1Tokenizer):  # with spaCy the time of a run of marks grows with its square
            tokenizer = GPT1Tokenizer(tokenizer.tokens, tokenizer.merges, pipeline="rules")
        for size, n_bytes in (("100 KB", 100_000), ("1 MB", 1_000_000)):
            for kind, text in runs(n_bytes).items():
                taken = cpu_seconds(tokenizer.encode, text)
                rows[f"encode with {name}, {size}, {kind}"] = {"seconds": taken, "MB/s": n_bytes / 1e6 / taken}
    for kind, text in runs(100_000).items():
        taken = cpu_seconds(partial(GPT2Tokenizer.train, text, 10_000, progress=False))
        rows[f"train 10000, 100 KB, {kind}"] = {"seconds": taken, "MB/s": 0.1 / taken}
    return rows


def encoding(path: Path, folder: Path, pairs: int) -> dict:
    """GPT-2's vocabulary, cold and again, against both libraries; every id compared."""
    import tiktoken
    import tokenizers

    text, megabytes = path.read_text(encoding="utf-8"), path.stat().st_size / 1e6
    published = load_tokenizer(folder)
    ranks = {published._bytes[i]: i for i in range(published.vocab_size - 1)}
    rust = tiktoken.Encoding("gpt2", pat_str=gpt2.WORD.pattern, mergeable_ranks=ranks, special_tokens={})
    ids = {token: i for token, i in published.ids.items() if token != gpt2.END_OF_TEXT}

    def library():
        made = tokenizers.Tokenizer(tokenizers.models.BPE(vocab=ids, merges=published.merges))
        made.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
        return made

    if not published.encode(text) == rust.encode_ordinary(text) == library().encode(text).ids:
        raise SystemExit("the three do not give the same ids")

    def cold():
        return partial(GPT2Tokenizer(published.tokens, published.merges).encode, text)

    def again():
        return partial(published.encode, text)

    def tiktoken_s():
        return partial(rust.encode_ordinary, text)

    def tokenizers_s():
        return partial(library().encode, text)

    return {
        "encode cold, tiktoken": against(cold, tiktoken_s, pairs, megabytes),
        "encode again, tiktoken": against(again, tiktoken_s, pairs, megabytes),
        "encode cold, tokenizers": against(cold, tokenizers_s, min(pairs, 3), megabytes),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    data = Path(os.environ.get("MINIGPT_EVAL_DATA", "."))
    parser.add_argument("--text", type=Path, default=data / "prose" / "prose_10MB.txt", metavar="FILE")
    parser.add_argument("--vocabulary", type=Path, default=data / "gpt2_vocab", metavar="FOLDER")
    parser.add_argument("--only", choices=("train", "encode", "runs"))
    parser.add_argument("--gpt1-vocabulary", type=Path, default=data / "gpt1_vocab", metavar="FOLDER")
    parser.add_argument("--pairs", type=int, default=7)
    options = parser.parse_args()
    rows = {}
    if options.only in (None, "encode"):
        rows |= encoding(options.text, options.vocabulary, options.pairs)
    if options.only in (None, "train"):
        rows |= training(options.text, options.pairs)
    if options.only in (None, "runs"):
        rows |= long_runs({"gpt2": options.vocabulary, "gpt1": options.gpt1_vocabulary})
    print(machine.table(rows, COLUMNS))
    machine.save("bpe", rows, threads=1)


if __name__ == "__main__":
    main()
