"""A stand-in for a GPU: tensors that say "meta", hold their values, and refuse to be mixed with the host's."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

DEVICE = torch.device("meta")
# What a GPU's tensors may do with one of the host: be copied, be chosen from, and be packed (sizes of batches).
MAY_MIX = {"copy_", "_to_copy", "index", "index_put", "index_put_", "_index_put_impl_", "lstm", "gru"}


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
    asked = [torch.device(leaf) for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, torch.device)]
    there = DEVICE in asked if asked else there
    args, kwargs = tree_map(_on_the_host, (args, kwargs))
    result = func(*args, **kwargs)
    if name.endswith("_") and isinstance(tensors[0], There):
        return tensors[0]
    return tree_map(lambda leaf: There(leaf) if there and isinstance(leaf, Tensor) else leaf, result)


def _on_the_host(leaf: Any) -> Any:
    if isinstance(leaf, There):
        return leaf.here
    return torch.device("cpu") if isinstance(leaf, torch.device) else leaf
