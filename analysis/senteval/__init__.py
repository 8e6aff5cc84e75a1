"""SentEval (Conneau & Kiela 2018) for any sentence encoder: 28 tasks, scores equal to the published toolkit's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from analysis.senteval.evaluation import evaluate
    from analysis.senteval.results import Comparison, Results, read_results

__all__ = ["Comparison", "Results", "evaluate", "read_results"]


def __getattr__(name: str) -> Any:
    """Imports the API when it is used: names of tasks and protocols are read without it, in less time."""
    if name == "evaluate":
        from analysis.senteval.evaluation import evaluate

        return evaluate
    if name in __all__:
        from analysis.senteval import results

        return getattr(results, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
