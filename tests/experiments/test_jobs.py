"""Jobs in subprocesses: order, number at a time, failures, interrupts, progress."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from data.errors import UserError
from experiments.jobs import Job, RunningJob, last_line, run_jobs, trained_share, watched
from experiments.progress import Display


def script(text: str) -> list[str]:
    return ["-c", text]


def job(folder: Path, name: str, text: str | None) -> Job:
    log = folder / "logs" / f"{name}.log"
    return Job(name, lambda: None if text is None else script(text), log, partial(trained_share, folder))


def nothing(running: Sequence[RunningJob], share: float) -> None:
    pass


def test_a_job_that_fails_leaves_the_others_running(tmp_path: Path) -> None:
    succeeding = job(tmp_path, "good", f"import pathlib; pathlib.Path({str(tmp_path / 'a')!r}).touch()")
    failing = job(tmp_path, "bad", "print('so far'); raise SystemExit('it broke')")
    complete = job(tmp_path, "none", None)
    shares: list[float] = []
    failed = run_jobs(
        [failing, succeeding, complete], at_once=1, threads=1, watch=lambda running, share: shares.append(share)
    )
    assert failed == {"bad": "it broke"}
    assert {path.name for path in tmp_path.iterdir()} == {"a", "logs"}
    assert {path.stem for path in (tmp_path / "logs").iterdir()} == {"good", "bad"}
    assert shares[-1] == pytest.approx(1)
    assert shares == sorted(shares)


def test_a_log_that_is_not_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    os.mkfifo(tmp_path / "logs" / "pipe.log")
    (tmp_path / "logs" / "link.log").symlink_to(tmp_path / "elsewhere")
    for name in ("pipe", "link"):
        failed = run_jobs([job(tmp_path, name, "pass")], at_once=1, threads=1, watch=nothing)
        assert failed[name].endswith(f"logs/{name}.log is a link, or not a file: remove it.")
    assert not (tmp_path / "elsewhere").exists()


def test_a_failure_is_explained_by_the_output_of_its_own_process(tmp_path: Path) -> None:
    killed = job(tmp_path, "killed", "import os; print('run  a', flush=True); os.kill(os.getpid(), 9)")
    silent = job(tmp_path, "silent", "raise SystemExit(2)")
    unexpected = job(tmp_path, "odd", "print('step'); raise SystemExit(7)")

    def job_that_raises(error: Exception) -> Job:
        def command() -> None:
            raise error

        return Job(type(error).__name__, command, tmp_path / "logs" / "never.log", lambda: 0.0)

    refused, unreadable = (
        job_that_raises(UserError("It is wrong.")),
        job_that_raises(OSError("It cannot be read.")),
    )
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "silent.log").write_text("training 5 of 5\nwhat an earlier one said\n")
    failed = run_jobs([killed, silent, unexpected, refused, unreadable], at_once=4, threads=1, watch=nothing)
    assert failed == {
        "killed": "killed by signal 9 (out of memory?); its last line: run  a",
        "silent": "ended with status 2",
        "odd": "ended with status 7; its last line: step",
        "UserError": "It is wrong.",
        "OSError": "It cannot be read.",
    }


def test_the_requested_number_of_jobs_runs_at_once(tmp_path: Path) -> None:
    maximum = [0]

    def watch(running: Sequence[RunningJob], share: float) -> None:
        maximum[0] = max(maximum[0], len(running))

    jobs = [job(tmp_path, str(number), "import time; time.sleep(0.3)") for number in range(4)]
    assert run_jobs(jobs, at_once=2, threads=1, watch=watch) == {}
    assert maximum == [2]


def test_threads_are_limited_and_progress_is_read_from_the_run_folder(tmp_path: Path) -> None:
    timings = tmp_path / "timings.jsonl"
    text = "import os, pathlib, time; print('threads', os.environ['OMP_NUM_THREADS'])\n"
    text += f'pathlib.Path({str(timings)!r}).write_text(\'{{"step": 1500, "steps": 6000}}\\n\'); time.sleep(1.5)'
    seen: list[float] = []
    run_jobs(
        [job(tmp_path, "one", text)],
        at_once=1,
        threads=3,
        watch=lambda running, share: seen.extend(other.share for other in running),
    )
    assert "threads 3" in (tmp_path / "logs" / "one.log").read_text()
    assert 0.25 in seen


@pytest.mark.parametrize(
    ("line", "share"),
    [('{"step": 3, "steps": 4}', 0.75), ('{"step": 9, "steps": 4}', 1.0), ('{"step": 3}', 0.0), ('{"st', 0.0),
     ("[]", 0.0), ('{"step": 3, "steps": 0}', 0.0), ("", 0.0)],
)  # fmt: skip
def test_the_trained_share_is_read_from_the_timings(tmp_path: Path, line: str, share: float) -> None:
    assert trained_share(tmp_path) == 0.0
    (tmp_path / "timings.jsonl").write_text(f'{{"step": 1, "steps": 4}}\n{line}\n' if line else "")
    assert trained_share(tmp_path) == share


def test_an_interrupt_reaches_the_children_once_and_waits_for_them(tmp_path: Path) -> None:
    done, started = tmp_path / "done", tmp_path / "begun"
    text = (
        "import pathlib, signal, time\n"
        "def stop(number, frame):\n"
        f"    time.sleep(0.5); pathlib.Path({str(done)!r}).write_text('saved'); raise SystemExit(130)\n"
        "signal.signal(signal.SIGTERM, stop)\n"
        f"pathlib.Path({str(started)!r}).touch()\n"
        "time.sleep(60)"
    )

    def interrupt() -> None:
        while not started.exists():
            time.sleep(0.05)
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=interrupt).start()
    with pytest.raises(KeyboardInterrupt):
        run_jobs([job(tmp_path, "long", text)], at_once=1, threads=1, watch=nothing)
    assert done.read_text() == "saved"


def test_the_last_line_of_a_log_skips_blank_lines(tmp_path: Path) -> None:
    assert last_line(tmp_path / "none.log") == ""
    (tmp_path / "a.log").write_text("first\nlast one \n\n")
    assert last_line(tmp_path / "a.log") == "last one"


def test_a_job_waits_for_its_predecessors_even_if_they_fail(tmp_path: Path) -> None:
    ended, log = tmp_path / "ended", tmp_path / "log"

    def noting(name: str, *, fails: bool = False, after: Sequence[str] = ()) -> Job:
        text = f"import time; time.sleep(0.2); print({name!r}, file=open({str(ended)!r}, 'a'))"
        return Job(name, lambda: script(text + "; raise SystemExit(2)" * fails), log, lambda: 0.0, after=after)

    jobs = [noting("last", after=("a", "b")), noting("a"), noting("b", fails=True), noting("c")]
    failed = run_jobs(jobs, at_once=3, threads=1, watch=nothing)
    *first, last = ended.read_text().split()
    assert (sorted(first), last) == (["a", "b", "c"], "last")
    assert set(failed) == {"b"}


def test_a_job_is_left_out_if_one_that_it_needs_fails(tmp_path: Path) -> None:
    jobs = [
        replace(job(tmp_path, "after bad", "pass"), needs=("bad",)),
        replace(job(tmp_path, "after good", "pass"), needs=("good",)),
        job(tmp_path, "bad", "raise SystemExit('it broke')"),
        job(tmp_path, "good", "pass"),
    ]
    shares: list[float] = []
    failed = run_jobs(jobs, at_once=2, threads=1, watch=lambda running, share: shares.append(share))
    assert failed == {"bad": "it broke"} and shares[-1] == 1
    assert {path.stem for path in (tmp_path / "logs").iterdir()} == {"bad", "good", "after good"}


def test_the_time_left_is_estimated_from_work_done_in_this_call(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now = [0.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    process = subprocess.Popen(["true"])
    process.wait()
    work = [RunningJob(Job("a run", lambda: None, Path("log"), lambda: 0.2), process, 0, share=0.2)]
    with watched(Display()) as watch:
        for seconds, share in ((0.0, 0.5), (60.0, 0.6), (120.0, 0.8)):  # half of the work was done before
            now[0] = seconds
            watch(work, share)
    assert capsys.readouterr().out.splitlines() == [
        "all jobs 60%  about 0:04:00 left in all; a run 20%",
        "all jobs 80%  about 0:01:20 left in all; a run 20%",
    ]
    with watched(Display()) as watch:
        for seconds in (180.0, 240.0):  # all of the work was done before
            now[0] = seconds
            watch(work, 1.0)
    assert capsys.readouterr().out == 2 * "all jobs 100%; a run 20%\n"
