"""Every objective's YAML passes the common checks, and two processes give the gradient of one."""

from __future__ import annotations

import json
import random
from functools import partial
from pathlib import Path

import pytest
import torch

from experiments.config import CONFIGS
from objectives.gather import global_mean
from tests.checks.objective import check_objective, list_batches, open_parts
from tests.objectives.two_processes import Results, backward, check_against_one_process

SMALL = ("objective.word_size=8", "objective.classifier_width=8", "objective.synthetic_pairs=120")
PAIRS = ("objective.classifier_width=8", "objective.synthetic_pairs=120")
DROPOUT = ("encoder.layers=2", "encoder.dropout=0.1")
YAMLS = {path.stem: (f"objective={path.stem}",) for path in sorted((CONFIGS / "objective").glob("*.yaml"))}
MORE = {
    "gensen": SMALL,
    "nli": PAIRS,
    "tsdae": SMALL[:1],
    "language_model": ("encoder.bidirectional=false",),
    "simcse": DROPOUT,
    "conssent_mt": ("objective.classifier_width=8",),
}
CASES = {
    **{name: (*overrides, *MORE.get(name, ())) for name, overrides in YAMLS.items()},
    **{f"conssent {task}": ("objective=conssent", f"objective.task={task}", "objective.k=3") for task in "DPIRCN"},
    "bank": ("objective=declutr", "objective.memory_bank=20", "+objective.projection={width: 4}"),
    "nsp alone": ("objective=nsp", "objective.mlm_weight=0"),
    "sentence_bert": ("objective=nli", "objective.features=sentence_bert", *PAIRS),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder, rng = tmp_path_factory.mktemp("objectives"), random.Random(0)
    words = [f"{a}{b}" for a in ("ba", "ke", "li", "mo", "nu", "ra") for b in "dfgklmnrst"]
    with (folder / "corpus.jsonl").open("w") as file:
        for _ in range(50):
            sentences = [" ".join(rng.sample(words, rng.randint(6, 14))).capitalize() + "." for _ in range(12)]
            file.write(json.dumps({"text": " ".join(sentences)}) + "\n")
    return folder


@pytest.mark.parametrize("case", CASES)
def test_it_passes_the_checks(case: str, folder: Path) -> None:
    check_objective(open_parts(folder, *CASES[case]))


def gradients(rank: int, world: int, folder: Path) -> Results:
    """Returns, for each task, gradients and loss parts of a batch, of which each process has contiguous rows."""
    results: Results = {}
    for case in ("declutr", "bank", "conssent_mt", "gensen", "language_model", "nsp", "quick_thoughts", "tsdae"):
        torch.manual_seed(0)
        parts = open_parts(folder, *CASES[case], f"cache={folder / f'cache-{rank}-{world}'}")
        for number, batch in enumerate(list_batches(parts, rank, world)):
            for module in (parts.encoder, parts.objective):
                module.zero_grad()
                for layer in module.modules():
                    if isinstance(layer, torch.nn.Dropout):
                        layer.p = 0.0
            loss = parts.objective.loss(parts.encoder, batch)
            results[f"{case} {number}"] = backward(loss, world, parts.encoder, parts.objective)
    return results


def test_two_processes_give_the_gradient_of_one(folder: Path) -> None:
    check_against_one_process(partial(gradients, folder=folder), folder, rtol=1e-5, atol=1e-9)


def test_global_mean_of_one_process() -> None:
    total = torch.tensor(6.0, requires_grad=True)
    scaled, mean, count = global_mean(total, 4)
    scaled.backward()
    assert (float(scaled.detach()), float(mean), float(count)) == (1.5, 1.5, 4.0) and not mean.requires_grad
    assert total.grad is not None and float(total.grad) == 0.25
    assert [float(value) for value in global_mean(torch.zeros(()), 0)] == [0.0, 0.0, 0.0]  # without terms
