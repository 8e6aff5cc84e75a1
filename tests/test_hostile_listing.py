"""Damaged run folders in a listing: each is listed as broken, and the others are listed as usual."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.analysis import runs_on_disk
from tests.command_runner import run_command, snapshot
from tests.run_damage import BOMB, DEEP, Damage, config, directory, first_line, pipe, text


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return runs_on_disk.write(tmp_path / "run", steps=10, finished=False)


def quick(content: str) -> Damage:
    return text("quick.json", content)


def senteval(content: str) -> Damage:
    return text("senteval.json", content)


LISTED: list[tuple[str, Damage, str]] = [
    ("config list", text("config.yaml", "- 1"), "config.yaml is not a mapping"),
    ("config bomb", text("config.yaml", BOMB), "alias"),
    ("config deep", text("config.yaml", "[" * DEEP), "nested too deeply"),
    ("config pipe", pipe("config.yaml"), "config.yaml is not a file"),
    ("names list", config("names", ["declutr"]), "names must be a mapping"),
    ("seed mapping", config("seed", {"a": 1}), "seed must be a whole number"),
    ("weights list", config("weights", [1]), "weights must be text"),
    ("encoder text", config("encoder", "gru"), "encoder must be a mapping"),
    ("vectors list", config("encoder", {"vectors": [1]}), "encoder.vectors must be text"),
    ("scores text", quick('{"start": {}, "trained": {"recall@1": "[red]9[/red]"}}'), "trained.recall@1"),
    ("scores nested", quick('{"start": {"recall@1": [[1]]}}'), "start.recall@1"),
    ("scores list", quick('{"start": [], "trained": []}'), "start must be a mapping"),
    ("facts list", quick('{"start": {}, "facts": [1]}'), "facts must be a mapping"),
    ("scores huge", quick('{"start": {"recall@1": 1' + "0" * 400 + "}}"), "quick.json is not JSON"),
    ("scores with many digits", quick('{"start": {"recall@1": 1' + "0" * 9000 + "}}"), "quick.json is not JSON"),
    ("weights surrogate", quick('{"start": {}, "weights": "\\ud800"}'), "quick.json is not JSON"),
    ("averages list", senteval('{"averages": [1]}'), "averages must be a mapping"),
    ("average a list", senteval('{"averages": {"probing": [1]}}'), "averages.probing"),
    ("average a text", senteval('{"averages": {"probing": "9"}}'), "averages.probing"),
    ("tasks list", senteval('{"averages_over": {"probing": {"tasks": [[1]]}}}'), "tasks.0 must be text"),
    ("averages_over list", senteval('{"averages_over": []}'), "averages_over must be a mapping"),
    ("loss text", first_line("metrics.jsonl", '{"step": 1, "loss": "low"}'), "metrics.jsonl:1 is not a step"),
    ("scores folder", directory("quick.json"), "is not a file"),
]  # fmt: skip


@pytest.mark.parametrize(("damage", "problem"), [pytest.param(*case, id=name) for name, *case in LISTED])
def test_a_damaged_run_is_listed_as_broken_beside_the_others(
    damage: Damage, problem: str, run: Path, tmp_path: Path
) -> None:
    runs_on_disk.write(tmp_path / "good", steps=10, finished=False)
    damage(run)
    before = snapshot(tmp_path)
    found = run_command("experiments.runs", str(tmp_path), folder=tmp_path, seconds=20)
    assert found.status == 0, found
    [intact, broken] = (line for line in found.output.splitlines() if line.startswith(("│ good ", "│ run  ")))
    assert "unfinished" in intact and "broken" in broken and problem in broken, found.output
    assert snapshot(tmp_path) == before


@pytest.mark.parametrize("name", ["[red]x", "[link=a]b", ":smile:", "a\x1b[31mb", "x\\", "\udcff"])
def test_markup_and_control_characters_in_names_are_shown_as_text(name: str, run: Path, tmp_path: Path) -> None:
    averages = {"probing ([/foo])": 1.0, "probing (:car:)": 1.0}
    (run / "senteval.json").write_text(json.dumps({"averages": averages}))
    (run / "quick.json").write_text(json.dumps({"start": {}, "weights": "[/red]\x1b"}))
    (tmp_path / "runs").mkdir()
    run.rename(tmp_path / "runs" / name)
    found = run_command("experiments.runs", "runs", folder=tmp_path)
    assert found.status == 0, found
    shown = name.replace("\x1b", r"\x1b").replace("\udcff", r"\udcff")
    for part in (shown, r"[/red]\x1b", "([/foo])", "(:car:)"):
        assert f" {part} " in found.output, found.output
    assert "\x1b" not in found.output


@pytest.mark.parametrize("name", [pytest.param("", id="empty"), "nowhere", "x\x1b[31m"])
def test_a_missing_folder_of_runs_is_one_line(name: str, tmp_path: Path) -> None:
    assert run_command("experiments.runs", name, folder=tmp_path).refused("folder")
