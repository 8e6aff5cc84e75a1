"""Reading of run folders, including those of version 0.1."""

from __future__ import annotations

from pathlib import Path

import pytest

from analysis.comparison import page, reading
from analysis.comparison.page import Page
from tests.analysis.comparison import example_comparison

VERSION_0_1 = Path(__file__).parents[2] / "fixtures" / "version_0_1" / "folders"


def test_a_curve_is_drawn_over_tokens_read(tmp_path: Path) -> None:
    run = example_comparison.run(tmp_path, "declutr", "gru")
    assert run.finished and run.loss_parts == ["contrastive", "mlm"]
    tokens, values = run.curve("contrastive")
    assert tokens.tolist() == [2500.0 * step for step in range(1, 61)] and len(values) == 60
    assert run.curve("dev_contrastive")[0].tolist() == [25_000.0 * number for number in range(7)]


def test_a_run_that_cannot_be_read_has_a_problem(tmp_path: Path) -> None:
    run = example_comparison.run(tmp_path, "declutr", "gru")
    assert run.folder is not None
    (run.folder / "environment.json").write_text('{"packages": 3}')
    broken = reading.read("declutr", "gru", 1, "python a", run.folder)
    assert not broken.finished and "environment.json: packages must be" in broken.problem


def test_the_run_of_the_lowest_seed_represents_its_pair(tmp_path: Path) -> None:
    runs = [
        example_comparison.run(tmp_path, name, "gru", seed)
        for name, seed in (("nsp", 0), ("declutr", 1), ("declutr", 0))
    ]
    assert [(run.name, run.seed) for run in reading.leading(runs)] == [("nsp · gru", 0), ("declutr · gru", 0)]


@pytest.mark.parametrize("name", ["bag_of_words", "bilstm_max", "concatenated", "gru", "lstm", "transformer"])
def test_a_run_of_version_0_1_is_shown(name: str) -> None:
    run = reading.read("nsp", name, 1, "python a", VERSION_0_1 / name)
    assert run.finished and (run.results is not None) == (name == "transformer")
    assert f"nsp · {name}" in page.render(Page(("nsp",), (name,), "teaching", "Equal.", "python b", (run,)))
