"""Commands that start runs, given numbers out of range, special characters in paths, and hostile run folders."""

from __future__ import annotations

import hashlib
import json
import shlex
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from analysis.senteval.tasks import TASKS
from analysis.settings import EvaluationSettings
from data.errors import UserError
from experiments import compose, experiment, planned_runs
from experiments.comparison.planning import plan
from experiments.comparison.settings import read
from experiments.jobs import Job
from experiments.overrides import override
from experiments.reproduction import planning, settings
from tests.command_runner import Outcome, run_command, snapshot
from tests.experiments import tiny
from tests.experiments.reproduction.test_command import FIGURE
from tests.experiments.test_compare import in_this_process

SPECIAL = "my runs, (v=2) 'quoted' \"two\" é ${seed}"
HUGE = 2**64
NUMBERS = {
    "seed=4294967296": "seed must be at most 4294967295. Got 4294967296 instead.",
    f"seed={HUGE}": "seed must be at most 4294967295.",
    "seed=-1": "seed must be at least 0. Got -1 instead.",
    "seed=1e30": "seed must be a whole number. Got 1e+30 instead.",
    "threads=1000000": "threads must be at most 1024. Got 1000000 instead.",
    "processes=1000000": "processes must be at most 1024. Got 1000000 instead.",
    "workers=1000000": "workers must be at most 1024. Got 1000000 instead.",
    f"workers={HUGE}": "workers must be at most 1024.",
    "accumulation=1000000000": "accumulation must be at most 1048576. Got 1000000000 instead.",
    f"log_every={HUGE}": "log_every must be at most 1000000000000000.",
    f"dev_every={HUGE}": "dev_every must be at most 1000000000000000.",
    "dev_batches=1000000000": "dev_batches must be at most 1048576. Got 1000000000 instead.",
    f"checkpoint.every={HUGE}": "checkpoint.every must be at most 1000000000000000.",
    f"checkpoint.keep_last={HUGE}": "checkpoint.keep_last must be at most 1000000000000000.",
    f"budget.steps={HUGE}": "budget.steps must be at most 1000000000000000.",
    "budget.tokens=1e30": "budget.tokens must be at most 1000000000000000. Got 1e+30 instead.",
    "budget.epochs=1e308": "budget.epochs must be at most 1000000000000000. Got 1e+308 instead.",
    "budget.flops=1e308": "budget.flops must be at most 1e+30. Got 1e+308 instead.",
    "budget.sentences=1000000000": "budget.sentences must be at most 1048576. Got 1000000000 instead.",
    "objective.batch_size=1000000000000": "objective.batch_size must be at most 1048576.",
    "objective.anchors_per_document=1000000000": "objective.anchors_per_document must be at most 1048576.",
    "objective.positives_per_anchor=1000000000": "objective.positives_per_anchor must be at most 1048576.",
    "objective.max_length=1000000000": "objective.max_length must be at most 1048576.",
    "objective.min_length=1000000000": "objective.min_length must be at most 1048576.",
    "objective.gap=1000000000": "objective.gap must be at most 1048576.",
    "objective.min_tokens=1000000000": "objective.min_tokens must be at most 1048576.",
    "objective.memory_bank=1000000000": "objective.memory_bank must be at most 1048576.",
    "objective.cache_chunk=1000000000": "objective.cache_chunk must be at most 1048576.",
    "objective.length_groups=1000000000": "objective.length_groups must be at most 1048576.",
    "objective.projection={width: 1000000000}": "objective.projection.width must be at most 65536.",
}
OBJECTIVES = {
    "conssent objective.classifier_width=1000000000": "objective.classifier_width must be at most 65536.",
    "conssent objective.k=1000000000": "objective.k must be at most 1048576.",
    "gensen objective.hidden=1000000000": "objective.hidden must be at most 65536.",
    "gensen objective.vocab_size=1000000000": "objective.vocab_size must be at most 1048576.",
    f"gensen objective.synthetic_pairs={HUGE}": "objective.synthetic_pairs must be at most 20000.",
    "tsdae objective.word_size=1000000000": "objective.word_size must be at most 65536.",
    "simcse objective.max_length=1000000000": "objective.max_length must be at most 1048576.",
    "quick_thoughts objective.window=1000000000": "objective.window must be at most 1048576.",
    "nsp objective.batch_size=1000000000": "objective.batch_size must be at most 1048576.",
    "language_model objective.batch_size=1000000000": "objective.batch_size must be at most 1048576.",
}
EVALUATE = {
    "threads=1000000": "threads must be at most 1024. Got 1000000 instead.",
    "hidden=10000000000": "hidden must be at most 65536. Got 10000000000 instead.",
    "folds=1000000000": "folds must be at most 1000. Got 1000000000 instead.",
    f"layers={HUGE}": "layers must be at most 1048576.",
    "out=a,b": "out=a,b: write a list in brackets: ",
    "data=x (1)": "data=x (1): such text must be quoted",
}
REPRODUCE = {
    "seeds=[99999999999]": "seeds must be at most 4294967295. Got [99999999999] instead.",
    "seeds=[-1]": "seeds must be at least 0. Got [-1] instead.",
    "seeds=[]": "seeds must be one or more. Got [] instead.",
    "jobs=1000000": "jobs must be at most 1024. Got 1000000 instead.",
    "threads=1000000": "threads must be at most 1024. Got 1000000 instead.",
    "runs=": "runs must not be empty.",
    "data=": "data must not be empty.",
    "figure=": "figure must not be empty.",
    "runs='x": "runs='x: such text must be quoted, once for Hydra and again for the shell: ",
    "data=x: (1), 'é'": "data=x: (1), 'é': there is no such file or folder.",
    "nli={path: [a": "nli={path: [a: such text must be quoted, ",
    "only.row=[": "only.row=[: such text must be quoted, ",
    "only.tau=[x]": "only.tau must be of ",
    "only.queue=[nonee]": "only.queue must be of none | 128 | 512. Got nonee instead. Did you mean none?",
}
COMPARE = {
    "seeds=[99999999999]": "seeds must be at most 4294967295. Got [99999999999] instead.",
    "jobs=1000000": "jobs must be at most 1024. Got 1000000 instead.",
    "threads=1000000": "threads must be at most 1024. Got 1000000 instead.",
    f"tokens={HUGE}": "tokens must be at most 1000000000000000.",
    "tokens=1e30": "tokens must be a whole number. Got 1e+30 instead.",
    "out=": "out must not be empty.",
    "data=x: (1), 'é'": "data=x: (1), 'é': there is no such folder.",
    "settings.gru=3": "settings must be a list, as [a,b].",
}
BOMB = "a: &a [x, x]\nb: &b [*a, *a]\nc: [*b, *b]\n"
DAMAGED = {  # damaged contents of files in the run folders that compare.py and reproduce.py find
    "config.yaml": {
        "a list": "- a list\n",
        "a number as names": "names: 3\n",
        "aliases": BOMB,
        "not UTF-8": "\0\1\xff",
        "a path as a name": "names: {objective: ../../x}\n",
        "nested": "[" * 2000,
    },
    "quick.json": {
        "a list": "[]",
        "no start": "{}",
        "a number as start": '{"start": 3}',
        "markup as a score": '{"start": {"recall@1": "[red]"}}',
        "nested": "[" * 100_000,
        "many digits": "1" * 5000,
    },
    "metrics.jsonl": {
        "a list as a step": '[]\n{"step": 1}\n',
        "text as a step": '{"step": "x"}\n{"step": 2}\n',
        "a list as a loss": '{"loss": []}\n{"step": 2}\n',
    },
    "senteval.json": {
        "a list": "[]",
        "a number as tasks": '{"tasks": 3}',
        "a list as averages": '{"averages": ["x"]}',
    },
    "environment.json": {
        "a list": "[]",
        "a number as packages": '{"packages": 3}',
        "a list as the commit": '{"commit": ["x"]}',
    },
}
TYPED = {  # values that a user types without the quotes that Hydra needs
    "run_dir": ("a,b", "a (b", "a=b", "é", "'a", 'a"b', "a#b", "a b, (v=2) 'q'", "a&b;c", "my runs/(1)"),
    "cache": ("caché",),
    "warm_start": ("runs/(x)",),
}


@pytest.fixture(scope="module")
def corpus_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("commands")
    tiny.corpus(folder)
    return folder


def run_writing_nothing(folder: Path, module: str, *arguments: str) -> Outcome:
    """Runs a command and asserts that it writes nothing; returns its outcome."""
    before = snapshot(folder)
    found = run_command(module, *arguments, folder=folder)
    assert snapshot(folder) == before
    return found


def run(folder: Path, argument: str) -> Outcome:
    """Returns the outcome of run.py with ``argument`` and the overrides of a tiny run."""
    key = argument.partition("=")[0]
    others = [text for text in tiny.overrides(folder) if text.partition("=")[0] != key]
    return run_writing_nothing(folder, "experiments.run", *others, argument)


@pytest.mark.parametrize(("argument", "line"), NUMBERS.items())
def test_numbers_of_a_run_out_of_range_are_refused(argument: str, line: str, corpus_folder: Path) -> None:
    found = run(corpus_folder, argument)
    assert found.refused(line), found


@pytest.mark.parametrize(("arguments", "line"), OBJECTIVES.items())
def test_numbers_of_an_objective_out_of_range_are_refused(arguments: str, line: str, corpus_folder: Path) -> None:
    objective, argument = arguments.split()
    found = run_writing_nothing(corpus_folder, "experiments.run", f"objective={objective}", argument)
    assert found.refused(line), found


@pytest.mark.parametrize(("argument", "line"), EVALUATE.items())
def test_wrong_values_of_evaluate_are_refused(argument: str, line: str, corpus_folder: Path) -> None:
    found = run_writing_nothing(corpus_folder, "experiments.evaluate", "model=random_vectors", argument)
    assert found.refused(line), found


@pytest.mark.parametrize(("argument", "line"), REPRODUCE.items())
def test_wrong_values_of_reproduce_are_refused(argument: str, line: str, corpus_folder: Path) -> None:
    figure = [] if argument.startswith("figure") else ["figure=declutr/s1b"]
    found = run_writing_nothing(corpus_folder, "experiments.reproduce", *figure, argument)
    assert found.refused(line), found


@pytest.mark.parametrize(("argument", "line"), COMPARE.items())
def test_wrong_values_of_compare_are_refused(argument: str, line: str, corpus_folder: Path) -> None:
    found = run_writing_nothing(corpus_folder, "experiments.compare", argument)
    assert found.refused(line), found


@pytest.mark.parametrize(("key", "value"), [(key, value) for key, values in TYPED.items() for value in values])
def test_what_hydra_cannot_read_is_shown_quoted(key: str, value: str, corpus_folder: Path) -> None:
    """The message ends with the argument, quoted for Hydra and the shell."""
    found = run(corpus_folder, f"{key}={value}")
    assert found.refused(f"{key}={value}: ", "quoted"), found
    [pasted] = shlex.split(found.error.strip().removesuffix(".").partition(" again for the shell: ")[2])
    assert pasted == override(key, value)


def test_a_list_that_hydra_cannot_read_is_shown_by_example(corpus_folder: Path) -> None:
    found = run(corpus_folder, "trackers=[a(b")
    assert found.refused("trackers=[a(b: ", "trackers=['a, b', c]")


COMPARISON = (
    "objectives=[declutr]",
    "encoders=[gru]",
    "settings.gru=[encoder.hidden=4]",
    "tokens=600",
    "corpus=text",
    "corpus.path=corpus.jsonl",
    "threads=1",
    "runs=runs",
    "out=page.html",
)


def start_no_jobs(jobs: Sequence[Job], **options: Any) -> dict[str, str]:
    """Replaces ``run_jobs``: builds the commands of the jobs, but starts none."""
    failed = {}
    for job in jobs:
        try:
            if job.command() is not None:
                failed[job.name] = "It was not begun."
        except UserError as error:
            failed[job.name] = str(error)
    return failed


def finished_run(root: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Writes the folder of the run that ``COMPARISON`` plans, as if it were finished."""
    monkeypatch.setattr(planned_runs, "run_jobs", start_no_jobs)
    monkeypatch.chdir(root)
    [run] = plan(*read(COMPARISON))
    folder = root / "runs" / run.name
    (folder / "encoder").mkdir(parents=True)
    (folder / "config.yaml").write_text(json.dumps(run.config))
    (folder / "metrics.jsonl").write_text('{"step": 1, "loss": 1.0, "tokens": 100}\n')
    (folder / "quick.json").write_text('{"start": {}, "trained": {"recall@1": 50.0}}')
    (folder / "environment.json").write_text("{}")
    return folder


@pytest.mark.parametrize(
    ("file", "text"),
    [
        pytest.param(file, text, id=f"{file}: {name}")
        for file, texts in DAMAGED.items()
        for name, text in texts.items()
    ],
)
def test_damaged_runs_are_not_compared(
    file: str, text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tiny.corpus(tmp_path)
    folder = finished_run(tmp_path, monkeypatch)
    (folder / file).write_text(text, encoding="latin-1")
    before = snapshot(tmp_path)
    found = run_command("experiments.compare", *COMPARISON, folder=tmp_path)
    assert found.refused("No run is finished"), found
    assert f"{file.partition('.')[0]}" in found.output
    assert snapshot(tmp_path) == before


@pytest.mark.parametrize("part", ["evaluation", "objective", "corpus", "encoder"])
def test_code_named_in_a_found_run_is_not_called(
    part: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tiny.corpus(tmp_path)
    folder = finished_run(tmp_path, monkeypatch)
    attack = {"_target_": "data.files.write_json", "path": str(tmp_path / "written"), "value": 1}
    config = json.loads((folder / "config.yaml").read_text())
    (folder / "config.yaml").write_text(json.dumps(config | {part: attack, "cache": str(tmp_path / "elsewhere")}))
    found = run_command("experiments.compare", *COMPARISON, f"cache={tmp_path / 'cache'}", folder=tmp_path)
    assert found.status in (0, 1, 2) and "Traceback" not in found.error, found
    assert not (tmp_path / "written").exists() and not (tmp_path / "elsewhere").exists()


def test_logs_are_not_written_through_links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tiny.corpus(tmp_path)
    folder = finished_run(tmp_path, monkeypatch)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes").write_text("kept")
    logs = folder.parent / "logs"
    logs.symlink_to(tmp_path / "mine")
    assert run_command("experiments.compare", *COMPARISON, folder=tmp_path).refused("runs/logs is a symbolic link")
    logs.unlink()
    logs.mkdir()
    (logs / f"{folder.name}.log").symlink_to(tmp_path / "mine" / "notes")
    assert run_command("experiments.compare", *COMPARISON, folder=tmp_path).refused(f"{folder.name}.log is a link")
    shutil.rmtree(logs)
    folder.rename(tmp_path / "mine" / "run")
    folder.symlink_to(tmp_path / "mine" / "run")
    before = snapshot(tmp_path / "mine")
    found = run_command("experiments.compare", *COMPARISON, folder=tmp_path)  # other runs would go on
    assert found.status == 1 and f"{folder.name} is a symbolic link: replace it" in found.output
    assert snapshot(tmp_path / "mine") == before
    folder.unlink()
    shutil.rmtree(tmp_path / "mine" / "run")
    assert snapshot(tmp_path / "mine") == {str(tmp_path / "mine" / "notes"): hashlib.sha256(b"kept").hexdigest()}


def test_results_of_a_run_are_not_written_through_links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tiny.corpus(tmp_path)
    folder = finished_run(tmp_path, monkeypatch)
    (tmp_path / "mine").mkdir()
    (tmp_path / "data" / "downstream").mkdir(parents=True)
    (folder / "predictions").symlink_to(tmp_path / "mine")
    found = run_writing_nothing(tmp_path, "experiments.evaluate", f"model={folder}", f"data={tmp_path / 'data'}")
    assert found.refused(f"{folder / 'predictions'} is a link")
    (folder / "predictions").unlink()
    (folder / "encoder" / "encoder.json").touch()
    (folder / "encoder").rename(tmp_path / "mine" / "encoder")
    (folder / "encoder").symlink_to(tmp_path / "mine" / "encoder")
    model = f"model={folder / 'encoder'}"
    found = run_writing_nothing(tmp_path, "experiments.evaluate", model, f"data={tmp_path / 'data'}")
    assert found.refused(f"{folder / 'encoder'} is a link")


def test_damaged_runs_are_missing_from_a_figure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tiny.figure(tmp_path, FIGURE, monkeypatch)
    tiny.corpus(tmp_path)
    monkeypatch.setattr(planned_runs, "run_jobs", start_no_jobs)
    run_options = [text for text in tiny.overrides(tmp_path) if text.startswith(("corpus", "cache", "device"))]
    arguments = ["figure=some/fig", "runs=runs", *run_options]
    planned = planning.plan(FIGURE, *settings.read(arguments))
    for run, text in zip(planned, ("names: 3\n", BOMB), strict=True):
        (tmp_path / "runs" / run.name / "encoder").mkdir(parents=True)
        (tmp_path / "runs" / run.name / "config.yaml").write_text(text)
    found = run_writing_nothing(tmp_path, "experiments.reproduce", *arguments)
    assert found.refused("No run is finished and evaluated"), found
    assert found.output.count("delete it, and the same command trains it again.") == 2


def test_runs_work_in_a_folder_with_special_characters(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The commands that train, resume and evaluate it quote the special characters."""
    folder = tmp_path / SPECIAL
    folder.mkdir()
    tiny.figure(tmp_path, FIGURE, monkeypatch)
    tiny.corpus(folder, documents=160, words=300)
    monkeypatch.setattr(planned_runs, "run_jobs", in_this_process)
    monkeypatch.setattr(experiment.training, "draw", lambda folder: [folder / "none.png"])
    for path in (folder / "data" / "downstream" / file for file in TASKS["TREC"].files):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    left_out = ("evaluation=", "budget.max_span=", "budget.steps=", "corpus.path=", "cache=")
    run_options = [text for text in tiny.overrides(folder) if not text.startswith(left_out)]
    run_options += [override("corpus.path", folder / "corpus.jsonl"), override("cache", folder / "cache")]
    arguments = ["figure=some/fig", "budget.steps=2", "only.tau=0.05", *run_options, f"runs={folder / 'runs'}"]
    found = run_command("experiments.reproduce", *arguments, f"out={folder / 'out'}", folder=tmp_path)
    assert found.status == 0, found
    assert (folder / "out" / "some-fig.csv").is_file()
    [run] = [path for path in (folder / "runs").iterdir() if path.name != "logs"]
    assert (run / "encoder").is_dir()
    evaluated = planned_runs.Evaluation(folder / "data", "default", ["TREC"], str(folder)).arguments(run)
    assert evaluated is not None
    values = compose.check(evaluated[1:], "evaluate", EvaluationSettings)
    assert (values.model, values.out, values.data) == (str(run), str(run), str(folder / "data"))
    assert (values.probing, values.tasks) == (str(folder), ["TREC"])
    shutil.rmtree(run / "encoder")
    command = planned_runs.training(run, [], ["device=cpu"])
    assert command is not None and compose.check(command[1:])["resume"] == str(run)
