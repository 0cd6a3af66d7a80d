"""Learning from a teacher (Sanh, Debut, Chaumond and Wolf 2019, section 2; Hinton, Vinyals and Dean 2015).

A student begins with every second layer of its teacher, and it is shown, at each token, how likely the teacher finds
every word, and where its last state points.
"""

from typing import ClassVar, Self

from minigpt import ops
from minigpt.device.arrays import Array
from minigpt.errors import InputError
from minigpt.models.family.encoder import Encoder, real_tokens
from minigpt.models.family.published import PublishedConfig
from minigpt.models.language_model import LanguageModel
from minigpt.nn import Cache
from minigpt.ops.random_keys import Key

TAKEN = ("vocab_size", "n_positions", "n_embd", "n_head", "embd_pdrop", "attn_pdrop", "resid_pdrop",
         "initializer_range", "bos_token_id", "eos_token_id")  # fmt: skip
TEMPERATURE = 2.0  # at which the teacher's probabilities are compared
OF_TEACHER, OF_WORDS, OF_STATES = 5.0, 2.0, 1.0  # weights of the three losses, as in the authors' code


class Student(Encoder):
    """An encoder that may have a teacher. seed: as for GPT1.

    teacher: of `learn_from`; in a tuple, so that its parameters are not found among the student's.
    """

    Config: ClassVar[type[PublishedConfig]]
    teacher: tuple[Encoder, ...] = ()

    @classmethod
    def student_of(cls, teacher: LanguageModel, **changes) -> Self:
        """A student with half of the layers of this teacher: the first, the third, and so on (section 2).

        The row of segment 0, which the teacher adds everywhere, is added to the student's positions. changes:
        configuration values to replace. Raises InputError as `learn_from` does.
        """
        encoder = check_teacher(teacher)
        values = {name: getattr(teacher.config, name) for name in TAKEN}
        values |= {"n_layer": max(1, teacher.config.n_layer // 2)} | changes
        config = cls.Config(**values)
        student = cls(config, seed=None, dtype=teacher.head.data.dtype)
        taken = {name: parameter.data for name, parameter in teacher.named_parameters()}
        positions = taken["positions_embed.weight"]
        before = len(positions) - teacher.config.n_positions  # rows of RoBERTa's padding
        taken["positions_embed.weight"] = positions[before : before + config.n_positions]
        for name, parameter in student.named_parameters():
            parameter.data = taken[_in_teacher(name)].copy()
        if encoder.segments_embed is not None:
            student.positions_embed.weight.data += encoder.segments_embed.weight.data[0]
        student.learn_from(teacher)
        return student

    def learn_from(self, teacher: LanguageModel) -> None:
        """From now on the loss compares with this teacher, whose weights stay as they are.

        Raises InputError for one that sees one side only, and for one of another vocabulary, width, or fewer positions.
        """
        encoder = check_teacher(teacher)
        for name in ("vocab_size", "n_embd"):
            own, other = getattr(self.config, name), getattr(teacher.config, name)
            if own != other:
                raise InputError(f"the teacher has {name} {other}, and the student {own}: they must be equal")
        if teacher.config.n_positions < self.config.n_positions:
            sizes = f"{teacher.config.n_positions} positions, and the student {self.config.n_positions}"
            raise InputError(f"the teacher has {sizes}: it cannot read what the student reads")
        self.teacher = (encoder,)

    def to(self, device: str) -> Self:
        """Move the parameters, and the teacher's."""
        for teacher in self.teacher:
            teacher.to(device)
        return super().to(device)

    def loss(
        self, ids: Array, targets: Array, normalizer: float | None = None, weights: Array | None = None,
        key: Key | None = None, grad: bool = True, *, share: float = 1.0, mask: Array | None = None, **inputs,
    ) -> tuple[Array, Cache]:
        """As `Encoder.loss`; with a teacher 5 L_soft + 2 L_words + 1 L_cosine.

        L_words is the loss of the covered words; L_soft compares the probabilities of all words at all tokens, at a
        temperature of 2; L_cosine the directions of the last states. The last two are means over all tokens, times
        share, the part of a whole batch that these rows are. mask: padding (B,T) counts in no mean.
        """
        if not self.teacher:
            return super().loss(ids, targets, normalizer, weights, key, grad, mask=mask, **inputs)
        (teacher,) = self.teacher
        h, cache = self.hidden(ids, None, key, grad, mask=mask, **inputs)
        h_teacher, _ = teacher.hidden(ids, grad=False, mask=mask)
        logits_teacher = teacher.scores_of(h_teacher)
        real = real_tokens(mask, h).astype(h.dtype)
        whole = float(real.sum()) / share
        targets, weights = self.place_targets(targets, weights, h.shape[:2])

        logits = self.word_scores(h, cache)
        told = ops.cross_entropy_forward(logits, targets, weights=weights, normalizer=normalizer)
        soft = ops.soft_cross_entropy_forward(
            logits, logits_teacher.astype(logits.dtype), temperature=TEMPERATURE, weights=real, normalizer=whole
        )
        directions = ops.cosine_loss_forward(h, h_teacher.astype(h.dtype), weights=real, normalizer=whole)
        loss = OF_WORDS * cache.keep("told", told)
        loss = loss + OF_TEACHER * cache.keep("soft", soft)
        loss = loss + OF_STATES * cache.keep("directions", directions)
        return loss, cache

    def loss_backward(self, cache: Cache, dloss: float = 1.0) -> None:
        """The gradient of dloss * loss arrives in the parameters of the student."""
        cache = self.own(cache)
        if "soft" not in cache:
            super().loss_backward(cache, dloss)
            return
        dlogits = ops.cross_entropy_backward(OF_WORDS * dloss, cache.pop("told"))
        dsoft, _ = ops.soft_cross_entropy_backward(OF_TEACHER * dloss, cache.pop("soft"))
        dh = self.word_scores_backward(dlogits + dsoft, cache)
        ddirections, _ = ops.cosine_loss_backward(OF_STATES * dloss, cache.pop("directions"))
        self.hidden_backward(dh + ddirections, cache)


def check_teacher(teacher: LanguageModel) -> Encoder:
    """Returns the teacher, if it tells covered words from both sides with tables of full width, one of positions.

    Raises InputError for another one.
    """
    if isinstance(teacher, Encoder) and hasattr(teacher.words, "ln") and teacher.widen is None:
        if teacher.positions_embed is not None:
            return teacher
    name = type(teacher).__name__
    raise InputError(f"{name} cannot teach a DistilBERT: take a bert, a roberta or a larger distilbert")


def _in_teacher(name: str) -> str:
    """The parameter of the teacher that this one of the student begins as."""
    if not name.startswith("h."):
        return name
    _, number, rest = name.split(".", 2)
    return f"h.{2 * int(number)}.{rest}"
