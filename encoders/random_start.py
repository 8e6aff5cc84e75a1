"""An untrained transformer of any family and size, and the tokenizers that random starts train on the corpus."""

from __future__ import annotations

import dataclasses
import difflib
import math
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import torch
from filelock import FileLock
from pydantic import Field
from torch import nn

from data import vocabulary
from data.errors import UserError, reason
from data.ranges import WIDEST
from data.schema import fault
from data.sources.base import fingerprint
from data.tokenizer import VERSION, train_bpe
from encoders.folder import check_counts, check_tokenizer, check_vocabulary, contained, hidden_panics, readable
from encoders.layout import atomic_folder

if TYPE_CHECKING:
    from transformers import PretrainedConfig, PreTrainedModel, PreTrainedTokenizerFast

TEACHING = {"num_hidden_layers": 4, "hidden_size": 256, "num_attention_heads": 4, "intermediate_size": 1024}
POSITIONS = 512
Units = Annotated[int, Field(ge=0, le=WIDEST)]

# Of heads that begin with neighbours: wavelengths in tokens, and the factor of their scores.
SHORTEST_WAVE, LONGEST_WAVE, SHARPNESS = 4.0, 400.0, 4.0

# Where the published models of a family differ from the defaults of its configuration class.
_OWN: dict[str, dict[str, Any]] = {
    "roberta": {"type_vocab_size": 1, "layer_norm_eps": 1e-5},
    "albert": {"embedding_size": 128},
}
_SPECIAL_IDS = ("bos_token_id", "eos_token_id", "cls_token_id", "sep_token_id")
_RENAMED = {"distilbert": {"intermediate_size": "hidden_dim"}}

# Families that count positions from the id of the padding token on (fairseq's habit).
PADDED_POSITIONS = frozenset({"roberta", "roberta-prelayernorm", "xlm-roberta", "camembert", "mpnet", "xmod"})


def configuration(shape: Mapping[str, Any], tokenizer: PreTrainedTokenizerFast) -> PretrainedConfig:
    """The configuration of the family ``shape["model_type"]`` with the sizes of ``shape``.

    Args:
        shape: "model_type", and arguments of the family's configuration class (num_hidden_layers,
            hidden_size, num_attention_heads, intermediate_size, ...).
        tokenizer: gives the vocabulary's size and the special tokens' ids.

    Raises:
        ValueError: if the family or an argument is unknown, or a value is refused.
    """
    from transformers import CONFIG_MAPPING

    sizes = dict(shape)
    model_type = sizes.pop("model_type", None)
    if model_type not in CONFIG_MAPPING:
        raise ValueError(f"encoder.shape.model_type must be a transformers family. Got {model_type} instead.")
    kind = CONFIG_MAPPING[model_type]
    renamed = _RENAMED.get(model_type, {})
    known = {field.name for field in dataclasses.fields(kind)} | set(kind.attribute_map) | set(renamed)
    for key in sizes:
        if key not in known:
            near = difflib.get_close_matches(key, known, n=1)
            hint = f"; did you mean {near[0]}?" if near else "."
            raise ValueError(f"encoder.shape.{key}: {kind.__name__} has no such argument{hint}")
    pad = tokenizer.pad_token_id
    check_counts(sizes, "encoder.shape")
    for key, value in sizes.items():
        if key.endswith("_size") and isinstance(value, int) and (line := fault(Units, value)):
            raise ValueError(f"encoder.shape.{key} {line}")
    offset = pad + 1 if model_type in PADDED_POSITIONS else 0
    settings: dict[str, Any] = {
        "max_position_embeddings": POSITIONS + offset,
        **_OWN.get(model_type, {}),
        **{renamed.get(key, key): value for key, value in sizes.items()},
        "vocab_size": len(tokenizer),
        "pad_token_id": pad,
        **{key: getattr(tokenizer, key) for key in _SPECIAL_IDS if key in known},
    }
    try:
        return kind(**settings)
    except Exception as error:
        raise ValueError(f"encoder.shape: {kind.__name__} refuses it: {_last_line(error)}") from error


def describe(config: PretrainedConfig) -> str:
    """One line on an untrained model's size."""
    return (
        f"random {config.model_type}, {config.num_hidden_layers} layers x {config.hidden_size}, "
        f"vocabulary of {config.vocab_size}"
    )


def begin_with_neighbours(model: PreTrainedModel) -> None:
    """Lets an untrained ``model`` look at the neighbours of a token from the first step on.

    The last dimensions of its embeddings, as many as a head has, hold a token's place as waves, and no words. The
    heads of the first layer begin as rotations of these waves: the first looks at the token before, the second
    at the one after, the next two at those beyond, each with most of its attention. Masked words are guessed from
    their neighbours above all, and heads that begin at random are long in finding them. Everything else begins as
    the family has it, and all of it is trained.

    Raises:
        ValueError: if the family has no learned position embeddings or other attention than BERT's, or an odd
            number of dimensions a head.

    References: Vaswani et al. (2017), "Attention Is All You Need", section 3.5: sinusoids, of which a shift is a
    rotation; here of wavelengths from ``SHORTEST_WAVE`` to ``LONGEST_WAVE`` tokens.
    """
    body: Any = model.base_model
    table = getattr(getattr(body, "embeddings", None), "position_embeddings", None)
    layers: Any = getattr(getattr(body, "encoder", None), "layer", None)
    first = getattr(getattr(layers[0] if layers else None, "attention", None), "self", None)
    if table is None or first is None or head_size(model) % 2:
        raise ValueError(f"encoder.heads=neighbours: a {model.config.model_type} has no such positions or heads.")
    size = head_size(model)
    deviation = model.config.initializer_range
    lengths = torch.logspace(math.log10(SHORTEST_WAVE), math.log10(LONGEST_WAVE), size // 2, dtype=torch.float64)
    steps = 2 * math.pi / lengths  # radians a token
    angles = torch.arange(table.weight.shape[0])[:, None] * steps
    with torch.no_grad():
        for embedding in body.embeddings.children():
            if isinstance(embedding, nn.Embedding):
                embedding.weight[:, -size:] = 0.0
        table.weight[:, :-size] = 0.0
        table.weight[:, -size:] = torch.cat([angles.sin(), angles.cos()], dim=1) * 2**0.5 * deviation
        layers[0].attention.output.dense.weight[-size:] = 0.0  # what is read does not cover the places
        identity = torch.eye(size // 2, dtype=torch.float64)
        for head in range(first.num_attention_heads):
            shift = (head // 2 + 1) * (1 if head % 2 else -1)
            cosine, sine = torch.diag((shift * steps).cos()), torch.diag((shift * steps).sin())
            rows = slice(head * size, (head + 1) * size)
            for projection, values in (
                (first.query, torch.cat([torch.cat([cosine, sine], 1), torch.cat([-sine, cosine], 1)])),
                (first.key, torch.block_diag(identity, identity)),
            ):
                projection.weight[rows] = 0.0
                projection.weight[rows, -size:] = (SHARPNESS**0.5 * values).to(projection.weight.dtype)


def head_size(model: PreTrainedModel) -> int:
    """Dimensions of one attention head."""
    return int(model.config.hidden_size // model.config.num_attention_heads)


def begin_with_words(model: Any, vectors: np.ndarray, special_ids: Iterable[int]) -> None:
    """Gives the word embeddings of an untrained ``model`` ``vectors``, of shape (V, D) and standard deviation 1.

    They are scaled to the initialiser's; special tokens keep their random ones, and so do dimensions beyond D.
    """
    table = model.get_input_embeddings().weight
    ordinary = np.setdiff1d(np.arange(len(vectors)), list(special_ids))
    with torch.no_grad():
        table[ordinary, : vectors.shape[1]] = torch.from_numpy(vectors[ordinary]) * model.config.initializer_range


def corpus_tokenizer(
    texts: Callable[[], Iterable[str]],
    vocab_size: int,
    max_length: int,
    cache: Path | None,
    texts_key: Callable[[], str] | None,
) -> PreTrainedTokenizerFast:
    """A byte-level BPE trained on ``texts()``, kept under ``cache`` by what it was trained on.

    ``texts_key()`` stands for the texts, so that they need not be read again; None: they are read and hashed.
    A second process that asks for the same tokenizer waits for the first.

    Raises:
        UserError: if ``cache`` is not writable.
    """
    return _kept(
        "bpe",
        (VERSION, f"{vocab_size} {max_length}"),
        lambda: train_bpe(texts(), vocab_size=vocab_size, max_length=max_length),
        texts,
        texts_key,
        cache,
    )


def corpus_vocabulary(
    texts: Callable[[], Iterable[str]],
    vocab_size: int,
    min_count: int,
    lowercase: bool,
    max_length: int,
    cache: Path | None,
    texts_key: Callable[[], str] | None,
    *,
    symbols: bool = False,
) -> PreTrainedTokenizerFast:
    """The words of ``texts()`` as a tokenizer (``data.vocabulary``), kept as ``corpus_tokenizer`` keeps its own.

    Raises:
        UserError: if ``cache`` is not writable, or no word is frequent enough.
    """
    return _kept(
        "words",
        (vocabulary.VERSION, f"{vocab_size} {min_count} {lowercase} {max_length}{' symbols' if symbols else ''}"),
        lambda: vocabulary.train_word_level(
            texts(),
            vocab_size=vocab_size,
            min_count=min_count,
            lowercase=lowercase,
            symbols=symbols,
            max_length=max_length,
        ),
        texts,
        texts_key,
        cache,
    )


def _kept(
    kind: str,
    identity: tuple[str, ...],
    train: Callable[[], PreTrainedTokenizerFast],
    texts: Callable[[], Iterable[str]],
    texts_key: Callable[[], str] | None,
    cache: Path | None,
) -> PreTrainedTokenizerFast:
    """What ``train`` makes of ``texts``, kept under ``cache`` as a ``kind`` by ``identity`` and the texts."""
    if cache is None:
        return train()
    names = texts() if texts_key is None else [texts_key()]
    folder = cache / f"{kind}-{fingerprint(*identity, *names)}"
    if not folder.is_dir():
        try:
            cache.mkdir(parents=True, exist_ok=True)
            with FileLock(cache / f"{folder.name}.lock"):
                if not folder.is_dir():
                    tokenizer = train()
                    with atomic_folder(folder) as unfinished:
                        tokenizer.save_pretrained(unfinished)
        except OSError as error:
            raise UserError(f"The tokenizer could not be kept in {cache}: {reason(error)}.") from error
    return kept_tokenizer(folder)


def kept_tokenizer(folder: Path) -> PreTrainedTokenizerFast:
    """The tokenizer that ``save_pretrained`` wrote into ``folder``.

    Raises:
        UserError: if it cannot be opened.
    """
    from transformers import PreTrainedTokenizerFast

    with readable(folder, "a tokenizer"):
        if not folder.is_dir():
            raise FileNotFoundError("there is no such folder")
        check_tokenizer(contained(folder))
        with hidden_panics():
            tokenizer = PreTrainedTokenizerFast.from_pretrained(folder, local_files_only=True)
        check_vocabulary(folder, tokenizer, len(tokenizer))
        if tokenizer.pad_token_id is None:
            raise ValueError("it has no padding token")
        return tokenizer


def _last_line(error: Exception) -> str:
    return str(error).strip().splitlines()[-1].strip()
