"""Ranking of a sweep by mean dev score within groups, and results that cannot be ranked."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from analysis.reporting.matching import StoredResults, label, read_stored
from analysis.reporting.ranking import GROUP, Ranking, rank, report_ranking
from analysis.senteval.records import Record
from analysis.senteval.results import read_results, write_results
from data.errors import UserError
from tests.analysis.senteval.example_results import record, results


def write_result(
    root: Path, name: str, *, task: str | None = None, k: int = 1, config_beside: bool = True, **devs: float
) -> Path:
    """Writes a result with ``devs`` and STS12; its run's config.yaml lies beside it or in a run folder."""
    folder = root / name
    folder.mkdir()
    tasks: dict[str, Record] = {key: record(key, dev=dev, files="x") for key, dev in devs.items()}
    tasks["STS12"] = record("STS12", files="x")
    run = folder if config_beside else root / "runs" / name
    stored = results(name, tasks)
    if task is not None:
        (run / "encoder").mkdir(parents=True)
        objective = {"task": task, "k": k}
        (run / "config.yaml").write_text(yaml.safe_dump({"seed": 1, "objective": objective}), encoding="utf-8")
        stored.model["path"] = str(run / "encoder")
    write_results(folder / "senteval.json", stored)
    return folder


@pytest.fixture
def sweep(tmp_path: Path) -> list[Path]:
    return [
        write_result(tmp_path, "d1", task="D", k=1, CR=60, STSBenchmark=50),
        write_result(tmp_path, "d2", task="D", k=2, config_beside=False, CR=50, STSBenchmark=70),
        write_result(tmp_path, "p2", task="P", k=2, CR=90, STSBenchmark=10),
    ]


def rank_paths(paths: list[Path], *by: str, tasks: list[str] | None = None) -> Ranking:
    return rank([read_stored(path) for path in paths], by, tasks)


def test_the_best_of_each_group_by_mean_dev(sweep: list[Path]) -> None:
    ranking = rank_paths(sweep, GROUP)
    assert {name: [(result.folder, result.dev) for result in group] for name, group in ranking.groups.items()} == {
        "D": [(sweep[1], 60.0), (sweep[0], 55.0)],
        "P": [(sweep[2], 50.0)],
    }
    assert ranking.tasks == ["CR", "STSBenchmark"] and ranking.without == ["STS12"]
    assert [*rank_paths(sweep, GROUP, "objective.k").groups] == ["D 1", "D 2", "P 2"]
    [everything] = rank_paths(sweep).groups.values()
    assert [result.folder.name for result in everything] == ["d2", "d1", "p2"]
    assert rank_paths(sweep, GROUP, tasks=["CR"]).groups["D"][0].folder == sweep[0]


def test_a_run_of_several_tasks_goes_by_its_objectives_name(sweep: list[Path], tmp_path: Path) -> None:
    several = write_result(tmp_path, "mt", task="none", CR=10, STSBenchmark=20)
    config = {"names": {"objective": "conssent_mt"}, "objective": {"k": 3}}
    (several / "config.yaml").write_text(yaml.safe_dump(config), encoding="utf-8")
    assert [*rank_paths([*sweep, several], GROUP).groups] == ["D", "P", "conssent_mt"]
    with pytest.raises(UserError) as error:
        rank_paths([several], "objective.noise")
    assert error.value.key == str(several)


def test_tied_results_keep_their_order(tmp_path: Path) -> None:
    paths = [write_result(tmp_path, name, task="D", CR=60) for name in ("b", "a")]
    assert [result.folder.name for result in rank_paths(paths, GROUP).groups["D"]] == ["b", "a"]


def test_a_result_is_named_after_its_run(sweep: list[Path], tmp_path: Path) -> None:
    stored = StoredResults(sweep[1], read_results(sweep[1]))
    assert label(stored, ["objective.task", "objective.k"]) == "D 2"
    assert label(stored, ["objective.none", "objective.k"]) == "2"
    assert label(stored, ["none.at.all", "objective.task.deeper"]) is None
    without_run = write_result(tmp_path, "alone", CR=1)
    assert label(StoredResults(without_run, read_results(without_run)), ["objective.task"]) is None
    (sweep[0] / "config.yaml").write_text("a: [", encoding="utf-8")
    with pytest.raises(UserError):
        label(StoredResults(sweep[0], read_results(sweep[0])), ["seed"])


@pytest.mark.parametrize(
    "scores", [{"CR": 60}, {"CR": 60, "STSBenchmark": None, "task": "D"}, {"CR": 60, "STSBenchmark": 60}]
)
def test_results_that_cannot_be_ranked_are_refused(
    scores: dict[str, Any], sweep: list[Path], tmp_path: Path
) -> None:
    """A task is missing, a dev score is missing, or there is no run."""
    with pytest.raises(UserError) as error:
        rank_paths([*sweep, write_result(tmp_path, "new", **scores)], GROUP)
    assert error.value.key == str(tmp_path / "new")


def test_results_without_any_dev_score_are_refused(sweep: list[Path]) -> None:
    with pytest.raises(UserError) as error:
        rank_paths(sweep, GROUP, tasks=["STS12"])
    assert error.value.key == "tasks"


def test_the_command_prints_the_ranking(sweep: list[Path], capsys: pytest.CaptureFixture[str]) -> None:
    report_ranking(results=[*map(str, sweep)])
    output = capsys.readouterr().out
    assert output.splitlines()[-1] == f"results=[{sweep[1]},{sweep[2]}]"
    assert "60.00" in output and "no dev set: STS12" in " ".join(output.split())
    report_ranking(results=[*map(str, sweep)], by=[], top=2)
    assert capsys.readouterr().out.splitlines()[-1] == f"results=[{sweep[1]},{sweep[0]}]"
