"""Caption files of the published format, in every pickle protocol (foreign classes: tests/test_trust.py)."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from analysis.senteval.captions import captions
from analysis.senteval.loaders import Examples
from data.randomness import generator

FEATURES = generator(1).normal(size=(3, 4))


def content(**changes: Any) -> dict[str, Any]:
    """Returns the content of a caption file of the toolkit."""
    keys = {image: [70 * image + number for number in range(6)] for image in range(3)}
    texts = {key: f"a  photo {key % 70}\tof\u00a0{image} " for image in keys for key in keys[image]}
    return {
        "features": FEATURES.astype(np.float32),
        "image_to_caption_ids": keys,
        "captions": {key: {"cleaned_caption": text, "caption": "A photo."} for key, text in texts.items()},
    } | changes


def read(path: Path, raw: bytes) -> Examples:
    path.write_bytes(raw)
    return captions({"dev": [path]})["dev"]


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_images_and_their_first_five_captions_are_read(tmp_path: Path, protocol: int) -> None:
    dev = read(tmp_path / "x", pickle.dumps(content(), protocol))
    assert dev.targets.dtype == np.float32 and np.array_equal(dev.targets, FEATURES.astype(np.float32))
    # Runs of ASCII whitespace become one blank, other whitespace stays.
    assert dev.first[10:] == [f"a photo {number} of\u00a02 ." for number in range(5)]


def test_python_2_files_are_read(tmp_path: Path) -> None:
    """A handwritten pickle of protocol 2 with byte strings and module paths, as from Python 2's cPickle."""
    raw = np.array([[1.5, -2], [300, 4]], "<f4").tobytes()
    file = (
        b"\x80\x02}(U\x08featurescnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85U\x01b\x87R"
        b"(K\x01K\x02K\x02\x86cnumpy\ndtype\nU\x02f4K\x00K\x01\x87R(K\x03U\x01<NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xff"
        b"K\x00tb\x89U%c%stbU\x14image_to_caption_ids](](K\x00K\x00K\x00K\x00K\x00e](K\x00K\x00K\x00K\x00K\x00ee"
        b"U\x08captions](}U\x0fcleaned_captionU\x04caf\xe9seu."
    )
    dev = read(tmp_path / "x", file % (len(raw), raw))
    assert dev.targets.tolist() == [[1.5, -2], [300, 4]] and dev.first == ["café ."] * 10
