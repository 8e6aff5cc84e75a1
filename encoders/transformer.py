"""Any transformer of the Hugging Face library as a sentence encoder, with its masked-language-model head."""

from __future__ import annotations

import dataclasses
import inspect
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import numpy as np
import torch
from pydantic import Field
from safetensors.torch import save_file
from tokenizers import normalizers
from torch import Tensor, nn
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode
from transformers import (
    CONFIG_MAPPING,
    AutoModel,
    AutoModelForMaskedLM,
    AutoModelForTextEncoding,
    AutoTokenizer,
    PretrainedConfig,
    PreTrainedModel,
    PreTrainedTokenizerFast,
)
from transformers.models.auto import modeling_auto
from transformers.utils import logging as hf_logging

from data.batch import Tokens
from data.errors import UnfitError, UserError, reading
from data.files import read_json, write_json
from data.ranges import Below1, Existing
from data.tokenizer import BytePairs, TokenizerKind, train_bpe
from encoders import hub, kernels, varlen
from encoders.api import Encoding
from encoders.base import Encoder, token_format
from encoders.pooling import (
    POOLER,
    POOLINGS,
    Pooling,
    add_pooler,
    has_pooler,
    pool,
    pooler_output,
    share_pooler,
    takes_pooler,
)
from encoders.saving import HEAD, NO_LIMIT, WEIGHTS, Layout, read_layout, write_modules, write_pooling

# Modules of the families' masked-language-model heads, applied one after the other.
_HEADS = (
    ("lm_head",),  # RoBERTa, XLM-R, CamemBERT, MPNet
    ("cls",),  # BERT, DeBERTa
    ("predictions",),  # ALBERT
    ("vocab_transform", "activation", "vocab_layer_norm", "vocab_projector"),  # DistilBERT
    ("head", "decoder"),  # ModernBERT
    ("generator_predictions", "generator_lm_head"),  # ELECTRA
)
# Names of dropout probabilities in the families' configurations.
_DROPOUTS = (
    "hidden_dropout_prob", "attention_probs_dropout_prob", "dropout", "attention_dropout", "embedding_dropout",
    "mlp_dropout", "resid_pdrop", "embd_pdrop", "attn_pdrop",
)  # fmt: skip
# Settings that choose code or other files; those in a folder are ignored ("implementation" can name kernels).
_UNTRUSTED = re.compile("implementation|auto_map|name_or_path|transformers_weights|backbone")
_MLM_INDEX = "model.safetensors.index.mlm.json"  # lists model and MLM head, for transformers' variant="mlm"
_POSITIONS = 512  # of a random model, by default
# Random models of these families get positions for the padding token and those before it, as published ones have.
_COUNT_FROM_PADDING = ("roberta", "xlm-roberta", "camembert", "mpnet")
# Where the published models of a family differ from the defaults of its configuration class.
_PUBLISHED: dict[str, dict[str, Any]] = {
    "roberta": {"type_vocab_size": 1, "layer_norm_eps": 1e-5},
    "albert": {"embedding_size": 128},
}
_SPECIAL_IDS = ("bos_token_id", "eos_token_id", "cls_token_id", "sep_token_id")
_RENAMED = {"distilbert": {"intermediate_size": "hidden_dim"}}
# Keys of the model's configuration that do not affect vectors.
_IGNORED_KEYS = ("_name_or_path", "architectures", "dtype", "transformers_version")
_PROBE = 64  # tokens of the longer row of the smoke test


class Transformer(Encoder):
    """A transformer pooled to one vector for each sentence, with an MLM head if the weights have one.

    Args:
        name: a model of the Hugging Face hub, or a checkpoint in ``encoders/checkpoints``.
        path: a local folder instead: one of this suite, of sentence-transformers or of transformers.
        pooling: "mean", "cls", "max" or "last"; None takes the folder's own, else "mean".
        weights: "pretrained" (never falls back), "auto" (falls back to the bundled weights where the hub cannot be
            reached and ``shape`` is given, see ``fallback``), or "random" (of ``shape``).
        max_length: longest input in tokens, special ones included; None takes the model's limit.
        shape: "model_type" and sizes by the names of the family's configuration class, for random initialisation.
        vocab_size: of the byte-level BPE that is trained for random weights.
        dropout: probability everywhere in the model; None leaves the model's own.
        attention: implementation of attention by transformers' name ("sdpa", "eager", ...).
        normalize: whether vectors are scaled to length 1; None: as the folder has it.
        tokenizer: of a randomly initialised model.

    Attributes:
        model: the transformers model, with its head if it has one.
        others: modules of sentence-transformers that follow the pooling, none in most folders.
        packing: whether and why batches are packed.

    The encoder starts in eval mode. Random weights are drawn from torch's global generator, as transformers'
    initialisers take no other.

    Raises:
        UserError: if two arguments contradict each other, or the weights are not available.

    References: Reimers and Gurevych (2019), "Sentence-BERT"; Giorgi et al. (2021), "DeCLUTR", section 3.1.
    """

    computes_padding = True

    def __init__(
        self,
        *,
        name: str | None = None,
        path: Existing | None = None,
        pooling: Pooling | None = None,
        weights: Literal["auto", "pretrained", "random"] = "auto",
        max_length: Annotated[int, Field(ge=8, le=NO_LIMIT)] | None = None,
        shape: Mapping[str, Any] | None = None,
        vocab_size: BytePairs = 8192,
        dropout: Below1 | None = None,
        attention: str | None = None,
        normalize: bool | None = None,
        tokenizer: PreTrainedTokenizerFast | None = None,
    ) -> None:
        super().__init__()
        if weights == "random" and path is not None:
            raise UserError("names trained weights, and weights=random excludes them", key="encoder.path")
        self.untrained = self.needs_tokenizer(weights=weights, name=name, path=path)
        if self.untrained:
            if weights == "pretrained":
                raise UserError("not set, nor encoder.path, and weights=pretrained needs one", key="encoder.name")
            if not shape or tokenizer is None:
                key = "tokenizer" if shape else "shape"
                raise UserError("not set, and random weights need it", key=f"encoder.{key}")
            config = with_dropout(_configuration(shape, tokenizer), dropout)
            self.model, self.tokenizer, layout = _untrained(config), tokenizer, Layout(Path())
            size = f"{config.num_hidden_layers} layers x {config.hidden_size}"
            self.origin = f"random {config.model_type}, {size}, vocabulary of {config.vocab_size}"
            self.weights, self._folder = "random", None
            self._pooler_saved = False
            where = "encoder.shape"
        else:
            source = hub.resolve(name, path, fallback=bool(shape) and weights == "auto")
            if shape and source.weights == "bundled" and not source.fallback:
                _require_shape(shape, source.folder)
            self.weights, self.origin, self.fallback = source.weights, source.origin, source.fallback
            where = str(source.folder)
            with reading("encoder", where):
                layout = read_layout(source.folder)
                self._folder = layout.transformer  # of the first weights
                config = with_dropout(_read_config(self._folder), dropout)
                self.tokenizer = _load_tokenizer(layout, config)
                self.model, self._pooler_saved = _load_model(self._folder, config)
        self.pooling = pooling or layout.pooling or "mean"
        self.normalize = layout.normalize if normalize is None else normalize
        self._lowercase = layout.lowercase
        self._head = _head_parts(self.model)
        self.state_dimension = self.model.config.hidden_size
        parameters = inspect.signature(self.backbone.forward).parameters
        self._takes_mask = "attention_mask" in parameters
        self._takes_type_ids = (
            "token_type_ids" in parameters and getattr(self.model.config, "type_vocab_size", 0) > 1
        )
        self.packing = varlen.Packing(self.model.config)
        with reading("encoder", where):
            self.others = nn.ModuleList(_load_module(where, *module) for module in layout.others)
            embeddings: Any = self.model.get_input_embeddings()
            known, tokens = embeddings.num_embeddings, len(self.tokenizer)
            if tokens > known:
                raise ValueError(f"its tokenizer has {tokens} tokens, and the model {known} embeddings")
            stated = min(self.tokenizer.model_max_length, layout.max_length or NO_LIMIT)
            self.eval()  # the outer module too, as transformers' loading does
            self.format = token_format(self.tokenizer, NO_LIMIT)
            limit = self._smoke_test()
            if max_length is not None and max_length > limit:
                raise UserError(f"the model's limit is {limit}", key=f"encoder.max_length={max_length}")
            self.format = token_format(self.tokenizer, max_length or min(limit, stated))
            if attention is None:
                varlen.enable(self.model)
            else:
                self.model.set_attn_implementation(attention)

    @classmethod
    def needs_tokenizer(
        cls, *, weights: str = "auto", name: str | None = None, path: str | None = None, **settings: Any
    ) -> bool:
        return weights == "random" or (name is None and path is None)

    @classmethod
    def tokenizer_facts(
        cls, *, vocab_size: int = 8192, max_length: int | None = None, **settings: Any
    ) -> tuple[TokenizerKind, str]:
        return "bpe", f"{vocab_size} {max_length or _POSITIONS}"

    @classmethod
    def train_tokenizer(
        cls, texts: Iterable[str], *, vocab_size: int = 8192, max_length: int | None = None, **settings: Any
    ) -> PreTrainedTokenizerFast:
        return train_bpe(texts, vocab_size=vocab_size, max_length=max_length or _POSITIONS)

    @property
    def backbone(self) -> Any:
        """The transformers model without its head."""
        return self.model.base_model

    def forward(self, tokens: Tokens) -> Encoding:
        if self.packs(tokens):
            states = varlen.states(self.backbone, tokens, self._takes_type_ids)  # (B, T, H)
        elif self.equal_lengths and len(lengths := tokens.lengths.unique()) > 1:
            rows = [(tokens.lengths == length).nonzero().squeeze(1) for length in lengths]
            parts = [self._states(tokens.rows(places)) for places in rows]
            width = tokens.ids.shape[1]
            states = torch.cat([F.pad(part, (0, 0, 0, width - part.shape[1])) for part in parts])
            states = states[torch.cat(rows).argsort()]
        else:
            states = self._states(tokens)
        by_pooler = self.pooling == POOLER
        sentence = pooler_output(self.backbone, states) if by_pooler else pool(states, tokens.mask, self.pooling)
        for module in self.others:
            sentence = module({"sentence_embedding": sentence})["sentence_embedding"]
        return Encoding(states, tokens.mask, F.normalize(sentence, dim=-1) if self.normalize else sentence)

    def _states(self, tokens: Tokens) -> Tensor:
        """Computes the states of padded rows, of shape (B, T, H)."""
        more = {"token_type_ids": tokens.type_ids} if self._takes_type_ids else {}
        if self._takes_mask:
            more["attention_mask"] = self._attention_mask(tokens)
        config = self.model.config
        if getattr(config, "attention_type", "") == "block_sparse":  # BigBird sees a short text and stays at full
            enough = tokens.ids.shape[1] > (5 + 2 * config.num_random_blocks) * config.block_size
            self.backbone.set_attention_type("block_sparse" if enough else "original_full")
        with kernels.without_cudnn_attention(tokens.ids.device):
            return self.backbone(input_ids=tokens.ids, **more).last_hidden_state

    def _attention_mask(self, tokens: Tokens) -> Tensor | None:
        if bool((tokens.lengths == tokens.ids.shape[1]).all()):  # no padding; lengths are on the host
            return None
        if tokens.mask.device.type != "cpu" and self.packing.sees_all:
            # From a mask (B, T) transformers would read values, for which the host waits for the GPU.
            return tokens.mask[:, None, None, :].expand(-1, -1, tokens.mask.shape[1], -1)
        return tokens.mask.long()

    @torch.no_grad()
    def _smoke_test(self) -> int:
        """Encodes a short and a longer row, alone and together; sets ``dimension`` and ``equal_lengths``.

        Returns:
            The longest input in tokens, by the position embeddings that the rows took.

        Raises:
            ValueError: if vectors are not finite.
        """
        config = self.model.config
        words = [id for id in range(self.format.vocab_size) if id not in self.format.special_ids][::-1]
        positions = _Positions()
        with positions:
            short = Tokens.pad([self.format.wrap(np.resize(words, 3))], self.format.pad_id)
            alone = self(short).sentence[0]
        limit = positions.limit or getattr(config, "max_position_embeddings", None) or 0
        limit = limit if limit > 0 else NO_LIMIT
        special = short.ids.shape[1] - 3
        rows = [short.ids[0].numpy(), self.format.wrap(np.resize(words, min(limit, _PROBE) - special))]
        together = self(Tokens.pad(rows, self.format.pad_id)).sentence[0]
        if not bool(alone.isfinite().all()):
            raise ValueError("its vectors are not finite")
        self.dimension = len(alone)
        depends = bool((alone - together).norm() > 1e-3 * alone.norm())
        self.equal_lengths = depends or getattr(config, "attention_type", "") == "block_sparse"
        return limit

    def padding_reason(self, device: torch.device, dtype: torch.dtype, longest: int) -> str | None:
        return self.packing.obstacle(device, dtype, longest)

    @property
    def has_mlm_head(self) -> bool:
        return self._head is not None and self.format.mask_id is not None

    def token_logits(self, states: Tensor) -> Tensor:
        if self._head is None:
            raise ValueError(f"{self.origin} has no MLM head; add_mlm_head() adds one.")
        for part in self._head:
            states = getattr(self.model, part)(states)
        return states

    def add_mlm_head(self) -> None:
        """Adds the family's MLM head, randomly initialised and tied to the token embeddings."""
        if self.has_mlm_head:
            return
        config = self.model.config
        headed = _untrained(config)
        head = _head_parts(headed)
        if head is None or self.format.mask_id is None:
            raise UnfitError("has no mask token, or its family no head for masked words", key=self.origin)
        share_pooler(self.model, headed.base_model)
        headed.base_model.load_state_dict(self.model.state_dict())
        headed.tie_weights()
        headed.set_attn_implementation(config._attn_implementation)
        device = next(self.model.parameters()).device
        self.model = headed.to(device).train(self.training)  # type: ignore[arg-type]
        self._head, self.packing.config = head, self.model.config

    @property
    def sequence_dimension(self) -> int:
        return self.state_dimension

    def add_pooler(self) -> None:
        """Adds the family's pooler, if it has one: that of the first weights, else a random one."""
        with _quiet():
            add_pooler(self.backbone, self._folder if self._pooler_saved else None)

    def sequence_features(self, encoding: Encoding) -> Tensor:
        """Returns the input of a classifier of whole sequences, of shape (B, H).

        This is the first token's state, through the pooler if there is one.
        """
        return pooler_output(self.backbone, encoding.states)

    @property
    def poolings(self) -> tuple[str, ...]:
        """All of ``POOLINGS``, and "pooler" if the model or its first weights have one."""
        trained = has_pooler(self.backbone) or self._pooler_saved
        return (*POOLINGS, *([POOLER] if trained else []))

    def pool_by(self, pooling: str) -> None:
        super().pool_by(pooling)
        if pooling == POOLER:
            self.add_pooler()

    def keep_layers(self, layers: int) -> None:
        """Cuts the model down to its embeddings and its first ``layers`` layers; a head stays.

        Raises:
            UserError: if it has fewer layers.
        """
        config = self.model.config
        depth = config.num_hidden_layers
        if not 0 <= layers <= depth:
            raise UserError(f"must be from 0, the embeddings only, to {depth}", key=f"layers={layers}")
        for parent in [*self.backbone.modules()]:
            for name, child in [*parent.named_children()]:
                if isinstance(child, nn.ModuleList) and len(child) == depth:
                    setattr(parent, name, child[:layers])
        if getattr(config, "layer_types", None):
            config.layer_types = config.layer_types[:layers]
        config.num_hidden_layers = layers  # ALBERT applies one layer this many times

    def settings(self) -> dict[str, Any]:
        config = {key: value for key, value in self.model.config.to_dict().items() if key not in _IGNORED_KEYS}
        return {
            "pooling": self.pooling,
            "normalize": self.normalize,
            "dense": [*map(str, self.others)],
            "config": json.loads(json.dumps(config, default=str)),
        }

    def write_files(self, folder: Path) -> dict[str, Any]:
        """Writes files that sentence-transformers opens, and transformers without the MLM head.

        Raises:
            UserError: if a weight is not finite, no layer is left of a model with ``layer_types``, or the pooling
                is "pooler", which sentence-transformers does not support.
        """
        if self.pooling == POOLER or getattr(self.model.config, "layer_types", None) == []:
            key = "pooling=pooler" if self.pooling == POOLER else "layers=0"
            raise UserError("is for evaluation only, not for an encoder that is saved", key=key)
        for name, parameter in self.named_parameters():  # in half precision, large weights overflow
            if not bool(parameter.isfinite().all()):
                raise UserError("not all numbers are finite", key=name)
        _save_model(self.model, folder)
        self.tokenizer.save_pretrained(folder)
        modules = [("", "Transformer"), ("1_Pooling", "Pooling")]
        kinds = [*(type(module).__name__ for module in self.others), *["Normalize"] * bool(self.normalize)]
        modules += [(f"{place}_{kind}", kind) for place, kind in enumerate(kinds, 2)]
        write_modules(folder, modules)
        write_pooling(folder / "1_Pooling", self.pooling, self.state_dimension)
        for (path, _), module in zip(modules[2:], self.others, strict=False):
            (folder / path).mkdir()
            module.save(str(folder / path))  # type: ignore[operator]
        limits = {"max_seq_length": self.format.max_length, "do_lower_case": self._lowercase}
        # Without this, transformers would add a randomly initialised pooler when it opens the folder.
        lacks_pooler = takes_pooler(self.backbone) and not has_pooler(self.backbone)
        arguments = {"model_args": {"add_pooling_layer": False}} if lacks_pooler else {}
        write_json(folder / "sentence_bert_config.json", limits | arguments)
        return {"pooling": self.pooling, "normalize": self.normalize}

    @classmethod
    def load(cls, folder: Path | str) -> Self:
        """Opens a folder that ``save`` wrote, or one of sentence-transformers or transformers."""
        return cls(path=str(folder), weights="pretrained")


class _Positions(TorchFunctionMode):
    """Observes look-ups of consecutive rows in embedding tables: those of positions.

    Attributes:
        limit: most tokens whose positions all such tables have; 0 if there is none.
    """

    limit = 0

    def __torch_function__(self, function: Any, types: Any, arguments: Any = (), options: Any = None) -> Any:
        if function is F.embedding:
            ids, table = arguments[0].flatten(), arguments[1]
            if len(ids) > 2 and bool((ids.diff() == 1).all()):
                limit = len(table) - int(ids[0])  # the first row is 0, or follows the padding's
                self.limit = min(self.limit or limit, limit)
        return function(*arguments, **options or {})


def _configuration(shape: Mapping[str, Any], tokenizer: PreTrainedTokenizerFast) -> PretrainedConfig:
    """Returns the configuration of the family ``shape["model_type"]`` with the sizes of ``shape``.

    Args:
        shape: "model_type", and arguments of the family's configuration class (num_hidden_layers,
            hidden_size, num_attention_heads, intermediate_size, ...); "layer_types" may be one string for all
            layers.
        tokenizer: gives the vocabulary's size and the special tokens' ids.

    Raises:
        UserError: if the family or an argument is unknown, or a value is refused.
    """
    sizes = dict(shape)
    family = sizes.pop("model_type", None)
    if family not in CONFIG_MAPPING:
        raise UserError(f"{family} is no family of transformers", key="encoder.shape.model_type")
    kind, renamed = CONFIG_MAPPING[family], _RENAMED.get(family, {})
    known = {field.name for field in dataclasses.fields(kind)} | set(kind.attribute_map) | set(renamed)
    for key in sizes.keys() - known:
        raise UserError(f"{kind.__name__} has no such argument", key=f"encoder.shape.{key}")
    pad = tokenizer.pad_token_id
    sizes = _in_each_layer(sizes, sizes.get("num_hidden_layers", 0))
    settings: dict[str, Any] = {
        "max_position_embeddings": _POSITIONS + (pad + 1) * (family in _COUNT_FROM_PADDING),
        **_PUBLISHED.get(family, {}),
        **{renamed.get(key, key): value for key, value in sizes.items()},
        "vocab_size": len(tokenizer),
        "pad_token_id": pad,
        **{key: getattr(tokenizer, key) for key in _SPECIAL_IDS if key in known},
    }
    with reading("shape", "encoder.shape"):
        return kind(**settings)


def _in_each_layer(shape: Mapping[str, Any], layers: int) -> dict[str, Any]:
    """Returns ``shape``, with "layer_types" repeated for each of ``layers`` layers if it is a single string."""
    kinds = shape.get("layer_types")
    return {**shape, "layer_types": [kinds] * layers} if isinstance(kinds, str) else dict(shape)


def _require_shape(shape: Mapping[str, Any], folder: Path) -> None:
    """Refuses a ``shape`` that differs from that of bundled weights."""
    config = read_json(folder / "config.json")
    for key, value in _in_each_layer(shape, config["num_hidden_layers"]).items():
        if key in config and config[key] != value:
            text = f"the bundled weights of {folder.name} have {config[key]}"
            raise UserError(text, key=f"encoder.shape.{key}={value}", hint="weights=random draws new ones.")


def with_dropout(config: PretrainedConfig, dropout: float | None) -> PretrainedConfig:
    """Sets all dropout probabilities in ``config`` to ``dropout``; None: leaves them as they are."""
    for key in _DROPOUTS if dropout is not None else ():
        if hasattr(config, key):
            setattr(config, key, dropout)
    return config


def _model_class(config: PretrainedConfig) -> Any:
    """Returns the automatic class of a family: with its MLM head if it has one, of T5's families the encoder."""
    family = config.model_type
    if family in modeling_auto.MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES:
        if family not in modeling_auto.MODEL_FOR_TEXT_ENCODING_MAPPING_NAMES:
            raise ValueError(f"{family} models have a decoder")
        return AutoModelForTextEncoding
    return AutoModelForMaskedLM if family in modeling_auto.MODEL_FOR_MASKED_LM_MAPPING_NAMES else AutoModel


def _untrained(config: PretrainedConfig) -> PreTrainedModel:
    """Returns a model with random weights, with an MLM head if its family has one."""
    with reading("shape", "encoder.shape"):
        model = _model_class(config).from_config(config, trust_remote_code=False)
    return model if _head_parts(model) is not None else model.base_model


def _read_config(folder: Path) -> PretrainedConfig:
    """Returns the configuration of a folder's model, without the settings that choose code or other files."""
    settings = read_json(folder / "config.json")
    trusted = {key: value for key, value in settings.items() if not _UNTRUSTED.search(key)}
    return CONFIG_MAPPING[trusted["model_type"]].from_dict(trusted, name_or_path=str(folder))


def _load_tokenizer(layout: Layout, config: PretrainedConfig) -> Any:
    """Opens the fast tokenizer of a folder."""
    tokenizer = AutoTokenizer.from_pretrained(
        layout.transformer, config=config, trust_remote_code=False, local_files_only=True
    )
    if not tokenizer.is_fast:
        raise UserError("no fast tokenizer (tokenizer.json)", key=str(layout.transformer))
    backend = tokenizer.backend_tokenizer
    if layout.lowercase:
        backend.normalizer = normalizers.Sequence(
            [normalizers.Lowercase(), *([backend.normalizer] if backend.normalizer else [])]
        )
    return tokenizer


def _load_model(folder: Path, config: PretrainedConfig) -> tuple[PreTrainedModel, bool]:
    """Opens the model, with its MLM head if all of the head's weights are there; other heads are ignored.

    Returns:
        The model, and whether the folder has weights of a pooler that the model has not.

    Raises:
        ValueError: if weights of the model without head are missing.
    """
    with _quiet():
        model, report = _model_class(config).from_pretrained(
            folder,
            config=config,
            variant="mlm" if (folder / _MLM_INDEX).is_file() else None,
            dtype=torch.float32,
            use_safetensors=True,
            trust_remote_code=False,
            local_files_only=True,
            output_loading_info=True,
        )
    inside = f"{model.base_model_prefix}." if model.base_model is not model else ""
    missing = [key for key in sorted(report["missing_keys"]) if key.startswith(inside)]
    if missing := [key for key in missing if f".{POOLER}." not in f".{key}"]:
        raise ValueError(f"{len(missing)} weights are missing, {missing[0]} among them")
    pooler = any(f".{POOLER}." in f".{key}" for key in report["unexpected_keys"])
    return model if not report["missing_keys"] and _head_parts(model) else model.base_model, pooler


def _load_module(folder: str, kind: str, path: str) -> Any:
    """Opens a module of sentence-transformers that follows the pooling."""
    from sentence_transformers.util import import_module_class  # few folders have one

    module: Any = import_module_class(kind, model_name_or_path=folder, trust_remote_code=False)
    return module.load(folder, subfolder=path, local_files_only=True)


def _save_model(model: PreTrainedModel, folder: Path) -> None:
    """Writes ``model`` without head as transformers does, and the MLM head's weights into a file of their own.

    In one file, other libraries would report the head's weights as unexpected. With ``variant="mlm"``, the
    ``from_pretrained`` of transformers opens both files.
    """
    prefix = f"{model.base_model_prefix}." if model.base_model is not model else ""
    body = {name: weight for name, weight in model.state_dict().items() if name.startswith(prefix)}
    seen = {weight.data_ptr() for weight in body.values()}
    head = {}
    for name, weight in model.state_dict().items():
        if name not in body and weight.data_ptr() not in seen:  # else it is tied to a saved one
            seen.add(weight.data_ptr())
            head[name] = weight.cpu().contiguous()
    with _quiet():
        model.save_pretrained(folder, state_dict=dict(body))  # a copy, as save_pretrained empties it
    if head:
        save_file(head, folder / HEAD, metadata={"format": "pt"})
        places = dict.fromkeys(body, WEIGHTS) | dict.fromkeys(head, HEAD)
        write_json(folder / _MLM_INDEX, {"metadata": {}, "weight_map": places})


def _head_parts(model: PreTrainedModel) -> tuple[str, ...] | None:
    """Returns the names of the modules of the MLM head, in the order of their application; None without one."""
    if model.base_model is model:
        return None
    return next((parts for parts in _HEADS if all(hasattr(model, part) for part in parts)), None)


@contextmanager
def _quiet() -> Iterator[None]:
    """Silences reports of transformers on what is checked here anyway (a head without weights, for example)."""
    verbosity, bar = hf_logging.get_verbosity(), hf_logging.is_progress_bar_enabled()
    hf_logging.set_verbosity_error()
    hf_logging.disable_progress_bar()
    try:
        yield
    finally:
        hf_logging.set_verbosity(verbosity)
        if bar:
            hf_logging.enable_progress_bar()
