"""Former name of ``experiments.evaluation``, for modules that still import it."""

from experiments.evaluation import DOWNLOADED
from experiments.progress import PLAIN_SECONDS

__all__ = ["DOWNLOADED", "PLAIN_SECONDS"]
