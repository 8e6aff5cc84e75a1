"""Former name of ``experiments.evaluation``, for modules that still import it."""

from experiments.evaluation import DOWNLOADED

__all__ = ["DOWNLOADED"]
