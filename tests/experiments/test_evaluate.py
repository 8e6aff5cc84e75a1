"""``evaluate.py``: results, tables, mistakes on the command line, embedding a file, evaluation after a run."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from huggingface_hub import ModelCard

import encoders
from analysis.settings import EvaluationSettings
from data.errors import UserError
from encoders import BUNDLED, starts
from encoders.fingerprint import fingerprint
from experiments import compose, evaluation, experiment
from experiments.settings import require_models
from tests import command_runner
from tests.analysis.senteval import small_data
from tests.experiments import tiny

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = small_data.folder(tmp_path_factory.mktemp("senteval"))
    small_data.vector_file(folder / "words.txt")
    (folder / "sentences.txt").write_text("the dog sees the cat .\n\nthe good bird\n")
    return folder


def run_command(folder: Path, *overrides: str) -> command_runner.Outcome:
    return command_runner.run_command(
        "experiments.evaluate", *overrides, f"cache={folder / 'cache'}", folder=folder
    )


def test_two_models_are_shown_in_one_table(data: Path, tmp_path: Path) -> None:
    common = [f"data={data}", "tasks=[CR,STS12]", "protocol=prototyping"]
    first = run_command(tmp_path, "model=bag_of_words", f"encoder.vectors={data / 'words.txt'}", *common)
    assert first.status == 0, first.error
    folder = tmp_path / "evaluations" / "bag_of_words_words-prototyping"
    results = json.loads((folder / "senteval.json").read_text())
    assert [*results["tasks"]] == ["CR", "STS12"] and results["protocol"] == "prototyping"
    assert results["model"]["name"] == "bag_of_words, words" and len(results["model"]["fingerprint"]) == 64
    assert "STS12" in first.output and "not comparable" in first.output
    sweep = [
        "-m",
        "model=bag_of_words,random_vectors",
        f"encoder.vectors={data / 'words.txt'}",
        "out=both",
        *common,
    ]
    swept = run_command(tmp_path, *sweep)
    assert swept.status == 0, swept.error
    names = ["bag_of_words_words-prototyping", "random_vectors-prototyping"]
    assert sorted(path.name for path in (tmp_path / "both").iterdir() if path.is_dir()) == names
    assert "bag_of_words, words" in swept.output.split("random_vectors (prototyping)")[1]


def test_a_sweep_goes_on_after_models_that_cannot_be_opened(data: Path, tmp_path: Path) -> None:
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / starts.MARKER).write_text('{"class": "enco')
    models = "nowhere/at/all,bag_of_words,broken,random_vectors"
    command = [sys.executable, str(ROOT / "experiments" / "evaluate.py"), "-m", f"model={models}", "tasks=[STS12]"]
    command += [f"encoder.vectors={data / 'words.txt'}", f"data={data}", f"cache={tmp_path / 'cache'}"]
    completed = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=180)
    assert completed.returncode == 2
    errors = completed.stderr.strip().splitlines()
    assert len(errors) == 2 and errors[0] == "nowhere/at/all: there is no such folder."
    assert errors[1].startswith("broken cannot be opened as an encoder: ")
    evaluated = sorted(path.parent.name for path in (tmp_path / "evaluations").glob("*/senteval.json"))
    assert evaluated == ["bag_of_words_words-default", "random_vectors-default"]
    assert "random_vectors" in completed.stdout.split("│ bag_of_words, words")[-1]  # both in one table


def test_a_run_of_a_similar_name_is_suggested(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs" / "declutr-gru-1").mkdir(parents=True)
    (tmp_path / "runs" / "declutr-gru-1" / "config.yaml").touch()
    (tmp_path / "runs" / "declutr-gru-2").mkdir()  # not a run: it has no config.yaml
    assert refusal(["model=runs/declutr-gu-1"]).endswith("Did you mean runs/declutr-gru-1?")
    assert EvaluationSettings(model="runs/wiki").model == "runs/wiki"  # may be a model of the hub
    assert EvaluationSettings(model="~nobody/x").model == "~nobody/x"


def test_a_missing_model_is_reported_before_a_wrong_data_folder() -> None:
    assert refusal(["model=./nowhere", "data=no"]) == "./nowhere: there is no such folder."
    assert refusal(["model=runs/no", "data=no"]) == "runs/no: there is no such folder."
    assert refusal(["model=runs/no/encoder", "data=no"]) == "runs/no/encoder: there is no such folder."
    assert refusal(["model=declutr-mini", "data=no"]) == "data=no: there is no such folder."


def test_an_unfinished_run_is_refused_as_a_model(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").touch()
    line = f"model={tmp_path}: the run is not finished; resume={tmp_path} goes on with it."
    assert refusal([f"model={tmp_path}"]) == line


def test_settings_that_a_model_does_not_use_are_reported(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    words = f"encoder.vectors={data / 'words.txt'}"
    common = [words, f"data={data}", "tasks=[STS12]", f"cache={tmp_path / 'cache'}"]
    for overrides, message in (
        (["model=random_vectors"], "ignored     encoder.vectors: for model=bag_of_words only"),
        (
            ["model=bag_of_words", f"encoder.counts={data / 'words.txt'}"],
            "ignored     encoder.counts: unused with encoder.wei",
        ),
        (["model=bag_of_words"], ""),
    ):
        evaluation.evaluate_model(compose.check([*common, *overrides], "evaluate", EvaluationSettings))
        output = capsys.readouterr().out
        assert message in output and ("ignored" in output) == bool(message)


def test_an_ensemble_is_computed_from_results(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    def evaluate(*overrides: str) -> None:
        settings = compose.check([*overrides, f"cache={tmp_path / 'cache'}"], "evaluate", EvaluationSettings)
        (evaluation.combine if settings.ensemble else evaluation.evaluate_model)(settings)

    evaluate("model=random_vectors", f"data={data}", "tasks=[CR,STS12]", "protocol=prototyping", "out=a")
    shutil.copytree("a", "b")
    evaluate("ensemble=[a,b]", "out=both")
    alone, both = (json.loads((tmp_path / name / "senteval.json").read_text()) for name in ("a", "both"))
    assert both["model"]["name"] == "ensemble of 2" and both["protocol"] == "prototyping"
    assert [*both["tasks"]] == ["CR", "STS12"] and both["tasks"]["CR"]["weights"] == [0.5, 0.5]
    assert both["tasks"]["CR"]["test"] == alone["tasks"]["CR"]["test"] and both["tasks"]["CR"]["dev"] is None
    test_averages = {name: value for name, value in alone["averages"].items() if "_dev" not in name}
    assert {name: value for name, value in both["averages"].items() if "_dev" not in name} == test_averages
    assert (tmp_path / "both" / "predictions" / "CR.npz").is_file()
    evaluate("ensemble=[a,b]", "tasks=STS12", "out=one")
    assert [*json.loads((tmp_path / "one" / "senteval.json").read_text())["tasks"]] == ["STS12"]


def refusal(overrides: list[str]) -> str:
    """Returns the error message of the command, which runs in this process."""
    with pytest.raises(UserError) as error:
        settings = compose.check(overrides, "evaluate", EvaluationSettings)
        require_models("model", [settings.model])
        evaluate = evaluation.combine if settings.ensemble else evaluation.evaluate_model
        (evaluation.embed if settings.embed else evaluate)(settings)
    return str(error.value)


@pytest.mark.parametrize(
    ("overrides", "line"),
    [
        ("", "model is not set: model=declutr-mini, say, or a run folder;"),
        ("model=random_vectors protocol=defualt", "protocol=defualt: no such protocol."),
        (
            "model=random_vectors pooling=men",
            "pooling must be 'mean', 'cls', 'max', 'last' or 'pooler'. Got 'men'",
        ),
        ("model=random_vectors precision=bf16", "precision=bf16: random_vectors is computed in fp32 only."),
        ("model={bundled} precision=tf32 device=cpu", "precision=tf32 needs a CUDA GPU: use fp32 or bf16."),
        ("model=random_vectors layers=2", "layers=2: random_vectors has no layers."),
        ("model={bundled} layers=-1", "layers must be at least 0. Got -1 instead."),
        (
            "model={bundled} layers=9 data={data}",
            "layers must be from 0, the embeddings only, to 4. Got 9 instead.",
        ),
        ("model=random_vectors protocol=gensen", "protocol=gensen chooses among poolings"),
        (
            "model=random_vector data={data}",
            "model=random_vector: there is no such folder. Did you mean",
        ),
        (
            "model={data}/words.txt data={data}",
            "model={data}/words.txt is a file: word vectors go by",
        ),
        (
            "model=random_vectors data={data}/downstream tasks=CR",
            "{data}/downstream lacks files of CR (the first one missing is {data}/downstream/downstream/CR/",
        ),
        ("model=random_vectors data={data} tasks=[]", "tasks is empty: name some"),
        ("model=random_vectors dropout=0.5", "dropout needs a hidden layer"),
        ("model=random_vectors folds=1", "folds must be at least 2."),
        ("model=random_vectors data=none", "data=none: there is no such folder."),
        ("model=random_vectors data={data} tasks=[CRR]", "tasks: there is no task 'CRR'; did you mean CR?"),
        (
            "model=Declutr-mni data={data}",
            "model=Declutr-mni: there is no such folder. Did you mean declutr-mini?",
        ),
        (
            "model=bag-of-words data={data}",
            "model=bag-of-words: there is no such folder. Did you mean bag_of_words?",
        ),
        ("model={data}/qqq data={data}", "{data}/qqq: there is no such folder."),
        ("model=nowhere/at/all data={data}", "nowhere/at/all: there is no such folder."),
        ("model={data} data={data}", "model={data} is no model's folder: it has none of encoder, encoder.json, "),
        ("model=bag_of_words data={data}", "model=bag_of_words needs encoder.vectors="),
        (
            "model=bag_of_words encoder.vectors={data}/words.txt encoder.weighting=sif data={data}",
            "encoder.weighting=sif needs encoder.counts=",
        ),
        (
            "model=bag_of_words encoder.vectors={data}/words.txt encoder.counts=no.txt data={data}",
            "encoder.counts=no.txt: there is no such",
        ),
        (
            "model=bag_of_words encoder.vectors=no.txt data={data}",
            "encoder.vectors=no.txt: there is no such",
        ),
        ("model=random_vectors embed={data}/sentences.txt", "embed needs out=<file>.npy"),
        ("model=random_vectors embed=no.txt out=x.npy", "embed=no.txt: there is no such file."),
        ("model=random_vectors data={data} out={data}/words.txt", "{data}/words.txt cannot be written"),
        (
            "model=random_vectors tasks=CR,STS16",
            "tasks=CR,STS16: write a list in brackets: tasks=[CR,STS16]; several values need -m (a sweep);",
        ),
        ("ensemble=[a] model=random_vectors out=x", "model= and ensemble= exclude each other: "),
        ("ensemble=[a,b]", "ensemble needs out=<folder>"),
        ("ensemble=[] out=x", "ensemble must name two or more folders of results, each once"),
        ("ensemble=[a] out=x", "ensemble must name two or more folders of results, each once"),
        ("ensemble=[a,b,a/] out=x", "ensemble must name two or more folders of results, each once"),
        (
            "ensemble=[a,b] out=x pooling=cls folds=3",
            "pooling, folds: an ensemble is evaluated as its members were",
        ),
        ("ensemble=[none,a] out=x", "There is no none: name a senteval.json"),
    ],
)
def test_mistakes_are_one_line_and_leave_no_files(
    overrides: str, line: str, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    before = set(data.rglob("*"))
    message = refusal([*overrides.format(data=data, bundled=BUNDLED).split(), f"cache={tmp_path / 'cache'}"])
    assert message.startswith(line.format(data=data)) and "\n" not in message
    assert list(tmp_path.iterdir()) == []
    assert set(data.rglob("*")) == before


def test_the_command_ends_with_status_2_and_all_faults(tmp_path: Path) -> None:
    """A missing model is not reported beside other faults, as it may follow from them."""
    completed = run_command(tmp_path, "modl=x", "protocl=y", "folds=1")
    assert completed.status == 2
    model, protocol, folds = completed.error.splitlines()
    assert model.startswith("modl: no such key. Did you mean model?")
    assert protocol.startswith("protocl: no such key.") and folds.startswith("folds must be at least 2.")


def test_the_first_argument_may_name_another_evaluation(data: Path, tmp_path: Path) -> None:
    (tmp_path / "EN-X.txt").write_text("dog cat 9\n" * 10)
    common = ["wordsim", f"data={tmp_path}", f"encoder.vectors={data / 'words.txt'}", "format=csv"]
    completed = run_command(tmp_path, *common, "models=[bag_of_words,random_vectors]")
    assert completed.status == 0, completed.error
    assert [line.split(",")[0] for line in completed.output.splitlines()[:1]] == ["model"]
    before = sorted(path.name for path in tmp_path.iterdir())
    swept = run_command(tmp_path, *common, "-m", "models=[bag_of_words],[/nowhere],[random_vectors]")
    assert swept.status == 2 and "/nowhere: there is no such folder." in swept.error.splitlines()
    assert [line.partition(",")[0] for line in swept.output.splitlines() if "random" in line] == ["random_vectors"]
    assert sorted({path.name for path in tmp_path.iterdir()} - {*before}) == ["evaluations"]


def test_mistakes_in_other_evaluations_are_one_line_each(tmp_path: Path) -> None:
    for arguments, lines in (
        (
            ["prbes", "models=x"],
            ["prbes: no such evaluation, and not of the form key=value. Did you mean probes?"],
        ),
        (
            ["declutr-mini"],
            ["declutr-mini: not of the form key=value. Did you mean model=declutr-mini?"],
        ),
        (
            ["runs/missing"],
            ["runs/missing: not of the form key=value. Did you mean model=runs/missing?"],
        ),
        (
            ["wordsim", "model=x"],
            [
                "model: no such key. Did you mean models?",
                "data is not set: a folder of EN-*.txt, each line word, word, score.",
            ],
        ),
        (
            ["table"],
            [
                "cache: no such key.",
                "results is not set: folders with a senteval.json, or name=folder; * stands for any letters.",
            ],
        ),
        (["table", "--papers", "declutr"], ["--papers declutr: write papers=declutr."]),
        (
            ["quora", "models=random_vectors", "data=no", "sizes=0", "seed=-1"],
            ["sizes must be at least 1. Got [0] instead.", "seed must be at least 0. Got -1 instead."],
        ),
    ):
        completed = run_command(tmp_path, *arguments)
        assert (completed.status, completed.output) == (2, "")
        assert sorted(completed.error.splitlines()) == sorted(lines)
    assert list(tmp_path.iterdir()) == []


def test_the_sentences_of_a_file_are_embedded(data: Path, tmp_path: Path) -> None:
    completed = run_command(
        tmp_path, f"embed={data / 'sentences.txt'}", "model=random_vectors", f"out={tmp_path / 'x.npy'}"
    )
    assert completed.status == 0, completed.error
    vectors = np.load(tmp_path / "x.npy", allow_pickle=False)
    assert vectors.shape == (3, 384) and vectors.dtype == np.float32


def test_a_run_is_evaluated_when_it_is_trained(data: Path, tmp_path: Path) -> None:
    settings = ["evaluation=senteval", f"evaluation.data={data}", "evaluation.tasks=[CR,STS12]"]
    settings += ["evaluation.protocol=prototyping", "evaluation.every=2", "budget.steps=4"]
    run = tiny.run(tmp_path, *settings, f"run_dir={tmp_path / 'run'}")
    results = json.loads((run / "senteval.json").read_text())
    assert [*results["tasks"]] == ["CR", "STS12"] and results["model"]["name"] == "run"
    cosines = {line["step"]: line["stsb_dev_cosine"] for line in tiny.metrics(run) if "stsb_dev_cosine" in line}
    assert [*cosines] == [0, 2, 4] and len({*cosines.values()}) == 3
    assert {"start", "trained"} <= {*json.loads((run / "quick.json").read_text())}
    scores = {task: record["test"] for task, record in results["tasks"].items()}
    assert card_scores(run) == {(task, "prototyping"): round(score, 2) for task, score in scores.items()}


def card_scores(run: Path) -> dict[tuple[str, str | None], float]:
    """Returns the scores on the model card of a run, by task and protocol."""
    entries = ModelCard.load(run / "encoder" / "README.md").data.eval_results or []
    return {(entry.dataset_name.split()[1], entry.dataset_config): entry.metric_value for entry in entries}


def test_evaluating_a_run_writes_its_card_and_nothing_else_of_the_encoder(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = tiny.run(tmp_path, "evaluation=none", "budget.steps=2", f"run_dir={tmp_path / 'run'}")
    monkeypatch.chdir(tmp_path)
    card = run / "encoder" / "README.md"
    card.write_text(card.read_text().replace("pipeline_tag:", "license: mit\npipeline_tag:", 1))

    def other_files() -> dict[str, bytes]:
        files = [path for path in (run / "encoder").rglob("*") if path.is_file() and path != card]
        return {path.name: path.read_bytes() for path in files}

    def evaluate(**settings: Any) -> None:
        settings = {"model": str(run), "data": str(data), "tasks": ["CR"], "cache": None} | settings
        evaluation.evaluate_model(EvaluationSettings(**settings))

    before, text = other_files(), card.read_text()
    encoder = encoders.load(run / "encoder")
    evaluate()
    evaluate(protocol="simcse")
    scores = card_scores(run)
    assert scores.keys() == {("CR", "default"), ("CR", "simcse")} and ModelCard.load(card).data.license == "mit"
    assert other_files() == before and fingerprint(encoders.load(run / "encoder")) == fingerprint(encoder)
    after = card.read_text()
    evaluate(pooling="max")  # not the model of the card
    evaluate(model=str(run / "encoder"))
    assert card.read_text() == after
    for part in text.split("---\n", 2)[1:]:
        assert all(line in after for line in part.splitlines())
    evaluate(tasks=["CR", "STS12"])
    assert card_scores(run).keys() == {("CR", "default"), ("STS12", "default"), ("CR", "simcse")}


def test_a_card_that_cannot_be_written_is_one_line_and_the_results_stay(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tiny.run(tmp_path, "evaluation=none", "budget.steps=1", f"run_dir={tmp_path / 'run'}")
    monkeypatch.chdir(tmp_path)
    card = run / "encoder" / "README.md"
    card.write_text("---\na: [\n---\n")
    settings: dict[str, Any] = {"model": str(run), "data": str(data), "cache": None}
    evaluation.evaluate_model(EvaluationSettings(tasks=["CR"], **settings))
    printed = capsys.readouterr().out
    assert f"{card} is left as it is: " in printed and (run / "senteval.json").exists()
    assert "SentEval: run (default; weights: random)" in printed
    card.unlink()
    evaluation.evaluate_model(EvaluationSettings(tasks=["CR", "STS12"], **settings))
    assert "as it is" not in capsys.readouterr().out and not card.exists()


def test_evaluating_a_bundled_checkpoint_leaves_it_unchanged(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    before = command_runner.snapshot(starts.CHECKPOINTS)
    for model in ("declutr-mini", str(starts.CHECKPOINTS / "declutr-mini")):
        settings = EvaluationSettings(
            model=model, data=str(data), tasks=["CR"], cache=None, out=str(tmp_path / "out")
        )
        evaluation.evaluate_model(settings)
    assert command_runner.snapshot(starts.CHECKPOINTS) == before


def test_a_run_without_its_evaluation_data_is_refused_before_training(data: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    shutil.copytree(data / "downstream" / "CR", other / "downstream" / "CR")
    for overrides, message in (
        (["evaluation.data=none"], "evaluation.data=none: there is no such folder"),
        ([f"evaluation.data={data}", "evaluation.tasks=[CRR]"], "tasks: there is no task"),
        (
            [f"evaluation.data={tmp_path}"],
            "evaluation.data=<folder> names another folder with downstream/ and probing/",
        ),
        ([f"evaluation.data={data / 'downstream'}"], f"did you mean evaluation.data={data}?"),
        ([f"evaluation.data={other}", "evaluation.every=5"], "evaluation.every evaluates on STS-B's dev set"),
    ):
        tiny.corpus(tmp_path)
        with pytest.raises(UserError, match=message):
            config = compose.check([*tiny.overrides(tmp_path), "evaluation=senteval", *overrides])
            experiment.run(config | {"run_dir": str(tmp_path / "run")})
        assert not (tmp_path / "run" / "config.yaml").exists()


def test_a_missing_model_is_reported_before_missing_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evaluation, "ROOT", tmp_path)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    for model, fault in (
        ("nosuch", r"^nosuch is not on this machine"),
        ("random_vectors", r"^There is no SentEval"),
    ):
        with pytest.raises(UserError, match=fault):
            evaluation.evaluate_model(EvaluationSettings(model=model))
