"""Translation: from an English sentence one in another language (Subramanian et al. 2018, section 4).

Words of either language are parted by ``data.vocabulary.WORDS``, which is made for English: French "l'homme"
stays one word, which a tokeniser of French parts. Perplexities are over such words.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from data.sources.parallel import Parallel
from data.sources.samples import Samples
from objectives.gensen.base import Sizes, blamed
from objectives.gensen.pairs import PairTask


class Translation(PairTask):
    """A decoder of the language ``name``.

    Args:
        name: "fr" or "de"; of what ``data`` holds, any language.
        data: arguments of ``Parallel``; None: generated pairs.
        synthetic_pairs: how many of these.
        sizes: see ``Sizes``.

    Raises:
        ValueError, UserError: as ``Parallel`` does.
    """

    def __init__(
        self, name: Literal["fr", "de"], data: Mapping[str, Any] | None, synthetic_pairs: int, sizes: Sizes
    ) -> None:
        with blamed(name):
            source = Samples(kind=name, pairs=synthetic_pairs) if data is None else Parallel(**data)
            super().__init__(name, source, sizes)
