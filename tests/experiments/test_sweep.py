"""Sweeps: names, failures, interrupts and continuing; scripts stand in for run.py and evaluate.py."""

from __future__ import annotations

import os
import shlex
import signal
import threading
import time
from pathlib import Path

import pytest

from data.errors import UserError
from experiments import sweep
from experiments.interrupts import terminations
from experiments.sweep import Evaluation, Run, complete, run_name
from tests.experiments import tiny

# Seed 2 fails and seed 3 is killed until the file "mended" exists; seed 4 trains until it is told to stop.
RUN = """
import json, os, signal, sys, time
from pathlib import Path
values = dict(text.split("=", 1) for text in sys.argv[1:])
folder = Path((values.get("run_dir") or values["resume"]).strip("'"))
folder.mkdir(parents=True, exist_ok=True)
with (folder.parent / "calls").open("a") as calls:
    calls.write(f"{folder.name} {'resume' if 'resume' in values else 'run'} {os.environ['OMP_NUM_THREADS']}\\n")
(folder / "config.yaml").write_text("{names: {objective: declutr}, seed: 1}")
mended, seed = (folder.parent / "mended").exists(), values.get("seed")
if seed == "2" and not mended:
    print("first line\\nthe loss is not finite")
    sys.exit(1)
if seed == "3" and not mended:
    os.kill(os.getpid(), signal.SIGKILL)
if seed == "4" and not mended:
    def stop(*_):
        (folder / "stopped").touch()
        sys.exit(130)
    signal.signal(signal.SIGTERM, stop)
    (folder / "started").touch()
    time.sleep(60)
(folder / "quick.json").write_text(json.dumps({"start": {}, "trained": {"recall@1": 50}, "weights": "random"}))
(folder / "encoder").mkdir()
"""
EVALUATE = """
import sys
from pathlib import Path
values = dict(text.split("=", 1) for text in sys.argv[1:])
with (Path(__file__).parent / "evaluations").open("a") as calls:
    calls.write(" ".join(f"{key}={values[key]}" for key in sorted(values)) + "\\n")
"""


@pytest.fixture(autouse=True)
def scripts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "run.py").write_text(RUN)
    (tmp_path / "evaluate.py").write_text(EVALUATE)
    monkeypatch.setattr(sweep, "SCRIPTS", tmp_path)
    monkeypatch.setattr(sweep, "POLL_SECONDS", 0.01)
    return tmp_path


def plan(folder: Path, *seeds: int) -> list[Run]:
    [run] = sweep.sweep(tiny.overrides(folder, "objective=declutr"), {"row": {"a": []}})
    return [run.repeat(seed) for seed in seeds]


def calls(folder: Path) -> list[str]:
    path = folder / "runs" / "calls"
    return [" ".join(line.split()[1:]) for line in path.read_text().splitlines()] if path.exists() else []


def test_finished_runs_are_found_again(tmp_path: Path) -> None:
    runs = plan(tmp_path, 1, 5)
    for _ in range(2):
        frame = complete(runs, tmp_path / "runs", jobs=2, threads=3)
        assert calls(tmp_path) == ["run 3", "run 3"]
    assert [*frame.columns[:3]] == ["row", "seed", "run"] and frame["seed"].tolist() == [1, 5]
    assert frame["run"].tolist() == [run_name(run) for run in runs]
    assert frame["recall@1"].tolist() == [50, 50] and set(frame["weights"]) == {"random"}


def test_a_failure_leaves_the_others_running(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runs = plan(tmp_path, 2, 1, 3)
    frame = complete(runs, tmp_path / "runs")
    failed = frame.attrs["failed"]
    assert frame["seed"].tolist() == [1] and [*failed] == [run_name(runs[0]), run_name(runs[2])]
    assert failed[run_name(runs[0])] == "the loss is not finite" and "9" in failed[run_name(runs[2])]
    assert "the loss is not finite" in capsys.readouterr().out
    (tmp_path / "runs" / "mended").touch()
    assert complete(runs, tmp_path / "runs")["seed"].tolist() == [2, 1, 3]
    assert calls(tmp_path)[3:] == ["resume 1", "resume 1"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_stops_all_and_the_same_command_continues(tmp_path: Path, number: signal.Signals) -> None:
    runs = [*plan(tmp_path, 4), *plan(tmp_path, 1)]
    folder = tmp_path / "runs" / run_name(runs[0])

    def interrupt() -> None:
        while not (folder / "started").exists():
            time.sleep(0.01)
        os.kill(os.getpid(), number)

    threading.Thread(target=interrupt).start()
    with pytest.raises(KeyboardInterrupt), terminations():
        complete(runs, tmp_path / "runs")
    assert (folder / "stopped").exists() and calls(tmp_path) == ["run 1"]
    (tmp_path / "runs" / "mended").touch()
    assert len(complete(runs, tmp_path / "runs")) == 2 and calls(tmp_path)[1:] == ["resume 1", "run 1"]


def test_a_wrong_key_starts_nothing(tmp_path: Path) -> None:
    wrong = Run({"row": "a"}, (*tiny.overrides(tmp_path, "objective=declutr"), "objective.temprature=1"))
    with pytest.raises(UserError) as caught:
        complete([wrong], tmp_path / "runs")
    assert [error.key for error in caught.value.errors] == ["objective.temprature"] and not calls(tmp_path)


def test_models_and_joined_encoders_are_evaluated(tmp_path: Path, scripts: Path) -> None:
    first, second = plan(tmp_path, 1, 2)
    model = Run({"row": "start"}, model="modernbert-mini-2", evaluation=("pooling=cls",))
    runs = [Run({"row": "joined"}, members=(first, first)), Run({"row": "lost"}, members=(first, second)), model]
    complete([*runs, model], tmp_path / "runs", senteval=Evaluation(Path("data"), "conssent", ["CR"]))
    joined, start = map(shlex.split, (scripts / "evaluations").read_text().splitlines())
    assert {"protocol=conssent", "tasks=[CR]", "device=cpu"} <= {*joined} & {*start}
    assert f"model={tmp_path}/runs/{run_name(first)}+{tmp_path}/runs/{run_name(first)}" in joined
    assert {"model=modernbert-mini-2", "pooling=cls"} <= {*start}
    assert f"out={tmp_path}/runs/{run_name(model)}/senteval-conssent-pooling-cls" in start


def test_a_name_is_a_digest_of_what_decides_the_result(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def name(*more: str, seed: int = 1) -> str:
        return run_name(Run({}, (*tiny.overrides(tmp_path, "objective=declutr"), *more), seed=seed))

    first = name()
    assert first == name("threads=2", "device=auto", "seed=1") and first.startswith("declutr-tiny-1-")
    others = [name(seed=2), name("optimizer.lr=2e-3"), name("encoder=bundled"), name("objective.temperature=0.1")]
    assert len({first, *others}) == 5 and all(len(text) <= 40 for text in others)
    monkeypatch.setattr(sweep, "_version", lambda target: ["2"])
    assert name() != first
    bundled = name("encoder=bundled", "weights=auto")
    monkeypatch.setattr(sweep, "_digest_weights", lambda name: "other weights")
    assert name("encoder=bundled", "weights=auto") != bundled


def test_versions_of_objectives_are_read_from_their_source() -> None:
    from objectives.conssent import ConsSent
    from objectives.simcse import SimCSE

    for cls in (ConsSent, SimCSE):
        version = sweep._version(f"{cls.__module__}.{cls.__name__}")
        assert version == ([str(cls.version)] if "version" in vars(cls) else [])
