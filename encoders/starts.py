"""Initial weights of encoders: from a folder, the hub or its cache, the bundled checkpoints, or random.

A random start also needs a vocabulary, which is made from the corpus and cached.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from huggingface_hub import errors, get_hf_file_metadata, hf_hub_url, snapshot_download
from huggingface_hub.utils import tqdm

from data import network
from data.errors import UnfitError, UserError, reading
from data.files import read_json
from data.token_format import TokenFormat, separator
from data.tokenizer import check_vocabulary, corpus_tokenizer, load_tokenizer
from encoders.dense import Dense
from encoders.folder import BUNDLED, HEAD, MARKER, continued, read_marker
from encoders.layout import Layout, read_layout

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

CHECKPOINTS = Path(__file__).parent / "checkpoints"
KNOWN = ("roberta-base", "distilroberta-base", "bert-base-uncased", "albert-base-v2")  # suggested after a typo
WEIGHTS = "*model*.safetensors"
SETTINGS = ("*.json", "*.txt", "*.model")  # all files of a model on the hub except weights
# Sizes of the random model that is built if the weights of a published one are not available.
FALLBACK_SHAPE = {"num_hidden_layers": 4, "hidden_size": 256, "num_attention_heads": 4, "intermediate_size": 1024}


@dataclass(frozen=True)
class Source:
    """Weights to start from.

    Attributes:
        folder: a model's folder, or None for random weights.
        weights: "pretrained", "own" (a folder of the user's), "bundled" or "random".
        origin: one line that names the weights exactly.
        fallback: the warning if these are not the weights that were asked for, else None.
        hub_id: name on the hub, if ``folder`` holds settings and tokenizer only and the weights are still there.
    """

    folder: Path | None
    weights: str
    origin: str = ""
    fallback: str | None = None
    hub_id: str | None = None

    def fetch(self) -> None:
        """Downloads the weights if they are missing.

        Raises:
            UserError: if there are only pickled ones, or the download fails.
        """
        if self.folder is None or self.hub_id is None:
            return
        _snapshot(self.hub_id, (*SETTINGS, WEIGHTS, HEAD), self.folder.name)
        if not any(self.folder.rglob(WEIGHTS)):
            raise UserError("has no model.safetensors (pickled weights are not opened)", key=self.hub_id)


def find(
    name: str | None,
    path: Path | str | None,
    weights: str,
    model_type: str | None,
    shape: Mapping[str, Any] | None = None,
) -> Source:
    """Finds the weights of ``name`` or ``path``.

    Args:
        name, path, weights: see ``Transformer``; weights is "auto" or "pretrained".
        model_type: architecture family of a fallback, if it is known.
        shape: sizes that ``name`` must have.

    Raises:
        UserError: if there is no such folder or model, bundled weights have another shape, or the hub is not
            reachable and no fallback is allowed or possible.
    """
    from encoders import models  # late: transformers takes seconds to import

    if path is not None:
        return _from_folder(Path(path).expanduser())
    if name is None:
        return Source(None, "random")
    if name in bundled():
        config = read_json(CHECKPOINTS / name / "config.json")
        for key, value in models.in_each_layer(shape or {}, config["num_hidden_layers"]).items():
            if key in config and config[key] != value:
                raise UserError(
                    f"the bundled weights of {name} have {config[key]}",
                    key=f"encoder.shape.{key}={value}",
                    hint="weights=random draws new ones.",
                )
        return Source(CHECKPOINTS / name, "bundled", f"{name}, bundled")
    if name == BUNDLED:
        if weights == "pretrained":
            raise UserError(f"no weights in {CHECKPOINTS}", key=f"encoder.name={name}")
        return Source(None, "random")
    cached = _cached(name)
    if cached is not None:
        return Source(cached, "pretrained", _hub_origin(name, cached))
    why = _unreachable(name)
    if why is None:
        folder = _snapshot(name, SETTINGS)
        return Source(folder, "pretrained", _hub_origin(name, folder), hub_id=name)
    absent = f"{name} is not on this machine, and {why}"
    near = difflib.get_close_matches(name, bundled(), n=1, cutoff=0.9)
    if near or weights == "pretrained" or model_type is None or not models.has_masked_lm(model_type):
        raise UserError(absent, key="encoder.name", hint=f"Did you mean {near[0]}?" if near else "")
    # The fallback is the bundled language model, never a checkpoint that an objective trained.
    if model_type != "roberta" or BUNDLED not in bundled():
        warning = f"{absent}: the encoder is a small {model_type} with random weights instead."
        return Source(None, "random", fallback=warning)
    warning = f"{absent}: the encoder starts from the bundled {BUNDLED} instead."
    return Source(CHECKPOINTS / BUNDLED, "bundled", f"{BUNDLED}, bundled", warning)


def bundled() -> list[str]:
    """Returns the names of the bundled checkpoints."""
    return sorted(path.parent.name for path in CHECKPOINTS.glob("*/config.json"))


@dataclass
class Start:
    """A transformer with its initial weights.

    Attributes:
        model: of transformers, with its MLM head if it has one.
        tokenizer: a fast tokenizer.
        source: where the weights come from.
        origin: one line that names the weights exactly.
        layout: contents of the folder besides the transformer itself.
        dense: its linear maps after the pooling.
        folder: of the transformer's files; None for random weights.
        format: how tokens become input.
    """

    model: Any
    tokenizer: Any
    source: Source
    origin: str
    layout: Layout
    dense: list[Dense]
    folder: Path | None
    format: TokenFormat


def transformer(
    *,
    name: str | None,
    path: str | None,
    weights: str,
    shape: Mapping[str, Any] | None,
    vocab_size: int,
    max_length: int | None,
    dropout: float | None,
    attention: str | None,
    texts: Callable[[], Iterable[str]] | None,
    texts_key: Callable[[], str] | None,
    cache: Path | None,
    tokenizer: Path | None,
    require_mask_token: bool,
) -> Start:
    """Opens the weights that ``Transformer``'s arguments of the same names specify, or initialises random ones.

    Raises:
        UserError: if two arguments contradict each other, the weights are not available, or the tokenizer lacks a
            required mask token.
    """
    from encoders import models  # late, as above

    check_weights(weights, path)
    if not shape and (weights == "random" or (name is None and path is None)):
        raise UserError("not set, and random weights need it", key="encoder.shape")
    if weights == "pretrained" and name is None and path is None:
        raise UserError("not set, nor encoder.path, and weights=pretrained needs one of them", key="encoder.name")
    model_type = None if path else (shape or {}).get("model_type") or models.family(name or "")
    if require_mask_token and model_type and not models.has_masked_lm(model_type):
        raise no_mask_token(name or model_type)
    source = Source(None, "random") if weights == "random" else find(name, path, weights, model_type, shape)
    options = {} if attention is None else {"attn_implementation": attention}
    if source.folder is None:
        fast_tokenizer = random_tokenizer(
            tokenizer,
            texts,
            lambda texts: corpus_tokenizer(texts, vocab_size, max_length or models.POSITIONS, cache, texts_key),
        )
        small = {"model_type": model_type, **FALLBACK_SHAPE}
        config = models.configuration(shape if shape and source.fallback is None else small, fast_tokenizer)
        model: Any = models.untrained(models.with_dropout(config, dropout), options)
        layout, origin, folder = Layout(Path()), models.describe(config), None
    else:
        with reading("encoder", source.folder):
            layout = read_layout(source.folder)
            origin, folder = source.origin, layout.transformer
            config = models.read_config(folder, dropout)
            fast_tokenizer = models.load_tokenizer(layout, config)
            if require_mask_token and fast_tokenizer.mask_token_id is None:
                raise no_mask_token(path or str(name))
            source.fetch()
            model = models.load_model(folder, config, options)
    dense = [Dense.load(module) for module in layout.dense]
    limit = models.positions(config)
    if max_length is not None and max_length > limit:
        raise UserError(f"the model's limit is {limit}", key=f"encoder.max_length={max_length}")
    with reading("encoder", tokenizer or layout.transformer):
        most = max_length or min(limit, fast_tokenizer.model_max_length, layout.max_length or limit)
        form = token_format(fast_tokenizer, model.get_input_embeddings().num_embeddings, most)
    return Start(model, fast_tokenizer, source, origin, layout, dense, folder, form)


def check_weights(weights: str, path: str | None) -> None:
    """Refuses random weights together with a folder of trained ones.

    Raises:
        UserError: if both are given.
    """
    if weights == "random" and path is not None:
        raise UserError("names trained weights, and weights=random excludes them", key="encoder.path")


def no_mask_token(name: str) -> UnfitError:
    """Returns the error for an encoder without mask token if one is required."""
    return UnfitError("has no mask token, and the objective predicts masked words", key=name)


def random_tokenizer(
    folder: Path | None,
    texts: Callable[[], Iterable[str]] | None,
    train: Callable[[Callable[[], Iterable[str]]], PreTrainedTokenizerFast],
) -> PreTrainedTokenizerFast:
    """Returns the tokenizer of a random start: that in ``folder``, else ``train(texts)``.

    Raises:
        UserError: if there is neither, or the folder cannot be opened.
    """
    if folder is not None:
        return load_tokenizer(folder)
    if texts is None:
        raise UserError("a random start makes its vocabulary from a corpus, and none is given", key="encoder")
    return train(texts)


def _unreachable(name: str) -> str | None:
    """Returns why ``name`` cannot be fetched from the hub now, or None if it can; takes 5 s at most.

    Raises:
        UserError: if the hub answers that there is no such model, or that it needs a login.
    """
    try:
        return network.unreachable(
            lambda seconds: get_hf_file_metadata(hf_hub_url(name, "config.json"), timeout=seconds)
        )
    except errors.EntryNotFoundError as error:
        raise UserError(f"no model of transformers (no config.json on {network.hub()})", key=name) from error
    except (*network.ANSWERS, errors.HfHubHTTPError) as error:
        unknown = type(error) in (errors.RepositoryNotFoundError, errors.HFValidationError)
        near = difflib.get_close_matches(name, [*bundled(), *KNOWN], n=1) if unknown else []
        hint = f"Did you mean {near[0]}?" if near else ""
        raise UserError(f"cannot be downloaded: {network.refusal(error, name)}", key=name, hint=hint) from error


def _from_folder(folder: Path) -> Source:
    if not any((folder / name).is_file() for name in ("config.json", "modules.json")):
        inner = folder / "encoder"
        hint = f"Did you mean {inner}?" if inner.is_dir() else ""
        raise UserError("not a model's folder (no config.json)", key=str(folder), hint=hint)
    if not any(folder.rglob(WEIGHTS)):
        raise UserError("no model.safetensors (pickled weights are not opened)", key=str(folder))
    if (folder / MARKER).is_file():
        marker = read_marker(folder)
        return Source(folder, marker["weights"], continued(folder, marker))
    return Source(folder, "own", str(folder))


def _cached(name: str) -> Path | None:
    """Returns the folder of ``name`` in the hub's cache, if it has all files that are needed."""
    try:
        folder = Path(_download(name, (*SETTINGS, WEIGHTS, HEAD), local_files_only=True))
    except (OSError, errors.HFValidationError, errors.EntryNotFoundError):
        return None
    whole = (folder / "config.json").is_file() or (folder / "modules.json").is_file()
    return folder if whole and any(folder.rglob(WEIGHTS)) and any(folder.rglob("tokenizer*.json")) else None


def _snapshot(name: str, patterns: tuple[str, ...], commit: str | None = None) -> Path:
    with reading("model of the hub", name):
        return Path(_download(name, patterns, revision=commit))


def _download(
    name: str, patterns: tuple[str, ...], *, revision: str | None = None, local_files_only: bool = False
) -> str:
    return snapshot_download(
        name,
        revision=revision,
        allow_patterns=list(patterns),
        ignore_patterns=["onnx/*", "openvino/*", "*.onnx*"],
        local_files_only=local_files_only,
        tqdm_class=_Bar,
    )


class _Bar(tqdm):
    """A progress bar on terminals only; the hub library shows one of its bars in logs, too."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **({"disable": None} | options))


def _hub_origin(name: str, folder: Path) -> str:
    return f"{name}, revision {folder.name[:12]}"


def token_format(tokenizer: Any, known: int, most: int) -> TokenFormat:
    """Limits a fast ``tokenizer`` to ``most`` tokens and returns how its tokens become input.

    Raises:
        ValueError: if it has tokens beyond the ``known`` ones of the model.
    """
    if len(tokenizer) > known:
        raise ValueError(f"its tokenizer has {len(tokenizer)} tokens, and the model {known} embeddings")
    check_vocabulary(tokenizer, known)
    special = tokenizer("a", return_special_tokens_mask=True)
    inner = special["special_tokens_mask"].index(0)
    count = special["special_tokens_mask"].count(0)
    pad = tokenizer.pad_token_id
    tokenizer.model_max_length = most
    return TokenFormat(
        prefix=tuple(special["input_ids"][:inner]),
        suffix=tuple(special["input_ids"][inner + count :]),
        pad_id=0 if pad is None else pad,
        mask_id=tokenizer.mask_token_id,
        vocab_size=len(tokenizer),
        max_length=most,
        special_ids=frozenset(tokenizer.all_special_ids),
        middle=separator(tokenizer),
    )
