"""Several encoders whose vectors are concatenated.

    sentence = [E1(S) ; E2(S) ; ...]

ConsSent's multitask encoders (Brahma 2018, section 3) are of this form, as are the pairs of encoders in GenSen's
table 2 (Subramanian et al. 2018, section 9).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import nn

from data.batch import Tokens
from data.errors import UserError, reading
from data.ranges import Existing
from encoders import load
from encoders.api import Encoding
from encoders.base import Encoder
from encoders.saving import read_marker

WEAKEST_FIRST = ("random", "bundled", "own", "pretrained")  # a random member makes the whole encoder "random"


class Concatenated(Encoder):
    """Encoders side by side.

    If they share tokenizer and token format, they can be trained together and run on the same tokens; otherwise
    only ``encode`` works, which runs each member separately.

    Args:
        members: two or more encoders.
        paths: names or folders of encoders (see ``encoders.load``), instead of ``members``.
        path: a folder that ``save`` wrote, instead of both.
        weights: "auto" or "pretrained", which are the same here.

    Attributes:
        members: the encoders, in the order of their vectors.
        fallback: the first warning of a member that got other weights than were asked for, else None.

    The encoder starts in eval mode.

    Raises:
        UserError: if there are fewer than two encoders, or one cannot be opened.
    """

    opens_elsewhere = False
    members: Sequence[Encoder]

    def __init__(
        self,
        members: Sequence[Encoder] = (),
        *,
        paths: Sequence[str] = (),
        path: Existing | None = None,
        weights: Literal["auto", "pretrained"] = "auto",
    ) -> None:
        super().__init__()
        marker: dict[str, Any] = {}
        if path is not None:
            folder = Path(path).expanduser()
            with reading("encoder", folder):
                marker = read_marker(folder)
                paths = [str(folder / name) for name in marker["members"]]
        members = members or [load(name) for name in paths]
        if len(members) < 2:
            raise UserError("must name two or more encoders", key="encoder.paths")
        self.members = nn.ModuleList(members)  # type: ignore[assignment]
        self.tokenizer, self.format = members[0].tokenizer, members[0].format
        self.weights = min((member.weights for member in members), key=WEAKEST_FIRST.index)
        self.origin = marker.get("origin") or "; ".join(member.origin for member in members)
        self.same_input = all(member.input_settings() == members[0].input_settings() for member in members)
        self.reads_order = any(member.reads_order for member in members)
        self.computes_padding = any(member.computes_padding for member in members)
        self.untrained = all(member.untrained for member in members)
        self.fallback = next(filter(None, (member.fallback for member in members)), None)
        self.dimension = sum(member.dimension for member in members)
        self.state_dimension = sum(member.state_dimension for member in members)
        self.eval()

    def forward(self, tokens: Tokens) -> Encoding:
        """Concatenates states and vectors of the members.

        Raises:
            UserError: if the members have different tokenizers or formats.
        """
        if not self.same_input:
            raise UserError("encoders trained together must share tokenizer and length", key="encoder.paths")
        states, _, vectors = zip(*(member(tokens) for member in self.members), strict=True)
        return Encoding(torch.cat(states, dim=2), tokens.mask, torch.cat(vectors, dim=1))

    def can_pack(self, device: torch.device, dtype: torch.dtype, longest: int) -> bool:
        return all(member.can_pack(device, dtype, longest) for member in self.members)

    def pool_by(self, pooling: str) -> None:
        for member in self.members:
            member.pool_by(pooling)

    def settings(self) -> dict[str, Any]:
        return {"members": [member.fingerprint() for member in self.members]}

    def _encode(self, sentences: list[str], **options: Any) -> np.ndarray:
        """Encodes with each member separately, so their tokenizers may differ."""
        return np.hstack([member._encode(sentences, **options) for member in self.members])

    def write_files(self, folder: Path) -> dict[str, Any]:
        """Writes a sub-folder for each member, which can be opened on its own."""
        names = [f"encoder_{number}" for number in range(1, len(self.members) + 1)]
        for name, member in zip(names, self.members, strict=True):
            member.save(folder / name)
        return {"members": names}
