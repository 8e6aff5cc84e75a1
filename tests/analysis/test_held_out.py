"""Tables of held-out scores, of one run and averaged over seeds."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from rich.console import Console

from analysis.held_out import quick_table
from tests.analysis.evaluation_helpers import evaluate, refusal
from tests.analysis.runs_on_disk import START, TRAINED


def quick_rows(quick: dict[str, dict[str, float | None]], **facts: object) -> tuple[dict[str, list[str]], str]:
    """Returns the table's cells by the name of their row, and the printed table."""
    table = quick_table(quick, title="declutr · roberta-base", facts=facts)
    cells = [list(column.cells) for column in table.columns]
    console = Console(width=120)
    with console.capture() as capture:
        console.print(table)
    return {str(name): [str(cell) for cell in row] for name, *row in zip(*cells, strict=True)}, capture.get()


def test_rows_by_hand() -> None:
    found, shown = quick_rows(
        {
            "start": START | {"dev_mlm": 9.0, "dev_D_accuracy": 0.5},
            "trained": TRAINED | {"dev_mlm": 6.5, "dev_D_accuracy": 0.672},
        },
        weights="random",
        negatives_per_anchor=62,
        tokens_seen=3_123_456,
    )
    assert found["recall@1, % ↑"] == ["3.0", "14.5", "[green]+11.5[/green]", "0.2", "400"]
    assert found["probe: sentence length, % ↑"] == ["30.0", "42.0", "[green]+12.0[/green]", "16.7", "600"]
    assert found["dev mlm ↓"] == ["9.000", "6.500", "[green]-2.500[/green]", "–", ""]
    assert found["dev D accuracy, % ↑"] == ["50.0", "67.2", "[green]+17.2[/green]", "–", ""]
    assert found["alignment ↓"] == ["0.300", "0.400", "+0.100", "–", "400"]
    assert "declutr · roberta-base" in shown
    assert "weights: random · negatives per anchor: 62 · tokens seen: 3,123,456" in shown


def test_the_chance_level_of_a_loss_is_shown_beside_it() -> None:
    found, _ = quick_rows(
        {"start": {"dev_fr": 9.0, "dev_fr_unigram": 5.5}, "trained": {"dev_fr": 3.0, "dev_fr_unigram": 5.5}}
    )
    assert list(found) == ["dev fr ↓"] and found["dev fr ↓"][3] == "5.500"


def test_differences_are_coloured_only_beyond_two_standard_errors() -> None:
    def change(trained: float) -> str:
        # 600 test sentences at about 50 %: the difference of two accuracies has a standard error of 2.9.
        return quick_rows({"start": START, "trained": START | {"probe_bigram_shift": trained}})[0][
            "probe: bigram shift, % ↑"
        ][2]

    assert change(55.0) == "+5.0"
    assert change(49.99) == "+0.0"  # not "-0.0"
    assert change(45.0) == "-5.0"
    assert change(56.0) == "[green]+6.0[/green]"
    assert change(44.0) == "[red]-6.0[/red]"


def test_a_loss_that_rises_is_red() -> None:
    assert (
        quick_rows({"start": {"dev_mlm": 6.0}, "trained": {"dev_mlm": 7.0}})[0]["dev mlm ↓"][2]
        == "[red]+1.000[/red]"
    )


def test_missing_scores_are_explained() -> None:
    too_few = START | {"probe_length": None, "n_probe_length": 12}
    found, shown = quick_rows({"start": too_few, "trained": too_few})
    assert found["probe: sentence length, % ↑"][:3] == ["–", "–", "–"]
    line = "probe: sentence length: held-out text gives 12 test sentences; 60 are needed"
    assert line in " ".join(shown.split())


def test_scores_before_training_only_and_no_scores_at_all() -> None:
    assert quick_rows({"start": START})[0]["recall@1, % ↑"][:3] == ["3.0", "–", "–"]
    assert quick_rows({})[0] == {}


def write_run(folder: Path, task: str, seed: int, accuracy: float, **scores: float) -> str:
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


def table_rows(capsys: pytest.CaptureFixture[str]) -> list[str]:
    return capsys.readouterr().out.splitlines()[2:]


def test_seeds_of_one_run_share_a_row(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folders = [
        write_run(tmp_path / f"d{seed}", "D", seed, share) for seed, share in ((1, 0.7), (2, 0.8), (3, 0.9))
    ]
    folders.append(write_run(tmp_path / "c1", "C", 1, 0.6))
    evaluate("held_out", f"runs=[{','.join(folders)}]", "format=md", "by=[objective.task,objective.k]")
    rows = [
        "| D 3 | 3 | dev D accuracy, % ↑ | 50.0 | 80.0 ± 10.0 | 50.0 |",
        "| C 3 | 1 | dev C accuracy, % ↑ | 50.0 | 60.0 | 50.0 |",
    ]
    assert table_rows(capsys) == rows
    (tmp_path / "logs").mkdir()  # as beside the runs of compare.py and reproduce.py
    evaluate("held_out", f"runs=[{tmp_path}/*]", "format=md", "by=[objective.task,objective.k]")
    assert table_rows(capsys) == rows[::-1]  # in order of the folders' names
    evaluate("held_out", f"runs=[both={folders[0]},both={folders[1]},{folders[2]}]", "format=md")
    assert [line.split(" | ")[:2] for line in table_rows(capsys)] == [["| both", "2"], ["| d3", "1"]]


def test_scores_that_some_runs_lack_are_left_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    mlm_losses = {"dev_mlm": 3.0, "dev_mlm_unigram": 6.0}
    folders = [write_run(tmp_path / "a", "D", 1, 0.7, **mlm_losses), write_run(tmp_path / "b", "D", 2, 0.7)]
    evaluate("held_out", f"runs=[{','.join(folders)}]", "format=md", "by=[objective.task]")
    assert table_rows(capsys) == ["| D | 2 | dev D accuracy, % ↑ | 50.0 | 70.0 | 50.0 |"]
    evaluate("held_out", f"runs={folders[0]}")
    shown = next(line for line in capsys.readouterr().out.splitlines() if "dev mlm ↓" in line)
    assert [cell.strip() for cell in shown.split("│")[-4:-1]] == ["–", "3.000", "6.000"]


def test_only_runs_of_equal_settings_are_averaged(tmp_path: Path) -> None:
    first, second = (write_run(tmp_path / name, "D", seed, 0.7) for name, seed in (("a", 1), ("b", 2)))
    assert "is named twice" in refusal("held_out", f"runs=[{first},{first}]")
    config = yaml.safe_load((tmp_path / "b" / "config.yaml").read_text())
    config |= {"threads": 2, "optimizer": {"lr": 1e-12}}  # threads may differ, the learning rate may not
    (tmp_path / "b" / "config.yaml").write_text(yaml.safe_dump(config))
    reason = f"x would be the mean of runs that differ: optimizer.lr is None in {first}, 1e-12 in {second}."
    assert refusal("held_out", f"runs=[x={first},x={second}]") == f"{reason} Give them names."
    different = write_run(tmp_path / "c", "R", 1, 0.7)
    assert "differ: objective.task is D in" in refusal("held_out", f"runs=[x={first},x={different}]")
    message = refusal("held_out", f"runs=[{first},{second}]", "by=[objective.tsk]")
    assert message == f"{first}: its config.yaml has none of by=[objective.tsk]."
    (tmp_path / "b" / "config.yaml").write_text("- 1")
    assert "has no held-out scores: config.yaml is not" in refusal("held_out", f"runs=[x={first},x={second}]")
    (tmp_path / "b" / "config.yaml").unlink()
    message = refusal("held_out", f"runs=[{second}]")
    assert message == f"{second} is not the folder of a run: it has no config.yaml."
    assert refusal("held_out", f"runs=[x={tmp_path}/nope]") == f"{tmp_path}/nope: there is no such folder."
    assert refusal("held_out", f"runs=[{tmp_path}/x*]") == f"{tmp_path}/x*: no folder matches."


@pytest.mark.parametrize("broken", ["missing", "unfinished", "truncated"])
def test_refusals_are_one_line(broken: str, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    if broken != "missing":
        write_run(folder, "D", 1, 0.7)
        (folder / "quick.json").write_text('{"start": {}}' if broken == "unfinished" else '{"start')
    assert str(folder) in refusal("held_out", f"runs=[{folder}]", "by=[objective.task]")
