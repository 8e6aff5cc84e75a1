"""Reads encoder folders without trusting them: opens no file outside, unpickles nothing, and bounds all sizes."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn
from torch.nn.modules import module as hooks

from data.batch import Tokens
from data.display import printable
from data.errors import UserError, opening, reason
from data.files import contained, read_as
from data.tokenizer import check_vocabulary

BUNDLED = "modernbert-mini-2"  # the checkpoint that training starts from without network (encoder=bundled)
MARKER = "encoder.json"  # of this suite, beside sentence-transformers' files
WEIGHTS = "model.safetensors"
HEAD = "mlm_head.safetensors"  # a file of its own, as other libraries would report its weights as unexpected
NO_LIMIT = 1_000_000  # tokens of an input; stands for "unlimited"
MOST_TENSORS = 20_000  # of a random model: more take minutes to build, whatever their size
MOST_COUNT = 20_000  # of layers, heads, labels
COUNTS = re.compile(r"num_|layers?$")  # names of such settings


@dataclass
class Marker:
    """Keys of ``encoder.json`` that all encoders have, beside "class"."""

    weights: Literal["pretrained", "bundled", "random"]
    origin: str


def path_inside(folder: Path, name: str, file: str) -> Path:
    """Returns ``folder / name``, for a ``name`` read from the folder's ``file``.

    Raises:
        UserError: if it is outside ``folder``.
    """
    if Path(name).is_absolute() or ".." in Path(name).parts:
        raise UserError(f"{folder / file} must name parts of its own folder. Got {name!r:.200} instead.")
    return folder / name


def class_name(encoder: object) -> str:
    """Returns the name under which ``encoder.json`` holds the class of ``encoder``."""
    return f"{type(encoder).__module__}.{type(encoder).__name__}"


def read_marker(folder: Path, kind: type[Marker] = Marker) -> dict[str, Any]:
    """Returns the content of the folder's ``encoder.json``.

    Raises:
        OSError, ValueError: if it cannot be read.
        UserError: if it lacks a key or has one of another type than ``kind``, or a link leads out of the folder.
    """
    marker: dict[str, Any] = read_as(contained(folder) / MARKER, kind)
    if not isinstance(marker.get("class"), str):
        raise UserError(f"{folder / MARKER}: class must be a string.")
    return marker | {"origin": printable(marker["origin"])}


def refuse_other(folder: Path) -> None:
    """Refuses to replace ``folder`` unless it is an encoder's, empty or not there.

    Raises:
        UserError: if it is something else.
    """
    if folder.exists() and not (folder / MARKER).is_file() and (folder.is_file() or any(folder.iterdir())):
        raise UserError(f"{folder} is there already and is not an encoder's folder: name another one.")


def check_counts(values: Any, where: Path | str) -> None:
    """Refuses counts of layers, heads or labels above ``MOST_COUNT``, at any depth of ``values``.

    Raises:
        UserError: if there is one; the message begins with ``where``.
    """
    for key, value in values.items():
        if isinstance(value, Mapping):
            check_counts(value, where)
        elif COUNTS.search(key) and isinstance(value, int | float) and not 0 <= value <= MOST_COUNT:
            raise UserError(f"{where}: {key} must be from 0 to {MOST_COUNT:,}. Got {value} instead.")


def read_weights(path: Path) -> dict[str, Tensor]:
    """Returns the weights in a safetensors file by name, as float32.

    Raises:
        UserError: if there is no such file, or it holds something else.
    """
    if not path.is_file():
        raise UserError(
            f"{path.parent} has no {path.name}: save its weights as safetensors; other formats are not opened."
        )
    try:
        found = load_file(path)
    except SafetensorError as error:
        raise UserError(f"{path} cannot be opened: {reason(error)}.") from error
    for name, weight in found.items():
        if not weight.is_floating_point():
            raise UserError(f"{path}: {name!r:.200} must hold floating-point numbers. Got {weight.dtype} instead.")
        require_finite(weight, f"{path}: {name!r:.200}")
    return {name: weight.float() for name, weight in found.items()}


def require_finite(weight: Tensor, name: str) -> None:
    """Refuses a ``weight`` with a number that is not finite.

    Raises:
        UserError: with ``name``.
    """
    if not bool(weight.isfinite().all()):
        raise UserError(f"{name} must hold finite numbers.")


def read_table(folder: Path, name: str, tokenizer: Any) -> Tensor:
    """Returns the vectors of a tokenizer's words, of shape (V, E), which the folder's weights hold as ``name``.

    Raises:
        UserError: if they are missing, or their number is not that of the words.
    """
    table = read_weights(folder / WEIGHTS).get(name)
    if table is None or table.ndim != 2:
        raise UserError(f"{folder / WEIGHTS} must hold word vectors, one row per word, as {name}.")
    if len(tokenizer) != len(table):
        raise UserError(f"{folder} has {len(tokenizer)} words and {len(table)} vectors: export it again.")
    check_vocabulary(folder, tokenizer, len(table))
    return table


def fill(module: nn.Module, weights: Mapping[str, Tensor], path: Path) -> None:
    """Loads ``weights`` of the file ``path`` into ``module``, whose names and shapes they must have.

    Raises:
        UserError: if they do not.
    """
    own = module.state_dict()
    for name in sorted(own.keys() ^ weights.keys()):
        has = "lacks the weight" if name in own else "has a weight that its settings have no place for,"
        raise UserError(f"{path} {has} {name!r:.200}.")
    for name, weight in weights.items():
        if weight.shape != own[name].shape:
            raise UserError(
                f"{path}: {name} has the shape {list(weight.shape)}; by the settings it is {[*own[name].shape]}."
            )
    module.load_state_dict(weights)


@contextmanager
def bounded(tensors: float, numbers: float, message: str) -> Iterator[None]:
    """Stops the construction of modules of more than ``tensors`` tensors or ``numbers`` numbers in all.

    Each tensor is counted before it is filled, so that a maliciously large size costs neither time nor memory.

    Raises:
        UserError: with ``message``.
    """
    seen: set[tuple[int, str]] = set()
    total = 0

    def count(module: nn.Module, name: str, value: Tensor | None) -> None:
        nonlocal total
        if value is not None and (id(module), name) not in seen:  # loading and tying register it again
            seen.add((id(module), name))
            total += value.numel()
            if len(seen) > tensors or total > numbers:
                raise UserError(message)

    with ExitStack() as stack:
        for register in (
            hooks.register_module_parameter_registration_hook,
            hooks.register_module_buffer_registration_hook,
        ):
            stack.callback(register(count).remove)
        try:
            yield
        except (RuntimeError, MemoryError, OverflowError) as error:
            if isinstance(error, RuntimeError) and not re.search("(?i)alloc|overflow|too large", str(error)):
                raise
            raise UserError(message) from error  # more than torch can allocate or address


def bounded_by_memory() -> AbstractContextManager[None]:
    """Stops the construction of a random model that does not fit into this machine's memory."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    message = f"A random encoder of these sizes does not fit into {memory / 1e9:.0f} GB: make it smaller."
    return bounded(MOST_TENSORS, memory / 4, message)


def bounded_by_weights(shapes: Collection[Sequence[int]], folder: Path) -> AbstractContextManager[None]:
    """Stops the construction of a model that is far larger than its weights in ``folder``, of these ``shapes``.

    The bound leaves room for heads and buffers without weights in the folder.
    """
    numbers = sum(map(math.prod, shapes))
    message = f"{folder}: the sizes in its settings are above those of its weights."
    return bounded(4 * len(shapes) + 200, 3 * numbers + 10**8, message)


def try_out(encoder: Any, folder: Path | str) -> None:
    """Refuses an encoder that opens but cannot encode.

    Raises:
        UserError: if its vectors are not finite or not of its dimension.
    """
    with opening(folder), torch.no_grad():
        if encoder.format.max_content < 1:
            raise UserError(f"{folder}: an input of {encoder.format.max_length} tokens has no room for a word.")
        tokens = Tokens.pad([encoder.format.wrap([0])], encoder.format.pad_id)
        vector = encoder(tokens).sentence
        if vector.shape != (1, encoder.dimension) or not bool(vector.isfinite().all()):
            size = encoder.dimension
            raise UserError(
                f"{folder}: the encoder is damaged: its vectors are not finite, or not of size {size}."
            )
