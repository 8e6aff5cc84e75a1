"""Held-out scores of several runs, over seeds."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from analysis import held_out


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


def test_seeds_of_one_name_are_one_row(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folders = [run(tmp_path / f"d{seed}", "D", seed, share) for seed, share in ((1, 0.7), (2, 0.8), (3, 0.9))]
    folders.append(run(tmp_path / "c1", "C", 1, 0.6))
    assert held_out.main([*folders, "--format", "md", "--by", "objective.task", "objective.k"]) == 0
    assert lines(capsys) == [
        "| D 3 | 3 | dev D accuracy, % ↑ | 50.0 | 80.0 ± 10.0 | 50.0 |",
        "| C 3 | 1 | dev C accuracy, % ↑ | 50.0 | 60.0 | 50.0 |",
    ]
    assert held_out.main([f"both={folders[0]}", f"both={folders[1]}", folders[2], "--format", "md"]) == 0
    assert [line.split(" | ")[:2] for line in lines(capsys)] == [["| both", "2"], ["| d3", "1"]]


def test_what_not_all_have_is_left_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    more = {"dev_mlm": 3.0, "dev_mlm_unigram": 6.0}
    folders = [run(tmp_path / "a", "D", 1, 0.7, **more), run(tmp_path / "b", "D", 2, 0.7)]
    assert held_out.main([*folders, "--format", "md", "--by", "objective.task"]) == 0
    assert lines(capsys) == ["| D | 2 | dev D accuracy, % ↑ | 50.0 | 70.0 | 50.0 |"]
    assert held_out.main(folders[:1]) == 0
    shown = next(line for line in capsys.readouterr().out.splitlines() if "dev mlm ↓" in line)
    assert [cell.strip() for cell in shown.split("│")[-4:-1]] == ["–", "3.000", "6.000"]


def test_only_what_is_alike_is_averaged(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one, other = (run(tmp_path / name, "D", seed, 0.7) for name, seed in (("a", 1), ("b", 2)))
    assert held_out.main([one, one]) == 2
    assert "is named twice" in capsys.readouterr().err
    config = yaml.safe_load((tmp_path / "b" / "config.yaml").read_text())
    config |= {"threads": 2, "optimizer": {"lr": 1e-12}}  # as of a start that is shown as it is
    (tmp_path / "b" / "config.yaml").write_text(yaml.safe_dump(config))
    assert held_out.main([f"x={one}", f"x={other}"]) == 2
    told = f"x would be the mean of runs that differ: optimizer.lr is None in {one}, 1e-12 in {other}."
    assert capsys.readouterr().err == f"{told} Give them names.\n"
    assert held_out.main([f"x={one}", f"x={run(tmp_path / 'c', 'R', 1, 0.7)}"]) == 2
    assert "differ: objective.task is D in" in capsys.readouterr().err
    assert held_out.main([one, other, "--by", "objective.tsk"]) == 2
    assert capsys.readouterr().err == f"{one}: its config.yaml has none of --by objective.tsk.\n"
    (tmp_path / "b" / "config.yaml").unlink()
    assert held_out.main([other]) == 2
    assert capsys.readouterr().err == f"{other} is not the folder of a run: it has no config.yaml.\n"


@pytest.mark.parametrize("broken", ["missing", "unfinished", "cut"])
def test_refusals_are_one_line(broken: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "run"
    if broken != "missing":
        run(folder, "D", 1, 0.7)
        (folder / "quick.json").write_text('{"start": {}}' if broken == "unfinished" else '{"start')
    assert held_out.main([str(folder), "--by", "objective.task"]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1 and str(folder) in error
