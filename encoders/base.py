"""Base of all encoders: tokens in, states and one sentence vector out; encode, save, load."""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import torch
from torch import Tensor, nn

from data.batch import Tokens
from data.errors import UnfitError, UserError
from data.files import atomic_folder, write_json
from data.grouping import length_groups, run_in_groups
from data.token_format import TokenFormat, separator
from data.tokenizer import Recipe, plain_backend
from encoders import inference
from encoders.api import Encoding, SentenceEncoder
from encoders.kernels import Precision, autocast_dtype
from encoders.saving import CLASSES, MARKER, class_name, refuse_other

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast  # takes seconds to import

MOST_GROUPS = 8
VERSION = 2  # of fingerprints, to be raised when a change of the code changes the vectors of encoders
LEAST_SAVING = 128  # padding tokens that a further sub-batch must save on a CPU, found by timing


class Encoder(SentenceEncoder, nn.Module, ABC):
    """Base of all encoders.

    Constructors take keyword-only arguments, the keys of the encoder's YAML, and ``tokenizer``, which is used for
    random weights only (see ``tokenizer_recipe``).

    Attributes:
        tokenizer: a Hugging Face fast tokenizer.
        format: how its content tokens become input (see TokenFormat).
        dimension: D, width of a sentence vector.
        state_dimension: H, width of a token's state.
        weights: where its weights first came from: "pretrained", "own" (a folder), "bundled" or "random".
        origin: one line that names the weights exactly (hub name, folder, or the random shape), and the exported
            folders through which they came.
        fallback: the warning if it has other weights than were asked for, else None.
        untrained: whether the weights were randomly initialised in this process, not read from a file.
        opens_elsewhere: whether sentence-transformers opens what ``save`` writes.
        reads_order: whether the order of the tokens changes a sentence vector.
        computes_padding: whether padding takes as long to compute as tokens.
        equal_lengths: whether padding would change vectors, so that ``forward`` computes rows of equal length
            together and no others.
        poolings: the poolings that ``pool_by`` can choose among; empty if the pooling is fixed.
        precision: of matrix products in ``encode``: "fp32", or on a GPU "tf32" (10 bits of each factor) or "bf16"
            (8 bits), which are faster.
    """

    tokenizer: Any
    format: TokenFormat
    dimension: int
    state_dimension: int
    weights: str
    origin: str
    fallback: str | None = None
    untrained: bool = False
    opens_elsewhere: bool = True
    reads_order: bool = True
    computes_padding: bool = False
    equal_lengths: bool = False
    precision: Precision = "fp32"
    poolings: tuple[str, ...] = ()

    def __init_subclass__(cls) -> None:
        CLASSES[class_name(cls)] = cls

    @classmethod
    def tokenizer_recipe(cls, **settings: Any) -> Recipe | None:
        """Returns how to train the tokenizer of an encoder that starts from random weights.

        Args:
            settings: arguments of the constructor.

        Returns:
            A function of ``data.tokenizer`` and its arguments besides the texts; None if the weights are trained.
        """
        return None

    @abstractmethod
    def forward(self, tokens: Tokens) -> Encoding:
        """Encodes ``tokens`` of shape (B, T)."""

    def vectors(self, tokens: Tokens) -> Tensor:
        """Returns sentence vectors of ``tokens``, of shape (B, D), where no states are needed.

        On a CPU an encoder that computes padding runs over sub-batches of similar length, and where operations
        are counted, which leaves out most padding.
        """
        groups: list[np.ndarray] = []
        least_saving = {"cpu": LEAST_SAVING, "meta": 0}.get(tokens.ids.device.type)
        if self.computes_padding and least_saving is not None and not self.packs(tokens):
            groups = length_groups(tokens.lengths.numpy(), MOST_GROUPS, least_saving)
        if len(groups) < 2:
            return self(tokens).sentence
        return run_in_groups(lambda part: (self(part).sentence,), tokens, groups)[0]

    def can_pack(self, device: torch.device, dtype: torch.dtype, longest: int) -> bool:
        """Returns whether ``forward`` packs a batch into one sequence without padding.

        Args:
            device: of the batch.
            dtype: that its products are computed in.
            longest: tokens of its longest row.
        """
        return False

    def packs(self, tokens: Tokens) -> bool:
        """Returns whether ``forward`` packs ``tokens``; callers then need not group them by length."""
        device = tokens.ids.device
        dtype = autocast_dtype(device) or next(self.parameters()).dtype
        longest = int(tokens.lengths.max()) if len(tokens) else 0
        return longest > 0 and self.can_pack(device, dtype, longest)

    @property
    def has_mlm_head(self) -> bool:
        """Returns whether masked words can be predicted: a mask token and a head, ``token_logits``."""
        return False

    def add_mlm_head(self) -> None:
        """Adds a masked-language-model (MLM) head, randomly initialised, if there is none.

        Raises:
            UnfitError: if the encoder has no mask token, or its family no such head.
        """
        raise UnfitError(f"a {type(self).__name__} has no mask token", key="encoder")

    def token_logits(self, states: Tensor) -> Tensor:
        """Computes the MLM head's scores, of shape (M, V), for M selected states of shape (M, H).

        Raises:
            ValueError: if there is none.
        """
        raise ValueError(f"A {type(self).__name__} has no MLM head.")

    def add_pooler(self) -> None:
        """Adds the architecture's pooler if the weights lack one."""

    def sequence_features(self, encoding: Encoding) -> Tensor:
        """Returns the input of a classifier of whole sequences, of shape (B, H).

        These are the sentence vectors, unless the architecture has a pooler.
        """
        return encoding.sentence

    def pool_by(self, pooling: str) -> None:
        """Changes the pooling to another of ``poolings``; the weights stay.

        Raises:
            UserError: if it is none of them.
        """
        if pooling not in self.poolings:
            ways = ", ".join(self.poolings) or "none, as it is fixed"
            raise UserError(f"the pooling of a {type(self).__name__} can be {ways}", key=f"pooling={pooling}")
        self.pooling = pooling

    def keep_layers(self, layers: int) -> None:
        """Leaves out all layers but the first ``layers``.

        Raises:
            UserError: if the encoder has no such layers.
        """
        raise UserError(f"a {type(self).__name__} has none to leave out", key=f"layers={layers}")

    def settings(self) -> dict[str, Any]:
        """Returns what ``encode`` depends on besides class, weights, tokenizer and ``format``."""
        return {}

    def input_settings(self) -> dict[str, Any]:
        """Returns all that turns a text into input (tokenizer and token format), as JSON values."""
        return {
            "prefix": self.format.prefix,
            "suffix": self.format.suffix,
            "max_length": self.format.max_length,
            "tokenizer": plain_backend(self.tokenizer).to_str(),  # without truncation, which calls of it set
        }

    def fingerprint(self) -> str:
        """Returns a SHA-256, in hexadecimal, of class, weights, tokenizer, token format, settings and precision.

        It is the same in every process, on every device, and for an encoder that was saved and opened again (a
        lower precision of ``encode`` is not saved). It takes one pass over the weights.
        """
        settings = {"settings": self.settings(), "precision": self.precision, **self.input_settings()}
        identity = {"version": VERSION, "class": class_name(type(self)), **settings}
        result = hashlib.sha256(json.dumps(identity, sort_keys=True, default=str).encode())
        for name, weight in sorted(self.state_dict().items()):
            result.update(f"{name} {weight.dtype} {list(weight.shape)}\n".encode())
            result.update(weight.detach().cpu().contiguous().flatten().view(torch.uint8).numpy())
        return result.hexdigest()

    def _encode(self, sentences: list[str], **options: Any) -> np.ndarray:
        training = self.training
        self.eval()
        try:
            return inference.encode(
                sentences,
                lambda tokens: self(tokens).sentence,
                self.tokenizer,
                self.format,
                dimension=self.dimension,
                device=next(self.parameters()).device,
                precision=self.precision,
                concurrent=not self.equal_lengths,
                **options,
            )
        finally:
            self.train(training)

    def save(self, folder: Path | str, card: str | None = None) -> None:
        """Writes a folder that ``load`` opens, and sentence-transformers if ``opens_elsewhere``; all or nothing.

        Args:
            folder: a new folder, or an encoder's folder to be replaced.
            card: text of its README.md (see ``encoders.card``); None: it has none.

        Raises:
            UserError: if ``folder`` exists and is not an encoder's.
        """
        folder = Path(folder)
        refuse_other(folder)
        marker = {"class": class_name(type(self)), "weights": self.weights, "origin": self.origin}
        with atomic_folder(folder) as unfinished:
            write_json(unfinished / MARKER, marker | self.write_files(unfinished))
            if card is not None:
                (unfinished / "README.md").write_text(card, encoding="utf-8")

    @abstractmethod
    def write_files(self, folder: Path) -> dict[str, Any]:
        """Writes weights, tokenizer and settings into ``folder``; returns further keys for ``encoder.json``."""

    @classmethod
    def load(cls, folder: Path | str) -> Self:
        """Opens a folder that ``save`` wrote."""
        return cls(path=str(folder))


def token_format(tokenizer: PreTrainedTokenizerFast, max_length: int) -> TokenFormat:
    """Limits a tokenizer to ``max_length`` tokens and returns how its content tokens become input.

    A tokenizer without padding token gets its end token as one, else its first token: padding is never seen.

    Raises:
        ValueError: if it has no token for a word.
    """
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token or tokenizer.convert_ids_to_tokens(0)
    special = tokenizer("a", return_special_tokens_mask=True)
    inner = special["special_tokens_mask"].index(0)
    count = special["special_tokens_mask"].count(0)
    tokenizer.model_max_length = max_length
    if tokenizer.padding_side != "right":  # as rows are padded here; what is not in init_kwargs is not saved
        tokenizer.padding_side = tokenizer.init_kwargs["padding_side"] = "right"
    return TokenFormat(
        prefix=tuple(special["input_ids"][:inner]),
        suffix=tuple(special["input_ids"][inner + count :]),
        pad_id=tokenizer.pad_token_id,
        mask_id=tokenizer.mask_token_id,
        vocab_size=len(tokenizer),
        max_length=max_length,
        special_ids=frozenset(tokenizer.all_special_ids),
        middle=separator(tokenizer),
    )
