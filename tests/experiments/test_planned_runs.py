"""Planned runs: their names, their state, and the tasks that are evaluated already."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from analysis.senteval.evaluation import digest_files
from analysis.senteval.tasks import TASKS
from analysis.settings import EvaluationSettings
from data.errors import UserError
from encoders.folder import BUNDLED
from experiments import compose, planned_runs
from experiments.planned_runs import Evaluation, name_of, state
from objectives.declutr import Declutr
from tests.analysis.senteval.example_results import record

CONFIG = {
    "names": {"objective": "declutr", "encoder": "gru", "corpus": "text", "budget": "teaching"},
    "seed": 2, "budget": {"tokens": 5}, "device": "auto", "cache": "a",
    "objective": {"_target_": "objectives.declutr.Declutr"}, "encoder": {"_target_": "encoders.gru.GRU"},
}  # fmt: skip


def test_a_name_depends_only_on_what_is_trained() -> None:
    name = name_of(CONFIG)
    assert name.startswith("declutr-gru-text-2-")
    assert name == name_of(CONFIG | {"device": "cpu", "cache": "b", "log_every": 3, "verbose": True})
    changes: list[dict[str, Any]] = [{"seed": 3}, {"budget": {"tokens": 6}}, {"weights": "random"}]
    assert len({name, *(name_of(CONFIG | changed) for changed in changes)}) == 4


def test_a_name_depends_on_the_version_of_the_objective(monkeypatch: pytest.MonkeyPatch) -> None:
    name = name_of(CONFIG)
    monkeypatch.setattr(Declutr, "version", 2)
    assert name_of(CONFIG) != name


def test_a_name_depends_on_the_bundled_weights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def name(**encoder: Any) -> str:
        return name_of(CONFIG | {"encoder": {"_target_": "encoders.transformer.Transformer", **encoder}})

    bundled: list[dict[str, Any]] = [
        {"name": BUNDLED, "weights": "auto"},
        {"name": "roberta-base", "weights": "auto"},  # falls back to the bundled weights
    ]
    other_starts: list[dict[str, Any]] = [
        {"name": BUNDLED, "weights": "random"},
        {"name": "roberta-base", "weights": "pretrained"},
        {"name": None, "path": "folder", "weights": "auto"},
    ]
    before = [name(**encoder) for encoder in (*bundled, *other_starts)]
    shutil.copytree(planned_runs.CHECKPOINTS / BUNDLED, tmp_path / BUNDLED)
    with (tmp_path / BUNDLED / "model.safetensors").open("ab") as file:
        file.write(b"!")
    monkeypatch.setattr(planned_runs, "CHECKPOINTS", tmp_path)
    after = [name(**encoder) for encoder in (*bundled, *other_starts)]
    assert [old == new for old, new in zip(before, after, strict=True)] == [False, False, True, True, True]


def test_the_state_of_a_run_follows_its_folder(tmp_path: Path) -> None:
    assert state(tmp_path) == "missing"
    (tmp_path / "config.yaml").write_text("seed: 1\n")
    assert state(tmp_path) == "begun"
    (tmp_path / "encoder").mkdir()
    assert state(tmp_path) == "finished"
    (tmp_path / "config.yaml").write_text("[")
    assert state(tmp_path) == "broken"
    line = rf"^{tmp_path} cannot be read \(.+\): delete it, and the same command trains it again\.$"
    with pytest.raises(UserError, match=line):
        planned_runs.training(tmp_path, [], [])


def test_differences_that_names_do_not_show_are_reported(tmp_path: Path) -> None:
    def finished(seed: int, origin: str, commit: str, encoder: str = "roberta-mini") -> Path:
        folder = tmp_path / f"{encoder}-{seed}"
        (folder / "encoder").mkdir(parents=True)
        names = {"objective": "declutr", "encoder": encoder, "origin": origin}
        config = {"names": names, "seed": seed, "encoder": {"name": encoder}, "weights": "auto"}
        (folder / "config.yaml").write_text(json.dumps(config))
        (folder / "environment.json").write_text(json.dumps({"commit": commit}))
        return folder

    synthetic = "the hub's; learns fr from synthetic pairs"
    folders = [finished(1, "the hub's", "a"), finished(2, synthetic, "a"), finished(1, "random", "a", "gru")]
    assert planned_runs.differences([*folders, tmp_path / "missing"]) == []
    folders.append(finished(3, "the stand-in", "b"))
    assert planned_runs.differences(folders) == [
        "the runs were made by different commits: a, b",
        "runs of declutr with roberta-mini started from the hub's and from the stand-in",
    ]


def test_states_are_counted_in_one_line() -> None:
    shown = planned_runs.count_states(["missing", "finished", "missing"], "runs", 2)
    assert shown == "3 in runs: 2 missing, 1 finished; 2 at a time"


def write_files(root: Path, task: str, text: str = "a") -> str:
    """Writes the files of ``task`` below ``root`` and returns their digest."""
    for name in TASKS[task].files:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return digest_files(TASKS[task], root)


def write_results(out: Path, digests: Mapping[str, str]) -> None:
    """Writes results of tasks that were evaluated on files of these digests."""
    tasks = {task: record(task, files=digest) for task, digest in digests.items()}
    (out / "senteval.json").write_text(json.dumps({"tasks": tasks, "model": {"name": "a"}, "protocol": "default"}))


def evaluated(evaluation: Evaluation, folder: Path, pooling: str = "") -> EvaluationSettings | None:
    """Returns the settings with which the run in ``folder`` is evaluated; None if it is not."""
    if (arguments := evaluation.arguments(folder, pooling)) is None:
        return None
    assert arguments[0] == planned_runs.EVALUATE
    return compose.check(arguments[1:], "evaluate", EvaluationSettings)


def test_evaluated_tasks_are_not_evaluated_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planned_runs, "state", lambda folder: "finished")
    data = tmp_path / "data"
    digest = write_files(data / "downstream", "TREC")
    assert not Evaluation(data, "default", ["TREC"]).complete(tmp_path)
    write_results(tmp_path, {"TREC": digest})
    (tmp_path / "config.yaml").touch()
    passed = ["device=cpu", "seed=1", "cache='a folder'"]
    trec, both = (
        Evaluation(data, "default", tasks, threads=3, at_once=2, passed=passed)
        for tasks in (["TREC"], ["TREC", "CR"])
    )
    assert trec.complete(tmp_path)
    assert both.complete(tmp_path)  # CR does not count, as its files are missing
    assert Evaluation(data, "default").complete(tmp_path)
    with pytest.raises(UserError, match="lacks files of TREC "):
        Evaluation(Path("other"), "default", ["TREC"]).complete(tmp_path)
    assert evaluated(trec, tmp_path) is None
    assert both.share(tmp_path) == 1
    write_files(data / "downstream", "CR")  # downloaded later
    assert not both.complete(tmp_path)
    assert (both.share(tmp_path), both.share(tmp_path / "none")) == (0.5, 0)
    assert evaluated(both, tmp_path) == EvaluationSettings(
        model=str(tmp_path),
        data=str(data),
        out=str(tmp_path),
        tasks=["TREC", "CR"],
        threads=3,
        processes=1,
        device="cpu",
        cache="a folder",
    )
    again = evaluated(Evaluation(data, "prototyping", ["TREC"]), tmp_path, "cls")
    assert again is not None
    assert (again.pooling, again.protocol, again.processes) == ("cls", "prototyping", None)
    assert again.out == str(tmp_path / "senteval-prototyping-cls")
    monkeypatch.setattr(planned_runs, "state", lambda folder: "begun")
    assert evaluated(both, tmp_path) is None


def test_scores_on_other_files_do_not_count_as_evaluated(tmp_path: Path) -> None:
    first, second, rebuilt, genuine = (tmp_path / name for name in ("a", "b", "rebuilt", "genuine"))

    def complete(data: Path, probing: Path) -> bool:
        return Evaluation(data, "default", ["TREC", "Length"], str(probing)).complete(tmp_path)

    digests = {"TREC": write_files(first / "downstream", "TREC")}
    write_results(tmp_path, digests)
    assert Evaluation(first, "default", ["TREC", "Length"]).complete(tmp_path)
    digests["Length"] = write_files(rebuilt, "Length")
    assert not complete(first, rebuilt)  # the first evaluation was without probing data
    write_results(tmp_path, digests)
    assert complete(first, rebuilt)
    write_files(genuine, "Length", "b")
    assert not complete(first, genuine)
    write_files(second / "downstream", "TREC", "b")
    assert not complete(second, rebuilt)
