"""``run.py`` and its sweeps: common mistakes end in status 2 with one line each, and leave no files behind."""

from __future__ import annotations

import fcntl
import os
import pickle
import sys
from pathlib import Path
from typing import Any

import pytest
from huggingface_hub import constants
from hydra.core.utils import JobReturn, JobStatus

from data.errors import UserError
from experiments import checkpoint, command_line, compose
from experiments import command as commands
from experiments.command import Failure, failed_elsewhere, run_sweep
from experiments.comparison import settings as comparison
from experiments.overrides import CONFIGS
from experiments.reproduction import settings as reproduction
from tests import command_runner
from tests.experiments import tiny

ROOT = Path(__file__).resolve().parents[2]


def run_command(folder: Path, *overrides: str) -> command_runner.Outcome:
    return command_runner.run_command("experiments.run", *overrides, "threads=1", folder=folder)


def case(overrides: str, *lines: str) -> Any:
    """Returns overrides and the lines that report their faults, with the overrides as the id."""
    return pytest.param(overrides, [*lines], id=overrides)


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A valid corpus, invalid ones, and a model without a mask token."""
    from tokenizers import Tokenizer, models
    from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast

    folder = tmp_path_factory.mktemp("texts")
    tiny.corpus(folder)
    (folder / "empty.txt").touch()
    (folder / "binary.txt").write_bytes(bytes(range(256)) * 8)
    (folder / "file").touch()
    vocabulary = {"<|endoftext|>": 0, "a": 1}
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer(models.WordLevel(vocabulary, "<|endoftext|>")), eos_token="<|endoftext|>"
    )
    tokenizer.save_pretrained(folder / "gpt2")
    config = GPT2Config(vocab_size=2, n_embd=4, n_layer=1, n_head=1, bos_token_id=0, eos_token_id=0)
    GPT2LMHeadModel(config).save_pretrained(folder / "gpt2")
    return folder


@pytest.mark.parametrize(
    ("overrides", "lines"),
    [
        case(
            "objective=declut corpus.path={texts}/none.txt",
            "objective=declut: no such objective. Did you mean declutr?", "corpus.path: there is no {texts}/no",
        ),
        case(
            "objective.temprature=1 objective.temperature=0",
            "objective.temprature: no such key. Did you mean", "objective.temperature must be a positive",
        ),
        case(
            "objective.min_length=9 optimizer=sgd optimizer.lr=null",
            "objective.min_length must not exceed objective.max_length (8)", "optimizer.lr must be a number",
        ),
        case(
            "checkpoint.metric=accuracy corpus.path={texts}/empty.txt",
            "checkpoint.metric=accuracy: this run has the ", "corpus.path: {texts}/empty.txt is empty.",
        ),
        # Faults that appear only when corpus and encoder are prepared.
        case("corpus.path={texts}/binary.txt", "{texts}/binary.txt"),
        case("budget.max_span=900", "No training document has the 3,600 tokens needed "),
        case("encoder=roberta-base weights=pretrained", "FacebookAI/roberta-base is not on this machine, and "),
        case("run_dir={texts}/file/run", "The run folder {texts}/file/run cannot be written (Not a directory)"),
        case(
            "encoder=transformer weights=auto encoder.path={texts}/gpt2",
            "{texts}/gpt2 has no mask token, and the objective predicts masked words. Choose another encoder, or",
        ),
    ],
)  # fmt: skip
def test_a_wrong_command_ends_in_one_line_per_fault(
    overrides: str, lines: list[str], texts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    arguments = overrides.format(texts=texts).split()
    keys = {each.split("=")[0] for each in arguments}
    others = [each for each in tiny.overrides(texts) if each.split("=")[0] not in keys]
    if "encoder" in keys:
        others = [each for each in others if not each.startswith("encoder.")]
    before = set(texts.rglob("*"))
    completed = run_command(tmp_path, *others, *arguments, f"cache={tmp_path / 'cache'}")
    assert completed.status == 2, completed.error
    errors = completed.error.splitlines()
    assert len(errors) == len(lines), completed.error
    assert all(each.startswith(line.format(texts=texts)) for each, line in zip(errors, lines, strict=True)), errors
    remaining = [path for path in tmp_path.rglob("*") if path.is_file() and path.suffix != ".lock"]
    if "budget.max_span" not in keys:  # with it, the cache keeps the tokens for the next attempt
        assert remaining == []
    assert {path.name for path in tmp_path.iterdir()} <= {"cache"}
    assert set(texts.rglob("*")) == before


def test_a_run_in_use_or_half_written_is_left_as_it_is(
    texts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpoint, "finish", lambda root: None)  # keeps the run resumable
    run = tiny.run(texts, "budget.steps=2", f"run_dir={tmp_path / 'run'}", f"cache={tmp_path / 'cache'}")
    with (run / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        completed = run_command(tmp_path, f"resume={run}", f"cache={tmp_path / 'cache'}")
    assert (completed.status, completed.error) == (2, f"The run folder {run} is in use by another process.\n")
    newest = checkpoint.found(run / "checkpoints")[-1] / "optimizer.safetensors"
    newest.write_bytes(newest.read_bytes()[:100])
    before = {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}
    completed = run_command(tmp_path, f"resume={run}", f"cache={tmp_path / 'cache'}")
    assert completed.status == 2
    assert completed.error.startswith(f"Checkpoint {newest.parent} is damaged (optimizer.safetensors has 100 of")
    assert len(completed.error.splitlines()) == 1
    assert {path: path.read_bytes() for path in run.rglob("*") if path.is_file()} == before


def test_a_sweep_is_checked_value_by_value() -> None:
    jobs = list(commands.jobs_of(["seed=1,2", "objective=declutr,mlm_only", "encoder.shape={a: 1}"]))
    assert jobs == [
        ["seed=1", "objective=declutr", "encoder.shape={a: 1}"],
        ["seed=2", "objective=declutr", "encoder.shape={a: 1}"],
        ["seed=1", "objective=mlm_only", "encoder.shape={a: 1}"],
    ]


def test_a_sweep_has_a_folder_for_each_run() -> None:
    for arguments in (["run_dir=x", "seed=1,2"], ["++run_dir=x", "seed=1,2"], ["run_dir=x,y", "seed=1,2"]):
        with pytest.raises(UserError, match=r": the jobs of a sweep cannot share it: leave it out, or name"):
            list(commands.jobs_of(arguments))
    for arguments in (["run_dir=x", "seed=1"], ["run_dir=x/${seed}", "seed=1,2"], ["run_dir=null", "seed=1,2"]):
        assert [*commands.jobs_of(arguments)]


def test_a_sweep_reports_each_fault_once() -> None:
    with pytest.raises(UserError) as error:
        compose.check_all(commands.jobs_of(["seed=1,-2", "objective.temperature=0,0.1,-1"]))
    assert str(error.value).split("\n") == [
        "objective.temperature must be a positive number. Got 0 instead.",
        "seed must be at least 0. Got -2 instead.",
        "objective.temperature must be a positive number. Got -1 instead.",
    ]


@pytest.mark.parametrize(
    "arguments", ["+experiment=both --config-dir conf", "++hydra.mode=MULTIRUN seed=7,8", "-m seed=7,8"]
)
def test_the_composed_mode_decides_whether_to_sweep(
    arguments: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    experiment = "# @package _global_\nhydra: {mode: MULTIRUN, sweeper: {params: {seed: '7,8'}}}\n"
    (tmp_path / "conf" / "experiment").mkdir(parents=True)
    (tmp_path / "conf" / "experiment" / "both.yaml").write_text(experiment)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["run.py", *arguments.split()])
    seeds: list[int] = []
    commands.command(report=seeds.extend)(lambda config: config["seed"])()
    assert seeds == [7, 8]


def job_return(overrides: list[str], value: Any) -> JobReturn:
    """Returns what Hydra reports of a job of a sweep that returned ``value``."""
    return JobReturn(overrides=overrides, _return_value=value, status=JobStatus.COMPLETED)


def test_a_failure_in_another_process_is_reported_with_the_overrides_of_its_job() -> None:
    other = os.getpid() + 1
    done = [
        job_return(["corpus=text", "seed=1"], None),
        job_return(["corpus=text", "seed=2"], Failure(other, "It broke.")),
        job_return(["corpus=text", "seed=3"], Failure(os.getpid(), "Told already.")),
    ]
    assert failed_elsewhere(done) == ["seed=2: It broke."]
    assert failed_elsewhere([]) == []


def test_the_exit_of_a_command_can_be_pickled() -> None:
    end = pickle.loads(pickle.dumps(command_line.Ended(2, "It broke.")))
    assert isinstance(end, command_line.Ended)
    assert (end.code, end.line) == (2, "It broke.")


def test_jobs_return_a_value_or_their_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    failure = Failure(1, "It broke.")
    done = run_sweep(CONFIGS, "run", lambda config: failure if config.seed == 2 else config.seed, ["seed=1,2"])
    assert [(job.overrides, job.return_value) for job in done] == [(["seed=1"], 1), (["seed=2"], failure)]


def test_what_jobs_in_other_processes_returned_is_reported(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    done = [
        job_return(["seed=1"], "a"),
        job_return(["seed=2"], Failure(1, "It broke.")),
        job_return(["seed=3"], "b"),
    ]
    monkeypatch.setattr(commands, "run_sweep", lambda *_: done)
    monkeypatch.setattr(commands, "check_all", lambda *_: None)
    monkeypatch.setattr(sys, "argv", ["run.py", "-m", "seed=1,2,3"])
    reported: list[str] = []
    with pytest.raises(SystemExit) as end:
        commands.command(report=reported.extend)(print)()
    assert (end.value.code, reported, capsys.readouterr().err) == (2, ["a", "b"], "seed=2: It broke.\n")


def test_an_interrupt_between_two_jobs_ends_in_one_line_after_the_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(*_: Any, **__: Any) -> None:
        if len(seeds) == 2:
            raise KeyboardInterrupt  # while Hydra composes the third job

    seeds: list[int] = []
    reported: list[int] = []
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("hydra.core.utils.configure_log", interrupted)
    monkeypatch.setattr(sys, "argv", ["run.py", "-m", "seed=7,8,9"])

    def job(config: dict[str, Any]) -> int:
        seeds.append(config["seed"])
        return seeds[-1]

    with pytest.raises(SystemExit) as end:
        commands.command(report=reported.extend)(job)()
    assert (end.value.code, reported, capsys.readouterr().err) == (130, [7, 8], "Interrupted.\n")


def test_a_launcher_that_is_not_installed_is_reported(tmp_path: Path) -> None:
    completed = run_command(tmp_path, "-m", "hydra/launcher=nowhere", "seed=1,2")
    assert completed.status == 2
    assert completed.error == (
        "hydra/launcher=nowhere: no such launcher is installed; pip install -e '.[sweeps]' brings joblib and "
        "submitit, and docs/at-scale.md explains how to install Ray's.\n"
    )


def test_a_sweep_ends_with_its_runs_and_their_means(tmp_path: Path) -> None:
    completed = run_command(tmp_path, "-m", *tiny.overrides(tmp_path, "budget.steps=1", "seed=1,2"))
    assert completed.status == 0, completed.error
    table, means = completed.output.partition("2 runs")[2].split("mean ± ")
    names = sorted(path.name for path in (tmp_path / "runs").iterdir() if path.is_dir())
    assert len(names) == 2 and all(name in table for name in names)
    assert all("-name-roberta-mini-" in name for name in names)  # the overrides that differ from the defaults
    assert "declutr roberta-mini text teaching" in means


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        ("--figure declutr/2a", "--figure declutr/2a: write figure=declutr/2a."),
        ("figure=declutr/2a --dry-run", "--dry-run: write dry_run=true."),
        ("--list", "--list: write list=true."),
        ("--config-dir conf", "--config-dir: only run.py and evaluate.py take this flag."),
        ("-m", "-m: only run.py and evaluate.py take this flag."),
    ],
)
def test_a_flag_is_answered_in_one_line(
    arguments: str, line: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["reproduce.py", *arguments.split()])
    with pytest.raises(SystemExit) as end:
        commands.command_of_runs("reproduce", reproduction.read)(lambda *_: 0)()
    assert (end.value.code, capsys.readouterr().err) == (2, f"{line}\n")


def test_keys_of_runs_are_passed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["compare.py", "corpus=text", "seeds=[1,2]", "+clipping=norm_5", "jobs=2"])
    seen: list[Any] = []

    def task(settings: comparison.ComparisonSettings, passed: list[str]) -> int:
        seen.extend([settings.seeds, settings.jobs, passed])
        return 1

    with pytest.raises(SystemExit) as end:
        commands.command_of_runs("compare", comparison.read)(task)()
    assert end.value.code == 1 and seen == [[1, 2], 2, ["corpus=text", "+clipping=norm_5"]]


def test_single_values_of_mappings_and_lists_can_be_set() -> None:
    requested, _ = reproduction.read(["figure=declutr/2a", "seeds=[3]", 'only.row=["a, b(5)",c]', "only.k=0.1"])
    assert requested.seeds == (3,) and requested.only == {"row": ["a, b(5)", "c"], "k": 0.1}
    arguments = ["settings.gru=[encoder.hidden=8,optimizer=sgd]", "settings.declutr=['objective.gap=1']"]
    settings = comparison.read(arguments)[0].settings
    assert settings["gru"] == ["encoder.hidden=8", "optimizer=sgd"] and settings["declutr"] == ["objective.gap=1"]


def test_help_has_keys_beside_their_comments(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["compare.py", "seeds=[1,2]", "--help"])
    commands.command_of_runs("compare", comparison.read)(lambda *_: 1)()
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("Trains every pair")  # without the YAML's "#"
    assert any(line.split(maxsplit=2)[:2] == ["jobs:", "1"] and "  runs that are" in line for line in lines)
