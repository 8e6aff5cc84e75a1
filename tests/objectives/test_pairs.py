"""Pairs with labels: the loss against sentence-transformers' and a naive loop, which texts make an example."""

from __future__ import annotations

import json
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sentence_transformers.sentence_transformer.losses import MultipleNegativesRankingLoss
from torch import Tensor
from torch.nn import functional as F

from data.errors import UserError
from data.randomness import generator
from objectives.pairs import Pairs, rank_pairs
from tests.data import samples
from tests.objectives.gradients import assert_same_gradient, backward, sample_batch
from tests.tiny_encoder import FORMAT, TinyEncoder, documents

SYMMETRIC: Any = {"directions": ("query_to_doc", "doc_to_query"), "partition_mode": "per_direction"}
CASES = (st.integers(2, 9), st.booleans(), st.booleans(), st.integers(0, 1000))


def sample_vectors(n: int, negatives: bool, seed: int) -> Tensor:
    """Returns vectors of ``n`` anchors, positives and perhaps negatives, of shape (n, 2 or 3, D)."""
    rng = torch.Generator().manual_seed(seed)
    return torch.randn(n, 2 + negatives, 6, generator=rng, dtype=torch.float64, requires_grad=True)


@settings(max_examples=40)
@given(*CASES)
def test_value_and_gradient_equal_sentence_transformers(n: int, negatives: bool, both: bool, seed: int) -> None:
    vectors = sample_vectors(n, negatives, seed)
    texts = torch.arange(vectors[..., 0].numel()).view(n, -1)
    ours, _ = rank_pairs(vectors, texts, temperature=1 / 20, both_directions=both)
    theirs = MultipleNegativesRankingLoss(torch.nn.Identity(), scale=20, **SYMMETRIC if both else {})  # type: ignore[arg-type]
    expected = theirs.compute_loss_from_embeddings([*vectors.unbind(1)], labels=torch.empty(0))
    assert_same_gradient(ours, expected, [vectors], atol=1e-10, rtol=1e-8)


@settings(max_examples=60)
@given(*CASES, st.integers(2, 30))
def test_duplicates_are_no_negatives(n: int, negatives: bool, both: bool, seed: int, most: int) -> None:
    vectors = sample_vectors(n, negatives, seed)
    texts = np.random.default_rng(seed).integers(0, most, (vectors.shape[1], n))
    terms, right = [], []
    for i, reverse in product(range(n), (False, True)[: 1 + both]):
        cosine = F.cosine_similarity(vectors[i, 0], vectors[i, 1], dim=0)
        others = [cosine]
        for role, j in product((0,) if reverse else range(1, len(texts)), range(n)):
            same = texts[role][j] in texts[:2, i] or (role < 2 and texts[1 - role][j] == texts[1 - role][i])
            if not same:
                others.append(F.cosine_similarity(vectors[i, int(reverse)], vectors[j, role], dim=0))
        terms.append(torch.logsumexp(torch.stack(others) / 0.05, 0) - cosine / 0.05)
        right += [] if reverse else [bool(cosine >= max(others))]
    numbers = torch.from_numpy(texts.T)
    ours, accuracy = rank_pairs(vectors, numbers, temperature=0.05, both_directions=both)
    assert_same_gradient(ours, torch.stack(terms).mean(), [vectors])
    assert accuracy.item() == pytest.approx(np.mean(right))


def test_gradient_caching_equals_the_whole_batch() -> None:
    torch.manual_seed(0)
    encoder, units = TinyEncoder(), [[text] for text in documents(24, 14)]
    results = []
    for chunk in (None, 40):
        objective = Pairs(batch_size=8, cache_chunk=chunk)
        batch = sample_batch(objective, [units[i::8] for i in range(8)])
        encoder.double().zero_grad()
        results.append(backward(objective.loss(encoder, batch), 1, encoder))
    torch.testing.assert_close(*results, rtol=1e-10, atol=1e-13)
    assert batch.tokens.keys() == {"anchor", "positive", "negative"} and batch.size == 8


def list_examples(folder: Path, **arguments: Any) -> set[tuple[str, ...]]:
    """Returns the texts of all examples that several draws from the training part give."""
    tokenizer: Any = samples.tokenizer()
    objective = Pairs(**arguments)
    corpus: Any = SimpleNamespace(tokenizer=tokenizer, cache=folder / "cache", progress=print)
    data = objective.task_data(corpus)[objective.task]
    rows = [
        objective.sample(data.units[int(i)], FORMAT, generator(step))
        for i in data.train.indices
        for step in range(20)
    ]
    return {tuple(tokenizer.decode(row[1:-1]).strip() for [row] in example.rows.values()) for example in rows}


def test_hard_negatives_are_contradicted_hypotheses_of_the_same_premise(tmp_path: Path) -> None:
    rows = ["a entailment c", "a contradiction d", "a contradiction e", "a neutral f", "b entailment g"]
    keys = ("sentence1", "gold_label", "sentence2")
    nli = {"path": str(tmp_path / "train.jsonl"), "dev_path": str(tmp_path / "dev.jsonl")}
    for path in map(Path, nli.values()):
        path.write_text("".join(f"{json.dumps(dict(zip(keys, row.split(), strict=True)))}\n" for row in rows))
    assert list_examples(tmp_path, nli=nli) == {("a", "c", "d"), ("a", "c", "e")}
    assert list_examples(tmp_path, nli=nli, hard_negatives=False) == {("a", "c"), ("b", "g")}
    with pytest.raises(UserError) as error:
        Pairs(nli=nli, pairs=nli)
    assert error.value.key == "objective.pairs"


def test_duplicate_questions_are_pairs(tmp_path: Path) -> None:
    for name in ("train", "dev"):
        (tmp_path / f"{name}.tsv").write_text("is_duplicate\tone\tother\n1\ta\tb\n0\ta\tc\n1\td\te\n")
    pairs = {name: str(tmp_path / f"{part}.tsv") for name, part in (("path", "train"), ("dev_path", "dev"))}
    settings = {**pairs, "languages": ("one", "other"), "label": "is_duplicate"}
    assert list_examples(tmp_path, pairs=settings) == {("a", "b"), ("d", "e")}
    assert Pairs(batch_size=8, pairs=settings).facts() == {"negatives per anchor": 7}
