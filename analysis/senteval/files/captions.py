"""COCO captions and image features of the toolkit's pickles, read without running anything.

A pickle is a program that may call any function. The standard library's unpickler reads these files, restricted to
the instructions of plain data; a name in a file stands for a function of this module or is refused, and nothing is
imported. Form and order after ``senteval/rank.py`` of facebookresearch/SentEval (5d6dc117).
"""

from __future__ import annotations

import mmap
import os
import pickle
import pickletools
import re
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np

from data.errors import UserError, readable
from data.files import open_bytes

FILES = {"train": "train.pkl", "dev": "valid.pkl", "test": "test.pkl"}
CAPTIONS = 5  # of an image, the first ones
MOST_BYTES = 2 * 2**30  # COCO's train.pkl, the largest, has about 1 GB: 113,287 images of 2,048 float32
SMALL = 2**20  # numbers or characters that a file may stand for even if it has fewer bytes
_HASHABLE = {str, bytes, int, float, bool}  # others may nest: to hash them can overflow the stack


class Captions(NamedTuple):
    """n images of one split and their captions.

    Attributes:
        images: image features, float32 of shape (n, F).
        captions: five captions per image, in the file's order.
    """

    images: np.ndarray
    captions: list[list[str]]


def captions(folder: Path) -> dict[str, Captions]:
    """Reads train, dev and test; images are in the files' order.

    Raises:
        UserError: if a file is damaged, is not of this form, or holds anything but plain data.
    """
    return {split: _split(folder / name) for split, name in FILES.items()}


def plain_data(path: Path) -> Any:
    """Reads a pickle of plain data. Strings of Python 2 are read as latin-1, bytearrays as bytes.

    Returns:
        Lists, tuples, dicts, strings, bytes, numbers and numpy arrays of numbers, one inside the other.

    Raises:
        UserError: if the file holds anything else, is damaged or has more than MOST_BYTES.
    """
    with readable(path), open_bytes(path) as file:
        size = os.fstat(file.fileno()).st_size
        if size > MOST_BYTES:
            raise UserError(f"{path} must have at most {MOST_BYTES} bytes. Got {size} instead.")
        try:
            with _Content(file.fileno(), size, access=mmap.ACCESS_READ) as content:
                value = _Unpickler(content, encoding="latin-1").load()
            _check_plain(value)
        except _Refused as refused:
            raise UserError(
                f"{path} holds {refused}: only lists, tuples, dicts, strings, bytes, numbers and numpy arrays of "
                "numbers are read, because a pickle can run any program."
            ) from None
        except OSError:
            raise
        except Exception as error:  # a damaged pickle may raise any, as the library documents
            raise UserError(f"{path} is not a complete pickle: fetch it again ({type(error).__name__}).") from None
        return value


def _split(path: Path) -> Captions:
    content = plain_data(path)
    try:
        rows, owned, spoken = (content[key] for key in ("features", "image_to_caption_ids", "captions"))
        most = max(SMALL, path.stat().st_size)
        if not isinstance(rows, np.ndarray):
            if sum(row.size if isinstance(row, np.ndarray) else len(row) for row in rows) > most:
                raise MemoryError
            rows = np.stack([row if isinstance(row, np.ndarray) else np.fromiter(row, np.float32) for row in rows])
        images = rows.astype(np.float32, copy=False)
        chosen = [[_caption(spoken, key) for key in owned[image][:CAPTIONS]] for image in range(len(images))]
        if sum(len(caption) for own in chosen for caption in own) > most:
            raise MemoryError
    except (LookupError, MemoryError, OverflowError, TypeError, ValueError):
        raise UserError(
            f"{path} must hold a dict of features, image_to_caption_ids and captions, as the toolkit's files do."
        ) from None
    if images.ndim != 2 or not images.size or not np.isfinite(images).all():
        raise UserError(f"{path}: features must be rows of finite numbers. Got an array of shape {images.shape}.")
    for image, own in enumerate(chosen):
        if len(own) < CAPTIONS:
            raise UserError(
                f"{path}: image {image} must have at least {CAPTIONS} captions. Got {len(own)} instead."
            )
    return Captions(images, [[_sentence(caption) for caption in own] for own in chosen])


def _caption(spoken: Any, key: Any) -> str:
    if type(key) not in _HASHABLE and not isinstance(key, np.integer):
        raise TypeError
    caption = spoken[key]["cleaned_caption"]
    if not isinstance(caption, str):
        raise TypeError
    return caption


def _sentence(caption: str) -> str:
    """Returns a caption with a full stop; split only at ASCII blanks, as the toolkit's bytes.split() does."""
    return b" ".join(f"{caption} .".encode(errors="replace").split()).decode()


class _Refused(Exception):
    """Content that is refused in a file."""


def _refuse(what: str, *_: object) -> None:
    raise _Refused(what)


class _Name:
    """A function or class that a file names; a call goes to ``make`` instead, a function of this module."""

    __slots__ = ("make", "name")

    def __init__(self, name: str, make: Callable[..., Any]) -> None:
        self.name, self.make = name, make

    def __call__(self, *arguments: Any) -> Any:
        return self.make(*arguments)


class _Dtype:
    """A dtype of numbers; a later instruction may set its byte order."""

    __slots__ = ("code", "order")
    name = "numpy.dtype"

    def __init__(self, code: object, *_: object) -> None:
        if not isinstance(code, str) or not re.fullmatch("b1|[iu][1248]|f[248]", code):
            raise _Refused(f"an array of {code[:20]!r}" if isinstance(code, str) else "a dtype of parts")
        self.code, self.order = code, "="

    def numpy(self) -> np.dtype:
        return np.dtype(self.code).newbyteorder(self.order)  # type: ignore[arg-type]


def _shown(value: object) -> str:
    return getattr(value, "name", type(value).__name__)


def _as_bytes(raw: object) -> bytes:
    """Returns bytes; Python 2 may have pickled them as a string."""
    if isinstance(raw, str):
        return raw.encode("latin-1")
    if isinstance(raw, bytes):
        return raw
    raise _Refused(f"an array made of a {_shown(raw)}")


def _array(kind: object, *_: object) -> np.ndarray:
    """Makes an empty array; a later instruction fills it."""
    if not isinstance(kind, _Name) or kind.name != "numpy.ndarray":
        raise _Refused(f"an array of class {_shown(kind)}")
    return np.empty(0, np.int8)


def _scalar(dtype: _Dtype, raw: object) -> Any:
    return np.frombuffer(_as_bytes(raw), dtype.numpy()).item()


def _from_buffer(raw: object, dtype: _Dtype, shape: tuple[int, ...], order: Any) -> np.ndarray:
    content = bytearray(_as_bytes(raw))  # for an array that can be written to
    return np.frombuffer(content, dtype.numpy()).reshape(shape, order=order)


def _encode(text: str, encoding: str) -> bytes:
    """Decodes bytes as protocols below 3 write them."""
    if encoding not in ("latin1", "latin-1"):
        raise _Refused(f"bytes in {encoding!r:.20}")
    return text.encode("latin-1")


_MAKERS: dict[str, Callable[..., Any]] = {
    "numpy.ndarray": partial(_refuse, "a call of numpy.ndarray"),
    "numpy.dtype": _Dtype,
    "numpy.core.multiarray._reconstruct": _array,
    "numpy.core.multiarray.scalar": _scalar,
    "numpy.core.numeric._frombuffer": _from_buffer,
    "_codecs.encode": _encode,
}


def _fill(state: Any, target: object) -> None:
    """Completes an array or a dtype; no other object has a state."""
    if type(target) is _Dtype:
        _, order, *parts = state
        if order not in ("<", ">", "=", "|") or any(part is not None for part in parts[:3]):
            raise _Refused("an array of records")
        target.order = order
    elif type(target) is np.ndarray:
        _, shape, dtype, fortran, raw = state
        content, dtype = _as_bytes(raw), dtype.numpy()
        shape = np.frombuffer(content, dtype).reshape(shape).shape  # refuses one that does not fit
        target.__setstate__((1, shape, dtype, bool(fortran), content))  # type: ignore[arg-type]
    else:
        raise _Refused(f"a state for {_shown(target)}")


def _check_plain(content: object) -> None:
    """Refuses names and dtypes that are left in ``content``."""
    pending: list[Iterable[Any]] = [[content]]
    seen = set()
    while pending:
        for value in pending.pop():
            kind = type(value)
            if kind is dict or kind is list or kind is tuple:
                if id(value) not in seen:
                    seen.add(id(value))
                    pending.append(value.values() if kind is dict else value)
            elif kind is _Name or kind is _Dtype:
                raise _Refused(_shown(value))


class _Content(mmap.mmap):
    """A file, mapped: a read takes no memory beyond its end, whatever length an instruction declares."""

    def readline(self) -> bytes:
        line = super().readline()
        if not line.endswith(b"\n"):
            raise EOFError
        return line


# Instructions that do what the library says. PERSID, the first byte of a zip file, always ends in an error.
_UNCHANGED = """
PROTO FRAME STOP MARK PUT BINPUT LONG_BINPUT MEMOIZE GET BINGET LONG_BINGET GLOBAL STACK_GLOBAL REDUCE PERSID
NONE NEWTRUE NEWFALSE INT BININT BININT1 BININT2 LONG LONG1 LONG4 FLOAT BINFLOAT STRING BINSTRING SHORT_BINSTRING
UNICODE BINUNICODE SHORT_BINUNICODE BINUNICODE8 BINBYTES SHORT_BINBYTES BINBYTES8
EMPTY_LIST APPEND APPENDS LIST EMPTY_TUPLE TUPLE TUPLE1 TUPLE2 TUPLE3 EMPTY_DICT
"""
_LIBRARY = pickle._Unpickler.dispatch


class _Unpickler(pickle._Unpickler):
    """The library's unpickler in Python; the one in C allocates 32 GiB for a memo index of 2**31.

    Instructions of ``_UNCHANGED`` are the library's own. Those that are replaced here could overflow the C stack
    (the hash of a deep tuple), write into an array or set the state of any object. All others are refused.
    """

    stack: list[Any]
    pop_mark: Callable[[], list[Any]]

    def find_class(self, module: str, name: str) -> _Name:
        found = f"{module}.{name}"
        make = _MAKERS.get(found.replace("numpy._core.", "numpy.core."))
        if make is None:
            raise _Refused(found[:100])
        return _Name(found, make)

    def set_items(self, items: list[Any]) -> None:
        target, keys = self.stack[-1], items[::2]
        if type(target) is not dict:
            raise _Refused(f"items set in {_shown(target)}")
        for key in keys:
            if type(key) not in _HASHABLE:
                raise _Refused(f"a dict with a key of type {_shown(key)}")
        target.update(zip(keys, items[1::2], strict=True))

    def load_dict(self) -> None:
        items = self.pop_mark()
        self.stack.append({})
        self.set_items(items)

    dispatch: ClassVar[dict[int, Any]] = {
        **{ord(each.code): partial(_refuse, f"the instruction {each.name}") for each in pickletools.opcodes},
        **{getattr(pickle, name)[0]: _LIBRARY[getattr(pickle, name)[0]] for name in _UNCHANGED.split()},
        pickle.BYTEARRAY8[0]: _LIBRARY[pickle.BINBYTES8[0]],  # its own allocates before it reads
        pickle.SETITEM[0]: lambda self: self.set_items([self.stack.pop(-2), self.stack.pop()]),
        pickle.SETITEMS[0]: lambda self: self.set_items(self.pop_mark()),
        pickle.DICT[0]: load_dict,
        pickle.BUILD[0]: lambda self: _fill(self.stack.pop(), self.stack[-1]),
    }
