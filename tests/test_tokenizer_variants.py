"""Tokenizers as `tokenizers` and `transformers` write them: each gives the library's ids here, or is refused by name.

A variant is made by the library itself; what it gives for a hundred texts in many scripts is compared.
"""

import json
from pathlib import Path

import pytest

from minigpt.errors import InputError
from minigpt.tokenizer import PieceTokenizer, load
from minigpt.tokenizer.gpt2 import END_OF_TEXT

pytestmark = pytest.mark.parity

SENTENCES = (
    "Hello world, it's 1998 already!", "  two  spaces\tand\ttabs \n\n lines ",
    "ÉTÉ naïve coöperate ﬁne", "고양이는 자고 있다.",
    "猫は寝ている。", "他说：“你好”", "Кошка спит", "Η γάτα κοιμάται ΣΟΦΟΣ", "القطة نائمة", "החתול ישן", "แมวกำลังหลับ",
    "बिल्ली सो रही है", "naïve e\u0301 한글 \u1112\u1161\u11ab", "😀👩‍👩‍👧 ½ ² №",
    "a_b-c/d\\e 3.14 10,000 x=y", "don't WE'LL I'VE",
    "\u00a0\u2003\u3000x", "<s> [MASK] </s>", "newword is new", "x" * 40, "", " ", "\n", "0123456789",
)  # fmt: skip
TEXTS = [
    *SENTENCES,
    *(sentence.upper() for sentence in SENTENCES),
    *(" " + sentence for sentence in SENTENCES),
    *(sentence + "\n" + other for sentence, other in zip(SENTENCES, reversed(SENTENCES), strict=True)),
    *(sentence[::-1] for sentence in SENTENCES),
]


def byte_level(*, sequence=False, limited=False, **settings):
    """The library's tokenizer with a byte-level vocabulary learnt from the texts; settings of its pre-tokenizer."""
    import tokenizers

    made = tokenizers.Tokenizer(tokenizers.models.BPE())
    splitter = tokenizers.pre_tokenizers.ByteLevel(**{"add_prefix_space": False} | settings)
    made.pre_tokenizer = tokenizers.pre_tokenizers.Sequence([splitter]) if sequence else splitter
    made.decoder = tokenizers.decoders.ByteLevel()
    alphabet = [] if limited else tokenizers.pre_tokenizers.ByteLevel.alphabet()
    options = {"special_tokens": [END_OF_TEXT], "initial_alphabet": alphabet, "show_progress": False}
    if limited:
        options["limit_alphabet"] = 60
    trainer = tokenizers.trainers.BpeTrainer(vocab_size=420, max_token_length=12, **options)
    made.train_from_iterator(SENTENCES * 3, trainer)
    return made


def plain(folder: Path) -> None:
    byte_level().save(str(folder / "tokenizer.json"))


def with_prefix_space(folder: Path) -> None:
    byte_level(add_prefix_space=True).save(str(folder / "tokenizer.json"))


def without_regex(folder: Path) -> None:
    byte_level(use_regex=False).save(str(folder / "tokenizer.json"))


def with_offsets(folder: Path) -> None:
    byte_level(trim_offsets=False).save(str(folder / "tokenizer.json"))


def sequence_of_one(folder: Path) -> None:
    byte_level(sequence=True).save(str(folder / "tokenizer.json"))


def with_few_bytes(folder: Path) -> None:
    byte_level(limited=True).save(str(folder / "tokenizer.json"))


def wrapped(folder: Path) -> None:
    import transformers

    transformers.PreTrainedTokenizerFast(tokenizer_object=byte_level(), eos_token=END_OF_TEXT).save_pretrained(folder)


def gpt2_of_transformers(folder: Path, **settings):
    """The class of transformers for GPT-2, saved."""
    import transformers

    made = byte_level()
    vocabulary = made.get_vocab()
    merges = [tuple(pair) for pair in json.loads(made.to_str())["model"]["merges"]]
    opened = transformers.GPT2Tokenizer(vocab=vocabulary, merges=merges, **settings)
    opened.save_pretrained(folder)
    return opened


def gpt2_with_prefix_space(folder: Path) -> None:
    gpt2_of_transformers(folder, add_prefix_space=True)


def with_more_special_tokens(folder: Path) -> None:
    opened = gpt2_of_transformers(folder)
    opened.add_special_tokens({"pad_token": "<|pad|>", "additional_special_tokens": ["<|user|>", "<|model|>"]})
    opened.save_pretrained(folder)


def with_new_words(folder: Path) -> None:
    opened = gpt2_of_transformers(folder)
    opened.add_tokens(["newword"])
    opened.save_pretrained(folder)


def with_a_mask_that_takes_the_space(folder: Path) -> None:
    import tokenizers

    opened = gpt2_of_transformers(folder)
    opened.add_special_tokens({"mask_token": tokenizers.AddedToken("<mask>", lstrip=True)})
    opened.save_pretrained(folder)


def byte_level_class(folder: Path, **settings):
    """`ByteLevelBPETokenizer`, which has its own defaults."""
    import tokenizers

    made = tokenizers.ByteLevelBPETokenizer(**settings)
    special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    made.train_from_iterator(SENTENCES * 3, vocab_size=400, special_tokens=special, show_progress=False)
    made.save(str(folder / "tokenizer.json"))
    return made


def byte_level_class_with_prefix(folder: Path) -> None:
    byte_level_class(folder, add_prefix_space=True)


def byte_level_class_with_lower_case(folder: Path) -> None:
    byte_level_class(folder, lowercase=True)


def byte_level_class_with_nfkc(folder: Path) -> None:
    byte_level_class(folder, unicode_normalizer="nfkc")


def two_files(folder: Path) -> None:
    byte_level_class(folder).save_model(str(folder))
    (folder / "tokenizer.json").unlink()


def all_files(folder: Path) -> None:
    byte_level_class(folder).save_model(str(folder))


def files_of_older_versions(folder: Path) -> None:
    """Vocabulary, merges, `added_tokens.json` and `special_tokens_map.json`, as transformers wrote up to version 4."""
    two_files(folder)
    size = len(json.loads((folder / "vocab.json").read_text(encoding="utf-8")))
    write(folder / "added_tokens.json", {"<|user|>": size, "<|model|>": size + 1})
    names = {"eos_token": {"content": "</s>", "lstrip": False}, "additional_special_tokens": ["<|user|>", "<|model|>"]}
    write(folder / "special_tokens_map.json", names)
    write(folder / "tokenizer_config.json", {"tokenizer_class": "GPT2Tokenizer", "errors": "replace"})


def new_words_of_older_versions(folder: Path) -> None:
    files_of_older_versions(folder)
    (folder / "special_tokens_map.json").unlink()


def class_for_characters(folder: Path) -> None:
    import tokenizers

    made = tokenizers.CharBPETokenizer()
    made.train_from_iterator(SENTENCES * 3, vocab_size=400, show_progress=False)
    made.save(str(folder / "tokenizer.json"))


def write(path: Path, value: dict) -> None:
    path.write_text(json.dumps(value), encoding="utf-8")


def changed(change) -> object:
    """A variant: the library's tokenizer after `change(tokenizer, the library)`, saved."""

    def make(folder: Path) -> None:
        import tokenizers

        made = byte_level()
        change(made, tokenizers)
        made.save(str(folder / "tokenizer.json"))

    return make


def normalizer(*names: str):
    def change(made, library):
        steps = [getattr(library.normalizers, name)() for name in names]
        made.normalizer = steps[0] if len(steps) == 1 else library.normalizers.Sequence(steps)

    return changed(change)


def splitter(make):
    def change(made, library):
        made.pre_tokenizer = make(library.pre_tokenizers)

    return changed(change)


def post_processor(make):
    def change(made, library):
        made.post_processor = make(library.processors)

    return changed(change)


def option(name: str, value):
    """A variant whose file says this of the model; the library opens it."""

    def make(folder: Path) -> None:
        saved = json.loads(byte_level().to_str())
        saved["model"][name] = value
        write(folder / "tokenizer.json", saved)

    return make


def setting(name: str, value):
    """A variant whose tokenizer_config.json says this."""

    def make(folder: Path) -> None:
        gpt2_of_transformers(folder)
        config = json.loads((folder / "tokenizer_config.json").read_text(encoding="utf-8"))
        write(folder / "tokenizer_config.json", config | {name: value})

    return make


def other_model(name: str, **unknown: str):
    """A tokenizer.json with another model. unknown: the token for what has none, as its trainer takes it."""

    def make(folder: Path) -> None:
        import tokenizers

        made = tokenizers.Tokenizer(getattr(tokenizers.models, name)())
        made.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
        kind = {"Unigram": "UnigramTrainer", "WordPiece": "WordPieceTrainer", "WordLevel": "WordLevelTrainer"}[name]
        trainer = getattr(tokenizers.trainers, kind)(
            vocab_size=200, show_progress=False, special_tokens=list(unknown.values()), **unknown
        )
        made.train_from_iterator(SENTENCES * 3, trainer)
        made.save(str(folder / "tokenizer.json"))

    return make


def template(processors):
    return processors.TemplateProcessing(single=f"{END_OF_TEXT} $A", special_tokens=[(END_OF_TEXT, 0)])


def roberta(processors):
    return processors.RobertaProcessing((END_OF_TEXT, 0), (END_OF_TEXT, 0))


def digits_first(pre_tokenizers):
    return pre_tokenizers.Sequence([pre_tokenizers.Digits(), pre_tokenizers.ByteLevel(add_prefix_space=False)])


def other_regex(pre_tokenizers):
    import tokenizers

    words = pre_tokenizers.Split(tokenizers.Regex(r"\p{N}{1,3}|\p{L}+| "), "isolated")
    return pre_tokenizers.Sequence([words, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])


def metaspace(pre_tokenizers):
    return pre_tokenizers.Metaspace()


def bytes_after(processors):
    return processors.ByteLevel(trim_offsets=True)


def cut(made, library):
    made.enable_truncation(8)


def filled(made, library):
    made.enable_padding(length=50)


def other_decoder(made, library):
    made.decoder = library.decoders.WordPiece()


def no_decoder(made, library):
    made.decoder = None


SAME = None
VARIANTS = {  # name: (what writes it, what the message names where it is refused)
    "a byte-level tokenizer.json": (plain, SAME),
    "inside PreTrainedTokenizerFast": (wrapped, SAME),
    "GPT2Tokenizer": (gpt2_of_transformers, SAME),
    "GPT2Tokenizer, add_prefix_space": (gpt2_with_prefix_space, SAME),
    "GPT2Tokenizer, more special tokens": (with_more_special_tokens, SAME),
    "ByteLevel, its default prefix space": (with_prefix_space, SAME),
    "ByteLevel, trim_offsets": (with_offsets, SAME),
    "a Sequence of ByteLevel alone": (sequence_of_one, SAME),
    "ByteLevel as post-processor": (post_processor(bytes_after), SAME),
    "no decoder": (changed(no_decoder), SAME),
    "ByteLevelBPETokenizer": (byte_level_class, SAME),
    "ByteLevelBPETokenizer, prefix space": (byte_level_class_with_prefix, SAME),
    "ByteLevelBPETokenizer.save_model": (two_files, SAME),
    "tokenizer.json beside the two files": (all_files, SAME),
    "added_tokens.json, special": (files_of_older_versions, SAME),
    "an alphabet of few bytes": (with_few_bytes, "the vocabulary lacks"),  # the library leaves characters out
    "added_tokens.json, new words": (new_words_of_older_versions, "added_tokens.json: .*<|user|>"),
    "added words": (with_new_words, SAME),
    "a special token with lstrip": (with_a_mask_that_takes_the_space, SAME),
    "Lowercase": (normalizer("Lowercase"), SAME),
    "NFC": (normalizer("NFC"), SAME),
    "NFD, StripAccents": (normalizer("NFD", "StripAccents"), SAME),
    "ByteLevelBPETokenizer, lowercase": (byte_level_class_with_lower_case, SAME),
    "ByteLevelBPETokenizer, NFKC": (byte_level_class_with_nfkc, SAME),
    "use_regex=False": (without_regex, SAME),
    "Sequence of Digits and ByteLevel": (splitter(digits_first), SAME),
    "Split with another regex": (splitter(other_regex), SAME),
    "Metaspace": (splitter(metaspace), SAME),
    "TemplateProcessing": (post_processor(template), SAME),
    "RobertaProcessing": (post_processor(roberta), SAME),
    "truncation": (changed(cut), SAME),
    "padding": (changed(filled), SAME),
    "another decoder": (changed(other_decoder), SAME),
    "dropout": (option("dropout", 0.1), "dropout is 0.1, which is not built"),
    "ignore_merges": (option("ignore_merges", True), SAME),
    "byte_fallback": (option("byte_fallback", True), SAME),
    "fuse_unk": (option("fuse_unk", True), SAME),
    "continuing_subword_prefix": (option("continuing_subword_prefix", "##"), "_subword_prefix is '##', which is not"),
    "add_bos_token": (setting("add_bos_token", True), "sets add_bos_token"),
    "CharBPETokenizer": (class_for_characters, SAME),
    "Unigram": (other_model("Unigram", unk_token="<unk>"), None),
    "WordPiece without an unknown token": (other_model("WordPiece"), r"the vocabulary lacks '\[UNK\]'"),
    "Unigram without an unknown token": (other_model("Unigram"), "has no piece for what is unknown"),
    "WordLevel": (other_model("WordLevel"), "pre_tokenizer is .*Whitespace"),
}  # fmt: skip


def opened_by_library(folder: Path):
    """A function from text to ids: by transformers where it wrote the folder, by tokenizers else."""
    import tokenizers
    import transformers

    if (folder / "tokenizer_config.json").exists():
        opened = transformers.AutoTokenizer.from_pretrained(folder)
        return lambda text: opened(text)["input_ids"]
    if (folder / "tokenizer.json").exists():
        opened = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
        opened.no_truncation()  # transformers leaves both out when it encodes one text
        opened.no_padding()
    else:
        opened = tokenizers.ByteLevelBPETokenizer(str(folder / "vocab.json"), str(folder / "merges.txt"))
    return lambda text: opened.encode(text).ids


@pytest.mark.parametrize("name", VARIANTS)
def test_a_variant_gives_the_ids_of_the_library_or_is_refused_by_name(name, tmp_path):
    pytest.importorskip("tokenizers")
    pytest.importorskip("transformers")
    make, refusal = VARIANTS[name]
    make(tmp_path)
    if refusal is not None:
        with pytest.raises(InputError, match=refusal) as error:
            ours = load(tmp_path)
            for text in TEXTS:
                ours.encode(text)
        assert "\n" not in str(error.value)
        return
    ours = load(tmp_path)
    theirs = opened_by_library(tmp_path)
    special = " and ".join(["text", *ours.special, "more"])
    for text in [*TEXTS, special]:
        ids = ours.encode(text, allowed_special="all")
        if isinstance(ours, PieceTokenizer):
            ids, _ = ours.wrap(ids)
        assert ids == theirs(text), text
