"""Values as overrides: whatever a path is called, Hydra reads it as it is."""

from __future__ import annotations

import shlex
from typing import Any

import pytest
from hydra.core.override_parser.overrides_parser import OverridesParser
from omegaconf import OmegaConf

from experiments.overrides import override

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
def test_text_is_read_as_it_is(value: str) -> None:
    assert read(override("key", value)) == value
    assert shlex.split(shlex.quote(override("key", value))) == [override("key", value)]


def test_plain_text_stands_without_quotes() -> None:
    assert override("run_dir", "runs/declutr-1.0_x") == "run_dir=runs/declutr-1.0_x"
    assert override("run_dir", "/tmp/x") == "run_dir=/tmp/x"


def test_lists_and_mappings() -> None:
    value = {"path": ["a, b", "c'd"], "rate": 1.5, "none": None, "yes": True, "empty": [], "inner": {"n": 3}}
    assert read(override("key", value)) == value
