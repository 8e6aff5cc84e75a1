"""Simulates a GPU on the CPU: tensors that report the device "meta" and cannot be mixed with those of the host."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

DEVICE = torch.device("meta")
# Operations that may mix tensors of a GPU and of the host: copies, indexing, recurrent layers (for batch sizes).
MAY_MIX = {"copy_", "_to_copy", "index", "index_put", "index_put_", "_index_put_impl_", "lstm", "gru"}
# Operations that need a value or a size from the GPU, so that the host waits until all queued work is done.
WAITS = {
    "_local_scalar_dense",
    "item",
    "nonzero",
    "masked_select",
    "is_nonzero",
    "equal",
    "_unique2",
    "unique_dim",
}
_refusing = False


@contextmanager
def refuse_waits() -> Iterator[None]:
    """Raises a RuntimeError inside the context wherever the host would wait for ``DEVICE``."""
    global _refusing
    _refusing = True
    try:
        yield
    finally:
        _refusing = False


class DeviceTensor(Tensor):
    """Tensor on ``DEVICE`` whose values are held in ``on_host``."""

    on_host: Tensor

    @staticmethod
    def __new__(cls, on_host: Tensor) -> DeviceTensor:
        result: DeviceTensor = torch.Tensor._make_wrapper_subclass(
            cls, on_host.size(), on_host.stride(), on_host.storage_offset(), dtype=on_host.dtype, device=DEVICE
        )
        result.on_host = on_host
        return result

    def tolist(self) -> Any:
        if _refusing:
            raise RuntimeError("tolist waits for the device")
        return self.on_host.tolist()

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]
        cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        return _dispatch(func, args, kwargs or {})


class SimulatedDevice(TorchDispatchMode):
    """Context in which models can run on ``DEVICE``: forward passes only, as autograd does not support it.

    Raises:
        RuntimeError: if an operation mixes tensors of two devices, as on a GPU.
    """

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return _dispatch(func, args, kwargs or {})


def _dispatch(func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    tensors = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, Tensor)]
    name = func._schema.name.removeprefix("aten::")
    on_device = any(isinstance(tensor, DeviceTensor) for tensor in tensors)
    if (
        on_device
        and name not in MAY_MIX
        and any(not isinstance(tensor, DeviceTensor) and tensor.ndim for tensor in tensors)
    ):
        raise RuntimeError(f"{name} of tensors on two devices")
    if _refusing and on_device and _waits(name, args, kwargs):
        raise RuntimeError(f"{name} waits for the device")
    requested = [torch.device(leaf) for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, torch.device)]
    on_device = DEVICE in requested if requested else on_device
    args, kwargs = tree_map(_on_the_host, (args, kwargs))
    result = func(*args, **kwargs)
    if name.endswith("_") and isinstance(tensors[0], DeviceTensor):
        return tensors[0]
    return tree_map(lambda leaf: DeviceTensor(leaf) if on_device and isinstance(leaf, Tensor) else leaf, result)


def _waits(name: str, args: Any, kwargs: dict[str, Any]) -> bool:
    """Returns whether the host waits: for a value, for the number of selected elements, or for a copy."""
    if name == "copy_":
        return isinstance(args[1], DeviceTensor) and not isinstance(args[0], DeviceTensor)
    if name in ("_to_copy", "to"):
        return torch.device("cpu") in [
            torch.device(leaf) for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, torch.device)
        ]
    if name in ("index", "index_put", "index_put_", "_index_put_impl_"):
        return any(isinstance(leaf, DeviceTensor) and leaf.dtype == torch.bool for leaf in tree_leaves(args[1]))
    return name in WAITS or (name == "repeat_interleave" and kwargs.get("output_size") is None)


def _on_the_host(leaf: Any) -> Any:
    if isinstance(leaf, DeviceTensor):
        return leaf.on_host
    return torch.device("cpu") if isinstance(leaf, torch.device) else leaf
