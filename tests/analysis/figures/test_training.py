"""The training figure: its files, their numbers, and missing parts."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest

from analysis.figures import style, training
from data.errors import UserError
from tests.analysis.runs_on_disk import write


def panels(paths: list[Path]) -> dict[str, dict[str, list[tuple[str, str]]]]:
    """Returns the points of the CSV by panel and series."""
    found: dict[str, dict[str, list[tuple[str, str]]]] = {}
    with next(path for path in paths if path.suffix == ".csv").open() as file:
        for row in csv.DictReader(file):
            found.setdefault(row["panel"], {}).setdefault(row["series"], []).append((row["x"], row["y"]))
    return found


def test_smooth_equals_a_loop() -> None:
    values = np.random.default_rng(0).normal(size=23)
    for width in (0, 1, 2, 5, 22, 60):
        reach = width // 2
        naive = [values[max(0, i - reach) : i + reach + 1].mean() for i in range(23)]
        np.testing.assert_allclose(training.smooth(values, width), naive, atol=1e-12)


def test_the_picture_and_its_csv_have_the_runs_numbers(tmp_path: Path) -> None:
    folder = write(tmp_path / "run")
    paths = training.draw(folder)
    assert [path.name for path in paths] == ["training.pdf", "training.png", "training.csv"]
    assert all(path.parent == folder / "figures" and path.stat().st_size > 1000 for path in paths)
    assert sorted(path.name for path in (folder / "figures").iterdir()) == sorted(path.name for path in paths)

    found = panels(paths)
    assert list(found) == [
        "contrastive",
        "mlm",
        "lr",
        "gradient_norm",
        "tokens_per_second",
        "quick scores",
        "geometry",
    ]
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    steps = [(float(line["step"]), line["mlm"]) for line in lines if "mlm" in line]
    assert [(float(x), float(y)) for x, y in found["mlm"]["step"]] == steps
    held_out = [(float(line["step"]), line["dev_mlm"]) for line in lines if "dev_mlm" in line]
    assert [(float(x), float(y)) for x, y in found["mlm"]["held out"]] == held_out
    assert ("14.5", "recall@1") in found["quick scores"]["trained"]
    assert ("0.25", "recall@1") in found["quick scores"]["chance"]
    assert found["geometry"] == {"trained": [("0.4", "-2.5")], "start": [("0.3", "-1.0")]}


def test_the_same_run_gives_the_same_picture_and_numbers(tmp_path: Path) -> None:
    first, second = (training.draw(write(tmp_path / name / "run")) for name in "ab")
    for a, b in zip(first[1:], second[1:], strict=True):
        assert a.read_bytes() == b.read_bytes()


def test_panels_follow_the_loss_parts_that_exist(tmp_path: Path) -> None:
    folder = write(tmp_path / "run", parts=("next", "previous", "french", "german", "nli"), finished=False)
    (folder / "timings.jsonl").unlink()
    assert list(panels(training.draw(folder))) == [
        "next",
        "previous",
        "french",
        "german",
        "nli",
        "lr",
        "gradient_norm",
    ]


def test_accuracies_have_panels_only_if_there_are_few(tmp_path: Path) -> None:
    for count in (3, 6):
        parts = tuple(f"{name}{end}" for name in "DPIRNC"[:count] for end in ("", "_accuracy"))
        found = list(panels(training.draw(write(tmp_path / str(count) / "run", parts=parts))))
        assert found[:-5] == list(parts if count == 3 else "DPIRNC")


def test_parts_that_alternate_are_drawn(tmp_path: Path) -> None:
    folder = write(tmp_path / "run", parts=(), steps=1)
    lines = [{"step": step, "loss": 2.0, ("nli" if step % 2 else "french"): 2.0} for step in range(1, 9)]
    (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    found = panels(training.draw(folder))
    assert [x for x, _ in found["nli"]["step"]] == ["1.0", "3.0", "5.0", "7.0"]
    assert [x for x, _ in found["french"]["step"]] == ["2.0", "4.0", "6.0", "8.0"]


def test_a_single_step_and_infinite_values_are_drawn(tmp_path: Path) -> None:
    folder = write(tmp_path / "run", steps=1)
    with (folder / "metrics.jsonl").open("a") as file:
        file.write(
            json.dumps({"step": 2, "loss": float("nan"), "mlm": float("nan"), "gradient_norm": float("inf")})
        )
    assert panels(training.draw(folder))["mlm"]["step"][0][0] == "1.0"


def test_a_run_without_a_drawable_step_is_reported(tmp_path: Path) -> None:
    folder = write(tmp_path / "run")
    (folder / "metrics.jsonl").write_text('{"step": 0, "dev_mlm": 3.0}\n')
    with pytest.raises(
        UserError, match=r"nothing to draw in .*run: metrics\.jsonl has no step with a finite loss"
    ):
        training.draw(folder)
    (folder / "metrics.jsonl").write_text("x\ny\n")
    with pytest.raises(UserError, match=r"cannot be drawn: metrics\.jsonl:1 is not JSON\."):
        training.draw(folder)
    assert not (folder / "figures").exists()


def test_each_objective_has_its_own_colour() -> None:
    colours = [style.OTHER, style.ACCENT, *style.OBJECTIVES.values()]
    assert len(set(colours)) == len(colours)
    assert style.colour("declutr") == style.OBJECTIVES["declutr"]
    assert style.colour("not yet known") == style.colour(None) == style.OTHER
