"""Damaged and hostile run folders, and unusable paths: refused in one line with status 2, with no file changed."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from data import files
from data.errors import UserError
from experiments import building, checkpoint, compose, experiment
from tests.command_runner import run_command, snapshot
from tests.experiments import tiny
from tests.run_damage import BOMB, DEEP, MERGES, Damage, config, directory, first_line, link, pipe, text

pytestmark = pytest.mark.usefixtures("command_lines_composed_once")


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns a folder with a run of four steps and checkpoints after the second and the fourth."""
    folder = tmp_path_factory.mktemp("trained")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(experiment.training, "draw", lambda folder: [folder / "none.png"])
        patch.setattr(checkpoint, "finish", lambda root: None)  # otherwise it could not be resumed
        tiny.run(
            folder,
            "processes=1",
            "budget.steps=4",
            "checkpoint.every=2",
            "checkpoint.keep_last=9",
            f"run_dir={folder / 'run'}",
        )
    return folder


@pytest.fixture
def run(trained: Path, tmp_path: Path) -> Path:
    """Returns a copy of the run as if it had been killed after its second step."""
    copy = shutil.copytree(trained / "run", tmp_path / "run")
    shutil.rmtree(copy / "encoder")
    for folder in checkpoint.found(copy / "checkpoints")[-2:]:
        shutil.rmtree(folder)
    (tmp_path / "victim").write_text("precious")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "kept.txt").write_text("precious")
    return copy


def newest(run: Path) -> Path:
    return checkpoint.found(run / "checkpoints")[-1]


def state(**changes: Any) -> Damage:
    """Changes state.json of the newest checkpoint."""

    def damage(run: Path) -> None:
        path = newest(run) / "state.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | changes))

    return damage


def state_text(content: str) -> Damage:
    return lambda run: (newest(run) / "state.json").write_text(content)


def tensors(name: str, change: Callable[[dict[str, torch.Tensor]], object]) -> Damage:
    """Changes a checkpoint's tensors, and its digests to match."""

    def damage(run: Path) -> None:
        path = newest(run) / name
        weights = load_file(path)
        change(weights)
        save_file(weights, path)
        content = json.loads((path.parent / "state.json").read_text())
        content["files"][name] = {"bytes": path.stat().st_size, "sha256": checkpoint._digest(path)}
        (path.parent / "state.json").write_text(json.dumps(content))

    return damage


BROKEN = ("config.yaml is broken",)
WRITER = {"_target_": "data.files.write_json", "path": "victim", "value": "gone"}
FOREIGN = (
    "data.files.write_json", "experiments.jobs._begin", "os.system", "subprocess.Popen",
    "benchmarks.decoder.main", "tests.command_runner.run_command", "objectives.base.nn.Module",
    "experiments.run_folder.RunFolder", "objectives..declutr.Declutr",
)  # fmt: skip
ABSTRACT = {
    "objective": "objectives.base.Objective", "encoder": "encoders.base.Encoder",
    "corpus": "data.sources.base.Source", "budget": "experiments.budget.Plan",
    "optimizer": "experiments.optimizer.Optimizer",
    "schedule": "experiments.schedules.Schedule", "evaluation": "analysis.quick.draw_pairs",
}  # fmt: skip
RESUMED: list[tuple[str, Damage, tuple[str, ...]]] = [
    # A _target_ in config.yaml is not called unless it is a component of the kind that its key needs.
    *((f"{key}-{target}", config(f"{key}._target_", target), (f"{key}: _target_ must name", target))
      for number, key in enumerate(ABSTRACT) for target in (*FOREIGN[number::5], ABSTRACT[key])),
    ("a function", config("evaluation", WRITER), ("evaluation: _target_ must name", "data.files.write_json")),
    ("another kind", config("objective._target_", "encoders.gru.GRU"), ("objective: _target_ must name",)),
    ("_target_ a number", config("corpus._target_", 5), ("corpus: _target_ must name", "Got 5")),
    ("_target_ a list", config("budget._target_", ["experiments.budget.Budget"]), ("budget: _target_ must name",)),
    ("no _target_", config("schedule._target_", ...), ("schedule: _target_ must name", "Got None")),
    ("_target_ in a value", config("objective.projection", WRITER), ("objective.projection", "no such key")),
    ("_args_", config("optimizer._args_", [1]), ("optimizer._args_: no such key",)),
    ("_partial_", config("evaluation", {"_target_": "analysis.quick.evaluate", "_partial_": False, "encoder": 1}),
     ("evaluation.encoder: no such key",)),
    ("encoder.device", config("encoder.device", "cpu"), ("encoder.device cannot be set",)),
    ("encoder.texts", config("encoder.texts", "os.listdir"), ("encoder.texts",)),
    # config.yaml with other values or of another structure.
    ("config.yaml a number", text("config.yaml", "5"), BROKEN),
    ("config.yaml empty", text("config.yaml", ""), BROKEN),
    ("config.yaml binary", text("config.yaml", bytes(range(256))), BROKEN),
    ("config.yaml nested", text("config.yaml", "[" * DEEP), BROKEN),
    ("aliases", text("config.yaml", BOMB), BROKEN),
    ("merges", text("config.yaml", MERGES), BROKEN),
    ("alias of itself", text("config.yaml", "a: &a [*a]"), BROKEN),
    ("config.yaml too large", text("config.yaml", "a: " + "x" * files.YAML_BYTES), BROKEN),
    ("Python tag", text("config.yaml", "a: !!python/object/apply:os.system ['touch victim']"), BROKEN),
    ("seed a date", text("config.yaml", "seed: 2001-01-01"), BROKEN),
    ("seed an empty integer", text("config.yaml", "seed: !!int ''"), BROKEN),
    ("key a number", text("config.yaml", "1: 2"), BROKEN),
    ("config.yaml a pipe", pipe("config.yaml"), ("not a run folder",)),
    ("no seed", config("seed", ...), BROKEN),
    ("no names", config("names", ...), BROKEN),
    ("names null", config("names", None), BROKEN),
    ("names list", config("names", ["a"]), ("config.yaml", "names must be a mapping")),
    ("name missing", config("names.corpus", ...), BROKEN),
    ("name a path", config("names.encoder", "../../victim"), ("config.yaml", "names.encoder")),
    ("name a list", config("names.encoder", ["a"]), ("config.yaml", "names.encoder must be text")),
    ("origin a mapping", config("names.origin", {}), ("config.yaml", "names.origin must be text")),
    ("seed text", config("seed", "one"), ("config.yaml", "seed must be a whole number")),
    ("seed mapping", config("seed", {"a": 1}), ("config.yaml", "seed must be a whole number")),
    ("seed huge", config("seed", 10**400), BROKEN),
    ("steps list", config("budget.steps", [1]), ("budget.steps must be",)),
    ("budget list", config("budget", [1]), ("budget must be a mapping",)),
    ("evaluation text", config("evaluation", "quick"), ("evaluation must be a mapping",)),
    ("checkpoint list", config("checkpoint", [1]), ("checkpoint must be a mapping",)),
    ("checkpoint null", config("checkpoint", None), ("checkpoint must be a mapping",)),
    ("unknown key", config("colour", "red"), ("colour: no such key",)),
    ("lr text", config("optimizer.lr", "fast"), ("optimizer.lr must be a number",)),
    ("betas a mapping", config("optimizer.betas", {"a": 1}), ("optimizer.betas must be a list",)),
    ("gradient_norm NaN", config("gradient_norm", float("nan")), ("gradient_norm must be a finite number",)),
    ("path empty", config("corpus.path", ""), ("corpus.path must not be empty",)),
    ("path missing", config("corpus.path", ...), ("corpus.path is not set",)),
    ("path list", config("corpus.path", [""]), ("corpus.path must",)),
    ("path null byte", config("corpus.path", "a\0b"), BROKEN),
    ("interpolation", config("corpus.path", "${oc.env:HOME}"), ("corpus.path: there is no ${oc.env:HOME}",)),
    ("decoded", config("seed", "${oc.decode:'1'}"), ("config.yaml: seed must be a whole number",)),
    # Journals and scores.
    ("journal bytes", text("metrics.jsonl", b"\xff\xfe\0"), ("metrics.jsonl is not UTF-8",)),
    ("journal text", first_line("metrics.jsonl", "x"), ("metrics.jsonl:1 is not JSON",)),
    ("journal list", first_line("metrics.jsonl", "[]"), ("metrics.jsonl:1 is not a JSON object",)),
    ("journal no step", first_line("metrics.jsonl", '{"loss": 1}'), ("metrics.jsonl:1 is not a step",)),
    ("journal step", first_line("metrics.jsonl", '{"step": "1"}'), ("metrics.jsonl:1 is not a step",)),
    ("journal loss", first_line("metrics.jsonl", '{"step": 1, "loss": [1]}'), ("metrics.jsonl:1 is not a step",)),
    ("journal huge", first_line("metrics.jsonl", f'{{"step": 1, "loss": 1{"0" * 999}}}'),
     ("metrics.jsonl:1 is not",)),
    ("journal null", first_line("metrics.jsonl", '{"step": 1, "loss": null}'), ("metrics.jsonl:1 is not a step",)),
    ("journal key", first_line("metrics.jsonl", '{"step": 1, "\\ud800": 1}'), ("metrics.jsonl:1 is not a step",)),
    ("journal deep", first_line("metrics.jsonl", "[" * DEEP), ("metrics.jsonl:1 is not JSON",)),
    ("journal pipe", pipe("metrics.jsonl"), ("metrics.jsonl is not a file",)),
    ("timings no step", first_line("timings.jsonl", '{"seconds": 1}'), ("timings.jsonl:1 is not a step",)),
    ("quick list", text("quick.json", "[]"), ("quick.json is not a JSON object",)),
    ("quick no start", text("quick.json", "{}"), ("quick.json: start is missing",)),
    ("quick start", text("quick.json", '{"start": [1]}'), ("quick.json: start must be a mapping",)),
    ("quick text", text("quick.json", '{"start": {"recall@1": "x"}}'), ("quick.json: start.recall@1",)),
    ("quick deep", text("quick.json", "[" * DEEP), ("quick.json is not JSON", "nested too deeply")),
    ("quick digits", text("quick.json", '{"start": {"a": ' + "9" * 5000 + "}}"), ("quick.json is not JSON",)),
    ("quick nested", text("quick.json", '{"start":' * 99 + "1" + "}" * 99), ("quick.json", "nested more than")),
    # One case of each group in OPENED, here on the command line.
    ("state deep", state_text("[" * DEEP), ("step-00000002 is damaged (state.json is damaged)",)),
    ("lock a link", link(".lock", "../victim"), (".lock is a link that leaves",)),
]  # fmt: skip
OPENED: list[tuple[str, Damage, tuple[str, ...]]] = [
    # Checkpoints; tests/experiments/test_checkpoint.py has more.
    ("state list", state_text("[]"), ("step-00000002 is damaged (state.json is damaged)",)),
    ("step negative", state(step=-2), ("step-00000002 is damaged (state.json is damaged)",)),
    ("step far", state(step=10**18), ("step-00000002 is damaged (state.json is damaged)",)),
    ("tokens huge", state(tokens=2**63), ("step-00000002 is damaged (state.json is damaged)",)),
    ("seconds huge", state(seconds=1e308), ("step-00000002 is damaged (state.json is damaged)",)),
    ("best step a path", state(best={"step": "../..", "value": 1}), ("state.json is damaged",)),
    ("files outside", state(files={"../../../victim": {"bytes": 8, "sha256": ""}}), ("state.json is damaged",)),
    ("model missing", lambda run: (newest(run) / "model.safetensors").unlink(), ("model.safetensors is missing",)),
    ("model truncated", lambda run: (newest(run) / "model.safetensors").write_bytes(b"1"), ("has 1 of",)),
    ("step a file", lambda run: (run / "checkpoints" / "step-00000009").touch(), ("step-00000009 is damaged",)),
    ("model with another key", tensors("model.safetensors", lambda weights: weights.update(x=torch.zeros(1))),
     ("does not fit",)),
    ("model of another shape",
     tensors("model.safetensors", lambda weights: weights.update({min(weights): torch.zeros(7)})),
     ("model.safetensors does not fit",)),
    ("optimizer with another name",
     tensors("optimizer.safetensors", lambda weights: weights.update(x=torch.zeros(1))),
     ("optimizer.safetensors does not fit", "'x'")),
    ("optimizer with two steps",
     tensors("optimizer.safetensors", lambda weights: weights.update({"0.step": torch.ones(2)})),
     ("optimizer.safetensors does not fit", "'0.step'")),
    # Links out of the folder.
    ("lock to itself", link(".lock", "config.yaml"), ("cannot be written (Too many levels of symbolic links)",)),
    ("checkpoints a link", link("checkpoints", "../elsewhere"), ("checkpoints is a link that leaves",)),
    ("figures a link", link("figures", "../elsewhere"), ("figures is a link that leaves",)),
    ("encoder a link", link("encoder", "../elsewhere"), ("encoder is a link that leaves",)),
    ("trackers a link", link("trackers", "../elsewhere"), ("trackers is a link that leaves",)),
    ("a step a link", link("checkpoints/step-00000001", "../elsewhere"), ("step-00000001 is a link that leaves",)),
    ("a file a link", link("samples.md", "../victim"), ("samples.md is a link that leaves",)),
    ("link to a missing file", link("senteval.json", "../new"), ("senteval.json is a link that leaves",)),
    ("lock a folder", directory(".lock"), ("(Is a directory)",)),
    ("lock a pipe", pipe(".lock"), ("The run folder", "cannot be written")),
]  # fmt: skip


@pytest.mark.parametrize(("damage", "parts"), [pytest.param(*case, id=name) for name, *case in RESUMED])
def test_a_damaged_run_is_not_resumed(damage: Damage, parts: tuple[str, ...], run: Path, tmp_path: Path) -> None:
    damage(run)
    before = snapshot(tmp_path)
    found = run_command("experiments.run", "resume=run", folder=tmp_path, seconds=20)
    assert found.refused(*parts), found
    assert snapshot(tmp_path) == before
    assert "benchmarks.decoder" not in sys.modules


@pytest.mark.parametrize(("damage", "parts"), [pytest.param(*case, id=name) for name, *case in OPENED])
def test_damage_beside_a_valid_configuration_is_found(
    damage: Damage, parts: tuple[str, ...], run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run is opened in Python, without a command line."""
    monkeypatch.chdir(tmp_path)
    damage(run)
    before = snapshot(tmp_path)
    with pytest.raises(UserError) as error:
        experiment.run(compose.check(["resume=run"]))
    assert "\n" not in str(error.value) and all(part in str(error.value) for part in parts), error.value
    assert snapshot(tmp_path) == before


@pytest.mark.parametrize("key", ["schedule", "budget", "schedule._target_"])
def test_a_damaged_run_is_not_lengthened(key: str, run: Path) -> None:
    config(key, None)(run)
    with pytest.raises(UserError, match=r"config.yaml is broken|schedule: _target_ must name|schedule is not set"):
        compose.check([f"resume={run}", "budget.steps=9"])


def test_a_link_inside_a_run_is_followed_and_the_run_goes_on(
    trained: Path, run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(experiment.training, "draw", lambda folder: [folder / "none.png"])
    (run / "checkpoints").rename(run / "kept")
    (run / "checkpoints").symlink_to("kept")
    (tmp_path / "by-link").symlink_to(run)
    (run / "trackers").mkdir()
    (run / "trackers" / "debug.log").symlink_to(tmp_path / "elsewhere" / "log")  # as W&B makes them
    found = run_command("experiments.run", f"resume={tmp_path / 'by-link'}", folder=tmp_path)
    assert found.status == 0, found
    # The results equal those of the run without an interruption.
    for name in ("metrics.jsonl", "quick.json", "encoder/model.safetensors"):
        assert (run / name).read_bytes() == (trained / "run" / name).read_bytes()


def test_a_users_module_in_the_package_is_accepted_as_a_component(monkeypatch: pytest.MonkeyPatch) -> None:
    """docs/add-an-objective.md adds such a module to the package."""
    from objectives import declutr

    class Mine(declutr.Declutr):
        pass

    monkeypatch.setitem(sys.modules, "objectives.mine", type(sys)("objectives.mine"))
    sys.modules["objectives.mine"].Mine = Mine  # type: ignore[attr-defined]
    assert compose.locate("objectives.mine.Mine", "objective") is Mine


WARM: list[tuple[str, Damage, tuple[str, ...]]] = [
    ("encoder missing", lambda run: shutil.rmtree(run / "encoder"), ("there is no trained encoder in it",)),
    ("class a list", text("encoder/encoder.json", '{"class": ["a"]}'), ("add encoder=",)),
    ("state a list", state_text("[]"), ("is damaged (state.json is damaged)",)),
    ("objective truncated", lambda run: (newest(run) / "objective.safetensors").write_bytes(b"x"), ("has 1 of",)),
]


@pytest.mark.parametrize(("damage", "parts"), [pytest.param(*case, id=name) for name, *case in WARM])
def test_a_damaged_run_is_not_continued_from(
    damage: Damage, parts: tuple[str, ...], trained: Path, run: Path, tmp_path: Path
) -> None:
    shutil.copytree(trained / "run" / "encoder", run / "encoder")
    damage(run)
    before = snapshot(tmp_path)
    found = run_command("experiments.run", *tiny.overrides(trained), "warm_start=run", folder=tmp_path)
    assert found.refused(*parts), found
    assert {path for path in snapshot(tmp_path) if "/runs" not in path} == {*before}
    assert not [*tmp_path.glob("runs/*")]


def test_a_warm_start_takes_no_name_that_is_a_path(trained: Path, run: Path) -> None:
    """Such a name would place the new run's folder outside of runs."""
    shutil.copytree(trained / "run" / "encoder", run / "encoder")
    config("names.encoder", "../../../victim")(run)
    assert compose.check([*tiny.overrides(trained), f"warm_start={run}"])["names"]["encoder"] == "roberta-mini"


UNUSABLE = [
    *((f"{key}=", key) for key in ("resume", "warm_start", "run_dir", "cache", "encoder.name", "encoder.path")),
    *((f"{key}='  '", key) for key in ("resume", "run_dir")),
    ("corpus=text corpus.path=", "corpus.path"),
    ("corpus=text corpus.path=[]", "corpus.path"),
    ("corpus=text corpus.path=x corpus.dev_path=''", "corpus.dev_path"),
    ("encoder=gru encoder.vectors=", "encoder.vectors"),
    ("encoder=concatenated encoder.paths=[a,'']", "encoder.paths"),
    ("evaluation=senteval evaluation.data=", "evaluation.data"),
    ("evaluation=senteval evaluation.data=. evaluation.tasks=['']", "evaluation.tasks"),
    ("trackers=['']", "trackers"),
    ("objective=nli objective.nli={path:''}", "objective.nli.path"),
    ("objective=", "objective="),
    ("resume=5", "resume must be text"),
    ("warm_start=[a]", "warm_start must be text"),
    ("encoder.path=5", "encoder.path must be text"),
    pytest.param(f"resume={'x' * 300}", "File name too long", id="resume= and a long name"),
]  # fmt: skip


@pytest.mark.parametrize(("values", "part"), UNUSABLE)
def test_an_empty_value_is_refused_as_a_path(values: str, part: str, tmp_path: Path) -> None:
    arguments = values.replace("='  '", "=_blank_").split()
    found = run_command(
        "experiments.run", *(each.replace("_blank_", "'  '") for each in arguments), folder=tmp_path
    )
    assert found.refused(part), found
    assert snapshot(tmp_path) == {}


@pytest.mark.parametrize("key", ["model", "data", "probing", "out", "embed", "cache", "encoder.vectors"])
def test_an_evaluation_refuses_empty_values(key: str, tmp_path: Path) -> None:
    found = run_command("experiments.evaluate", "model=random_vectors", f"{key}=", folder=tmp_path)
    assert found.refused(key), found
    assert snapshot(tmp_path) == {}


def test_sigterm_removes_unfinished_files(trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(building, "build", lambda *arguments: os.kill(os.getpid(), signal.SIGTERM))
    before = signal.getsignal(signal.SIGTERM)
    found = run_command("experiments.run", *tiny.overrides(trained), "run_dir=new", folder=tmp_path)
    assert (found.status, found.error) == (130, "Interrupted.\n")
    assert snapshot(tmp_path) == {} and signal.getsignal(signal.SIGTERM) == before
