"""Several encoders side by side: a sentence's vector is that of the first, then that of the second, and so on.

    sentence = [E1(S) ; E2(S) ; ...]

ConsSent's multitask encoders (Brahma 2018, section 3) and GenSen's (Subramanian et al. 2018, section 9) are such.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from data.batch import Tokens
from data.errors import UnfitError, UserError
from data.files import write_json
from encoders import load
from encoders.base import Encoder, Encoding
from encoders.export import model_card
from encoders.fingerprint import input_of
from encoders.folder import MARKER, read_marker, readable
from encoders.inference import listed
from encoders.kernels import Precision
from encoders.layout import atomic_folder

_LEAST_FIRST = ("random", "bundled", "pretrained")  # one random member makes all of it "random"


class Concatenated(Encoder):
    """Encoders side by side, given or opened.

    Where they have one tokenizer and token format, they are trained together and run on the same tokens; else
    ``encode`` alone works, as it goes member by member.

    Args:
        members: two or more encoders.
        paths: names or folders of encoders (see ``encoders.load``), taken instead of ``members``.
        path: a folder that ``save`` wrote, taken instead of both.
        weights: "auto" or "pretrained", which are the same here.
        texts: given where the encoder is to be trained, which takes members of one tokenizer.
        texts_key, cache, tokenizer: of encoders that make their vocabulary from a corpus; not used.
        require_mask_token: refuse, as there is no output layer for masked tokens.
        device: where to put it.

    Attributes:
        members: the encoders, in the order of their vectors.
        fallback: the first sentence that a member has to warn with, having got other weights than were asked for,
            else None.

    It begins in eval mode.

    Raises:
        ValueError: if an argument is out of range.
        UserError: if there is nothing to open, or a mask token is required.
    """

    opens_elsewhere = False
    members: Sequence[Encoder]

    def __init__(
        self,
        members: Sequence[Encoder] = (),
        *,
        paths: Sequence[str] = (),
        path: str | None = None,
        weights: Literal["auto", "random", "pretrained"] = "auto",
        texts: Callable[[], Iterable[str]] | None = None,
        texts_key: Callable[[], str] | None = None,
        cache: Path | None = None,
        tokenizer: Path | None = None,
        require_mask_token: bool = False,
        device: torch.device | str | None = None,
    ) -> None:
        super().__init__()
        if weights not in ("auto", "pretrained"):
            raise ValueError(
                f"encoder.weights must be auto or pretrained for encoders that are there. Got {weights} instead."
            )
        if require_mask_token:
            raise UnfitError(
                "objective.mlm_weight needs an output layer for masked tokens, and concatenated encoders have "
                "none: choose another encoder or objective.mlm_weight=0."
            )
        said: dict[str, str] = {}
        if path is not None:
            members, said = _opened(Path(path).expanduser())
        elif not members:
            if len(paths) < 2:
                raise ValueError(f"encoder.paths must name two or more encoders. Got {list(paths)} instead.")
            try:
                members = [load(one) for one in paths]
            except UserError as error:
                raise UserError(f"encoder.paths: {error}") from error
        if len(members) < 2:
            raise ValueError(f"Two or more encoders are concatenated. Got {len(members)} instead.")
        first = members[0]
        self.members = nn.ModuleList(members)  # type: ignore[assignment]
        self.tokenizer, self.format = first.tokenizer, first.format
        read = input_of(first)
        self._same = all(one.format == first.format and input_of(one) == read for one in members)
        if texts is not None and not self._same:
            raise ValueError(
                "encoder.paths must name encoders of one tokenizer and length, where they are trained."
            )
        self.reads_order = any(one.reads_order for one in members)
        self.dimension = sum(one.dimension for one in members)
        self.state_dimension = sum(one.state_dimension for one in members)
        self.weights = said.get("weights") or min((one.weights for one in members), key=_LEAST_FIRST.index)
        self.origin = said.get("origin") or "; ".join(
            f"{number} of {len(members)}: {one.origin}" for number, one in enumerate(members, start=1)
        )
        self.untrained = all(one.untrained for one in members)
        self.fallback: str | None = next(filter(None, (getattr(one, "fallback", None) for one in members)), None)
        self.eval()
        if device is not None:
            self.to(device)

    def forward(self, tokens: Tokens) -> Encoding:
        """States and vectors of the members, side by side.

        Raises:
            ValueError: if the members have different tokenizers or formats.
        """
        self._read_the_same()
        encodings = [member(tokens) for member in self.members]
        states = torch.cat([encoding.states for encoding in encodings], dim=2)  # (B, T, H)
        sentence = torch.cat([encoding.sentence for encoding in encodings], dim=1)  # (B, D)
        return Encoding(states, tokens.mask, sentence)

    def vectors(self, tokens: Tokens) -> Tensor:
        self._read_the_same()
        return torch.cat([member.vectors(tokens) for member in self.members], dim=1)

    def padded_because(self, device: torch.device, dtype: torch.dtype, longest: int) -> str | None:
        reasons = (member.padded_because(device, dtype, longest) for member in self.members)
        return next(filter(None, reasons), None)

    def _read_the_same(self) -> None:
        if not self._same:
            raise ValueError(
                "The encoders have different tokenizers or token formats: only encode works for them."
            )

    @property
    def has_mlm_head(self) -> bool:
        return False

    def token_logits(self, states: Tensor) -> Tensor:
        """There is no MLM head.

        Raises:
            ValueError: always.
        """
        raise ValueError("Concatenated encoders have no MLM head.")

    def forward_flops(self, tokens: int, length: float) -> float:
        return sum(member.forward_flops(tokens, length) for member in self.members)

    def head_flops(self, tokens: int) -> float:
        return 0.0

    @property
    def poolings(self) -> tuple[str, ...]:
        """Those that all members have."""
        first, *others = (member.poolings for member in self.members)
        return tuple(pooling for pooling in first if all(pooling in other for other in others))

    def pool_by(self, pooling: str) -> None:
        for member in self.members:
            member.pool_by(pooling)

    def encode_in(self, precision: Precision) -> None:
        super().encode_in(precision)
        for member in self.members:
            member.encode_in(precision)

    def settings(self) -> dict[str, Any]:
        """The members' classes, inputs and settings."""
        return {
            "members": [
                {"class": _class(member), "input": input_of(member), "settings": member.settings()}
                for member in self.members
            ]
        }

    def encode(
        self,
        sentences: Sequence[str],
        *,
        batch_tokens: int = 8192,
        normalize: bool = False,
        progress: bool = False,
    ) -> np.ndarray:
        """The members' vectors side by side; ``normalize`` scales the whole."""
        sentences = listed(sentences)
        vectors = np.hstack(
            [member.encode(sentences, batch_tokens=batch_tokens, progress=progress) for member in self.members]
        )
        return F.normalize(torch.from_numpy(vectors), dim=1).numpy() if normalize else vectors

    def save(self, folder: Path | str, card: str | None = None) -> None:
        """Writes a folder that ``load`` opens, with a sub-folder for each member, which opens by itself.

        Raises:
            UserError: if ``folder`` exists and is not an encoder's.
        """
        folder = Path(folder)
        names = [f"encoder_{number}" for number in range(1, len(self.members) + 1)]
        marker = {"class": _class(self), "weights": self.weights, "origin": self.origin, "members": names}
        with atomic_folder(folder) as unfinished:
            for name, member in zip(names, self.members, strict=True):
                member.save(unfinished / name)
            write_json(unfinished / MARKER, marker)
            card = card or model_card(title=folder.name, encoder=self)
            (unfinished / "README.md").write_text(card, encoding="utf-8")

    @classmethod
    def load(cls, folder: Path | str) -> Concatenated:
        """Opens what ``save`` wrote."""
        return cls(path=str(folder))


def _opened(folder: Path) -> tuple[list[Encoder], dict[str, str]]:
    """The members in ``folder``, and what it says of all of them together."""
    with readable(folder, "concatenated encoders"):
        marker = read_marker(folder)
        names = marker.get("members")
        count = len(names) if isinstance(names, list) else 0
        if count < 2 or names != [f"encoder_{number}" for number in range(1, count + 1)]:
            raise UserError(f"{folder / MARKER}: members must be encoder_1, encoder_2, ... in their order.")
        members = [load(folder / name) for name in names]
        origin = f"continued from {folder}; before that: {marker['origin']}"
        return members, {"weights": marker["weights"], "origin": origin}


def _class(encoder: Encoder) -> str:
    return f"{type(encoder).__module__}.{type(encoder).__name__}"
