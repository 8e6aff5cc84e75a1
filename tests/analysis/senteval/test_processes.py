"""Tasks in parallel processes: the same bits as in one process, errors, Ctrl-C, killed processes."""

from __future__ import annotations

import multiprocessing
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from analysis.senteval.display import Watch
from analysis.senteval.evaluation import run_tasks
from analysis.senteval.processes import evaluate_jobs, number_of_processes
from analysis.senteval.protocols import PROTOCOLS
from analysis.senteval.results import Results, read_results
from analysis.senteval.tasks import TASKS
from data.errors import UserError
from encoders.fingerprint import fingerprint
from encoders.random_vectors import RandomVectors
from tests.analysis.senteval import small_data
from tests.real_data import suite_data

ROOT = Path(__file__).resolve().parents[3]
QUICK = ["CR", "TREC", "STS12", "SICKEntailment", "SNLI", "ImageCaptionRetrieval"]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small_data.folder(tmp_path_factory.mktemp("senteval"))


@pytest.fixture(autouse=True)
def no_process_is_left() -> Any:
    before = multiprocessing.active_children()
    yield
    assert {*multiprocessing.active_children()} <= {*before}


def run(data: Path, out: Path | None, processes: int, **options: Any) -> Results:
    arguments: dict[str, Any] = {"protocol": PROTOCOLS["prototyping"], "tasks": QUICK} | options
    encoder = RandomVectors(dimension=8)
    return run_tasks(
        lambda _: encoder,
        {"name": "it"},
        fingerprint=fingerprint,
        data=data,
        out=out,
        processes=processes,
        **arguments,
    )


def assert_same_results(one: Path, other: Path) -> None:
    first, second = (read_results(folder).tasks for folder in (one, other))
    assert [*first] == [*second]
    for task, record in first.items():
        assert dict(record, seconds=0) == dict(second[task], seconds=0), task
    names = [{path.name for path in (folder / "predictions").iterdir()} for folder in (one, other)]
    assert names[0] == names[1]
    for name in names[0]:
        with np.load(one / "predictions" / name) as a, np.load(other / "predictions" / name) as b:
            assert [*a] == [*b] and all(a[key].tobytes() == b[key].tobytes() for key in a), name


class RecordingWatch(Watch):
    """Progress display that records shares and the maximum number of tasks at a time."""

    def __init__(self) -> None:
        self.shares: list[float] = []
        self.ended: list[str] = []
        self.most_running = 0

    def begin(self, results: Results, running: Any, waiting: Any) -> None:
        self.most_running = max(self.most_running, len(running))

    def progress(self, share: float) -> None:
        self.shares.append(share)

    def end(self, results: Results, task: str) -> None:
        self.ended.append(task)


def test_two_processes_give_the_bits_of_one(data: Path, tmp_path: Path) -> None:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        watch = RecordingWatch()
        one = run(data, tmp_path / "one", 1)
        two = run(data, tmp_path / "two", 2, watch=watch)
    finally:
        torch.set_num_threads(threads)
    assert_same_results(tmp_path / "one", tmp_path / "two")
    assert [*one.tasks] == [*two.tasks] and {*watch.ended} == {*QUICK} and watch.most_running >= 2
    assert watch.shares == sorted(watch.shares) and watch.shares[-1] == 1


def test_two_processes_choose_the_same_best_pooling(data: Path) -> None:
    encoders = {"max": RandomVectors(dimension=8), "last": RandomVectors(dimension=8, seed=1)}
    one, two = (
        run_tasks(
            lambda pooling: encoders[str(pooling)],
            {},
            PROTOCOLS["gensen"],
            fingerprint=fingerprint,
            data=data,
            out=None,
            tasks=["TREC", "SST2", "STS12"],
            processes=processes,
        ).tasks
        for processes in (1, 2)
    )
    assert [*one] == [*two] == ["SST2", "TREC", "STS12"]
    for task, record in one.items():
        assert dict(record, seconds=0) == dict(two[task], seconds=0)


@pytest.mark.slow
def test_two_processes_give_the_bits_of_one_on_real_tasks(tmp_path: Path) -> None:
    tasks, encoder = ["CR", "TREC", "MRPC", "SICKEntailment", "STS12"], RandomVectors(dimension=32)
    for processes in (1, 2):
        run_tasks(
            lambda _: encoder, {}, PROTOCOLS["prototyping"], fingerprint=fingerprint, data=suite_data("senteval"),
            out=tmp_path / str(processes), tasks=tasks, processes=processes,
        )  # fmt: skip
    assert_same_results(tmp_path / "1", tmp_path / "2")


def test_an_error_of_a_task_is_one_line(data: Path, tmp_path: Path) -> None:
    for name in ("CR", "STS", "TREC"):
        shutil.copytree(data / "downstream" / name, tmp_path / "data2/downstream" / name)
    folder = tmp_path / "data2/downstream/SUBJ"
    folder.mkdir()
    for file in TASKS["SUBJ"].files:  # fewer examples than folds
        (folder.parent / file).write_text("the dog .\n" * 3)
    messages = []
    for processes in (1, 2):
        with pytest.raises(UserError) as refusal:
            run(tmp_path / "data2", tmp_path / str(processes), processes, tasks=["STS12", "SUBJ", "CR", "TREC"])
        messages.append(str(refusal.value))
    assert messages[0] == messages[1] and messages[0].startswith("SUBJ (") and "5 folds need" in messages[0]


class FakeJob:
    """Stands in for a job: returns empty results at once, or kills its process when ``after`` exists."""

    work = 1.0

    def __init__(self, name: str, after: Path | None = None) -> None:
        self.name, self.after = name, after

    def evaluate(self, *_: Any) -> Any:
        while self.after is not None:
            if self.after.exists():
                os.kill(os.getpid(), signal.SIGKILL)
            time.sleep(0.01)
        return {}, {}


def test_a_killed_process_is_one_line_and_finished_tasks_count(tmp_path: Path) -> None:
    vectors = np.memmap(tmp_path / "vectors.bin", "<f4", "w+", shape=(1, 2))
    jobs: list[Any] = [FakeJob("STS12"), FakeJob("TREC", after=tmp_path / "STS12")]

    def finish(name: str, _: Any) -> None:
        (tmp_path / name).touch()

    with pytest.raises(UserError) as refusal:
        evaluate_jobs(jobs, {None: vectors}, 2, progress=lambda *_: None, finish=finish)
    assert "\n" not in str(refusal.value)
    assert (tmp_path / "STS12").exists() and not (tmp_path / "TREC").exists()


def test_stopping_the_first_process_ends_the_others(data: Path, tmp_path: Path) -> None:
    class Stop(Watch):
        def begin(self, results: Results, running: Any, waiting: Any) -> None:
            raise KeyboardInterrupt

    started = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        run(data, tmp_path, 2, watch=Stop())
    assert time.monotonic() - started < 60


SCRIPT = """
import signal
import time
from pathlib import Path

from analysis.senteval.display import Watch
from analysis.senteval.evaluation import run_tasks
from analysis.senteval.protocols import PROTOCOLS
from encoders.fingerprint import fingerprint
from encoders.random_vectors import RandomVectors

class Waiting(Watch):
    def end(self, results, task):
        time.sleep(60)

signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell makes background jobs ignore SIGINT
print("begun", flush=True)
encoder, protocol = RandomVectors(dimension=8), PROTOCOLS["prototyping"]
run_tasks(
    lambda _: encoder, {{"name": "it"}}, protocol, fingerprint=fingerprint,
    data=Path({data!r}), out=Path({out!r}), processes=2, watch=Waiting(),
)
print("done", flush=True)
"""


@pytest.mark.parametrize("stop_signal", [signal.SIGINT, signal.SIGKILL], ids=["SIGINT", "SIGKILL"])
def test_a_script_without_a_main_guard_is_not_run_again(
    data: Path, tmp_path: Path, stop_signal: signal.Signals
) -> None:
    """Worker processes do not run the script again, and end with it after Ctrl-C or a kill."""
    script = tmp_path / "script.py"
    script.write_text(SCRIPT.format(data=str(data), out=str(tmp_path / "out")))
    paths = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = {**os.environ, "PYTHONPATH": paths, "OMP_NUM_THREADS": "1"}
    program = subprocess.Popen(
        [sys.executable, str(script)], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        start_new_session=True,
    )  # fmt: skip
    while not (tmp_path / "out/senteval.json").exists() and program.poll() is None:
        time.sleep(0.05)
    assert program.poll() is None
    (os.killpg if stop_signal == signal.SIGINT else os.kill)(program.pid, stop_signal)
    output, errors = program.communicate(timeout=120)
    assert read_results(tmp_path / "out").tasks  # results from before the stop are kept
    assert output == "begun\n" and errors.count("Traceback") == (stop_signal == signal.SIGINT)
    with pytest.raises(ProcessLookupError):  # no process of the group is left
        for _ in range(1200):
            os.killpg(program.pid, 0)
            time.sleep(0.05)


def test_the_number_of_processes_follows_cores_and_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("data.tokenising.cores", lambda: 16)
    assert [number_of_processes(None, tasks, "cpu") for tasks in (0, 1, 28)] == [1, 1, 1]
    assert [number_of_processes(None, tasks, "cuda") for tasks in (0, 1, 5, 28)] == [1, 1, 5, 8]
    assert [number_of_processes(3, tasks, "cpu") for tasks in (0, 2, 28)] == [1, 2, 3]
    monkeypatch.setattr("data.tokenising.cores", lambda: 6)
    assert number_of_processes(None, 28, "cuda") == 3


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_tasks_share_a_gpu(data: Path, tmp_path: Path) -> None:
    results = run(data, tmp_path, 2, device="cuda")
    assert {*results.tasks} == {*QUICK}
