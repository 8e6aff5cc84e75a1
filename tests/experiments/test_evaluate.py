"""``evaluate.py``: results, tables, wrong inputs to every evaluation, and runs evaluated after training."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

import numpy as np
import pytest
import torch

from analysis.senteval.records import read_results
from data.files import write_json
from experiments.config import schema
from experiments.evaluate import EVALUATIONS, describe
from experiments.evaluation import evaluate
from tests import command_runner
from tests.analysis.senteval import small_data
from tests.analysis.senteval.example_results import records, results
from tests.encoders.models import tiny as tiny_transformer
from tests.experiments import tiny

TASKS = "tasks=[CR,STS12]"


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = small_data.folder(tmp_path_factory.mktemp("senteval"))
    small_data.vector_file(folder / "words.txt")
    return folder


def run(folder: Path, *arguments: str) -> command_runner.Outcome:
    return command_runner.run_command("experiments.evaluate", *arguments, folder=folder)


@pytest.mark.parametrize("name", EVALUATIONS)
def test_the_help_of_an_evaluation_has_its_keys(name: str) -> None:
    if name == "mteb":
        pytest.importorskip("mteb")
    function = resolve_name(EVALUATIONS[name])
    text = " ".join(describe(function).split())
    assert [key for key in schema(function).model_fields if f"{key}: " not in text] == []


def test_several_models_are_evaluated_into_one_table(data: Path, tmp_path: Path) -> None:
    """Those that cannot be opened do not stop the others."""
    models = "model=[nowhere/at/all,bag_of_words,random_vectors]"
    arguments = [models, f"encoder.vectors={data / 'words.txt'}", f"data={data}", TASKS, "cache=null"]
    outcome = run(tmp_path, *arguments, "out=both")
    assert outcome.status == 2 and "nowhere/at/all" in outcome.error.splitlines()[-1]
    folders = ["bag_of_words_vectors_words.txt-default", "random_vectors-default"]
    assert sorted(path.name for path in (tmp_path / "both").iterdir()) == folders
    assert "bag_of_words, vectors words.txt" in outcome.output.split("random_vectors (default)")[-1]
    stored = read_results(tmp_path / "both" / folders[0])
    assert [*stored.tasks] == ["CR", "STS12"] and stored.model["path"] == "bag_of_words"
    again = run(tmp_path, *arguments, "out=both", "tasks=[CR,MR]")  # finished tasks are kept
    assert again.status == 2 and [*read_results(tmp_path / "both" / folders[0]).tasks] == ["MR", "CR", "STS12"]


@pytest.fixture(scope="module")
def wrong(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Returns a folder of files that are missing, empty, cut off or of another kind."""
    root = tmp_path_factory.mktemp("wrong")
    shutil.copytree(data, root / "data")
    shutil.copytree(data, root / "damaged")
    for name, content in (
        ("CR/custrev.pos", b""),
        ("TREC/TREC_10.label", b"XX:y z\n"),
        ("COCO/train.pkl", b"\x80\x02"),
    ):
        next((root / "damaged").rglob(name)).write_bytes(content)
    shutil.rmtree(root / "damaged" / "downstream" / "MR")
    (root / "binary.txt").write_bytes(b"\x00\xff\xfe\x01")
    shutil.copy(data / "words.txt", root / "words.txt")
    for name in ("nothing", "unfinished", "trees", "sets", "pairs"):
        (root / name).mkdir()
    (root / "unfinished" / "config.yaml").write_text("seed: 1\n")
    for part in ("train", "dev", "test"):
        (root / "trees" / f"x_{part}.ptb").write_text("(S (NP (NN x))\n")
    (root / "sets" / "EN-X.txt").write_text("a b\n")
    (root / "pairs" / "train.tsv").write_text("1\ta\n")
    torch.manual_seed(1)
    tiny_transformer().save(root / "encoder")
    for name, file, content in (
        ("cut_weights", "model.safetensors", (root / "encoder" / "model.safetensors").read_bytes()[:100]),
        ("foreign_class", "encoder.json", b'{"class": "os.path", "weights": "random", "origin": "x"}'),
        ("cut_tokenizer", "tokenizer.json", b'{"version":'),
    ):
        shutil.copytree(root / "encoder", root / name)
        path = root / name / file
        path.write_bytes(content)
    rng = np.random.default_rng(0)
    for name, classes, lr in (("good", 2, 1), ("other", 2, 2), ("wide", 3, 1), ("no_predictions", 2, 1)):
        (root / name / "predictions").mkdir(parents=True)
        (root / name / "encoder").mkdir()
        write_json(root / name / "senteval.json", results(name, records(("CR",))).to_dict())
        (root / name / "config.yaml").write_text(f"optimizer: {{lr: {lr}}}\nseed: 1\n")
        predicted = rng.dirichlet(np.ones(classes), size=10)
        np.savez(root / name / "predictions" / "CR.npz", gold=np.arange(10) % 2, predicted=predicted)
    (root / "no_predictions" / "predictions" / "CR.npz").unlink()
    for name, file, text in (
        ("cut_predictions", "predictions/CR.npz", "PK"),
        ("cut_results", "senteval.json", '{"tasks"'),
    ):
        shutil.copytree(root / "good", root / name)
        (root / name / file).write_text(text)
    yield root
    assert {path.name for path in root.iterdir()}.isdisjoint({"x.npy", "evaluations", "out", "maps"})


VECTORS = "model=bag_of_words data=data encoder.vectors="
RANDOM = "model=random_vectors data=data "
MODELS = "models=[random_vectors] "
WRONG = [
    ("", "model"),
    ("modle=random_vectors", "modle"),
    ("random_vectors", "random_vectors"),
    ("prbes models=[random_vectors]", "probes"),
    ("model=nope/at/all data=data", "nope/at/all"),
    ("model=unfinished data=data", "unfinished"),
    ("model=cut_weights data=data", "cut_weights"),
    ("model=foreign_class data=data", "foreign_class"),
    ("model=cut_tokenizer data=data", "cut_tokenizer"),
    ("model=encoder+nope/b data=data", "nope/b"),
    ("model=bag_of_words data=data", "vectors"),
    (f"{VECTORS}nope.txt", "nope.txt"),
    (f"{VECTORS}words.txt encoder.weighting=bm25", "encoder.weighting"),
    ("model=random_vectors data=nope", "data"),
    ("model=random_vectors data=damaged tasks=[MR]", "data"),
    ("model=random_vectors data=damaged tasks=[CR]", "custrev.pos"),
    ("model=random_vectors data=damaged tasks=[TREC]", "TREC_10.label"),
    ("model=random_vectors data=damaged tasks=[ImageCaptionRetrieval]", "train.pkl"),
    (f"{RANDOM}tasks=[CRR]", "tasks"),
    (f"{RANDOM}protocol=defualt", "protocol"),
    (f"{RANDOM}postprocess=withen", "postprocess"),
    (f"{RANDOM}fit.txt=words.txt", "fit.txt"),
    (f"{RANDOM}protocol=gensen pooling=max", "pooling"),
    (f"{RANDOM}pooling=men", "pooling"),
    (f"{RANDOM}out=words.txt", "words.txt"),
    ("export model=random_vectors out=x", "random_vectors"),
    ("export model=encoder out=data", "data"),
    ("table", "results"),
    ("table results=[nope]", "nope"),
    ("table results=[cut_results]", "cut_results"),
    ("table results=[x=good,x=other]", "results"),
    ("table results=[good,other] against=nobody", "against"),
    ("table results=[good] paper=bert", "paper"),
    ("table results=[x=good,y=cut_predictions] against=x", "cut_predictions"),
    ("ensemble results=[good,wide]", "CR"),
    ("ensemble results=[good,no_predictions]", "results"),
    (f"probes {MODELS}data=trees", "trees"),
    (f"probes {MODELS}data=trees probes=[lenght]", "probes"),
    (f"wordsim {MODELS}data=sets", "EN-X.txt"),
    (f"quora {MODELS}data=pairs", "train.tsv"),
    (f"neighbours {MODELS}queries=[a]", "sentences"),
    (f"neighbours {MODELS}sentences=words.txt", "queries"),
    (f"projection_map {MODELS}data=words.txt", "words.txt"),
    (f"masked_lm {MODELS}data=words.txt probability=0", "probability"),
    (f"mteb {MODELS}", "mteb" if find_spec("mteb") is None else "tasks"),
    (f"geometry {MODELS}data=words.txt", "data"),
    ("download folder=words.txt", "words.txt"),
]


@pytest.mark.parametrize(("command", "key"), WRONG, ids=[command for command, _ in WRONG])
def test_wrong_inputs_are_named_with_status_2(command: str, key: str, wrong: Path) -> None:
    outcome = run(wrong, *command.split())
    assert outcome.status == 2 and "Traceback" not in outcome.error, outcome.error
    assert key in outcome.error


def test_a_run_is_evaluated_when_it_is_trained(data: Path, tmp_path: Path) -> None:
    settings = ["evaluation=senteval", f"evaluation.data={data}", "evaluation.tasks=[CR,STS12]"]
    settings += ["evaluation.protocol=prototyping", "evaluation.postprocess=whiten", "budget.steps=4"]
    folder = tiny.run(tmp_path, *settings, f"run_dir={tmp_path / 'run'}")
    stored = json.loads((folder / "senteval.json").read_text())
    assert [*stored["tasks"]] == ["CR", "STS12"] and stored["model"]["name"] == "run, postprocess whiten"
    assert stored["model"]["postprocess"] == f"whiten fitted on 52 sentences of the corpus of {folder}"
    assert json.loads((folder / "quick.json").read_text())["facts"]["postprocess"] == "whiten"
    folder = tiny.run(tmp_path, *settings, "evaluation.postprocess=none", f"run_dir={tmp_path / 'raw'}")
    stored = json.loads((folder / "senteval.json").read_text())
    assert [*stored["tasks"]] == ["CR", "STS12"] and stored["model"]["name"] == "raw"


def test_scores_of_a_run_as_exported_are_in_its_folder(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tiny.run(tmp_path, "evaluation=none", "budget.steps=2", f"run_dir={tmp_path / 'run'}")
    monkeypatch.chdir(tmp_path)
    before = command_runner.snapshot(folder / "encoder")

    def score(**settings: Any) -> list[Path]:
        return evaluate(**{"model": str(folder), "data": str(data), "tasks": ["CR"], "cache": None} | settings)

    assert score() == [folder] and score(protocol="simcse") == [Path("evaluations/run-simcse")]
    assert score(pooling="max") != [folder] and score(out="elsewhere") == [Path("elsewhere")]
    assert command_runner.snapshot(folder / "encoder") == before
