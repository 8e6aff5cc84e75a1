"""COCO captions and image features of the toolkit's pickles, read without running anything.

A pickle is a program that may call any function. Here its instructions are carried out by hand, those alone that
build lists, tuples, dicts, strings, bytes, numbers and numpy arrays of numbers; nothing that a file names is ever
imported or called. Form and order after ``senteval/rank.py`` of facebookresearch/SentEval (5d6dc117).
"""

from __future__ import annotations

import ast
import pickletools
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np

from analysis.senteval.files.examples import Captions
from data.errors import UserError, readable

FILES = {"train": "train.pkl", "dev": "valid.pkl", "test": "test.pkl"}
CAPTIONS = 5  # of an image, the first ones
_DAMAGE = (
    ArithmeticError,
    AttributeError,
    LookupError,
    MemoryError,
    RecursionError,
    SyntaxError,
    TypeError,
    ValueError,
)


def captions(folder: Path) -> dict[str, Captions]:
    """Train, dev and test, images in the files' order.

    Raises:
        UserError: if a file is damaged, is not of this form, or holds anything but plain data.
    """
    return {split: _split(folder / name) for split, name in FILES.items()}


def plain_data(path: Path) -> Any:
    """What a pickle holds, if that is plain data alone. Strings of Python 2 are read as latin-1.

    Raises:
        UserError: otherwise, or if the file is damaged.
    """
    with readable(path), path.open("rb") as file:
        try:
            return _Machine().run(file)
        except _Refused as refused:
            raise UserError(
                f"{path} holds {refused}: only lists, tuples, dicts, strings, bytes, numbers and numpy arrays of "
                "numbers are read, for a pickle may run any program."
            ) from None
        except _DAMAGE as error:
            raise UserError(f"{path} is no whole pickle: fetch it again ({type(error).__name__}).") from None


def _split(path: Path) -> Captions:
    content = plain_data(path)
    try:
        rows, owned, spoken = (content[key] for key in ("features", "image_to_caption_ids", "captions"))
        if not isinstance(rows, np.ndarray):
            rows = np.stack([row if isinstance(row, np.ndarray) else np.fromiter(row, np.float32) for row in rows])
        images = rows.astype(np.float32, copy=False)
        sentences = [
            [_sentence(spoken, caption) for caption in owned[image][:CAPTIONS]] for image in range(len(images))
        ]
    except (LookupError, MemoryError, TypeError, ValueError):
        raise UserError(
            f"{path} must hold a dict of features, image_to_caption_ids and captions, as the toolkit's files do."
        ) from None
    if images.ndim != 2 or not images.size or not np.isfinite(images).all():
        raise UserError(f"{path}: features must be rows of finite numbers. Got an array of shape {images.shape}.")
    for image, own in enumerate(sentences):
        if len(own) < CAPTIONS:
            raise UserError(
                f"{path}: image {image} must have at least {CAPTIONS} captions. Got {len(own)} instead."
            )
    return Captions(images, sentences)


def _sentence(spoken: Any, key: Any) -> str:
    """One caption with the toolkit's full stop; cut at ASCII blanks alone, as its bytes.split() does."""
    if not isinstance(key, int | str | np.integer):  # others may nest: to hash them can overflow
        raise TypeError
    caption = spoken[key]["cleaned_caption"]
    if not isinstance(caption, str):
        raise TypeError
    return b" ".join(f"{caption} .".encode(errors="replace").split()).decode()


class _Refused(Exception):
    """What a file holds and may not."""


@dataclass(frozen=True)
class _Name:
    """A function or class that a file names; never looked up."""

    module: str
    name: str

    def __str__(self) -> str:
        return f"{self.module}.{self.name}"[:100]


def _shown(value: object) -> str:
    return str(value) if isinstance(value, _Name) else type(value).__name__


@dataclass
class _Dtype:
    code: str
    order: str = "="  # told by a later instruction

    def numpy(self) -> np.dtype:
        return np.dtype(self.code).newbyteorder(self.order)  # type: ignore[arg-type]


def _as_bytes(raw: object) -> bytes | bytearray:
    """Bytes, which Python 2 wrote as a string."""
    if isinstance(raw, str):
        return raw.encode("latin-1")
    if isinstance(raw, bytes | bytearray):
        return raw
    raise _Refused(f"an array made of a {type(raw).__name__}")


def _dtype(code: object, *_: object) -> _Dtype:
    if not isinstance(code, str) or not re.fullmatch("b1|[iu][1248]|f[248]", code):
        raise _Refused(f"an array of {code[:20]!r}" if isinstance(code, str) else "a dtype of parts")
    return _Dtype(code)


def _array(kind: object, *_: object) -> np.ndarray:
    """An empty array; a later instruction fills it."""
    if kind != _Name("numpy", "ndarray"):
        raise _Refused(f"an array of class {_shown(kind)}")
    return np.empty(0, np.int8)


def _scalar(dtype: _Dtype, raw: object) -> Any:
    return np.frombuffer(_as_bytes(raw), dtype.numpy()).item()


def _from_buffer(raw: object, dtype: _Dtype, shape: tuple[int, ...], order: Any) -> np.ndarray:
    return np.frombuffer(_as_bytes(raw), dtype.numpy()).reshape(shape, order=order)


def _encode(text: str, encoding: str) -> bytes:
    """How protocols below 3 write bytes."""
    if encoding not in ("latin1", "latin-1"):
        raise _Refused(f"bytes in {encoding!r:.20}")
    return text.encode("latin-1")


_MAKERS: dict[_Name, Callable[..., Any]] = {
    _Name("numpy", "dtype"): _dtype,
    _Name("_codecs", "encode"): _encode,
    **{_Name(f"numpy.{core}.multiarray", "_reconstruct"): _array for core in ("core", "_core")},
    **{_Name(f"numpy.{core}.multiarray", "scalar"): _scalar for core in ("core", "_core")},
    **{_Name(f"numpy.{core}.numeric", "_frombuffer"): _from_buffer for core in ("core", "_core")},
}
_NAMES = {*_MAKERS, _Name("numpy", "ndarray")}
_OPCODES = {opcode.code.encode("latin-1"): opcode for opcode in pickletools.opcodes}
_PUSHED = {"NONE"} | {  # instructions whose argument is the value: a number, string or bytes
    opcode.name
    for opcode in pickletools.opcodes
    if opcode.arg and not opcode.stack_before and opcode.stack_after not in ([], [pickletools.anyobject])
}
_EMPTY: dict[str, Callable[[], Any]] = {"EMPTY_LIST": list, "EMPTY_TUPLE": tuple, "EMPTY_DICT": dict}
_TUPLES = {"TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}


class _Machine:
    """The stack machine of a pickle, with the instructions of plain data.

    The standard library's ``pickletools``, which carries nothing out, says how an instruction is read.
    """

    def __init__(self) -> None:
        self.stack: list[Any] = []
        self.below: list[list[Any]] = []  # the stack under each mark
        self.memo: dict[int, Any] = {}

    def run(self, file: IO[bytes]) -> Any:
        while True:
            opcode = _OPCODES[file.read(1)]
            if opcode.name == "STRING":  # pickletools takes ASCII alone
                argument = ast.literal_eval("b" + file.readline().decode("latin-1").strip()).decode("latin-1")
            else:
                argument = opcode.arg.reader(file) if opcode.arg else None
            if opcode.name == "STOP":
                return self.stack.pop()
            self.carry_out(opcode.name, argument)

    def carry_out(self, instruction: str, argument: Any) -> None:
        push = self.stack.append
        match instruction:  # the frequent ones first
            case "PUT" | "BINPUT" | "LONG_BINPUT":
                self.memo[argument] = self.stack[-1]
            case "MEMOIZE":
                self.memo[len(self.memo)] = self.stack[-1]
            case "GET" | "BINGET" | "LONG_BINGET":
                push(self.memo[argument])
            case _ if instruction in _PUSHED:
                push(argument)
            case "MARK":
                self.below.append(self.stack)
                self.stack = []
            case "SETITEMS":
                self.set_items(self.marked())
            case "APPENDS":
                self.extend(self.marked())
            case _ if instruction in _EMPTY:
                push(_EMPTY[instruction]())
            case _ if instruction in _TUPLES:
                push(tuple(self.top(_TUPLES[instruction])))
            case "SETITEM":
                self.set_items(self.top(2))
            case "APPEND":
                self.extend(self.top(1))
            case "TUPLE":
                self.stack_marked(tuple)
            case "LIST":
                self.stack_marked(list)
            case "DICT":
                items = self.marked()
                self.stack.append({})
                self.set_items(items)
            case "NEWTRUE" | "NEWFALSE":
                push(instruction == "NEWTRUE")
            case "GLOBAL":
                self.name(*argument.split(" ", 1))
            case "STACK_GLOBAL":
                self.name(*self.top(2))
            case "REDUCE":
                self.make(*self.top(2))
            case "BUILD":
                self.fill(*self.top(1))
            case "PROTO" | "FRAME":
                pass
            case _:
                raise _Refused(f"the instruction {instruction}")

    def top(self, count: int) -> list[Any]:
        """Takes the last ``count`` values off the stack."""
        values = self.stack[-count:]
        if len(values) < count:
            raise IndexError
        del self.stack[-count:]
        return values

    def marked(self) -> list[Any]:
        """Takes the values above the last mark off the stack."""
        values, self.stack = self.stack, self.below.pop()
        return values

    def stack_marked(self, kind: Callable[[list[Any]], Any]) -> None:
        values = self.marked()
        self.stack.append(kind(values))

    def extend(self, values: list[Any]) -> None:
        target = self.stack[-1]
        if type(target) is not list:
            raise _Refused(f"values added to {_shown(target)}")
        target.extend(values)

    def set_items(self, values: Sequence[Any]) -> None:
        target, keys = self.stack[-1], values[::2]
        if type(target) is not dict:
            raise _Refused(f"items set in {_shown(target)}")
        for key in keys:
            if not isinstance(key, str | bytes | int | float):  # others may nest: to hash them can overflow
                raise _Refused(f"a dict with a key of type {type(key).__name__}")
        target.update(zip(keys, values[1::2], strict=True))

    def name(self, module: object, name: object) -> None:
        if not isinstance(module, str) or not isinstance(name, str):
            raise _Refused("a name that is no string")
        found = _Name(module, name)
        if found not in _NAMES:
            raise _Refused(str(found))
        self.stack.append(found)

    def make(self, name: object, arguments: tuple[Any, ...]) -> None:
        if not isinstance(name, _Name) or name not in _MAKERS:
            raise _Refused(f"a call of {_shown(name)}")
        self.stack.append(_MAKERS[name](*arguments))

    def fill(self, state: Any) -> None:
        """Completes the array or dtype on top of the stack."""
        target = self.stack[-1]
        if type(target) is _Dtype:
            _, order, *parts = state
            if order not in ("<", ">", "=", "|") or any(part is not None for part in parts[:3]):
                raise _Refused("an array of records")
            target.order = order
        elif type(target) is np.ndarray:
            _, shape, dtype, fortran, raw = state
            dtype = dtype.numpy()
            content = bytes(_as_bytes(raw))
            shape = np.frombuffer(content, dtype).reshape(shape).shape  # refuses one that does not fit
            target.__setstate__((1, shape, dtype, bool(fortran), content))  # type: ignore[arg-type]
        else:
            raise _Refused(f"a state for {_shown(target)}")
