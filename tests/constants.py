"""The constants of the package that tests make small: the sizes of pieces and tiles, limits, and how much is kept.

Each has a short name here, so that a test names what it changes and not the file that holds it: where a constant moves
to another file, one line of PLACES changes.
"""

import importlib

PLACES = {
    # the fast operations: rows, columns and numbers in a piece
    "fast_piece": "minigpt.ops.fast.pieces.PIECE",
    "fast_few": "minigpt.ops.fast.pieces.FEW",
    "fast_rows": "minigpt.ops.fast.pieces.ROWS",
    "fast_columns": "minigpt.ops.fast.pieces.COLUMNS",
    "fast_tall": "minigpt.ops.fast.pieces.TALL",
    "fast_tile": "minigpt.ops.fast.attention.TILE",
    "fast_safe_score": "minigpt.ops.fast.attention.SAFE",
    "fast_logits": "minigpt.ops.fast.linear_cross_entropy.LOGITS",
    "fast_words": "minigpt.ops.fast.linear_cross_entropy.WORDS",
    "fast_adam_piece": "minigpt.ops.fast.adam.PIECE",
    "large_array": "minigpt.device.memory.LARGE",
    "large_embedding": "minigpt.ops.fast.embedding.LARGE",
    "shared_work": "minigpt.device.threads.SHARED",
    # the CUDA kernels
    "cuda_warps": "minigpt.ops.cuda.kernels.WARPS",
    "cuda_stripes": "minigpt.ops.cuda.kernels.STRIPES",
    "cuda_logits": "minigpt.ops.cuda.cross_entropy.LOGITS",
    "cuda_side": "minigpt.ops.cuda.attention.SIDE",
    "cuda_each": "minigpt.ops.cuda.attention.EACH",
    "cuda_past_threads": "minigpt.ops.cuda.attention_past.THREADS",
    "cuda_past_keys": "minigpt.ops.cuda.attention_past.KEYS",
    "cuda_segment": "minigpt.ops.cuda.embedding.SEGMENT",
    "cuda_tile": "minigpt.ops.cuda.embedding.TILE",
    "cuda_small_product": "minigpt.ops.cuda.algorithms.SMALL",
    "cuda_adam_chunk": "minigpt.ops.cuda.adam.CHUNK",
    # everything else
    "plateau_updates": "minigpt.jobs.pretrain.plateau.LEAST",
    "counted_tokens": "minigpt.jobs.pretrain.plateau.PIECE",
    "recorded_tokens": "minigpt.models.decoding.LEAST",
    "read_at_once": "minigpt.jobs.conversation.PIECE",
    "recorded_operations": "minigpt.jobs.pretrain.step.SMALL",
    "gradient_bucket": "minigpt.device.parallel.BUCKET",
    "large_file": "minigpt.data.corpus.LARGE",
    "json_piece": "minigpt.files.json_items.PIECE",
    "json_longest": "minigpt.files.json_items.LONGEST",
    "file_piece": "minigpt.data.corpus.PIECE",
    "story_attempts": "minigpt.data.stories.tasks.PATIENCE",
    "scored_tokens": "minigpt.evaluation.scoring.BATCH",
    "scored_logits": "minigpt.evaluation.scoring.LOGITS",
    "stretch_of_text": "minigpt.tokenizer.words.STRETCH",
    "short_text": "minigpt.tokenizer.words.SHORT",
    "few_words": "minigpt.tokenizer.gpt2.FEW_WORDS",
    "remembered_words": "minigpt.tokenizer.base.MAX_REMEMBERED",
}


def home(name: str) -> tuple[object, str]:
    """The module of a constant, and the constant's name there."""
    module, _, attribute = PLACES[name].rpartition(".")
    return importlib.import_module(module), attribute


def value(name: str) -> float:
    """The constant as it is now."""
    return getattr(*home(name))


class Constants:
    """Sets constants for the length of one test: `constants.set(fast_tile=2, fast_piece=6)`."""

    def __init__(self, monkeypatch):
        self.monkeypatch = monkeypatch

    def set(self, **values: float) -> None:
        """Give each constant its value until the test ends."""
        for name, number in values.items():
            self.monkeypatch.setattr(*home(name), number)
