"""The processes of a run: device and precision, flags that they agree on, gradients that they average."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta

import torch
from accelerate import Accelerator
from accelerate.state import AcceleratorState
from accelerate.utils import InitProcessGroupKwargs, is_tensorboard_available, is_wandb_available
from torch import Tensor, distributed, nn

from data.environment import cores
from data.errors import UserError
from experiments.settings import Settings

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
BUCKET = 16 * 2**20  # numbers that are averaged in one call


def start_processes(settings: Settings) -> Accelerator:
    """Joins the processes of the run and sets device, precision and trackers.

    Raises:
        UserError: if the machine lacks one of them.
    """
    installed = {"tensorboard": is_tensorboard_available, "wandb": is_wandb_available}
    for tracker in settings.trackers:
        if not installed[tracker]():
            raise UserError(f"{tracker} is not installed", key="trackers")
    # A sweep runs in one process, and Accelerate keeps the first run's precision otherwise.
    AcceleratorState._reset_state(reset_partial_state=not torch.distributed.is_initialized())
    cpu = on_cpu(settings)
    precision = settings.precision
    if precision == "auto":
        has_bf16 = (
            not cpu and torch.cuda.is_available() and torch.cuda.is_bf16_supported(including_emulation=False)
        )
        precision = "bf16" if has_bf16 else "fp32"
    if precision == "fp16" and cpu:
        raise UserError("needs a GPU", key="precision=fp16")
    mixed = "no" if precision == "fp32" else precision
    accelerator = Accelerator(
        cpu=cpu,
        mixed_precision=mixed,
        log_with=list(settings.trackers) or None,
        project_dir="runs",  # some trackers want one now; the trainer sets the run's when they begin
        # The others wait while the first process tokenises the corpus; if it ends, the launcher ends them.
        kwargs_handlers=[InitProcessGroupKwargs(timeout=timedelta(days=7))],
    )
    if settings.threads is not None:  # after Accelerate, which chooses a number for several processes
        torch.set_num_threads(settings.threads)
    return accelerator


def on_cpu(settings: Settings) -> bool:
    """Returns whether the run uses the CPU, by choice or because there is no GPU."""
    return settings.device == "cpu" or not (torch.cuda.is_available() or torch.backends.mps.is_available())


def precision_of(accelerator: Accelerator) -> str:
    """Returns "fp32", "bf16" or "fp16"."""
    return "fp32" if accelerator.mixed_precision == "no" else accelerator.mixed_precision


class Processes:
    """All ``count`` processes of a run; torch.distributed is up where there are several."""

    def __init__(self, count: int) -> None:
        self.count = count
        # Flags travel between the hosts, so that no device is waited for.
        self._hosts = distributed.new_group(backend="gloo") if count > 1 else None

    def any(self, flags: Sequence[bool]) -> list[bool]:
        """Returns for each of ``flags``, as many on every process, whether it is set on any process."""
        if self._hosts is None:
            return list(flags)
        combined = torch.tensor(flags, dtype=torch.uint8)
        distributed.all_reduce(combined, distributed.ReduceOp.MAX, group=self._hosts)
        return combined.bool().tolist()

    def broadcast(self, tensors: Sequence[Tensor]) -> None:
        """Copies the first process' ``tensors`` to every process."""
        if self.count > 1:
            for tensor in tensors:
                distributed.broadcast(tensor, src=0)

    def average_gradients(self, parameters: Sequence[nn.Parameter]) -> None:
        """Replaces the gradients of ``parameters`` by their mean over processes, in few large calls.

        ``parameters`` are the same everywhere: those that some process has a gradient for. A missing gradient
        counts as zero.
        """
        if self.count == 1:
            return
        gradients = []
        for parameter in parameters:
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
            gradients.append(parameter.grad)
        for bucket in _buckets(gradients):
            flat = torch.cat([gradient.flatten() for gradient in bucket])
            distributed.all_reduce(flat)
            flat /= self.count
            for gradient, mean in zip(bucket, flat.split([g.numel() for g in bucket]), strict=True):
                gradient.copy_(mean.view_as(gradient))


@contextmanager
def all_threads(count: int) -> Iterator[None]:
    """Gives this process the threads of all ``count`` processes of the run, while the others wait for it."""
    threads = torch.get_num_threads()
    torch.set_num_threads(min(count * threads, cores()) if count > 1 else threads)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def _buckets(gradients: list[Tensor]) -> Iterator[list[Tensor]]:
    """Yields ``gradients`` in groups of about ``BUCKET`` numbers of one type."""
    bucket: list[Tensor] = []
    size = 0
    for gradient in gradients:
        if bucket and (size + gradient.numel() > BUCKET or gradient.dtype != bucket[0].dtype):
            yield bucket
            bucket, size = [], 0
        bucket.append(gradient)
        size += gradient.numel()
    if bucket:
        yield bucket
