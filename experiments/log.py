"""The log of a training: its journals and display."""

from __future__ import annotations

import ctypes
import math
import resource
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from accelerate import Accelerator
from torch import Tensor

from experiments.checkpoint import State
from experiments.run_folder import append_lines, cut_journal


@dataclass
class TrainingLog:
    """Writes ``metrics.jsonl`` and ``timings.jsonl``; the numbers of a step stay on the device until ``write``.

    Args:
        folder: the run's folder; lines of its journals after ``state.step`` are dropped.
        accelerator: the processes, over which losses are averaged.
        state: counters of the training; ``write`` adds tokens and seconds.
        steps: length of the training.
        require_finite: raises a UserError if a named number is not finite.
    """

    folder: Path
    accelerator: Accelerator
    state: State
    steps: int
    require_finite: Callable[[Mapping[str, float]], object]

    def __post_init__(self) -> None:
        self.steps_added: list[tuple[int, float, list[str], Tensor, int]] = []
        self.restart_clock()
        if self.accelerator.is_main_process:
            for name in ("metrics", "timings"):
                cut_journal(self.folder / f"{name}.jsonl", self.state.step)

    def restart_clock(self) -> None:
        """Leaves out the time since the last step: evaluation and checkpoints are not training time."""
        self.clock = time.perf_counter()

    def add(self, losses: list[dict[str, Tensor]], lr: float, norm: Tensor, tokens: int) -> None:
        """Adds a step.

        Args:
            losses: parts of the loss of each micro-batch.
            lr: learning rate.
            norm: norm of the gradient.
            tokens: tokens of this process.
        """
        # Micro-batches of different tasks have different parts.
        names = list(dict.fromkeys(name for parts in losses for name in parts))
        means = [torch.stack([parts[name].float() for parts in losses if name in parts]).mean() for name in names]
        values = torch.stack([*means, norm.float()])
        self.steps_added.append((self.state.step, lr, names, values, tokens))

    def write(self) -> str:
        """Writes the steps added since the last call; waits for the device once.

        Returns:
            The losses of the last step and the speed, "" if no step was added.

        Raises:
            UserError: if a loss is not finite; nothing of these steps is written.
        """
        if not self.steps_added:
            return ""
        steps, rates, names, values, counts = zip(*self.steps_added, strict=True)
        self.steps_added = []
        # Parts are global already; the mean of the loss over processes is that of the global batch.
        flat = self.accelerator.reduce(torch.cat(values), "mean")
        seen = self.accelerator.reduce(torch.tensor(counts, device=flat.device)).tolist()
        by_step = flat.cpu().split([*map(len, values)])
        # Batches of changing sizes fragment the heap of glibc: otherwise a run takes more with every step, and
        # gigabytes in the end.
        with suppress(OSError, AttributeError):  # another C library
            ctypes.CDLL("libc.so.6").malloc_trim(0)
        rows = []
        for step, lr, keys, numbers, count in zip(steps, rates, names, by_step, seen, strict=True):
            *means, norm = numbers.tolist()
            losses = dict(zip(keys, means, strict=True))
            self.require_finite({f"the loss of step {step:,}": losses["loss"]})
            self.state.tokens += count
            norm = norm if math.isfinite(norm) else None  # JSON has no infinity
            rows.append({"step": step, **losses, "lr": lr, "gradient_norm": norm, "tokens": self.state.tokens})
        elapsed = time.perf_counter() - self.clock
        self.restart_clock()
        self.state.seconds += elapsed
        speed = sum(seen) / elapsed
        self.record("metrics", *rows)
        timing = {
            "step": self.state.step,
            "steps": self.steps,
            "seconds": self.state.seconds,
            "tokens_per_second": speed,
            "memory_gib": peak_gib(self.accelerator.device),
        }
        self.record("timings", timing)
        shown = "  ".join(f"{name} {value:.3f}" for name, value in losses.items())
        return f"{shown}  {speed:,.0f} tokens/s"

    def record(self, journal: str, *entries: dict[str, Any]) -> None:
        """Writes entries to a journal, on the first process."""
        if self.accelerator.is_main_process:
            append_lines(self.folder / f"{journal}.jsonl", entries)


def peak_gib(device: torch.device) -> float:
    """Returns the peak memory so far, of the GPU or else of this process."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device) / 2**30
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (2**30 if sys.platform == "darwin" else 2**20)
