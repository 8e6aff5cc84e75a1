"""Values as overrides: Hydra reads any path back unchanged."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import pytest
from hydra.core.override_parser.overrides_parser import OverridesParser
from omegaconf import OmegaConf

from experiments.overrides import compose_accepted, override, typed, unreadable
from tests.experiments.ids import joined

VALUES = (
    *("", " ", " a", "a ", "null", "True", "-inf", "1", "1e5", "0x1", "1_000", "~/x", "a,b", "a=b", "a:b", "a#b"),
    *("[a]", "{a: b}", "choices(a,b)", "a\\", "\\'", "'", '"', "${x}", "\\${x}", "\\\\${x}", "\t\n", "中文 é"),
    "my runs, (v=2) 'quoted' \"two\" é",
)


def read(argument: str) -> Any:
    """Returns the value that a run gets from ``argument``."""
    parsed = OverridesParser.create().parse_override(argument)
    assert not parsed.is_sweep_override()
    value = parsed.value()
    found = OmegaConf.to_container(OmegaConf.create({"key": getattr(value, "text", value)}), resolve=True)
    assert isinstance(found, dict)
    return found["key"]


@pytest.mark.parametrize("value", VALUES)
def test_any_text_is_read_back_unchanged(value: str) -> None:
    assert read(override("key", value)) == value
    assert shlex.split(typed("key", value)) == [override("key", value)]


def test_plain_text_needs_no_quotes() -> None:
    assert override("run_dir", "runs/declutr-1.0_x") == "run_dir=runs/declutr-1.0_x"
    assert override("run_dir", "/tmp/x") == "run_dir=/tmp/x"


@pytest.mark.parametrize(
    ("arguments", "quoted"),
    [
        (["corpus.path=/a/my", "old", "file.txt", "seed=3"], "'corpus.path=/a/my old file.txt'"),
        (["seed=3", "corpus.path=a", "(1).txt"], "\"corpus.path='a (1).txt'\""),
    ],
    ids=joined,
)
def test_a_path_that_the_shell_split_is_shown_quoted(arguments: list[str], quoted: str) -> None:
    messages = unreadable(arguments)
    assert {*arguments} - {*messages} == {"seed=3"}
    (line,) = {*messages.values()}
    assert line.endswith(f" the shell splits arguments at spaces; write {quoted}")
    assert unreadable(shlex.split(quoted)) == {}


@pytest.mark.parametrize("name", ["my file, old.txt", "a,b", "a,b (1)"])
def test_an_existing_path_with_a_comma_gets_one_suggestion(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert "several values need -m" in " ".join(messages_on(name).values()) or "(" in name
    (tmp_path / name).mkdir()
    (line,) = messages_on(name).values()
    assert line.count("corpus.path") == 2 and "-m" not in line and "[" not in line
    _, messages = compose_accepted(["corpus=text", *shlex.split(line.rpartition(": ")[2].rstrip("."))], "run")
    assert messages == {}


def messages_on(name: str) -> dict[str, str]:
    """Returns the messages on a path of this name."""
    return compose_accepted(["corpus=text", f"corpus.path={name}"], "run")[1]


def test_arguments_without_a_key_are_named() -> None:
    assert unreadable(["declutr", "~clipping"]) == {"declutr": "declutr: not of the form key=value."}


def test_lists_and_mappings_are_read_back_unchanged() -> None:
    value = {"path": ["a, b", "c'd"], "rate": 1.5, "none": None, "yes": True, "empty": [], "inner": {"n": 3}}
    assert read(override("key", value)) == value
