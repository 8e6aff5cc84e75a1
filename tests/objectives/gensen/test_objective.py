"""GenSen: schedule of the tasks, origin of their data, held-out scores, example predictions, refusals."""

from __future__ import annotations

from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from data.errors import UserError
from data.loader import Loader, MultiTaskLoader
from data.pairs import PairUnit
from data.randomness import generator
from data.sentences import Sentences
from data.sources.base import Document
from data.store import prepare
from data.vocabulary import train_word_level
from encoders.gru import GRU
from objectives.base import Corpus
from objectives.decoder import END
from objectives.gensen.objective import TASKS, GenSen
from tests.data.samples import Listed
from tests.real_data import suite_data

SMALL = {"batch_size": 4, "min_count": 1, "word_size": 6, "classifier_width": 5, "synthetic_pairs": 150}
LETTERS = [(a, b) for a in "abcdefgh" for b in "stuvwxyz"]
LINES = [f"The {a} {b} goes home ." for a, b in generator(0).permutation(LETTERS).tolist()]


def small_gensen(**arguments: Any) -> GenSen:
    return GenSen(**{**SMALL, **arguments})


def source() -> Listed:
    return Listed([Document("\n\n".join(LINES[4 * i : 4 * i + 4])) for i in range(16)], dev_fraction=0.3)


@cache
def word_tokenizer() -> Any:
    texts = [*LINES, *small_gensen().texts()]
    return train_word_level(texts, vocab_size=2000, min_count=1, lowercase=True, max_length=90)


def build_corpus(folder: Path, tokenizer: Any = None) -> Corpus:
    tokenizer = tokenizer or word_tokenizer()
    sentences = Sentences(min_words=1, unique=False)
    return Corpus(source(), prepare(source(), tokenizer, cache=folder, sentences=sentences), tokenizer, folder)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("gensen")


def gru(folder: Path) -> GRU:
    torch.manual_seed(0)
    word_tokenizer().save_pretrained(folder / "words")
    return GRU(hidden=4, word_size=5, tokenizer=folder / "words")


def build_with_loader(folder: Path, **arguments: Any) -> tuple[GenSen, GRU, MultiTaskLoader]:
    objective, encoder = small_gensen(**arguments), gru(folder)
    task_data = objective.task_data(build_corpus(folder))
    objective.build(encoder)
    loaders = {
        name: Loader(
            data.units,
            data.dev.indices,
            objective.tasks[name],
            encoder.format,
            batch_size=4,
            seed=1,
            lengths=None if data.lengths is None else data.lengths[data.dev.indices],
        )
        for name, data in task_data.items()
    }
    return objective, encoder, MultiTaskLoader(loaders, lambda step: objective.task_at(step, 1))


# Schedule


def test_nli_comes_after_every_ten_other_steps() -> None:
    objective = small_gensen()
    names = [objective.task_at(step, 3) for step in range(2200)]
    assert [step for step, name in enumerate(names) if name == "nli"] == list(range(10, 2200, 11))
    counts = Counter(names)
    for name in ("skip_thought", "fr", "de", "parse"):
        assert counts[name] == pytest.approx(500, abs=80)  # about four standard deviations
        assert objective.shares[name] == pytest.approx(10 / 44)
    assert sum(objective.shares.values()) == pytest.approx(1)


def test_the_task_of_a_step_depends_only_on_step_and_seed() -> None:
    names = [small_gensen().task_at(step, 3) for step in range(60)]
    assert [small_gensen().task_at(step, 3) for step in reversed(range(60))] == names[::-1]
    assert [small_gensen().task_at(step, 4) for step in range(60)] != names


def test_alpha_sets_the_share_of_each_task() -> None:
    objective = small_gensen(tasks=["stn", "fr", "de"], alpha={"de": 6, "skip_thought": 1, "fr": 1})
    counts = Counter(objective.task_at(step, 0) for step in range(2000))
    assert counts["de"] == pytest.approx(1500, abs=80) and counts["fr"] == pytest.approx(250, abs=60)
    assert objective.alpha == {"skip_thought": 0.125, "fr": 0.125, "de": 0.75}


@pytest.mark.parametrize("chosen", [["nli"], ["stp"], ["fr", "nli"], ["stn", "stp"]], ids=", ".join)
def test_any_subset_schedules_only_its_tasks(chosen: list[str]) -> None:
    objective = small_gensen(tasks=chosen, nli_every=2)
    names = {objective.task_at(step, 0) for step in range(30)}
    assert names == set(objective.tasks) == {"skip_thought" if name in ("stn", "stp") else name for name in chosen}
    assert [name for name in objective.part_names if name in TASKS] == chosen


# Data


def test_held_out_sources_have_few_unknown_words(folder: Path) -> None:
    objective = small_gensen()
    task_data = objective.task_data(build_corpus(folder))
    unknown = word_tokenizer().unk_token_id
    for name in ("fr", "parse", "nli"):
        units = [task_data[name].units[int(i)] for i in task_data[name].dev.indices]
        sources = np.concatenate([source for unit in units for source in unit.sources])
        assert (sources == unknown).mean() < 0.2


def test_tasks_without_data_are_reported_as_synthetic(folder: Path) -> None:
    objective = small_gensen()
    objective.task_data(build_corpus(folder))
    facts = objective.facts()
    assert facts["tasks"] == "stn, stp, fr, de, parse, nli" and facts["synthetic"] == "fr, de, parse, nli"
    assert "synthetic" not in small_gensen(tasks=["stn"]).facts()


def test_tasks_read_files_of_the_user(tmp_path: Path) -> None:
    (tmp_path / "a.en").write_text("".join(f"{line}\n" for line in LINES))
    (tmp_path / "a.fr").write_text("".join(f"{line.upper()} OUI\n" for line in LINES))
    trees = "".join(f"(S (NP (DT the) (NN {a})) (VP (VB go)) (. .))\n" for a in "abcdefghijklmnopqrstuvwxyz")
    (tmp_path / "a.mrg").write_text(trees)
    objective = small_gensen(
        tasks=["fr", "parse", "nli"],
        fr={"source": str(tmp_path / "a.en"), "target": str(tmp_path / "a.fr"), "dev_fraction": 0.3},
        parse={"gold": str(tmp_path / "a.mrg"), "dev_fraction": 0.3},
    )
    assert objective.facts()["synthetic"] == "nli"
    task_data = objective.task_data(build_corpus(tmp_path))
    unit, task = task_data["fr"].units[0], objective.tasks["fr"]
    assert word_tokenizer().decode(unit.sources[0]) == LINES[0].lower()
    assert task.tokenizer.decode(unit.target) == f"{LINES[0].lower()} oui"
    parse = objective.tasks["parse"].tokenizer
    assert parse.decode(task_data["parse"].units[0].target) == "(S (NP XX XX )NP (VP XX )VP . )S"
    assert parse.unk_token_id not in task_data["parse"].units[0].target
    assert task_data["fr"].lengths is not None
    assert task_data["fr"].lengths[0] == len(unit.sources[0]) + len(unit.target)


def test_the_encoders_vocabulary_is_built_from_the_sources() -> None:
    objective = small_gensen(tasks=["stn", "fr", "nli"])
    texts = list(objective.texts())
    fr, nli = (objective.tasks[name].source for name in ("fr", "nli"))
    assert fr is not None and nli is not None
    sources = [*fr.source_texts(), *nli.source_texts()]
    assert len(sources) > len(texts) > 200 and texts == list(dict.fromkeys(sources))
    # Both translation tasks have the same sources.
    assert list(small_gensen(tasks=["fr", "de"]).texts()) == list(small_gensen(tasks=["de"]).texts())
    assert list(small_gensen(tasks=["stn"]).texts()) == [] and small_gensen(tasks=["stn"]).texts_key() == ""
    keys = {
        small_gensen(**arguments).texts_key() for arguments in ({}, {"tasks": ["fr"]}, {"synthetic_pairs": 151})
    }
    assert len(keys) == 3


# Held-out metrics


def test_dev_metrics_are_means_over_all_tokens_without_dropout(folder: Path) -> None:
    objective, encoder, loader = build_with_loader(folder, tasks=["stn", "fr", "nli"], dropout=0.5)
    batches = loader.fixed(3)
    encoder.train()
    objective.train()
    metrics = objective.dev_metrics(encoder, batches)
    assert objective.dev_metrics(encoder, batches) == metrics
    assert not any(name.endswith("_unigram") for batch in batches for name in objective.loss(encoder, batch).parts)
    assert encoder.training and objective.training and objective.tasks["fr"].training
    encoder.eval()
    objective.eval()
    totals: Counter[str] = Counter()
    targets_of: dict[str, list[torch.Tensor]] = {}
    counts: Counter[str] = Counter()
    with torch.no_grad():
        for batch in batches:
            loss = objective.loss(encoder, batch)
            for name, value in loss.parts.items():
                size = int(loss.counts.get(name, batch.size))
                totals[name] += float(value) * size  # type: ignore[assignment]
                counts[name] += size
            assert batch.task == "nli" or loss.counts
            if batch.task == "nli":
                targets_of.setdefault("nli", []).append(batch.numbers["class"])
            for part in {"stn", "fr"} & {*batch.tokens}:
                rows = zip(batch.tokens[part].ids, batch.tokens[part].lengths, strict=True)
                targets_of.setdefault(part, []).extend(row[1:length] for row, length in rows)
    assert counts["fr"] == sum(int((b.tokens["fr"].lengths - 1).sum()) for b in batches if b.task == "fr")
    for part, targets in targets_of.items():
        table = next(task.surprisals[part] for task in objective.tasks.values() if part in task.surprisals)
        assert metrics[f"dev_{part}_unigram"] == pytest.approx(float(table[torch.cat(targets)].mean()), rel=1e-5)
        hit_rate = (torch.cat(targets) == table.argmin()).double().mean()
        assert metrics[f"dev_{part}_accuracy_unigram"] == pytest.approx(float(hit_rate))
    for name in ("stn", "fr", "nli", "nli_accuracy", "stn_accuracy", "fr_accuracy"):
        assert metrics[f"dev_{name}"] == pytest.approx(totals[name] / counts[name])
    assert metrics["dev_fr_perplexity"] == pytest.approx(np.exp(metrics["dev_fr"]))
    assert {*metrics} == {f"dev_{name}" for name in objective.part_names} | {
        "dev_stn_perplexity",
        "dev_fr_perplexity",
        "dev_stn_accuracy",
        "dev_fr_accuracy",
        *(f"dev_{name}_{kind}" for name in ("stn", "fr", "nli") for kind in ("unigram", "accuracy_unigram")),
    }


def test_a_batch_trains_only_the_head_of_its_task(folder: Path) -> None:
    objective, encoder, loader = build_with_loader(folder, nli_every=1)
    seen = set()
    for step in range(12):
        batch = loader.batch(step)
        objective.zero_grad()
        objective.loss(encoder, batch).total.backward()
        trained = {name.split(".")[1] for name, weight in objective.named_parameters() if weight.grad is not None}
        assert trained == {batch.task} == {objective.task_at(step, 1)}
        seen.add(batch.task)
    assert "nli" in seen and len(seen) > 2


def test_step_flops_are_the_mean_over_the_tasks(folder: Path) -> None:
    objective, encoder, _ = build_with_loader(folder)
    costs = {name: task.step_flops(encoder) for name, task in objective.tasks.items()}
    assert min(costs.values()) > 0
    assert objective.step_flops(encoder) == pytest.approx(
        sum(costs[name] for name in ("skip_thought", "fr", "de", "parse")) * 10 / 44 + costs["nli"] / 11
    )
    subsets = [small_gensen(tasks=tasks) for tasks in (["stn"], ["stn", "stp"])]
    for subset in subsets:
        subset.task_data(build_corpus(folder))
        subset.build(encoder)
    assert subsets[1].step_flops(encoder) > 1.3 * subsets[0].step_flops(encoder)


def test_example_predictions_decode_each_task(folder: Path) -> None:
    objective, encoder, _ = build_with_loader(folder)
    encoder.train()
    text = objective.example_predictions(encoder)
    assert encoder.training and text == objective.example_predictions(encoder)
    headings = [line for line in text.splitlines() if line.startswith("## ")]
    assert headings[0] == "## skip_thought" and headings[-1] == "## nli (synthetic: generated pairs)"
    for name in ("fr", "de", "parse", "stn", "stp"):
        assert text.count(f"    {name} target ") == text.count(f"    {name} decoded") == 5
    assert text.count("    premise") == text.count("    predicted") == 5
    sources = [line.split("source", 1)[1].strip() for line in text.splitlines() if line.startswith("    source")]
    assert len(sources) == 20 and sources[0] in {line.lower() for line in LINES}
    task: Any = objective.tasks["fr"]
    output = task.decoders["fr"].output
    torch.nn.init.zeros_(output.weight)
    for token, decoded in ((END, "(nothing)"), (7, f"{' '.join([task.tokenizer.decode([7])] * 9)} ...")):
        with torch.no_grad():
            output.bias.zero_()[token] = 9.0  # so that every step predicts this token
        units = [PairUnit((np.array([9]),), np.array([8] * length)) for length in (2, 4)]
        assert [sample["fr decoded"] for sample in task.predict(encoder, units)] == [decoded] * 2


# Refusals


def test_a_vocabulary_without_frequent_words_is_refused(folder: Path) -> None:
    objective = small_gensen(tasks=["fr"], min_count=10_000)
    with pytest.raises(UserError) as error:
        objective.task_data(build_corpus(folder))
    assert error.value.key == "objective.min_count"


def test_each_task_samples_its_own_examples() -> None:
    with pytest.raises(TypeError, match="samples its own"):
        small_gensen().sample(None, None, None)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="collates its own"):
        small_gensen().collate([], None)  # type: ignore[arg-type]


@pytest.mark.slow
def test_french_is_predicted_better_than_by_word_frequencies(tmp_path: Path) -> None:
    files = {
        key: str(suite_data(f"parallel/multi30k/{name}.gz"))
        for key, name in {
            "source": "train.en",
            "target": "train.fr",
            "dev_source": "val.en",
            "dev_target": "val.fr",
        }.items()
    }
    objective = GenSen(tasks=["fr"], batch_size=48, word_size=64, vocab_size=5000, fr=files)
    tokenizer = train_word_level(objective.texts(), vocab_size=5000, min_count=2, lowercase=True, max_length=90)
    tokenizer.save_pretrained(tmp_path / "words")
    torch.manual_seed(0)
    encoder = GRU(hidden=32, word_size=64, tokenizer=tmp_path / "words")
    data = objective.task_data(build_corpus(tmp_path, tokenizer))["fr"]
    objective.build(encoder)
    task = objective.tasks["fr"]
    assert data.lengths is not None
    lengths = data.lengths[data.train.indices]
    train = Loader(data.units, data.train.indices, task, encoder.format, batch_size=48, seed=1, lengths=lengths)
    dev = Loader(data.units, data.dev.indices, task, encoder.format, batch_size=48, seed=1).fixed(8)
    optimizer = torch.optim.Adam([*encoder.parameters(), *objective.parameters()], lr=2e-3)
    encoder.train()
    for batch in train.iterate(0, 200):
        optimizer.zero_grad()
        objective.loss(encoder, batch).total.backward()
        optimizer.step()
    metrics = objective.dev_metrics(encoder, dev)
    assert metrics["dev_fr"] < metrics["dev_fr_unigram"] - 0.5


@pytest.mark.parametrize(
    ("settings", "key"),
    [
        ({"tasks": []}, "tasks"),
        ({"tasks": ["fr", "fr"]}, "tasks"),
        ({"tasks": ["stp", "fr"], "alpha": {"stp": 1, "fr": 1}}, "alpha"),
        ({"tasks": ["fr"], "alpha": {"fr": 0}}, "alpha"),
        ({"fr": {"source": "a.en"}}, "fr.source"),
        ({"nli": {}}, "nli.path"),
        ({"parse": {"gold": "/no/trees.mrg"}}, "parse.gold"),
    ],
    ids=str,
)
def test_settings_that_do_not_fit_are_refused(settings: dict[str, Any], key: str) -> None:
    with pytest.raises(UserError) as error:
        small_gensen(**settings)
    assert error.value.key == f"objective.{key}"
    small_gensen(tasks=["stn"], parse={"gold": "/no/where.mrg"})  # parsing is not among the tasks
