"""Caption files of the published format, in every pickle protocol; refusal of pickles that hold more than data."""

from __future__ import annotations

import builtins
import collections
import copyreg
import datetime
import errno
import os
import pickle
import pickletools
import struct
import subprocess
import sys
import tracemalloc
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analysis.senteval.files import captions as module
from analysis.senteval.files.captions import MOST_BYTES, SMALL, captions, plain_data
from data.errors import UserError
from data.randomness import generator

ONLY_DATA = (
    ": only lists, tuples, dicts, strings, bytes, numbers and numpy arrays of numbers are read, "
    "because a pickle can run any program."
)


def content(images: int = 3, **changes: Any) -> dict[str, Any]:
    """Returns the content of a caption file of the toolkit."""
    return {
        "features": generator(1).normal(size=(images, 4)).astype(np.float32),
        "image_to_caption_ids": {image: [70 * image + number for number in range(6)] for image in range(images)},
        "captions": {
            70 * image + number: {"cleaned_caption": f"a  photo {number}\tof\u00a0{image} ", "caption": "A photo."}
            for image in range(images)
            for number in range(6)
        },
    } | changes


def write(folder: Path, *contents: Any, protocol: int = 2) -> Path:
    for name, value in zip(("train", "valid", "test"), contents, strict=False):
        (folder / f"{name}.pkl").write_bytes(pickle.dumps(value, protocol=protocol))
    return folder


def refusal(path: Path) -> str:
    """Returns the error message without the path."""
    with pytest.raises(UserError) as error:
        plain_data(path)
    message = str(error.value)
    assert message.startswith(str(path)) and "\n" not in message
    return message.removeprefix(f"{path} ")


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_the_three_splits_are_read(tmp_path: Path, protocol: int) -> None:
    loaded = captions(write(tmp_path, content(3), content(2), content(1), protocol=protocol))
    assert [(split, len(found.images)) for split, found in loaded.items()] == [
        ("train", 3),
        ("dev", 2),
        ("test", 1),
    ]
    found = loaded["train"]
    assert found.images.dtype == np.float32 and np.array_equal(found.images, content(3)["features"])
    # The first five captions; runs of ASCII whitespace become one blank, other whitespace stays.
    assert found.captions[2] == [f"a photo {number} of\u00a02 ." for number in range(5)]


def test_lists_and_float64_features_are_accepted(tmp_path: Path) -> None:
    original = content()
    features = original["features"].astype(np.float64)
    lists = content(
        features=list(features),
        image_to_caption_ids=[np.arange(5 * image, 5 * image + 5) for image in range(3)],
        captions=[{"cleaned_caption": f"number {number}"} for number in range(15)],
    )
    numbers = content(features=features.tolist())
    loaded = captions(write(tmp_path, lists, numbers, content(features=features.astype(">f8"))))
    assert loaded["train"].captions[1][0] == "number 5 ."
    for found in loaded.values():
        assert found.images.dtype == np.float32 and np.array_equal(found.images, original["features"])


def test_python_2_files_are_read(tmp_path: Path) -> None:
    """Handwritten pickles of protocols 0 and 2 with byte strings and module paths, as from Python 2's cPickle."""
    raw = np.array([[1.5, -2], [300, 4]], "<f4")
    quoted = "'" + "".join(f"\\x{byte:02x}" for byte in raw.tobytes()) + "'"
    text = (
        "(dp1\nS'x'\ncnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\n(I0\ntS'b'\ntR"
        "(I1\n(I2\nI2\ntcnumpy\ndtype\n(S'f4'\nI0\nI1\ntR(I3\nS'<'\nNNNI-1\nI-1\nI0\ntbI00\n"
        f"S{quoted}\ntbsS'y'\nS'caf\\xe9'\ns."
    )
    (tmp_path / "0.pkl").write_text(text)
    string = raw.tobytes()
    binary = (
        b"\x80\x02}(U\x01xcnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85U\x01b\x87R"
        b"(K\x01K\x02K\x02\x86cnumpy\ndtype\nU\x02f4K\x00K\x01\x87R(K\x03U\x01<NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xff"
        b"K\x00tb\x89U" + bytes([len(string)]) + string + b"tbU\x01yU\x04caf\xe9u."
    )
    (tmp_path / "2.pkl").write_bytes(binary)
    for name in ("0.pkl", "2.pkl"):
        found = plain_data(tmp_path / name)
        assert np.array_equal(found["x"], raw) and found["y"] == "café"


LEAVES = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.binary(min_size=1)
PLAIN = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner) | st.tuples(inner, inner) | st.dictionaries(st.integers() | st.text(), inner, max_size=4)
    ),
)


@settings(max_examples=150)
@given(value=PLAIN, protocol=st.integers(0, pickle.HIGHEST_PROTOCOL))
def test_plain_data_is_read_back(tmp_path: Path, value: Any, protocol: int) -> None:
    (tmp_path / "x").write_bytes(pickle.dumps(value, protocol=protocol))
    assert plain_data(tmp_path / "x") == value


@given(
    dtype=st.sampled_from(["f2", "<f4", ">f4", "f8", "i1", "<i2", "i4", ">i8", "u1", "b1"]),
    shape=st.lists(st.integers(1, 3), max_size=3),
    order=st.sampled_from("CF"),
    protocol=st.integers(0, pickle.HIGHEST_PROTOCOL),
)
def test_arrays_are_read_back(tmp_path: Path, dtype: str, shape: list[int], order: Any, protocol: int) -> None:
    array = np.asarray(generator(2).normal(size=shape, scale=9).astype(dtype), order=order)
    scalar = array.ravel()[0]
    (tmp_path / "x").write_bytes(pickle.dumps([array, array, scalar], protocol=protocol))
    first, second, number = plain_data(tmp_path / "x")
    assert first is second and np.array_equal(first, array) and number == scalar.item()
    assert first.dtype.newbyteorder("=") == array.dtype.newbyteorder("=") and type(number) is type(scalar.item())


class Calls:
    """Object that is pickled as a call of ``function``."""

    def __init__(self, function: Any, *arguments: Any) -> None:
        self.call = function, arguments

    def __reduce__(self) -> Any:
        return self.call


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
@pytest.mark.parametrize(
    ("call", "named"),
    [
        pytest.param((os.system, "touch {trace}"), "posix.system", id="os.system"),
        pytest.param((builtins.eval, "open({trace!r}, 'w')"), "builtins.eval", id="eval"),
        pytest.param((builtins.exec, "open({trace!r}, 'w')"), "builtins.exec", id="exec"),
        pytest.param(
            (subprocess.check_call, "touch {trace}"), "subprocess.check_call", id="subprocess.check_call"
        ),
        pytest.param((getattr, 1, "real"), "builtins.getattr", id="getattr"),
        pytest.param((np.load, "{trace}"), "numpy.load", id="numpy.load"),
        pytest.param((np.frombuffer, b"abcd"), "numpy.frombuffer", id="numpy.frombuffer"),
        pytest.param((collections.OrderedDict,), "collections.OrderedDict", id="OrderedDict"),
        pytest.param((datetime.date, 2020, 1, 1), "datetime.date", id="datetime.date"),
    ],
)
def test_calls_are_refused(tmp_path: Path, call: tuple[Any, ...], named: str, protocol: int) -> None:
    trace = tmp_path / "ran"
    arguments = [part.format(trace=str(trace)) if isinstance(part, str) else part for part in call[1:]]
    path = write(tmp_path, content(captions=Calls(call[0], *arguments)), protocol=protocol) / "train.pkl"
    python_2_names = {"builtins": "__builtin__", "subprocess": "commands"}  # written by protocols below 3
    module_name, name = named.rsplit(".", 1)
    named = f"{python_2_names.get(module_name, module_name)}.{name}" if protocol < 3 else named
    assert refusal(path) == f"holds {named}{ONLY_DATA}"
    assert not trace.exists()


@pytest.mark.parametrize(
    ("file", "what"),
    [
        (b"ccopy_reg\n_reconstructor\n(cnumpy\nndarray\ncnumpy\nndarray\nNtR.", "copy_reg._reconstructor"),
        pytest.param(b"cos\nsystem\n.", "os.system", id="GLOBAL os.system"),
        pytest.param(b"\x80\x04\x8c\x02os\x8c\x06system\x93.", "os.system", id="STACK_GLOBAL os.system"),
        pytest.param(b"(S'id'\nios\nsystem\n.", "the instruction INST", id="INST os.system"),
        (b"(cnumpy\nndarray\no.", "the instruction OBJ"),
        pytest.param(b"\x80\x02cnumpy\nndarray\n)\x81.", "the instruction NEWOBJ", id="NEWOBJ numpy.ndarray"),
        (b"\x80\x04cnumpy\nndarray\n)}\x92.", "the instruction NEWOBJ_EX"),
        pytest.param(b"(inumpy\nndarray\n.", "the instruction INST", id="INST numpy.ndarray"),
        pytest.param(
            b"\x80\x02cnumpy\ndtype\nU\x02f8\x85\x81.", "the instruction NEWOBJ", id="NEWOBJ numpy.dtype"
        ),
        (b"\x80\x02\x82\x01.", "the instruction EXT1"),
        (b"NQ.", "the instruction BINPERSID"),
        (b"\x80\x04\x8f.", "the instruction EMPTY_SET"),
        (b"\x80\x05\x97.", "the instruction NEXT_BUFFER"),
        # States for objects that are no arrays.
        (b"cnumpy\nndarray\n}U\x01aK\x01sb.", "a state for numpy.ndarray"),
        pytest.param(
            b"c_codecs\nencode\nN}U\x0c__defaults__)s\x86b.",
            "a state for _codecs.encode",
            id="__defaults__ of _codecs.encode",
        ),
        pytest.param(
            b"c_codecs\nencode\nN}U\x04makeNs\x86b.",
            "a state for _codecs.encode",
            id="attribute of _codecs.encode",
        ),
        (b"cnumpy\ndtype\nN}U\x04makeNs\x86b.", "a state for numpy.dtype"),
        (b"]N}U\x09__class__Ns\x86b.", "a state for list"),
        # Allowed names and instructions where they are not allowed.
        (b"cnumpy\nndarray\n.", "numpy.ndarray"),
        (b"](K\x01}U\x01ac_codecs\nencode\n\x85se.", "_codecs.encode"),
        (b"cnumpy\ndtype\nU\x02f8\x85R.", "numpy.dtype"),
        (b"}}b.", "a state for dict"),
        (b"cnumpy\nndarray\n)R.", "a call of numpy.ndarray"),
        (b"]K\x01K\x02s.", "items set in list"),
        (b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\n\x85RK\x00K\x01s.", "items set in ndarray"),
        pytest.param(b"}K\x01\x85K\x02s.", "a dict with a key of type tuple", id="SETITEM with a tuple as key"),
        pytest.param(b"}(K\x01\x85K\x02u.", "a dict with a key of type tuple", id="SETITEMS with a tuple as key"),
        pytest.param(b"(K\x01\x85K\x02d.", "a dict with a key of type tuple", id="DICT with a tuple as key"),
        (b"}]K\x02s.", "a dict with a key of type list"),
        (b"}cnumpy\nndarray\nK\x02s.", "a dict with a key of type numpy.ndarray"),
        (b"c_codecs\nencode\nU\x01aU\x03hex\x86R.", "bytes in 'hex'"),
        (b"cnumpy\ndtype\nU\x02O8\x85R.", "an array of 'O8'"),
        (b"cnumpy\ndtype\nU\x0bi4,(1000)i4\x85R.", "an array of 'i4,(1000)i4'"),
        pytest.param(
            b"cnumpy\ndtype\nU\x02f4\x85R(K\x03U\x01<K\x01NNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb.",
            "an array of records",
            id="dtype with a number as subarray",
        ),
        pytest.param(
            b"cnumpy\ndtype\nU\x02f4\x85R(K\x03U\x01SNNNtb.",
            "an array of records",
            id="dtype with byte order S",
        ),
        (b"cnumpy\ndtype\n}\x85R.", "a dtype of parts"),
        pytest.param(
            b"cnumpy\ndtype\nU\x02f8\x85R(K\x03U\x01<U\x01aNNK\x00K\x00K\x00tb.",
            "an array of records",
            id="dtype with a string as subarray",
        ),
        (b"cnumpy.core.multiarray\n_reconstruct\nc_codecs\nencode\n\x85R.", "an array of class _codecs.encode"),
    ],
)
def test_pickles_that_only_an_attack_contains_are_refused(tmp_path: Path, file: bytes, what: str) -> None:
    (tmp_path / "x").write_bytes(file)
    assert refusal(tmp_path / "x") == f"holds {what}{ONLY_DATA}"


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
@pytest.mark.parametrize(
    "array",
    [
        pytest.param(np.array([Calls(os.getcwd)], dtype=object), id="objects"),
        pytest.param(np.array([("a", 1)], dtype=[("x", "U1"), ("y", "i4")]), id="records"),
        pytest.param(np.array(["a"]), id="strings"),
        pytest.param(np.array([1j]), id="complex numbers"),
        pytest.param(np.array(["2020-01-01"], dtype="M8[D]"), id="dates"),
    ],
)
def test_arrays_of_other_than_numbers_are_refused(tmp_path: Path, array: np.ndarray, protocol: int) -> None:
    message = refusal(write(tmp_path, {"features": array}, protocol=protocol) / "train.pkl")
    assert message.endswith(ONLY_DATA)


def test_objects_in_the_bytes_of_an_array_are_refused(tmp_path: Path) -> None:
    """Arrays of objects are pickled with a list in place of their bytes."""
    file = pickle.dumps(np.array([1, 2], dtype=object), protocol=2).replace(
        b"X\x02\x00\x00\x00O8", b"X\x02\x00\x00\x00i8"
    )
    (tmp_path / "x").write_bytes(file)
    assert refusal(tmp_path / "x") == f"holds an array made of a list{ONLY_DATA}"


def test_subclasses_of_arrays_are_refused(tmp_path: Path) -> None:
    message = refusal(write(tmp_path, np.zeros(2).view(np.recarray)) / "train.pkl")
    assert message == f"holds numpy.rec.recarray{ONLY_DATA}"


@pytest.mark.parametrize(
    "file",
    [
        pytest.param(b"", id="empty file"),
        pytest.param(b"\x80\x02", id="only a protocol number"),
        pytest.param(b"PK\x03\x04 a zip file", id="zip file"),
        pytest.param(b"\xff.", id="unknown instruction"),
        pytest.param(b".", id="STOP with an empty stack"),
        pytest.param(b"R.", id="REDUCE with an empty stack"),
        pytest.param(b"K\x01b.", id="BUILD without an object"),
        pytest.param(b"h\x05.", id="BINGET of an unset index"),
        pytest.param(b"\x85.", id="TUPLE1 with an empty stack"),
        pytest.param(b"t.", id="TUPLE without a mark"),
        pytest.param(b"K\x01r\xff\xff\xff\x7f", id="no STOP"),
        pytest.param(b"\x80\x04K\x01\x8c\x06system\x93.", id="STACK_GLOBAL with a number"),
        pytest.param(b"Pname\n.", id="PERSID"),
        pytest.param(b"U\x02os)R.", id="call of a string"),
        pytest.param(b"cnumpy\nndarray\nK\x01a.", id="APPEND to a class"),
        pytest.param(b"c_codecs\nencode\n(K\x01e.", id="APPENDS to a function"),
        pytest.param(b"S'a\n.", id="STRING without a closing quote"),
        pytest.param(b"S__import__('os')\n.", id="STRING without quotes"),
        pytest.param(b"I1x\n.", id="INT with a letter"),
        pytest.param(b"I" + b"9" * 5000 + b"\n.", id="INT of 5000 digits"),
        pytest.param(b"\x80\x04\x8e" + struct.pack("<Q", 2**62) + b"a.", id="BINBYTES8 beyond the end"),
        pytest.param(b"T" + struct.pack("<i", -5) + b".", id="BINSTRING of negative length"),
        pytest.param(b"}(K\x01u.", id="SETITEMS with a key but no value"),
        pytest.param(b"cnumpy.core.multiarray\nscalar\nK\x01U\x01a\x86R.", id="scalar with a number as dtype"),
        pytest.param(pickle.dumps(content(), protocol=4)[:-20], id="truncated file"),
    ],
)
def test_damaged_files_are_refused(tmp_path: Path, file: bytes) -> None:
    (tmp_path / "x").write_bytes(file)
    assert refusal(tmp_path / "x").startswith("is not a complete pickle: fetch it again (")


def test_an_array_shorter_than_its_declared_shape_is_refused(tmp_path: Path) -> None:
    file = pickle.dumps(np.arange(6.0).reshape(2, 3), protocol=2).replace(b"K\x02K\x03\x86", b"K\x02K\xff\x86")
    (tmp_path / "x").write_bytes(file)
    assert refusal(tmp_path / "x").startswith("is not a complete pickle")


@pytest.mark.parametrize(
    "use",
    [
        pytest.param(b"0", id="dtype"),
        pytest.param(b"}hN", id="dict key"),
        pytest.param(b"h", id="encoding"),
        pytest.param(b"\x93", id="module name"),
    ],
)
def test_deep_nesting_does_not_overflow_the_stack(tmp_path: Path, use: bytes) -> None:
    """Hashing or printing a tuple nested 300,000 deep would crash the process."""
    deep = b")" + b"\x85" * 300_000
    tails = {
        b"0": b"cnumpy\ndtype\n" + deep + b"\x85R.",
        b"}hN": b"}" + deep + b"Ns.",
        b"h": b"c_codecs\nencode\nU\x01a" + deep + b"\x86R.",
        b"\x93": b"\x80\x04" + deep + b"U\x01a\x93.",
    }
    (tmp_path / "x").write_bytes(tails[use])
    with pytest.raises(UserError):
        plain_data(tmp_path / "x")


def test_a_disk_error_is_not_reported_as_damage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    (tmp_path / "x").write_bytes(b"N.")
    monkeypatch.setattr(module, "_Content", fail)
    assert refusal(tmp_path / "x") == "cannot be read: Input/output error."


def test_a_file_above_the_limit_is_not_read(tmp_path: Path) -> None:
    with (tmp_path / "x").open("wb") as file:
        file.write(b"N.")
        file.truncate(MOST_BYTES)  # sparse: takes no disk space
    assert plain_data(tmp_path / "x") is None
    os.truncate(tmp_path / "x", MOST_BYTES + 1)
    assert refusal(tmp_path / "x") == "must have at most 2147483648 bytes. Got 2147483649 instead."


@pytest.mark.parametrize(
    "file",
    [
        # A memo index for which the C unpickler allocates 32 GiB.
        pytest.param(b"K\x01r\xff\xff\xff\x7f.", id="LONG_BINPUT"),
        pytest.param(b"K\x01p2147483647\n.", id="PUT"),
        pytest.param(b"\x80\x04\x95" + struct.pack("<Q", 2**35) + b"K\x01.", id="FRAME"),
        pytest.param(b"\x80\x04\x8e" + struct.pack("<Q", 2**35) + b"a.", id="BINBYTES8"),
        pytest.param(b"\x80\x04\x8d" + struct.pack("<Q", 2**35) + b"a.", id="BINUNICODE8"),
        pytest.param(b"\x80\x05\x96" + struct.pack("<Q", 2**35) + b"a.", id="BYTEARRAY8"),
        pytest.param(b"B" + struct.pack("<I", 2**32 - 1) + b"a.", id="BINBYTES"),
        pytest.param(b"X" + struct.pack("<I", 2**32 - 1) + b"a.", id="BINUNICODE"),
        pytest.param(b"T" + struct.pack("<i", 2**31 - 1) + b"a.", id="BINSTRING"),
        pytest.param(b"\x8b" + struct.pack("<i", 2**31 - 1) + b"a.", id="LONG4"),
    ],
)
def test_huge_declared_sizes_allocate_no_memory(tmp_path: Path, file: bytes) -> None:
    (tmp_path / "x").write_bytes(file)
    tracemalloc.start()
    try:
        if file[0] == ord("K") or file[2] == 0x95:
            assert plain_data(tmp_path / "x") == 1
        else:
            assert refusal(tmp_path / "x").startswith("is not a complete pickle")
        assert tracemalloc.get_traced_memory()[1] < 2**20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_truncated_files_are_refused(tmp_path: Path, protocol: int) -> None:
    values = [np.arange(3, dtype="<f4"), "né", 1.5, 70_000, 2**70, b"b", True, None, (1, 2), {"a": ()}]
    complete = pickle.dumps(values, protocol=protocol)
    for length in range(len(complete)):
        (tmp_path / "x").write_bytes(complete[:length])
        assert refusal(tmp_path / "x").startswith("is not a complete pickle")


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
@settings(max_examples=100)
@given(data=st.data())
def test_changed_bytes_give_plain_data_or_one_line(tmp_path: Path, protocol: int, data: st.DataObject) -> None:
    file = bytearray(pickle.dumps(content(1), protocol=protocol))
    places = st.tuples(st.integers(0, len(file) - 1), st.integers(0, 255))
    for place, byte in data.draw(st.lists(places, min_size=1, max_size=8)):
        file[place] = byte
    (tmp_path / "x").write_bytes(file)
    try:
        found = classes(plain_data(tmp_path / "x"))
    except UserError:
        return
    assert found <= {dict, list, tuple, str, bytes, int, float, bool, type(None), np.ndarray}


def classes(value: Any) -> set[type]:
    """Returns the exact classes inside ``value``, which may contain itself."""
    found, visited, left = set(), set(), [value]
    while left:
        value = left.pop()
        if id(value) in visited:
            continue
        visited.add(id(value))
        found.add(type(value))
        if isinstance(value, dict):
            left += [*value.keys(), *value.values()]
        elif isinstance(value, list | tuple):
            left += value
        elif isinstance(value, np.ndarray):
            assert value.dtype.kind in "biuf" and value.dtype.fields is None and not value.dtype.hasobject
    return found


def test_registered_extensions_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """``pickle`` caches the object of an extension code, and would return it without calling ``find_class``."""
    monkeypatch.setitem(copyreg._extension_cache, 1, os.getcwd)  # type: ignore[attr-defined]
    for opcode in (b"\x82\x01", b"\x83\x01\x00", b"\x84\x01\x00\x00\x00"):
        (tmp_path / "x").write_bytes(opcode + b")R.")
        assert refusal(tmp_path / "x").startswith("holds the instruction EXT")


def test_no_module_is_imported(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"cthis\ns\n.")
    assert refusal(tmp_path / "x") == f"holds this.s{ONLY_DATA}" and "this" not in sys.modules


def test_the_list_of_refused_instructions_is_complete() -> None:
    """Instructions that a new Python adds are refused, and fail this test until they are listed here."""
    names = {opcode.code.encode("latin-1")[0]: opcode.name for opcode in pickletools.opcodes}
    dispatch = module._Unpickler.dispatch
    refused = set()
    for code, name in names.items():
        if isinstance(dispatch[code], partial):
            with pytest.raises(module._Refused, match=f"the instruction {name}$"):
                dispatch[code](None)
            refused.add(name)
    assert refused == {
        *("POP", "DUP", "POP_MARK", "BINPERSID", "INST", "OBJ", "NEWOBJ", "NEWOBJ_EX", "EXT1", "EXT2", "EXT4"),
        *("EMPTY_SET", "ADDITEMS", "FROZENSET", "NEXT_BUFFER", "READONLY_BUFFER"),
    }
    overridden = {"SETITEM", "SETITEMS", "DICT", "BUILD", "BYTEARRAY8"}
    library = pickle._Unpickler.dispatch
    assert {name for code, name in names.items() if dispatch[code] is not library[code]} == refused | overridden
    assert len(dispatch) == 68


def test_allowed_constructors_cannot_be_modified(tmp_path: Path) -> None:
    before = {name: vars(make).copy() for name, make in module._MAKERS.items() if hasattr(make, "__code__")}
    for name in module._MAKERS:
        path, _, function_name = name.rpartition(".")
        for state in (b"}U\x04makeNs", b"N}U\x04makeNs\x86", b"N}U\x08__code__Ns\x86"):
            (tmp_path / "x").write_bytes(f"c{path}\n{function_name}\n".encode() + state + b"b.")
            assert refusal(tmp_path / "x") == f"holds a state for {name}{ONLY_DATA}"
    assert not hasattr(module._Name("a", len), "__dict__") and not hasattr(module._Dtype("f4"), "__dict__")
    assert before == {name: vars(make) for name, make in module._MAKERS.items() if hasattr(make, "__code__")}


FORM = "must hold a dict of features, image_to_caption_ids and captions, as the toolkit's files do."
LONG = "a" * 100_000
LOOP: list[Any] = []
LOOP.extend([LOOP] * 10)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        pytest.param({"features": 1}, FORM, id="number as features"),
        pytest.param({"features": LOOP}, FORM, id="recursive features"),
        pytest.param({"features": [[1.0], [1.0, 2.0]]}, FORM, id="feature rows of different lengths"),
        pytest.param({"captions": {}}, FORM, id="no captions"),
        pytest.param(
            {"captions": {70 * i + j: {"cleaned_caption": b"a"} for i in range(3) for j in range(6)}},
            FORM,
            id="caption as bytes",
        ),
        pytest.param({"image_to_caption_ids": {0: [(1,)]}}, FORM, id="tuple as caption id"),
        pytest.param({"image_to_caption_ids": [[0] * 5, [1] * 5]}, FORM, id="image without caption ids"),
        pytest.param(
            {"features": np.zeros(3)},
            "features must be rows of finite numbers. Got an array of shape (3,).",
            id="features of one dimension",
        ),
        pytest.param(
            {"features": np.zeros((0, 2)).T[:, :0]},
            "features must be rows of finite numbers. Got an array of shape (2, 0).",
            id="feature rows without numbers",
        ),
        pytest.param(
            {"features": np.full((3, 4), np.nan)},
            "features must be rows of finite numbers. Got an array of shape (3, 4).",
            id="NaN",
        ),
        pytest.param(
            {"image_to_caption_ids": {0: [0] * 5, 1: [0] * 4, 2: [0] * 5}},
            "image 1 must have at least 5 captions. Got 4 instead.",
            id="image with four captions",
        ),
    ],
)
def test_other_contents_are_refused(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    write(tmp_path, content(**changes), protocol=4)
    with pytest.raises(UserError) as error:
        captions(tmp_path)
    assert str(error.value) in (f"{tmp_path}/train.pkl {message}", f"{tmp_path}/train.pkl: {message}")


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param(
            {"features": [[0.0], *([[1.0] * 1000] * 2000)], "image_to_caption_ids": [[0] * 5] * 2001},
            id="feature row",
        ),
        pytest.param(
            {"captions": {70 * i + j: {"cleaned_caption": LONG} for i in range(3) for j in range(6)}}, id="caption"
        ),
    ],
)
def test_values_referenced_from_many_places_are_refused(tmp_path: Path, changes: dict[str, Any]) -> None:
    write(tmp_path, content(**changes), protocol=4)  # the file holds the repeated value once
    assert (tmp_path / "train.pkl").stat().st_size < SMALL
    with pytest.raises(UserError, match=FORM):
        captions(tmp_path)


def test_a_pipe_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "x")
    assert refusal(tmp_path / "x") == "cannot be read: not a file."


def test_a_pickle_that_is_no_dict_is_refused(tmp_path: Path) -> None:
    write(tmp_path, [1, 2])
    with pytest.raises(UserError, match=r"train\.pkl must hold a dict of features"):
        captions(tmp_path)
