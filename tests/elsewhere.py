"""A stand-in for a GPU: tensors that say "meta", hold their values, and refuse to be mixed with the host's."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

DEVICE = torch.device("meta")
# What a GPU's tensors may do with one of the host: be copied, be chosen from, and be packed (sizes of batches).
MAY_MIX = {"copy_", "_to_copy", "index", "index_put", "index_put_", "_index_put_impl_", "lstm", "gru"}
# What needs a value or a size that only a GPU knows, so that the host waits until it has done all work so far.
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
    """Raises a RuntimeError within it where the host would wait for ``DEVICE``."""
    global _refusing
    _refusing = True
    try:
        yield
    finally:
        _refusing = False


class There(Tensor):
    """A tensor on ``DEVICE``; its values are those of ``here``."""

    here: Tensor

    @staticmethod
    def __new__(cls, here: Tensor) -> There:
        result: There = torch.Tensor._make_wrapper_subclass(
            cls, here.size(), here.stride(), here.storage_offset(), dtype=here.dtype, device=DEVICE
        )
        result.here = here
        return result

    def tolist(self) -> Any:
        if _refusing:
            raise RuntimeError("tolist waits for the device")
        return self.here.tolist()

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]
        cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        return _dispatch(func, args, kwargs or {})


class Elsewhere(TorchDispatchMode):
    """Within it ``DEVICE`` can be trained on (forward: autograd knows no such device).

    Raises:
        RuntimeError: where tensors of two devices meet, as a GPU has it.
    """

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return _dispatch(func, args, kwargs or {})


def _dispatch(func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    tensors = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, Tensor)]
    name = func._schema.name.removeprefix("aten::")
    there = any(isinstance(tensor, There) for tensor in tensors)
    if there and name not in MAY_MIX and any(not isinstance(one, There) and one.ndim for one in tensors):
        raise RuntimeError(f"{name} of tensors on two devices")
    if _refusing and there and _waits(name, args, kwargs):
        raise RuntimeError(f"{name} waits for the device")
    asked = [torch.device(leaf) for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, torch.device)]
    there = DEVICE in asked if asked else there
    args, kwargs = tree_map(_on_the_host, (args, kwargs))
    result = func(*args, **kwargs)
    if name.endswith("_") and isinstance(tensors[0], There):
        return tensors[0]
    return tree_map(lambda leaf: There(leaf) if there and isinstance(leaf, Tensor) else leaf, result)


def _waits(name: str, args: Any, kwargs: dict[str, Any]) -> bool:
    """Whether the host waits: for a value, for the size of what a mask chooses, or for a copy to the host."""
    if name == "copy_":
        return isinstance(args[1], There) and not isinstance(args[0], There)
    if name in ("_to_copy", "to"):
        return torch.device("cpu") in [
            torch.device(d) for d in tree_leaves((args, kwargs)) if isinstance(d, torch.device)
        ]
    if name in ("index", "index_put", "index_put_", "_index_put_impl_"):
        return any(isinstance(one, There) and one.dtype == torch.bool for one in tree_leaves(args[1]))
    return name in WAITS or (name == "repeat_interleave" and kwargs.get("output_size") is None)


def _on_the_host(leaf: Any) -> Any:
    if isinstance(leaf, There):
        return leaf.here
    return torch.device("cpu") if isinstance(leaf, torch.device) else leaf
