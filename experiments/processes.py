"""The processes of a run: device and precision, flags that they agree on, gradients that they average."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from itertools import accumulate, compress

import torch
from accelerate import Accelerator
from accelerate.state import AcceleratorState
from accelerate.utils import InitProcessGroupKwargs
from torch import Tensor, distributed, nn

from data.errors import UserError
from experiments.launch import GROUP
from experiments.settings import Settings

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
WAIT = timedelta(days=7)  # the others wait while the first process tokenises the corpus
BUCKET = 16 * 2**20  # numbers that are averaged in one call


def start_processes(settings: Settings) -> Accelerator:
    """Joins the processes of the run and sets device and precision.

    Raises:
        UserError: if the machine lacks one of them.
    """
    # A sweep runs in one process, and Accelerate keeps the first run's precision otherwise.
    AcceleratorState._reset_state(reset_partial_state=not distributed.is_initialized())
    cpu = on_cpu(settings)
    precision = settings.precision
    if precision == "auto":
        precision = "fp32" if cpu or not torch.cuda.is_bf16_supported(including_emulation=False) else "bf16"
    if precision == "fp16" and cpu:
        raise UserError("needs a GPU", key="precision=fp16")
    if GROUP in os.environ:  # else torchrun's environment says where to meet
        distributed.init_process_group(
            "gloo" if cpu else "nccl",
            f"file://{os.environ[GROUP]}",
            timeout=WAIT,
            rank=int(os.environ["RANK"]),
            world_size=int(os.environ["WORLD_SIZE"]),
        )
    accelerator = Accelerator(
        cpu=cpu,
        mixed_precision="no" if precision == "fp32" else precision,
        kwargs_handlers=[InitProcessGroupKwargs(timeout=WAIT)],
    )
    if settings.threads is not None:  # after Accelerate, which chooses a number for several processes
        torch.set_num_threads(settings.threads)
    return accelerator


def on_cpu(settings: Settings) -> bool:
    """Returns whether the run uses the CPU, by choice or because there is no GPU.

    Raises:
        UserError: if the machine lacks the GPU of the settings.
    """
    gpus = [name for name, kind in (("cuda", torch.cuda), ("mps", torch.backends.mps)) if kind.is_available()]
    if settings.device not in ("auto", "cpu", *gpus):
        raise UserError("this machine has no such GPU", key=f"device={settings.device}")
    return settings.device == "cpu" or not gpus


def precision_name(accelerator: Accelerator) -> str:
    """Returns "fp32", "bf16" or "fp16"."""
    return "fp32" if accelerator.mixed_precision == "no" else accelerator.mixed_precision


class Processes:
    """The ``count`` processes of a run, which exchange their gradients; several are in torch's process group."""

    def __init__(self, count: int) -> None:
        # Flags travel between the hosts, so that no device is waited for.
        self._hosts = distributed.new_group(backend="gloo") if count > 1 else None

    def average_gradients(self, parameters: Sequence[nn.Parameter], stop: bool) -> bool:
        """Replaces the gradients of ``parameters`` by their mean over processes, in a few large calls.

        A missing gradient counts as zero, and stays missing if no process has it. Returns whether ``stop`` is set
        on any process.
        """
        if self._hosts is None:
            return stop
        flags = torch.tensor([stop, *(parameter.grad is not None for parameter in parameters)], dtype=torch.uint8)
        distributed.all_reduce(flags, distributed.ReduceOp.MAX, group=self._hosts)
        stop, *used = flags.bool().tolist()
        parameters = list(compress(parameters, used))
        buckets = defaultdict[int, list[Tensor]](list)
        for parameter, end in zip(parameters, accumulate(map(Tensor.numel, parameters)), strict=True):
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
            buckets[end // BUCKET].append(parameter.grad)
        for bucket in buckets.values():
            flat = torch.cat([gradient.flatten() for gradient in bucket])
            distributed.all_reduce(flat)
            flat /= self._hosts.size()
            for gradient, mean in zip(bucket, flat.split([*map(Tensor.numel, bucket)]), strict=True):
                gradient.copy_(mean.view_as(gradient))
        return stop


@contextmanager
def all_threads(count: int) -> Iterator[None]:
    """Gives this process the threads of all ``count`` processes of the run, while the others wait for it."""
    threads = torch.get_num_threads()
    torch.set_num_threads(count * threads)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
