"""Held-out scores of several runs, over seeds."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from tests.analysis.evaluation_helpers import evaluate, refusal


def run(folder: Path, task: str, seed: int, accuracy: float, **scores: float) -> str:
    folder.mkdir()
    config = {"seed": seed, "objective": {"task": task, "k": 3}, "names": {"objective": "conssent"}}
    (folder / "config.yaml").write_text(yaml.safe_dump(config))
    quick = {
        "start": {f"dev_{task}_accuracy": 0.5},
        "trained": {f"dev_{task}_accuracy": accuracy} | scores,
        "chance": {f"dev_{task}_accuracy": 0.5},
        "facts": {"task": f"{task}(3)"},
    }
    (folder / "quick.json").write_text(json.dumps(quick))
    return str(folder)


def lines(capsys: pytest.CaptureFixture[str]) -> list[str]:
    return capsys.readouterr().out.splitlines()[2:]


def test_seeds_of_one_run_share_a_row(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folders = [run(tmp_path / f"d{seed}", "D", seed, share) for seed, share in ((1, 0.7), (2, 0.8), (3, 0.9))]
    folders.append(run(tmp_path / "c1", "C", 1, 0.6))
    evaluate("held_out", f"runs=[{','.join(folders)}]", "format=md", "by=[objective.task,objective.k]")
    rows = [
        "| D 3 | 3 | dev D accuracy, % ↑ | 50.0 | 80.0 ± 10.0 | 50.0 |",
        "| C 3 | 1 | dev C accuracy, % ↑ | 50.0 | 60.0 | 50.0 |",
    ]
    assert lines(capsys) == rows
    evaluate("held_out", f"runs=[{tmp_path}/*]", "format=md", "by=[objective.task,objective.k]")
    assert lines(capsys) == rows[::-1]  # in order of the folders' names
    evaluate("held_out", f"runs=[both={folders[0]},both={folders[1]},{folders[2]}]", "format=md")
    assert [line.split(" | ")[:2] for line in lines(capsys)] == [["| both", "2"], ["| d3", "1"]]


def test_scores_that_some_runs_lack_are_left_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    more = {"dev_mlm": 3.0, "dev_mlm_unigram": 6.0}
    folders = [run(tmp_path / "a", "D", 1, 0.7, **more), run(tmp_path / "b", "D", 2, 0.7)]
    evaluate("held_out", f"runs=[{','.join(folders)}]", "format=md", "by=[objective.task]")
    assert lines(capsys) == ["| D | 2 | dev D accuracy, % ↑ | 50.0 | 70.0 | 50.0 |"]
    evaluate("held_out", f"runs={folders[0]}")
    shown = next(line for line in capsys.readouterr().out.splitlines() if "dev mlm ↓" in line)
    assert [cell.strip() for cell in shown.split("│")[-4:-1]] == ["–", "3.000", "6.000"]


def test_only_runs_of_equal_settings_are_averaged(tmp_path: Path) -> None:
    one, other = (run(tmp_path / name, "D", seed, 0.7) for name, seed in (("a", 1), ("b", 2)))
    assert "is named twice" in refusal("held_out", f"runs=[{one},{one}]")
    config = yaml.safe_load((tmp_path / "b" / "config.yaml").read_text())
    config |= {"threads": 2, "optimizer": {"lr": 1e-12}}  # as of a start that is shown as it is
    (tmp_path / "b" / "config.yaml").write_text(yaml.safe_dump(config))
    told = f"x would be the mean of runs that differ: optimizer.lr is None in {one}, 1e-12 in {other}."
    assert refusal("held_out", f"runs=[x={one},x={other}]") == f"{told} Give them names."
    different = run(tmp_path / "c", "R", 1, 0.7)
    assert "differ: objective.task is D in" in refusal("held_out", f"runs=[x={one},x={different}]")
    said = refusal("held_out", f"runs=[{one},{other}]", "by=[objective.tsk]")
    assert said == f"{one}: its config.yaml has none of by=[objective.tsk]."
    (tmp_path / "b" / "config.yaml").unlink()
    said = refusal("held_out", f"runs=[{other}]")
    assert said == f"{other} is not the folder of a run: it has no config.yaml."
    assert refusal("held_out", f"runs=[{tmp_path}/x*]") == f"{tmp_path}/x*: no folder matches."


@pytest.mark.parametrize("broken", ["missing", "unfinished", "cut"])
def test_refusals_are_one_line(broken: str, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    if broken != "missing":
        run(folder, "D", 1, 0.7)
        (folder / "quick.json").write_text('{"start": {}}' if broken == "unfinished" else '{"start')
    assert str(folder) in refusal("held_out", f"runs=[{folder}]", "by=[objective.task]")
