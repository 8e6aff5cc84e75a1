"""Randomly damaged folders of runs and models open or are refused in one line, and nothing outside changes."""

from __future__ import annotations

import json
import shutil
import tempfile
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

import encoders
from data.errors import UserError
from experiments import experiment
from tests.command_runner import run_command, snapshot

FIXTURES = Path(__file__).parent / "fixtures" / "version_0_1"
MODELS = ("transformer", "bilstm_max", "gru", "bag_of_words", "concatenated")
VALUES: list[Any] = [None, True, -1, 0, 10**30, 1.5, float("nan"), "", "x", "../outside", [], [[]], {}, {"a": [1]}]
DEEP = 100_000


def _places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Returns the path of every value within nested lists and mappings."""
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(place for key, item in inside for place in _places(item, (*path, key)))]


def _swap(value: Any, place: tuple[Any, ...], other: Any) -> Any:
    """Returns ``value`` with ``other`` at ``place``."""
    if not place:
        return other
    first, *rest = place
    copy = value.copy()
    copy[first] = _swap(value[first], tuple(rest), other)
    return copy


def _damage(folder: Path, outside: Path, data: st.DataObject, times: int = 1) -> None:
    """Damages ``times`` files below ``folder``: deletes, truncates, links or replaces them, or changes a value."""
    paths = sorted(path for path in folder.rglob("*") if path.is_file())
    for path in data.draw(st.lists(st.sampled_from(paths), min_size=times, max_size=times, unique=True)):
        if path.is_file() and path.resolve().is_relative_to(folder.resolve()):  # its folder may have become a link
            _damage_file(path, folder, outside, data)


def _damage_file(path: Path, folder: Path, outside: Path, data: st.DataObject) -> None:
    ways = ["delete", "truncate", "flip", "link", "link folder"]
    ways += ["swap", "swap", "swap", "nest"] if path.suffix in (".json", ".yaml") else []
    way = data.draw(st.sampled_from(ways))
    if way == "delete":
        path.unlink()
    elif way == "truncate":
        path.write_bytes(path.read_bytes()[: data.draw(st.integers(0, max(0, path.stat().st_size - 1)))])
    elif way == "flip":
        content = bytearray(path.read_bytes() or b"x")
        content[data.draw(st.integers(0, len(content) - 1))] ^= 1 << data.draw(st.integers(0, 7))
        path.write_bytes(content)
    elif way in ("link", "link folder"):
        place = path if way == "link" or path.parent == folder else path.parent
        if place.is_dir() and any(inside.is_symlink() for inside in place.rglob("*")):
            return
        target = outside / place.name
        if not target.exists():
            (shutil.copytree if place.is_dir() else shutil.copy2)(place, target)
        shutil.rmtree(place) if place.is_dir() else place.unlink()
        place.symlink_to(target)
    elif way == "nest":
        path.write_text("[" * DEEP + "]" * DEEP)
    else:
        load, dump = (json.loads, json.dumps) if path.suffix == ".json" else (yaml.safe_load, yaml.safe_dump)
        content = load(path.read_text())
        place = data.draw(st.sampled_from(_places(content)))
        path.write_text(dump(_swap(content, place, data.draw(st.sampled_from(VALUES)))))


def _mutations(count: int) -> Any:
    return settings(max_examples=count)


def _try_model(name: str, times: int, data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as temporary:
        root = Path(temporary)
        shutil.copytree(FIXTURES / "folders" / name / "encoder", root / "model")
        (root / "outside").mkdir()
        _damage(root / "model", root / "outside", data, times)
        before = snapshot(root)
        try:
            encoders.load(root / "model").encode(["A word.", ""])
        except UserError as error:
            assert "\n" not in str(error) and "model" in str(error)
        assert snapshot(root) == before


def _try_run(data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as temporary:
        root = Path(temporary)
        shutil.copytree(FIXTURES / "folders" / "unfinished", root / "runs" / "one")
        shutil.copytree(FIXTURES / "folders" / "gru", root / "runs" / "two")
        shutil.copy(FIXTURES / "corpus.jsonl", root)
        (root / "outside").mkdir()
        path = root / "runs" / "one" / "config.yaml"
        config = yaml.safe_load(path.read_text())
        config["budget"]["steps"] = 12  # one more than were trained
        path.write_text(yaml.safe_dump(config))
        _damage(root / "runs" / "one", root / "outside", data)
        before = snapshot(root / "outside")
        with patch.object(experiment.training, "draw", lambda folder: [folder / "none.png"]):
            found = run_command("experiments.run", "resume=runs/one", f"cache={root / 'cache'}", folder=root)
        assert found.status == 0 or found.refused(), found
        listed = run_command("experiments.runs", "runs", folder=root)
        assert listed.status == 0 and "two" in listed.output and "finished" in listed.output
        assert snapshot(root / "outside") == before
        assert {path.name for path in root.iterdir()} <= {"runs", "corpus.jsonl", "outside", "cache"}


@pytest.mark.parametrize("name", MODELS)
@_mutations(40)
@given(data=st.data())
def test_a_damaged_model_opens_or_is_refused_in_one_line(name: str, data: st.DataObject) -> None:
    _try_model(name, 1, data)


@_mutations(15)
@given(data=st.data())
def test_a_damaged_run_resumes_or_is_refused_in_one_line(data: st.DataObject) -> None:
    _try_run(data)


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
@_mutations(600)
@given(data=st.data())
def test_a_model_damaged_in_several_places_opens_or_is_refused_in_one_line(name: str, data: st.DataObject) -> None:
    _try_model(name, data.draw(st.integers(1, 3)), data)


@pytest.mark.slow
@_mutations(250)
@given(data=st.data())
def test_a_damaged_run_resumes_or_is_refused_in_one_line_in_many_examples(data: st.DataObject) -> None:
    _try_run(data)
