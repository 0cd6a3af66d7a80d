"""The configuration of DeBERTa: its own, and those that files of versions 1, 2 and 3 have."""

from dataclasses import dataclass
from typing import Any, ClassVar, Self

from minigpt.errors import InputError, check_whole, shown
from minigpt.models.config_file import ONLY
from minigpt.models.family.bert import BERTConfig
from minigpt.models.family.deberta_blocks import C2P, P2C
from minigpt.models.family.deberta_files import LAYOUT, NOT_IN_V1, V1
from minigpt.models.family.forms import Layout

NORM = "layer_norm"


@dataclass(frozen=True, kw_only=True)
class DeBERTaConfig(BERTConfig):
    """Sizes and rates; the defaults are those of DeBERTa-base, in the layout of Hugging Face's DeBERTa-v2.

    n_distances: k, so that distances from -k to k - 1 are told apart, and farther ones are taken for these.
    max_distance: up to which distance the k rows of each side reach, where they stand for wider and wider ranges, as in
    version 3; None: each stands for one distance. relative_attention: are there distances at all? pos_att_type: which
    products of distances the scores have, of "c2p" (content with distance) and "p2c" (distance with content).
    share_att_key: are distances projected as contents are? norm_rel_ebd: "layer_norm" normalises their table, "none"
    does not. position_biased_input: are positions added to the tokens? n_segments: 0 for none. decoder_passes: how
    often the last block runs where words are told; 0, as in transformers: there is no such decoder.
    """

    architecture: ClassVar[str] = "DebertaV2ForMaskedLM"
    layout: ClassVar[Layout | None] = LAYOUT
    other_types: ClassVar[tuple[str, ...]] = (V1,)
    only: ClassVar[dict[str, Any]] = ONLY | {
        "conv_kernel_size": 0, "talking_head": False, "pooler_hidden_act": "gelu",
    }  # fmt: skip
    left_out: ClassVar[dict[str, Any]] = {
        "relative_attention": False, "position_biased_input": True, "pos_att_type": [], "hidden_act": "gelu",
    }  # fmt: skip

    model_type: str = "deberta-v2"
    vocab_size: int = 50265
    n_segments: int = 0
    n_distances: int = 512
    max_distance: int | None = None
    relative_attention: bool = True
    pos_att_type: tuple[str, ...] = (C2P, P2C)
    share_att_key: bool = False
    norm_rel_ebd: str = "none"
    position_biased_input: bool = False
    decoder_passes: int = 0
    layer_norm_epsilon: float = 1e-7

    def __post_init__(self):
        super().__post_init__()
        self._check_size("n_distances")
        what = "0 for no decoder, or how often the last block runs"
        check_whole("decoder_passes", self.decoder_passes, what, least=0)
        if self.decoder_passes and self.position_biased_input:
            raise InputError("decoder_passes and position_biased_input: positions enter at one end only, take one")
        object.__setattr__(self, "pos_att_type", _products(self.pos_att_type))
        if self.relative_attention and not self.pos_att_type:
            raise InputError("pos_att_type names no product: with relative_attention give 'c2p', 'p2c' or both")
        if self.norm_rel_ebd not in ("none", NORM):
            raise InputError(f"norm_rel_ebd is {shown(self.norm_rel_ebd)}: give 'none' or {NORM!r}")
        if self.max_distance is not None:
            self._check_size("max_distance")
            least = self.n_distances // 2 + 2
            if self.n_distances < 2 or self.max_distance < least:
                given = f"n_distances is {self.n_distances} and max_distance {self.max_distance}"
                raise InputError(f"{given}: give 2 rows or more, and a distance of {least} or more")

    def _check_size(self, name: str) -> None:
        if name == "n_segments":
            check_whole(name, self.n_segments, "how many kinds of segments there are, 0 for none", below=1 << 31)
        else:
            super()._check_size(name)

    @classmethod
    def from_dict(cls, values: dict) -> Self:
        """From a config.json. Raises InputError as BERT's does, and for widths that only one part of a model has."""
        if values.get("model_type") == V1:
            values = {key: value for key, value in values.items() if key not in NOT_IN_V1}
        farthest = values.get("max_relative_positions", -1)
        if isinstance(farthest, int) and farthest < 1:
            farthest = values.get(cls.keys["n_positions"])
        buckets = values.get("position_buckets", -1)
        distances = {"n_distances": farthest}
        if not isinstance(buckets, int) or buckets > 0:
            distances = {"n_distances": buckets, "max_distance": farthest}
        values = values | distances
        if values.get("norm_rel_ebd") is None:
            values.pop("norm_rel_ebd", None)
        config = super().from_dict(values)
        widths = {"embedding_size": config.n_embd, "attention_head_size": config.n_embd // config.n_head}
        for key, width in widths.items():
            if values.get(key, width) != width:
                raise InputError(f"config.json has {key} {values[key]!r}: only {width} is built here")
        return config

    def to_dict(self) -> dict:
        """For a config.json."""
        values = super().to_dict()
        values["max_relative_positions"] = self.max_distance or self.n_distances
        values["position_buckets"] = self.n_distances if self.max_distance else -1
        return values | {"pos_att_type": list(self.pos_att_type), "legacy": True}


def _products(names: Any) -> tuple[str, ...]:
    """["p2c", "c2p"], or "p2c|c2p" as in older files, or None for none -> ("c2p", "p2c")

    Raises InputError for others.
    """
    if isinstance(names, str):
        names = [name.strip() for name in names.lower().split("|")]
    found = tuple(names or ()) if isinstance(names, (list, tuple, type(None))) else (names,)
    if len(set(map(str, found))) < len(found) or not set(map(str, found)) <= {C2P, P2C}:
        raise InputError(f"pos_att_type is {shown(names)}: give some of {[C2P, P2C]}, each once")
    return tuple(sorted(found))
