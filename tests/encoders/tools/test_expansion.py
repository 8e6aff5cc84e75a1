"""Expansion of vocabularies by a linear map from other word vectors (Kiros et al. 2015)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.linear_model import LinearRegression

import encoders
from data.batch import Tokens
from data.errors import UserError
from data.vectors import WordVectors
from encoders.bag_of_words import BagOfWords
from encoders.bilstm_max import BiLSTMMax
from encoders.gru import GRU
from encoders.recurrent import Recurrent
from encoders.tools import expansion
from encoders.tools.expansion import expand
from tests.encoders.bilstms import SENTENCES
from tests.real_data import suite_data

KNOWN = [f"w{number}" for number in range(60)]
NEW = ["zebra", "okapi", "o'brien", "u.s."]


def texts() -> list[str]:
    return [" ".join(KNOWN[: number + 1]) for number in range(60)]  # w0 is the most frequent word


def tiny(kind: type[Recurrent] = GRU, **arguments: Any) -> Any:
    torch.manual_seed(3)
    defaults: dict[str, Any] = {
        "hidden": 4,
        "word_size": 6,
        "min_count": 1,
        "lowercase": kind is GRU,
        "texts": texts,
    }
    return kind(**defaults | arguments)


@pytest.fixture
def make_vectors(tmp_path: Path) -> Any:
    """Returns a function that writes word vectors and sets the encoder's to an affine map of them plus noise."""

    def make(encoder: Recurrent, words: list[str], noise: float = 0.0, width: int = 3) -> WordVectors:
        rng = np.random.default_rng(1)
        rows = rng.normal(size=(len(words), width)).round(3)
        matrix, constant = rng.normal(size=(width, 6)), rng.normal(size=6)
        with torch.no_grad():
            for word, row in zip(words, rows, strict=True):
                if word in encoder.tokenizer.get_vocab():
                    mapped = row @ matrix + constant + noise * rng.normal(size=6)
                    encoder.embedding.weight[encoder.tokenizer.convert_tokens_to_ids(word)] = torch.tensor(mapped)
        path = tmp_path / "vectors.txt"
        path.write_text("".join(f"{w} {' '.join(map(str, row))}\n" for w, row in zip(words, rows, strict=True)))
        return WordVectors(path)

    return make


@pytest.mark.parametrize("kind", [GRU, BiLSTMMax])
def test_a_linear_map_between_vocabularies_is_recovered(kind: type[Recurrent], make_vectors: Any) -> None:
    encoder = tiny(kind)
    vectors = make_vectors(encoder, [*NEW, *KNOWN[:40], "well-known?", "don't", "</s>"])
    before = encoder.embedding.weight.detach().clone()
    expanded, report = expand(encoder, vectors, "vectors.txt")
    assert (report.shared, report.added, report.held_out) == (40, 4, 4)
    assert report.cosine == pytest.approx(1, abs=1e-5) and report.r2 == pytest.approx(1, abs=1e-5)
    size = len(encoder.tokenizer)
    assert len(expanded.tokenizer) == expanded.format.vocab_size == len(expanded.embedding.weight) == size + 4
    ids = expanded.tokenizer.convert_tokens_to_ids(NEW)
    assert ids == [size, size + 1, size + 2, size + 3]  # in the order of the file
    assert expanded.tokenizer.get_vocab().items() >= encoder.tokenizer.get_vocab().items()
    assert torch.equal(expanded.embedding.weight[:size], before) and torch.equal(encoder.embedding.weight, before)
    regression = LinearRegression().fit(
        vectors.vectors[4:44].double(), before[encoder.tokenizer.convert_tokens_to_ids(KNOWN[:40])].double()
    )
    predicted = regression.predict(vectors.vectors[:4].double())
    np.testing.assert_allclose(expanded.embedding.weight[size:].detach(), predicted, atol=1e-5)


def test_old_words_encode_as_before_and_new_ones_differ(make_vectors: Any, tmp_path: Path) -> None:
    encoder = tiny(require_mask_token=True, max_length=30)
    expanded, _ = expand(encoder, make_vectors(encoder, [*NEW, *KNOWN]), "vectors.txt")
    known = ["w3 w5 w1", "w0", "", "w7 unheard w8", *SENTENCES]
    np.testing.assert_array_equal(expanded.encode(known), encoder.encode(known))
    new = ["w3 zebra w1", "w3 okapi w1", "w3 o'brien w1", "w3 U.S. w1"]
    assert len(np.unique(encoder.encode(new), axis=0)) == 1  # all unknown
    assert len(np.unique(expanded.encode(new), axis=0)) == 4
    assert not expanded.has_mlm_head and encoder.has_mlm_head
    assert expanded.format.max_length == 30 and expanded.format.prefix == encoder.format.prefix
    expanded.save(tmp_path / "expanded")
    reloaded = encoders.load(tmp_path / "expanded")
    assert type(reloaded) is GRU
    np.testing.assert_array_equal(reloaded.encode(new), expanded.encode(new))
    ids = [np.array(row) for row in expanded.tokenizer(new)["input_ids"]]
    expanded.train()(Tokens.pad(ids, 1)).sentence.sum().backward()
    assert expanded.embedding.weight.grad is not None and encoder.embedding.weight.grad is None


def test_the_exact_form_of_a_word_is_preferred_to_another_case(make_vectors: Any) -> None:
    encoder = tiny()
    vectors = make_vectors(encoder, ["Zebra", "OKAPI", *KNOWN, "okapi", "Okapi"])
    expanded, report = expand(encoder, vectors, "vectors.txt")
    assert report.added == 2
    new_vectors = expanded.embedding.weight[expanded.tokenizer.convert_tokens_to_ids(["zebra", "okapi"])].detach()
    cased, _ = expand(tiny(lowercase=False), vectors, "vectors.txt")
    assert {"Zebra", "OKAPI", "okapi", "Okapi"} <= cased.tokenizer.get_vocab().keys()
    sources = vectors.vectors[[0, vectors.stoi["okapi"]]].double()
    regression = LinearRegression().fit(
        vectors.vectors[2:62].double(),
        encoder.embedding.weight.detach()[encoder.tokenizer.convert_tokens_to_ids(KNOWN)].double(),
    )
    np.testing.assert_allclose(new_vectors, regression.predict(sources), atol=1e-5)


def test_the_fit_is_measured_on_held_out_words(make_vectors: Any) -> None:
    encoder = tiny()
    words = [*KNOWN, "zebra"]
    exact = expand(encoder, make_vectors(encoder, words, noise=0.0, width=30), "a")[1]
    noisy = expand(encoder, make_vectors(encoder, words, noise=3.0, width=30), "a")[1]
    assert exact.r2 > 0.999 > 0.9 > noisy.r2 and exact.cosine > noisy.cosine
    assert noisy.held_out == 6  # on the 54 words of the fit, 30 dimensions fit even the noise almost perfectly


def test_too_few_shared_words_are_refused(make_vectors: Any) -> None:
    encoder = tiny()
    with pytest.raises(UserError):
        expand(encoder, make_vectors(encoder, [*KNOWN[:9], *NEW]), "v.txt")
    with pytest.raises(UserError):
        expand(encoder, make_vectors(encoder, [*KNOWN[:20], *NEW], width=30), "v.txt")
    with pytest.raises(UserError):
        expand(encoder, make_vectors(encoder, KNOWN), "v.txt")


def test_the_command_expands_a_folder(
    make_vectors: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    encoder = tiny(BiLSTMMax)
    make_vectors(encoder, [*NEW, *KNOWN])
    encoder.save(tmp_path / "old", card="---\ntags:\n- a\n---\n\n# Old\n\n## Data\n\nbooks\n")
    file, new = str(tmp_path / "vectors.txt"), tmp_path / "new"
    assert expansion.main([str(tmp_path / "old"), file, str(new)]) == 0
    output = capsys.readouterr().out
    assert "shared      60 words" in output and "added       4 words to 65" in output
    assert "cosine 1.000, R^2 1.000 on 6 shared words held out" in output
    reloaded = encoders.load(new)
    assert len(reloaded.tokenizer) == 69 and "expanded to 69 words by vectors.txt" in reloaded.origin
    card = (new / "README.md").read_text()
    assert "| expansion.added | 4 |" in card and "expanded to 69 words" in card
    assert card.endswith("## Before the expansion\n\n## Old\n\n### Data\n\nbooks\n") and "kiros" in card
    opened = pytest.importorskip("sentence_transformers").SentenceTransformer(str(new), device="cpu")
    np.testing.assert_allclose(opened.encode(["w3 zebra w1"]), reloaded.encode(["w3 zebra w1"]), atol=1e-5)

    BagOfWords(vectors=file).save(tmp_path / "bag")
    other = tmp_path / "other"
    for model, words, folder, name in (
        ("bag", file, other, "bag"),
        ("absent", file, other, "absent"),
        ("old", str(tmp_path / "absent.txt"), other, "absent.txt"),
        ("old", file, new, "new"),
    ):
        assert expansion.main([str(tmp_path / model), words, str(folder)]) == 2
        error = capsys.readouterr().err
        assert str(tmp_path / name) in error and error.count("\n") == 1
        assert not other.exists()


def test_expansion_with_real_words_and_vectors() -> None:
    path = suite_data("embeddings/glove.100d.10k.txt.gz")
    lines = suite_data("senteval/downstream/CR/custrev.pos").read_text("latin-1").splitlines()
    vectors = WordVectors(path)
    encoder = GRU(hidden=8, word_size=20, texts=lambda: lines, min_count=1)
    # Stands in for training on this text: a linear map of GloVe's vectors, plus noise.
    known = encoder.tokenizer.get_vocab()
    matrix = torch.randn(100, 20, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        for word, row in known.items():
            encoder.embedding.weight[row] += 0.05 * vectors.get_vecs_by_tokens(word) @ matrix
    expanded, report = expand(encoder, vectors, path.name)
    assert report.shared > 1000 and report.shared + report.added > 0.95 * len(vectors.words)
    assert report.cosine > 0.8 and len(expanded.tokenizer) == len(known) + report.added


def test_words_are_mapped_block_by_block(make_vectors: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    encoder = tiny()
    vectors = make_vectors(encoder, [*KNOWN, *(f"z{number}" for number in range(50))])
    at_once, _ = expand(encoder, vectors, "v.txt")
    sizes: list[int] = []
    double = torch.Tensor.double

    def recorded(tensor: torch.Tensor) -> torch.Tensor:
        sizes.append(len(tensor))
        return double(tensor)

    monkeypatch.setattr(expansion, "BLOCK", 8)
    monkeypatch.setattr(torch.Tensor, "double", recorded)
    in_blocks, _ = expand(encoder, vectors, "v.txt")
    assert (
        torch.equal(in_blocks.embedding.weight, at_once.embedding.weight)
        and not in_blocks.embedding.weight.isnan().any()
    )
    assert sorted(sizes) == [2, *[8] * 6, 60, 60]  # never all 110 words of the file at once
