"""Caption files of the published format, in every pickle protocol (foreign classes: tests/test_trust.py)."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from analysis.senteval.files.captions import captions
from data.errors import UserError
from data.randomness import generator


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


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_the_three_splits_are_read(tmp_path: Path, protocol: int) -> None:
    splits = captions(write(tmp_path, content(3), content(2), content(1), protocol=protocol))
    assert {split: len(part.images) for split, part in splits.items()} == {"train": 3, "dev": 2, "test": 1}
    train = splits["train"]
    assert train.images.dtype == np.float32 and np.array_equal(train.images, content(3)["features"])
    # The first five captions; runs of ASCII whitespace become one blank, other whitespace stays.
    assert train.captions[2] == [f"a photo {number} of\u00a02 ." for number in range(5)]


def test_lists_and_float64_features_are_accepted(tmp_path: Path) -> None:
    original = content()
    features = original["features"].astype(np.float64)
    lists = content(
        features=list(features),
        image_to_caption_ids=[np.arange(5 * image, 5 * image + 5) for image in range(3)],
        captions=[{"cleaned_caption": f"number {number}"} for number in range(15)],
    )
    numbers = content(features=features.tolist())
    splits = captions(write(tmp_path, lists, numbers, content(features=features.astype(">f8"))))
    assert splits["train"].captions[1][0] == "number 5 ."
    for part in splits.values():
        assert part.images.dtype == np.float32 and np.array_equal(part.images, original["features"])


def test_python_2_files_are_read(tmp_path: Path) -> None:
    """A handwritten pickle of protocol 2 with byte strings and module paths, as from Python 2's cPickle."""
    raw = np.array([[1.5, -2], [300, 4]], "<f4").tobytes()
    array = (
        b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85U\x01b\x87R"
        b"(K\x01K\x02K\x02\x86cnumpy\ndtype\nU\x02f4K\x00K\x01\x87R(K\x03U\x01<NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xff"
        b"K\x00tb\x89U" + bytes([len(raw)]) + raw + b"tb"
    )
    caption = b"}U\x0fcleaned_captionU\x04caf\xe9s"
    keys = b"](" + b"K\x00" * 5 + b"e"
    file = b"\x80\x02}(U\x08features" + array + b"U\x14image_to_caption_ids](" + keys + keys + b"e"
    for name in ("train", "valid", "test"):
        (tmp_path / f"{name}.pkl").write_bytes(file + b"U\x08captions](" + caption + b"eu.")
    train = captions(tmp_path)["train"]
    assert train.images.tolist() == [[1.5, -2], [300, 4]] and train.captions[1] == ["café ."] * 5


@pytest.mark.parametrize(
    "value",
    [
        [],
        {"features": [[1.0]]},
        content(features=np.full((3, 4), np.nan)),
        content(features=[[1.0], [1.0, 2.0], [1.0]]),
        content(image_to_caption_ids={image: range(2) for image in range(3)}),
        content(captions={}),
    ],
    ids=range(6),
)
def test_files_of_another_form_are_named(tmp_path: Path, value: Any) -> None:
    write(tmp_path, content(), content(), value)
    with pytest.raises(UserError) as error:
        captions(tmp_path)
    assert error.value.key == str(tmp_path / "test.pkl")
    (tmp_path / "test.pkl").write_bytes(pickle.dumps(content())[:-9])
    with pytest.raises(UserError) as error:
        captions(tmp_path)
    assert error.value.key == str(tmp_path / "test.pkl")
