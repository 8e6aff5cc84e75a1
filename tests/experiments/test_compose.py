"""Faults of a command line are reported together, one line each, before anything is done."""

from __future__ import annotations

import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from data.errors import UserError
from experiments import command, command_line, compose, overrides
from experiments.comparison.settings import ComparisonSettings
from experiments.help import described
from experiments.overrides import override
from experiments.reproduction.settings import Reproduction

ROOT = Path(__file__).resolve().parents[2]


def test_guesses_compare_the_last_part_of_a_key() -> None:
    known = ["encoder.shape", "encoder.pooling", "objective.min_length", "seed"]
    assert overrides.guess("encoder.hiden", known) == ""
    assert overrides.guess("encoder.poling", known) == " Did you mean encoder.pooling?"
    assert overrides.guess("encoder.min_lenght", known) == " Did you mean objective.min_length?"
    assert overrides.guess("min_lenght", known) == " Did you mean objective.min_length?"


@pytest.mark.parametrize(
    ("argument", "line"),
    [
        (
            "objective=declut",
            "objective=declut: no such objective. Did you mean declutr? "
            "Available: ",
        ),
        ("objective.temprature=1", "objective.temprature: no such key. Did you mean objective.temperature?"),
        ("encoder=declutr-mini", "encoder=declutr-mini: its weights are bundled: write encoder=transformer "),
        ("evaluation=null", "evaluation=null: no such evaluation. Available: none, quick, senteval."),
        ("temperature=1", "temperature: no such key. Did you mean objective.temperature?"),
        ("sede=3", "sede: no such key. Did you mean seed?"),
        ("+objective.tempratur=1", "objective.tempratur: no such key. Did you mean objective.temperature?"),
        *((f"{name}=x", f"{name}: no such key. Did you mean run_dir?") for name in overrides.FOLDER_NAMES),
        ("gpu=1", "gpu: no such key."),
        ("+sede=1", "sede: no such key. Did you mean seed?"),
        ("seed", "seed: not of the form key=value."),
        ("experiment=declutr/base", "experiment=declutr/base: an experiment is added; write +experiment=declutr"),
        ("+experiment=declutr/table5", "+experiment=declutr/table5: it is a figure or table: python "),
        ("+experiment=declutr/smal", "+experiment=declutr/smal: no such experiment. Did you mean declutr/small?"),
        ("+experiment=declutr/small,declutr/base", "+experiment=declutr/small,declutr/base: several "),
        ("experiment=declutr/smal", "experiment=declutr/smal: no such experiment. Did you mean declutr/small?"),
        ("experimnt=declutr/small", "experimnt: no such key. Did you mean +experiment?"),
        ("corpus.path=a.txt", "corpus.path: this corpus has no such key; it exists with corpus=text."),
        ("objective.cells=1", "objective.cells: no such key."),
        ("objective=nsp,sop", "objective=nsp,sop: several values need -m (a sweep)."),
        ("seed=1,2", "seed=1,2: several values need -m (a sweep)."),
        ("seed=1,", "seed=1,: a value beside a comma is missing: write seed=1"),
        ("corpus.path=[a.txt,b.txt", "corpus.path=[a.txt,b.txt: a closing ] is missing"),
        ("seed=1,,2", "seed=1,,2: a value beside a comma is missing: write seed=1,2"),
        ("objective.temperature=0", "objective.temperature must be a positive number. Got 0 instead."),
        ("objective.temperature=nan", "objective.temperature must be a finite number. Got nan instead."),
        ("gradient_norm=inf", "gradient_norm must be a finite number. Got inf instead."),
        ("budget.tokens=inf", "budget.tokens must be a finite number. Got inf instead."),
        ("objective.temperature=hot", "objective.temperature must be a number. Got 'hot' instead."),
        ("objective.max_length=64.5", "objective.max_length must be a whole number"),
        ("objective.strategy=near", "objective.strategy must be 'all', 'adjacent' or 'subsuming'. Got 'near'"),
        ("objective.anchor_beta=[4,x]", "objective.anchor_beta must be a number"),
        ("objective.min_length=900", "objective.min_length must not exceed objective.max_length (64). Got 900"),
        ("checkpoint.mode=lowest", "checkpoint.mode must be 'min' or 'max'. Got 'lowest' instead."),
        ("checkpoint.evry=1", "checkpoint.evry: no such key. Did you mean checkpoint.every?"),
        ("seed=-1", "seed must be at least 0. Got -1 instead."),
        ("precision=float16", "precision must be 'auto', 'fp32', 'bf16' or 'fp16'. Got 'float16' instead."),
        ("trackers=[mlflow]", "trackers must be 'tensorboard' or 'wandb'. Got ['mlflow'] instead."),
        ("verbose=loud", "verbose must be true or false. Got 'loud' instead."),
        ("budget.steps=0", "budget.steps must be at least 1. Got 0 instead."),
        (
            "checkpoint.metric=dev_acc",
            "checkpoint.metric=dev_acc: this run has the metrics dev_contrastive, dev_mlm.",
        ),
        ("corpus=nltk", "corpus.corpus is not set: its name in nltk.corpus."),
        ("~optimizer", "optimizer is not set."),
        ("objective._target_=objectives.declutr.Declut", "objective: _target_ must name a class or function of"),
        pytest.param(
            "objective._target_=objectives.base.Objective",
            "objective: _target_ must name a class or function of the suite. Got 'objectives.base.Objective' "
            "instead (it lacks collate, loss, part_names, requirements, sample).",
            id="objective._target_=objectives.base.Objective",
        ),
        ("objective._target_=os.system", "objective: _target_ must name a class or function of the suite."),
        ("objective._target_=data.files.os.system", "objective: _target_ must name a class or function of the"),
        ("objective._target_=data.loader.Callable", "objective: _target_ must name a class or function of the"),
        ("seed=${sead}", "Interpolation key 'sead' not found"),
    ],
)  # fmt: skip
def test_a_fault_is_reported_in_one_line(argument: str, line: str) -> None:
    with pytest.raises(UserError) as error:
        compose.check([argument])
    assert str(error.value).startswith(line)
    assert "\n" not in str(error.value)


def test_all_faults_are_reported_at_once() -> None:
    overrides = [
        "objective=mlm_only",
        "objective.temprature=1",
        "sede=3",
        "encoder=bert",
        "budget.steps=0",
    ]
    with pytest.raises(UserError) as error:
        compose.check([*overrides, "optimizer.lr=fast", "objective.mlm_probability=2"])
    lines = str(error.value).split("\n")
    assert [line.split(" ")[0].rstrip(":") for line in lines] == [
        "encoder=bert",
        "objective.temprature",
        "sede",
        "objective.mlm_probability",
        "budget.steps",
        "optimizer.lr",
    ]


def test_a_presets_own_keys_are_known_beside_another_fault() -> None:
    with pytest.raises(UserError) as error:
        compose.check(["objective.k=3", "sede=1", "+experiment=conssent/small"])
    unset = "corpus.path is not set: a file, a folder, a glob, or a list of them."
    assert str(error.value).split("\n") == ["sede: no such key. Did you mean seed?", unset]
    preset = "+experiment=declutr/small"
    with pytest.raises(UserError, match=r"^\+experiment=declutr/small: "):
        compose.check([preset, preset])


def test_an_objective_brings_its_optimizer_and_the_command_line_wins() -> None:
    assert compose.check([])["optimizer"]["_target_"] == "experiments.optimizer.AdamW"
    config = compose.check(["optimizer=sgd", "schedule=constant", "optimizer.lr=1"])
    assert config["optimizer"] == {
        "_target_": "experiments.optimizer.SGD", "lr": 1, "weight_decay": 0.0, "momentum": 0.0
    }  # fmt: skip
    assert config["schedule"] == {"_target_": "experiments.schedules.Constant"}


@pytest.mark.parametrize("name", ["sgd", "adam"])
def test_only_adamw_has_a_default_rate(name: str) -> None:
    with pytest.raises(UserError, match=r"^optimizer.lr must be a number. Got null instead.$"):
        compose.check([f"optimizer={name}", "optimizer.lr=null"])


def test_only_sizes_come_from_the_budget() -> None:
    teaching, paper = compose.check([]), compose.check(["budget=paper"])
    changed = {key for key in teaching["objective"] if teaching["objective"][key] != paper["objective"][key]}
    assert changed == {"min_length", "max_length", "min_tokens"}
    assert (paper["objective"]["min_length"], paper["objective"]["max_length"]) == (32, 512)
    assert (paper["objective"]["batch_size"], paper["objective"]["min_tokens"]) == (16, 2048)
    assert {key for key in teaching if teaching[key] != paper[key]} == {"budget", "objective", "names"}


@pytest.mark.parametrize(
    ("argument", "name"),
    [
        ("encoder=roberta-base", "roberta-base"),
        ("encoder.path=minilm/", "minilm"),
        ("encoder.name=microsoft/mpnet-base", "mpnet-base"),
    ],
)
def test_a_run_is_named_after_what_it_trains(
    argument: str, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "minilm").mkdir()
    assert compose.check([argument])["names"]["encoder"] == name


def test_a_users_yaml_without_its_package_line_is_refused(tmp_path: Path) -> None:
    (tmp_path / "experiment").mkdir()
    (tmp_path / "experiment/mine.yaml").write_text("budget: {steps: 3}\n")
    with pytest.raises(UserError) as refused:
        compose.check([f"hydra.searchpath=[file://{tmp_path}]", "+experiment=mine"])
    path = tmp_path / "experiment/mine.yaml"
    line = f"{path}: its first line must be '# @package _global_', as it sets keys of the whole run."
    assert str(refused.value) == line


def test_a_users_broken_yaml_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "experiment").mkdir()
    path = tmp_path / "experiment" / "broken.yaml"
    path.write_text("# @package _global_\nobjective:\n temperature 0.1\n  seed: [7\n")
    _, arguments = command_line.split(["+experiment=broken", "--config-dir", str(tmp_path)], lambda _: {})
    with pytest.raises(UserError, match=rf"^{path}, line \d: not YAML \(.+\)\.$"):
        compose.check(arguments)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (
            "# @package _global_\ndefaults:\n  - /objective: simcse\n",
            "write '- override /objective: simcse' in its",
        ),
        (
            "# @package _global_\ndefaults:\n  - objective: simcse\n",
            "write '- override /objective: simcse' in its",
        ),
        ("# @package _global_\ndefaults: [{override /schedule: ws}]\n", "no such schedule: ws. Did you mean wsd?"),
        ("# Mine.\n# @package _global_\ndefaults: [{override /objective: simcse}]\n", "its first line must be"),
        ("defaults:\n  - override /objective: simcse\n", "its first line must be '# @package _global_', as"),
    ],
)
def test_a_choice_in_a_users_yaml_overrides_that_of_a_run(text: str, line: str, tmp_path: Path) -> None:
    (tmp_path / "experiment").mkdir()
    path = tmp_path / "experiment" / "mine.yaml"
    path.write_text(text)
    arguments = ["+experiment=mine", override("hydra.searchpath", [f"file://{tmp_path}"])]
    with pytest.raises(UserError) as error:
        compose.check(arguments)
    assert str(error.value).startswith(f"{path}: ") and line in str(error.value)
    assert "\n" not in str(error.value)
    path.write_text("# @package _global_\ndefaults:\n  - override /objective: simcse\n")
    assert compose.check(arguments)["names"]["objective"] == "simcse"


def test_a_fault_in_a_users_yaml_names_the_file(tmp_path: Path) -> None:
    """A fault of a key that an override sets is reported without the file."""
    (tmp_path / "experiment").mkdir()
    (tmp_path / "objective").mkdir()
    mine, cold = tmp_path / "experiment" / "mine.yaml", tmp_path / "objective" / "cold.yaml"
    mine.write_text("# @package _global_\nseed: one\nbudget: {steps: many}\nobjective: {temprature: 1}\n")
    cold.write_text("defaults: [declutr, _self_]\ntemperature: 0\n")
    searchpath = override("hydra.searchpath", [f"file://{tmp_path}"])
    arguments = [searchpath, "+experiment=mine", "objective=cold", "gradient_norm=0"]
    seed = f"{mine}: seed must be a whole number. Got 'one' instead."
    steps = f"{mine}: budget.steps must be a whole number"
    lines = [
        seed,
        "gradient_norm must be a positive number. Got 0 instead.",
        f"{cold}: objective.temperature must be a positive number. Got 0 instead.",
        f"{mine}: objective.temprature: no such key. Did you mean objective.temperature?",
        steps,
    ]
    for more, expected in (
        ([], lines),
        (["seed=one", "budget.steps=2", "sede=3"], ["sede: no such", "seed must be a whole", *lines[1:4]]),
    ):
        with pytest.raises(UserError) as refused:
            compose.check([*arguments, *more])
        messages = str(refused.value).split("\n")
        assert len(messages) == len(expected) and all(map(str.startswith, messages, expected)), messages


def test_configs_of_the_user_are_found(tmp_path: Path) -> None:
    folder = tmp_path / "my conf"
    (folder / "experiment").mkdir(parents=True)
    (folder / "objective").mkdir()
    (folder / "experiment" / "mine.yaml").write_text("# @package _global_\nseed: 11\n")
    (folder / "objective" / "cold.yaml").write_text("# Cold.\ndefaults: [declutr, _self_]\ntemperature: 0.01\n")
    _, arguments = command_line.split(
        ["+experiment=mine", "--config-dir", str(folder), "objective=cold"], lambda _: {}
    )
    config = compose.check(arguments)
    assert (config["seed"], config["objective"]["temperature"]) == (11, 0.01)
    assert "mine" in described(arguments, "run") and "objective=cold: Cold." in described(arguments, "run")
    with pytest.raises(UserError, match=r"^\+experiment=mien: no such experiment. Did you mean mine\?"):
        compose.check([*(text for text in arguments if "experiment" not in text), "+experiment=mien"])


@pytest.mark.parametrize("path", ["it's.txt", "a (1).txt", "[a b", "{a", "a;b", "a#b", "é.txt", "a=b"])
def test_an_unquoted_path_gets_the_same_advice_in_a_sweep(path: str) -> None:
    with pytest.raises(
        UserError, match="such text must be quoted, once for Hydra and again for the shell: "
    ) as in_a_run:
        compose.check(["corpus=text", f"corpus.path={path}"])
    with pytest.raises(UserError) as in_a_sweep:
        list(command.jobs_of(["corpus=text", f"corpus.path={path}", "seed=1,2"]))
    assert str(in_a_run.value) == str(in_a_sweep.value)


def test_a_tilde_in_a_path_is_refused_with_the_full_path() -> None:
    with pytest.raises(UserError) as error:
        compose.check(["corpus=text", "corpus.path=~/x.txt"])
    written_out = shlex.quote(override("corpus.path", Path.home() / "x.txt"))
    assert str(error.value) == f"corpus.path=~/x.txt: write the folder out: {written_out}"


def test_a_tilde_in_quotes_is_the_home_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "run" / "encoder").mkdir(parents=True)
    config = compose.check(["warm_start='~/run'", "run_dir='~/a b'", "cache='~/cache'"])
    found = [config[key] for key in ("warm_start", "run_dir", "cache")]
    assert found == [str(tmp_path / name) for name in ("run", "a b", "cache")]
    with pytest.raises(UserError, match=f"^resume={tmp_path}/gone: there is no such folder"):
        compose.check(["resume='~/gone'"])
    folders = [f"{key}='~/run'" for key in ("data", "runs", "out")]
    for name, schema, more in (
        ("compare", ComparisonSettings, ["objectives=[nsp,sop]"]),
        ("reproduce", Reproduction, ["figure=declutr/2c"]),
    ):
        made = compose.check([*folders, *more], name, schema)
        assert [made.data, made.runs, made.out] == [str(tmp_path / "run")] * 3


@pytest.mark.parametrize(
    "call",
    [
        "run sede=3",
        "run --seed 3",
        "run objective=declut encoder=gru",
        "run corpus=text corpus.path=nowhere.txt",
        "run encoder=transformer encoder.path=nowhere",
        "run warm_start=nowhere",
        "run evaluation=senteval evaluation.data=nowhere",
        "run threads=0",
        "run --help",
        "evaluate model=. data=.",
        "evaluate model=nowhere/at/all",
        "evaluate --help",
        "reproduce figure=declutr/2d",
        "reproduce --help",
        "compare objectives=nsp,sop",
        "compare --help",
    ],
)
def test_a_mistake_is_reported_without_heavy_imports(call: str, tmp_path: Path) -> None:
    name, *arguments = call.split()
    code = (
        "import sys\n"
        f"sys.path.insert(0, {str(ROOT)!r})\n"
        f"sys.argv = ['{name}.py', *{arguments!r}]\n"
        f"from experiments.{name} import main\n"
        "try:\n"
        "    main()\n"
        "except SystemExit as end:\n"
        "    assert end.code == 2\n"
        "assert not {'torch', 'transformers'} & {*sys.modules}"
    )
    completed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path)
    assert completed.returncode == 0, completed.stderr
    assert len(completed.stderr.splitlines()) == ("--help" not in arguments)
