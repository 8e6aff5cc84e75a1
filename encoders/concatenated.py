"""Several encoders whose vectors are concatenated.

    sentence = [E1(S) ; E2(S) ; ...]

ConsSent's multitask encoders (Brahma 2018, section 3) are of this form, as are the pairs of encoders in GenSen's
table 2 (Subramanian et al. 2018, section 9).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn

from data.batch import Tokens
from data.errors import UserError, reading
from data.ranges import Existing
from encoders import load
from encoders.base import Encoder, Encoding
from encoders.fingerprint import input_of
from encoders.folder import class_name, continued, read_marker
from encoders.kernels import Precision
from encoders.starts import no_mask_token

_WEAKEST_FIRST = ("random", "bundled", "own", "pretrained")  # one random member makes the whole encoder "random"


class Concatenated(Encoder):
    """Encoders side by side.

    If they share tokenizer and token format, they can be trained together and run on the same tokens; otherwise
    only ``encode`` works, which runs each member separately.

    Args:
        members: two or more encoders.
        paths: names or folders of encoders (see ``encoders.load``), instead of ``members``.
        path: a folder that ``save`` wrote, instead of both.
        weights: "auto" or "pretrained", which are the same here.
        texts: given if the encoder is to be trained; the members must then share a tokenizer.
        texts_key, cache, tokenizer: ignored, as no vocabulary is made from a corpus.
        require_mask_token: must be False, as there is no MLM head.
        device: device of the encoder.

    Attributes:
        members: the encoders, in the order of their vectors.
        fallback: the first warning of a member that got other weights than were asked for, else None.

    The encoder starts in eval mode.

    Raises:
        UserError: if there are fewer than two encoders, they do not fit together, or a mask token is needed.
    """

    opens_elsewhere = False
    members: Sequence[Encoder]

    def __init__(
        self,
        members: Sequence[Encoder] = (),
        *,
        paths: Sequence[str] = (),
        path: Existing | None = None,
        weights: Literal["auto", "random", "pretrained"] = "auto",
        texts: Callable[[], Iterable[str]] | None = None,
        texts_key: Callable[[], str] | None = None,
        cache: Path | None = None,
        tokenizer: Path | None = None,
        require_mask_token: bool = False,
        device: torch.device | str | None = None,
    ) -> None:
        super().__init__()
        if weights == "random":
            raise UserError("existing encoders have weights", key="encoder.weights=random")
        if require_mask_token:
            raise no_mask_token("concatenated")
        saved: dict[str, str] = {}
        if path is not None:
            members, saved = _opened(Path(path).expanduser())
        elif len(members or paths) < 2:
            raise UserError("must name two or more encoders", key="encoder.paths")
        elif not members:
            members = [load(model) for model in paths]
        first = members[0]
        self.members = nn.ModuleList(members)  # type: ignore[assignment]
        self.tokenizer, self.format = first.tokenizer, first.format
        read = input_of(first)
        self._same_input = all(one.format == first.format and input_of(one) == read for one in members)
        if texts is not None and not self._same_input:
            raise UserError("encoders trained together must share tokenizer and length", key="encoder.paths")
        self.reads_order = any(one.reads_order for one in members)
        self.dimension = sum(one.dimension for one in members)
        self.state_dimension = sum(one.state_dimension for one in members)
        self.weights = saved.get("weights") or min((one.weights for one in members), key=_WEAKEST_FIRST.index)
        self.origin = saved.get("origin") or "; ".join(
            f"{number} of {len(members)}: {one.origin}" for number, one in enumerate(members, start=1)
        )
        self.untrained = all(one.untrained for one in members)
        self.fallback: str | None = next(filter(None, (getattr(one, "fallback", None) for one in members)), None)
        self.eval()
        if device is not None:
            self.to(device)

    def forward(self, tokens: Tokens) -> Encoding:
        """Concatenates states and vectors of the members.

        Raises:
            ValueError: if the members have different tokenizers or formats.
        """
        self._check_same_input()
        encodings = [member(tokens) for member in self.members]
        states = torch.cat([encoding.states for encoding in encodings], dim=2)  # (B, T, H)
        sentence = torch.cat([encoding.sentence for encoding in encodings], dim=1)  # (B, D)
        return Encoding(states, tokens.mask, sentence)

    def vectors(self, tokens: Tokens) -> Tensor:
        self._check_same_input()
        return torch.cat([member.vectors(tokens) for member in self.members], dim=1)

    def padding_reason(self, device: torch.device, dtype: torch.dtype, longest: int) -> str | None:
        reasons = (member.padding_reason(device, dtype, longest) for member in self.members)
        return next(filter(None, reasons), None)

    def _check_same_input(self) -> None:
        if not self._same_input:
            raise ValueError(
                "The encoders have different tokenizers or token formats: only encode works for them."
            )

    def forward_flops(self, tokens: int, length: float) -> float:
        return sum(member.forward_flops(tokens, length) for member in self.members)

    @property
    def poolings(self) -> tuple[str, ...]:
        """The poolings that all members have."""
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
        """Returns class, input and settings of each member."""
        return {
            "members": [
                {"class": class_name(member), "input": input_of(member), "settings": member.settings()}
                for member in self.members
            ]
        }

    def _encode(
        self, sentences: list[str], batch_size: int | None, batch_tokens: int | None, progress: bool
    ) -> np.ndarray:
        """Encodes with each member separately, so their tokenizers may differ."""
        return np.hstack([one._encode(sentences, batch_size, batch_tokens, progress) for one in self.members])

    def write_files(self, folder: Path) -> dict[str, Any]:
        """Writes a sub-folder for each member, which can be opened on its own."""
        names = [f"encoder_{number}" for number in range(1, len(self.members) + 1)]
        for name, member in zip(names, self.members, strict=True):
            member.save(folder / name)
        return {"members": names}


def _opened(folder: Path) -> tuple[list[Encoder], dict[str, str]]:
    """Opens the members in ``folder``; returns them, and ``weights`` and ``origin`` of the whole encoder."""
    with reading("encoder", folder):
        marker = read_marker(folder)
        members = [load(folder / name) for name in marker["members"]]
        return members, {"weights": marker["weights"], "origin": continued(folder, marker)}
