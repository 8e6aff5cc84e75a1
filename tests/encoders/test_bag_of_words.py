"""Means of word vectors: SentEval's bow.py as the reference, case, exports, refusals."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import encoders
from data.batch import Tokens
from data.errors import UnfitError, UserError
from data.sources.text import Text
from data.store import prepare
from data.vectors import WordVectors
from encoders.bag_of_words import BagOfWords
from tests.real_data import suite_data

WORDS = {
    "the": [1.0, 2.0],
    "Cat": [3.0, -1.0],
    "a": [0.5, 0.25],
    "I": [8.0, 8.0],
    ".": [-1.0, 0.0],
    "été": [7.0, 5.0],
}
SENTENCES = [
    "the Cat .",
    "",
    "the cat sat",
    "nothing known here",
    "aaa Ia a.a",
    "été été the été",
    "  the\tCat\u00a0. ",
    "the " * 700,
]


def write_vectors(folder: Path) -> str:
    path = folder / "words.txt"
    path.write_text(
        "".join(f"{word} {' '.join(map(str, row))}\n" for word, row in WORDS.items()), encoding="utf-8"
    )
    return str(path)


@pytest.fixture
def encoder(tmp_path: Path) -> BagOfWords:
    return BagOfWords(vectors=write_vectors(tmp_path))


def bow_mean(sentence: str, words: dict[str, list[float]] = WORDS) -> np.ndarray:
    """Returns the vector of SentEval's examples/bow.py: the mean over known words, zeros without any."""
    found = [words[word] for word in sentence.split() if word in words]
    return np.mean(found, axis=0) if found else np.zeros(2)


def test_the_vector_is_the_mean_over_known_words(encoder: BagOfWords) -> None:
    vectors = encoder.encode(SENTENCES)
    assert vectors.dtype == np.float32 and encoder.dimension == 2
    np.testing.assert_allclose(vectors, [bow_mean(sentence) for sentence in SENTENCES], rtol=1e-6)
    np.testing.assert_array_equal(vectors[[1, 3, 4]], 0)
    np.testing.assert_array_equal(encoder.encode(["", "x"]), np.zeros((2, 2)))
    assert encoder.encode([]).shape == (0, 2)


@given(st.lists(st.sampled_from([*WORDS, "The", "aI", "caté", "..", "\u2581the"]), max_size=8))
def test_the_vector_is_the_mean_for_any_words(tmp_path_factory: pytest.TempPathFactory, words: list[str]) -> None:
    sentence = " ".join(words)
    [vector] = BagOfWords(vectors=write_vectors(tmp_path_factory.mktemp("bag"))).encode([sentence])
    np.testing.assert_allclose(vector, bow_mean(sentence), rtol=1e-5, atol=1e-6)


def test_words_are_looked_up_as_written_or_in_lower_case(tmp_path: Path) -> None:
    as_is, lower = (
        BagOfWords(vectors=write_vectors(tmp_path), lowercase=lowercase) for lowercase in (False, True)
    )
    np.testing.assert_array_equal(as_is.encode(["THE", "Cat"]), [[0, 0], [3, -1]])
    np.testing.assert_array_equal(lower.encode(["THE", "Cat", "ÉTÉ"]), [[1, 2], [0, 0], [7, 5]])
    lower.save(tmp_path / "encoder")
    np.testing.assert_array_equal(encoders.load(tmp_path / "encoder").encode(["THE"]), [[1, 2]])


@pytest.mark.parametrize("lowercase", [False, True])
def test_an_export_opens_here_and_in_sentence_transformers(lowercase: bool, tmp_path: Path) -> None:
    sentence_transformers = pytest.importorskip("sentence_transformers")
    encoder = BagOfWords(vectors=write_vectors(tmp_path), lowercase=lowercase)
    vectors = encoder.encode(SENTENCES)
    encoder.save(tmp_path / "runs" / "encoder")
    opened = sentence_transformers.SentenceTransformer(str(tmp_path / "runs" / "encoder"), device="cpu")
    np.testing.assert_allclose(opened.encode(SENTENCES), vectors, atol=1e-5)
    reloaded = encoders.load(tmp_path / "runs" / "encoder")
    assert isinstance(reloaded, BagOfWords) and not reloaded.training
    np.testing.assert_array_equal(reloaded.encode(SENTENCES), vectors)
    assert (reloaded.weights, reloaded.format) == ("pretrained", encoder.format)
    assert reloaded.origin == f"continued from {tmp_path / 'runs' / 'encoder'}; before that: {encoder.origin}"
    assert encoder.origin == f"word vectors of {tmp_path / 'words.txt'}, 6 x 2"


def test_vectors_of_real_sentences_equal_sentevals_bow(tmp_path: Path) -> None:
    path = suite_data("embeddings/glove.100d.10k.txt.gz")
    lines = suite_data("senteval/downstream/CR/custrev.pos").read_text("latin-1").splitlines()[:500]
    sentences = [" ".join(line.split()) for line in lines]
    glove = WordVectors(path)
    table = {word: glove.vectors[row].double().numpy() for word, row in glove.stoi.items()}
    expected = [
        np.mean([table[word] for word in sentence.split() if word in table] or [np.zeros(100)], axis=0)
        for sentence in sentences
    ]
    encoder = BagOfWords(vectors=str(path))
    np.testing.assert_allclose(encoder.encode(sentences), expected, atol=1e-6)
    encoder.save(tmp_path / "encoder")
    opened = pytest.importorskip("sentence_transformers").SentenceTransformer(
        str(tmp_path / "encoder"), device="cpu"
    )
    np.testing.assert_allclose(opened.encode(sentences), expected, atol=1e-5)


def test_the_word_vectors_receive_gradients(encoder: BagOfWords) -> None:
    ids = [np.array(encoder.tokenizer("the Cat zzz .")["input_ids"]), np.array([2])]
    assert ids[0].tolist() == [0, 1, 4]
    encoding = encoder(Tokens.pad(ids, encoder.format.pad_id))
    assert encoding.states.shape == (2, 3, 2)
    np.testing.assert_allclose(encoding.sentence[0].detach().numpy(), bow_mean("the Cat ."), rtol=1e-6)
    encoding.sentence.sum().backward()
    gradient = encoder.embedding.weight.grad
    assert gradient is not None
    np.testing.assert_allclose(gradient[:, 0].numpy(), [1 / 3, 1 / 3, 1, 0, 1 / 3, 0], rtol=1e-6)
    with torch.no_grad():
        encoder.embedding.weight[0] += 1.0
    np.testing.assert_array_equal(encoder.encode(["the"]), [[2, 3]])


def test_a_corpus_is_tokenised_to_its_known_words(encoder: BagOfWords, tmp_path: Path) -> None:
    (tmp_path / "corpus.txt").write_text("the Cat said\nthe a .\n")
    store = prepare(Text(path=str(tmp_path / "corpus.txt")), encoder.tokenizer, cache=tmp_path / "stores")
    assert sorted(store[number].tolist() for number in range(len(store))) == [[0, 1], [0, 2, 4]]


def test_saving_replaces_only_an_encoders_folder(encoder: BagOfWords, tmp_path: Path) -> None:
    encoder.save(tmp_path / "encoder")
    encoder.save(tmp_path / "encoder", card="# A card\n")
    assert (tmp_path / "encoder" / "README.md").read_text() == "# A card\n"
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "thesis.tex").write_text("years of work")
    with pytest.raises(UserError):
        encoder.save(tmp_path / "thesis")


def test_impossible_arguments_are_refused(encoder: BagOfWords, tmp_path: Path) -> None:
    words = write_vectors(tmp_path)
    with pytest.raises(UnfitError):
        BagOfWords(vectors=words, require_mask_token=True)
    with pytest.raises(UserError):
        BagOfWords()
    with pytest.raises(UserError):
        BagOfWords(vectors=words, weights="random")
    with pytest.raises(UserError):
        BagOfWords(vectors=str(tmp_path / "absent.txt"))
    with pytest.raises(UserError):
        BagOfWords(path=str(tmp_path / "absent"))
    with pytest.raises(ValueError):
        encoder.token_logits(torch.zeros(1, 2))
    encoder.save(tmp_path / "encoder")
    with pytest.raises(UserError):
        encoders.load(tmp_path / "encoder", pooling="max")
    tokenizer = tmp_path / "encoder" / "tokenizer.json"
    content = json.loads(tokenizer.read_text(encoding="utf-8"))
    del content["model"]["vocab"][" été"]
    tokenizer.write_text(json.dumps(content), encoding="utf-8")
    with pytest.raises(UserError):
        encoders.load(tmp_path / "encoder")
