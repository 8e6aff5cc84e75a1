"""Former name of ``experiments.pool``, for modules that still import it."""

from experiments.interrupts import terminations
from experiments.pool import BEGUN_HERE, Failure, Job

__all__ = ["BEGUN_HERE", "Failure", "Job", "terminations"]
