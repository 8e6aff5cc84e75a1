"""SentEval (Conneau & Kiela 2018) for any sentence encoder: 28 tasks, scores equal to the published toolkit's."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from analysis.senteval.evaluation import evaluate
    from analysis.senteval.records import Results, read_results

__all__ = ["Results", "evaluate", "read_results"]


def __getattr__(name: str) -> Any:
    """Imports the API when it is used: names of tasks and protocols are read without it, in less time."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{'evaluation' if name == 'evaluate' else 'records'}"), name)
