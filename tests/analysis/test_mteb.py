"""MTEB on local tasks with the package mteb: scores compared with scipy's, files, reuse, error messages."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import spearmanr
from sentence_transformers import SentenceTransformer

if find_spec("mteb") is None:
    pytest.skip("mteb is not installed: pip install -e '.[mteb]'", allow_module_level=True)

import datasets
import mteb
from huggingface_hub import constants
from mteb.abstasks import AbsTaskSTS
from mteb.get_tasks import _TASKS_REGISTRY

from analysis.models import Model, open_models
from analysis.mteb import MTEBEncoder, evaluate_task, find_tasks, report_mteb
from analysis.senteval.files import loaders
from analysis.senteval.files.loaders import Examples
from data.errors import UserError
from encoders import BUNDLED
from encoders.bilstm_max import BiLSTMMax
from encoders.gru import GRU
from encoders.random_vectors import RandomVectors
from tests.analysis.senteval import small_data
from tests.encoders.models import tiny
from tests.real_data import suite_data

NAMES = ["LocalSTSBenchmark", "LocalSTS16"]


def task_class(name: str, examples: Examples) -> type:
    """Returns an STS task class of mteb with ``examples`` as its test split."""

    class Local(AbsTaskSTS):
        metadata = mteb.TaskMetadata(
            name=name,
            description="pairs in a file of this machine",
            type="STS",
            main_score="cosine_spearman",
            eval_splits=["test"],
            eval_langs=["eng-Latn"],
            dataset={"path": "local", "revision": "1"},
        )

        def load_data(self, num_proc: int | None = None, **options: Any) -> None:
            columns = {"sentence1": examples.first, "sentence2": examples.second, "score": examples.targets}
            self.dataset = datasets.DatasetDict(test=datasets.Dataset.from_dict(columns))
            self.data_loaded = True

    return Local


def local_examples(senteval: Path) -> list[Examples]:
    """Returns the pairs of ``NAMES`` from SentEval's folder."""
    sts = senteval / "downstream" / "STS"
    return [
        loaders.sts_benchmark(sts / "STSBenchmark")["test"],
        loaders.sts(sts / "STS16-en-test", ["headlines"])["headlines"],
    ]


def spearman(encode: Callable[[Sequence[str]], np.ndarray], examples: Examples) -> float:
    """Returns Spearman's rho of cosines and gold scores, in percent."""
    first, second = (encode(sentences).astype(np.float64) for sentences in (examples.first, examples.second))
    norms = np.linalg.norm(first, axis=1) * np.linalg.norm(second, axis=1)
    return 100 * float(spearmanr((first * second).sum(axis=1) / norms, examples.targets).statistic)


@pytest.fixture(autouse=True)
def offline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", True)


@pytest.fixture(params=["made", pytest.param("real", marks=pytest.mark.slow)])
def examples(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Examples]:
    """Registers tasks called ``NAMES`` with mteb and returns their pairs."""
    senteval = small_data.folder(tmp_path / "data") if request.param == "made" else suite_data("senteval")
    found = local_examples(senteval)
    for name, pairs in zip(NAMES, found, strict=True):
        monkeypatch.setitem(_TASKS_REGISTRY, name, task_class(name, pairs))
    return found


def test_scores_of_three_kinds_of_models_equal_scipys(
    tmp_path: Path,
    examples: list[Examples],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    real = len(examples[0].first) > 1000
    words = (
        suite_data("embeddings/glove.100d.10k.txt.gz") if real else small_data.vector_file(tmp_path / "words.txt")
    )
    options: dict[str, Any] = {"encoder": {"vectors": str(words)}, "cache": None, "device": "cpu"}
    options |= {"models": [BUNDLED, "bag_of_words", "random_vectors"]}
    models = [*open_models(**options)]
    report_mteb(**options, tasks=NAMES, out=str(tmp_path / "out"))
    output = capsys.readouterr()
    assert f"random_vectors: {NAMES[1]} (2 of 2)" in output.err.splitlines()
    assert output.out.endswith("\nrandom_vectors: weights: random, random vectors of 384, seed 0\n")

    scores = []
    for model in models:
        [folder] = (tmp_path / "out/results" / f"sentence-objectives__{model.name.replace(' ', '_')}").iterdir()
        assert json.loads((folder / "model_meta.json").read_text())["revision"] == folder.name
        written = [json.loads((folder / f"{name}.json").read_text()) for name in NAMES]
        scores.append([100 * result["scores"]["test"][0]["main_score"] for result in written])
        # mteb's cosines are float32: those of two equal bags of words are 1 up to rounding, which breaks ties.
        assert scores[-1] == pytest.approx([spearman(model.encoder.encode, pairs) for pairs in examples], abs=0.01)
    rows = [[cell.strip() for cell in line.split("│")[1:-1]] for line in output.out.splitlines()]
    for number, name in enumerate(NAMES):
        assert [name, "cosine_spearman", *(f"{found[number]:.2f}" for found in scores)] in rows
    assert ["mean of 2 tasks", "", *(f"{np.mean(found):.2f}" for found in scores)] in rows
    reread = mteb.ResultCache(tmp_path / "out").load_results()
    assert {result.model_name for result in reread.model_results} == {
        f"sentence-objectives/{model.name}" for model in models
    }

    monkeypatch.setattr(Model, "rows", None)  # stored results are used again, so nothing is encoded
    report_mteb(**options, tasks=NAMES, out=str(tmp_path / "out"))
    assert capsys.readouterr().out == output.out


def test_every_kind_of_text_task_runs() -> None:
    results = mteb.mock_run(MTEBEncoder(Model("m", RandomVectors(dimension=8))))
    assert [
        name for name, result in results.items() if isinstance(result, mteb.results.task_result.TaskError)
    ] == []
    assert sum(isinstance(result, mteb.TaskResult) for _, result in results.items()) > 20


@pytest.mark.parametrize("kind", [BiLSTMMax, GRU])
def test_scores_of_recurrent_encoders_equal_scipys(kind: type, tmp_path: Path) -> None:
    texts = ["the sun and the moon", "a car", "the moon", "the sun rose and the car was a moon"]
    encoder = kind(hidden=4, word_size=3, min_count=1, texts=lambda: texts)
    pairs = Examples(texts, ["the car", "a moon", "the sun", "a sun rose"], np.array([1.0, 2.0, 4.0, 3.0]))
    score = evaluate_task(
        MTEBEncoder(Model("m", encoder)), task_class("LocalSTS", pairs)(), mteb.ResultCache(tmp_path)
    )
    assert score == pytest.approx(spearman(encoder.encode, pairs), abs=1e-4)


@pytest.mark.parametrize("examples", ["made"], indirect=True)
def test_mteb_itself_opens_an_export(tmp_path: Path, examples: list[Examples]) -> None:
    encoder = tiny()
    encoder.save(tmp_path / "encoder")
    [task] = find_tasks(NAMES[:1], None)
    model = SentenceTransformer(str(tmp_path / "encoder"), device="cpu")
    [result] = mteb.evaluate(
        model, [task], cache=mteb.ResultCache(tmp_path / "out"), co2_tracker=False
    ).task_results
    assert 100 * result.get_score() == pytest.approx(spearman(encoder.encode, examples[0]), abs=0.01)


@pytest.mark.parametrize("examples", ["made"], indirect=True)
def test_models_of_equal_names_have_separate_results(tmp_path: Path, examples: list[Examples]) -> None:
    cache = mteb.ResultCache(tmp_path / "out")
    [task] = find_tasks(NAMES[:1], None)
    found = []
    for seed in (0, 1):
        encoder = RandomVectors(dimension=8, seed=seed)
        found.append(evaluate_task(MTEBEncoder(Model("owner/m", encoder)), task, cache))
        assert found[-1] == pytest.approx(spearman(encoder.encode, examples[0]), abs=1e-4)
    assert found[0] != found[1]
    assert len(list((tmp_path / "out/results/owner__m").iterdir())) == 2


@pytest.mark.parametrize("examples", ["made"], indirect=True)
def test_one_task_that_fails_does_not_end_the_others(
    tmp_path: Path, examples: list[Examples], capsys: pytest.CaptureFixture[str]
) -> None:
    options: dict[str, Any] = {"models": ["random_vectors"], "cache": None, "out": str(tmp_path)}
    with pytest.raises(UserError, match="STSBenchmark"):  # its data are not on this machine
        report_mteb(**options, tasks=["STSBenchmark", *NAMES])
    output = capsys.readouterr()
    rows = [[cell.strip() for cell in line.split("│")[1:-1]] for line in output.out.splitlines()]
    assert ["STSBenchmark", "cosine_spearman", "–"] in rows and ["mean of 3 tasks", "", "–"] in rows
    assert f"{spearman(RandomVectors().encode, examples[1]):.2f}" in output.out
    [damaged] = tmp_path.glob(f"results/*/*/{NAMES[1]}.json")
    damaged.write_text(damaged.read_text()[:40])
    with pytest.raises(UserError, match=NAMES[1]):
        report_mteb(**options, tasks=NAMES)


def test_vectors_that_are_not_finite_are_refused(tmp_path: Path) -> None:
    class Diverged(RandomVectors):
        def encode(self, sentences, **options):  # type: ignore[no-untyped-def]
            return np.full((len(sentences), self.dimension), np.nan, dtype=np.float32)

    task = task_class("LocalSTS", Examples(["a", "b"], ["c", "d"], np.array([1.0, 2.0])))()
    with pytest.raises(UserError):
        evaluate_task(MTEBEncoder(Model("m", Diverged())), task, mteb.ResultCache(tmp_path))


@pytest.mark.parametrize(
    "chosen",
    [{"tasks": ["STSBenchmrk"]}, {"benchmark": "MTEB(eng, v3)"}, {}, {"tasks": ["STS12"], "benchmark": "x"}],
)
def test_unknown_or_ambiguous_tasks_are_refused(chosen: dict[str, Any]) -> None:
    with pytest.raises(UserError):
        report_mteb(models=["random_vectors"], **chosen)
