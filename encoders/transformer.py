"""Any transformer of the Hugging Face library as a sentence encoder, with its masked-language-model head."""

from __future__ import annotations

import copy
import inspect
import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional as F

from data.batch import Tokens
from data.errors import UserError
from data.files import write_json
from data.ranges import Below1
from data.tokenizer import BytePairs
from encoders import cooccurrence, kernels, models, offline, pooler, random_start, varlen
from encoders import folder as folders
from encoders.base import NO_LIMIT, Encoder, Encoding
from encoders.dense import Dense
from encoders.export import model_card
from encoders.layout import Layout, atomic_folder, read_layout, write_layout
from encoders.pooler import POOLER
from encoders.pooling import POOLINGS, pool

# What a configuration says that decides on no vector.
_ABOUT = ("_name_or_path", "architectures", "dtype", "transformers_version")


class Transformer(Encoder):
    """A transformer, pooled to one vector a sentence; with an MLM head where the weights have one.

    Args:
        name: a model of the Hugging Face hub, or a checkpoint in ``encoders/checkpoints``.
        path: a local folder instead: ours, one of sentence-transformers, or a plain one of transformers.
        pooling: "mean", "cls", "max" or "last"; None takes the folder's own, "mean" where it has none.
        weights: "pretrained" (never falls back), "auto" (falls back to bundled weights, else to a small
            random model, and says so in ``fallback``), or "random" (of ``shape``).
        max_length: longest input in tokens, special ones included; None takes the model's limit.
        shape: "model_type" and sizes by the names of the family's configuration class, for a random start.
        heads: what the first layer's heads of a random start look at, "random" places or "neighbours".
        words: what its word embeddings begin with, "random" values or those of "cooccurrence" in ``texts``.
        vocab_size: of the byte-level BPE that a random start trains on ``texts``.
        dropout: probability everywhere in the model; None leaves the model's own.
        attention: implementation of attention by transformers' name ("sdpa", "eager", ...).
        texts: makes the texts to train a tokenizer on, where the start is random.
        texts_key: makes a name for the texts, so that a kept tokenizer is found without reading them.
        cache: folder that keeps such tokenizers.
        tokenizer: folder of the tokenizer that a random start takes, instead of training one.
        require_mask_token: refuse a model without one, before its weights are fetched.
        normalize: whether vectors are scaled to length 1; None does as the folder says.
        device: where to put the model.

    Attributes:
        fallback: the sentence to warn with if ``weights=auto`` did not get what ``name`` says, else None.
        model: the transformers model, with its head if it has one.
        dense: the linear maps that follow the pooling, none in most folders.
        force_packing: whether rows are packed on any device and in any precision, where the model can.

    It begins in eval mode. Random weights are drawn from torch's global generator, as transformers'
    initialisers take no other.

    Raises:
        ValueError: if an argument is out of range.
        UserError: if the weights cannot be had, or have no mask token where one is required.

    References: Reimers and Gurevych (2019), "Sentence-BERT"; Giorgi et al. (2021), "DeCLUTR", section 3.1.
    """

    computes_padding, force_packing = True, False

    def __init__(
        self,
        *,
        name: str | None = None,
        path: str | None = None,
        pooling: Literal["mean", "cls", "max", "last"] | None = None,
        weights: Literal["auto", "pretrained", "random"] = "auto",
        max_length: Annotated[int, Field(ge=8, le=NO_LIMIT)] | None = None,
        shape: Mapping[str, Any] | None = None,
        heads: Literal["random", "neighbours"] = "random",
        words: Literal["random", "cooccurrence"] = "random",
        vocab_size: BytePairs = 8192,
        dropout: Below1 | None = None,
        attention: str | None = None,
        texts: Callable[[], Iterable[str]] | None = None,
        texts_key: Callable[[], str] | None = None,
        cache: Path | None = None,
        tokenizer: Path | None = None,
        require_mask_token: bool = False,
        normalize: bool | None = None,
        device: torch.device | str | None = None,
    ) -> None:
        super().__init__()
        _check(name, path, weights, shape, heads, words)
        models.check_attention(attention)
        model_type = None if path else (shape or {}).get("model_type") or offline.family(name or "")
        if require_mask_token and model_type and not offline.has_masked_lm(model_type):
            raise _no_mask_token(name or model_type)
        source = offline.Source(None, "random")
        if weights != "random":
            source = offline.find(name, path, weights, model_type, shape)
        layout = Layout(Path())
        if source.folder is not None:
            with folders.readable(source.folder):
                layout = read_layout(folders.contained(source.folder))
        options = {} if attention is None else {"attn_implementation": attention}
        if source.folder is None:
            if tokenizer is not None:
                self.tokenizer = random_start.kept_tokenizer(tokenizer)
            elif texts is not None:
                self.tokenizer = random_start.corpus_tokenizer(
                    texts, vocab_size, max_length or random_start.POSITIONS, cache, texts_key
                )
            else:
                raise UserError("A random start trains its tokenizer on a corpus, and none is given.")
            small = {"model_type": model_type, **random_start.TEACHING}
            config = random_start.configuration(
                shape if shape and source.fallback is None else small, self.tokenizer
            )
            self.model: Any = models.untrained(models.with_dropout(config, dropout), options)
            if heads == "neighbours":
                random_start.begin_with_neighbours(self.model)
            if words == "cooccurrence":
                if texts is None:
                    raise UserError("encoder.words=cooccurrence counts in a corpus, and none is given.")
                table: Any = self.model.get_input_embeddings()
                width = table.embedding_dim - (random_start.head_size(self.model) if heads == "neighbours" else 0)
                found = cooccurrence.kept_vectors(texts, self.tokenizer, width, cache, texts_key)
                random_start.begin_with_words(self.model, found, self.tokenizer.all_special_ids)
            self.origin = random_start.describe(config)
        else:
            config = models.read_config(layout.transformer, dropout)
            self.tokenizer = models.load_tokenizer(layout, config)
            if require_mask_token and self.tokenizer.mask_token_id is None:
                raise _no_mask_token(path or str(name))
            source.fetch()
            self.model = models.load_model(layout.transformer, config, options)
            self.origin = source.origin
        if attention is None:
            varlen.enable(self.model)
        self.untrained = source.folder is None
        self.weights = source.weights
        self.fallback = source.fallback
        self.pooling = pooling or layout.pooling or "mean"
        self.normalize = layout.normalize if normalize is None else normalize
        self._lowercase = layout.lowercase
        self._head = models.head_parts(self.model)
        self._folder = None if source.folder is None else layout.transformer  # of the first weights
        self.state_dimension = self.dimension = self.model.config.hidden_size
        with folders.readable(layout.transformer):
            dense = [Dense.load(folder) for folder in layout.dense]
        self.dense = nn.Sequential(*dense)
        if dense:
            self.dimension = dense[-1].linear.out_features
        limit = models.positions(self.model.config)
        if max_length is not None and max_length > limit:
            raise ValueError(
                f"encoder.max_length must be at most {limit}, the model's limit. Got {max_length} instead."
            )
        with folders.readable(tokenizer or layout.transformer):
            most = max_length or min(limit, self.tokenizer.model_max_length, layout.max_length or limit)
            known = self.backbone.get_input_embeddings().num_embeddings
            self.format = models.token_format(self.tokenizer, known, most, self.origin)
        self.tokenizer.model_max_length = self.format.max_length
        accepted = inspect.signature(self.backbone.forward).parameters
        self._takes_type_ids = (
            "token_type_ids" in accepted and getattr(self.model.config, "type_vocab_size", 0) > 1
        )
        self.eval()  # the outer module too, as transformers' loading does
        if source.folder is not None and attention is None:  # another one may want a GPU
            folders.try_out(self, source.folder)
        if device is not None:
            self.to(device)

    @property
    def backbone(self) -> Any:
        """The transformers model without its head."""
        return self.model.base_model

    @property
    def has_mlm_head(self) -> bool:
        return self._head is not None

    def forward(self, tokens: Tokens) -> Encoding:
        if self.packs(tokens):
            states = varlen.states(self.backbone, tokens, self._takes_type_ids)  # (B, T, H)
        else:
            types = {"token_type_ids": tokens.type_ids} if self._takes_type_ids else {}
            mask = self._attention_mask(tokens)
            with kernels.without_cudnn_attention(tokens.ids.device):
                states = self.backbone(input_ids=tokens.ids, attention_mask=mask, **types).last_hidden_state
        read = pooler.pooled(self.backbone, states) if self.pooling == POOLER else None
        sentence = self.dense(pool(states, tokens.mask, self.pooling) if read is None else read)  # (B, D)
        return Encoding(states, tokens.mask, F.normalize(sentence, dim=-1) if self.normalize else sentence)

    def padded_because(self, device: torch.device, dtype: torch.dtype, longest: int) -> str | None:
        config = self.model.config
        missing = None if self.force_packing else varlen.no_kernel(config, device, dtype)
        return varlen.unsupported(config, longest) or missing

    def token_logits(self, states: Tensor) -> Tensor:
        """Scores over the vocabulary, of shape (M, V), for M states of shape (M, H).

        Raises:
            ValueError: if there is no MLM head (see ``add_mlm_head``).
        """
        if self._head is None:
            raise ValueError(f"{self.origin} has no MLM head; add_mlm_head() makes one.")
        for part in self._head:
            states = getattr(self.model, part)(states)
        return states

    def add_mlm_head(self) -> None:
        """Gives the model its family's MLM head, randomly initialised and tied to the token embeddings.

        Raises:
            UserError: if the family has none.
        """
        if self._head is not None:
            return
        config = self.model.config
        headed = models.untrained(config, {"attn_implementation": config._attn_implementation})
        head = models.head_parts(headed)
        if head is None:
            raise UserError(f"{self.origin}: the family {config.model_type} has no MLM head.")
        pooler.carry(self.model, headed.base_model)
        headed.base_model.load_state_dict(self.model.state_dict())
        headed.tie_weights()
        self.model = headed.to(next(self.model.parameters()).device).train(self.training)
        self._head = head

    @property
    def pooled_dimension(self) -> int:
        return self.state_dimension

    def add_pooler(self) -> None:
        """Gives the model its family's pooler, if there is such: that of its first weights, else a random one."""
        pooler.add(self.backbone, self._folder)

    def pooled(self, encoding: Encoding) -> Tensor:
        """The first token's states, of shape (B, H), through the pooler if there is one."""
        return pooler.pooled(self.backbone, encoding.states)

    @property
    def poolings(self) -> tuple[str, ...]:
        """All of ``pool``, and "pooler" where the model or its first weights have one."""
        trained = pooler.has_pooler(self.backbone) or pooler.saved(self.backbone, self._folder)
        return (*POOLINGS, *([POOLER] if trained else []))

    def pool_by(self, pooling: str) -> None:
        if pooling not in self.poolings:
            if pooling == POOLER:
                raise UserError(
                    f"pooling=pooler: {self.origin} has no trained pooler, as BERT, ALBERT and what objective=nsp "
                    "or sop trained have: take cls or mean."
                )
            raise ValueError(f"pooling must be one of {', '.join(self.poolings)}. Got {pooling} instead.")
        if pooling == POOLER:
            self.add_pooler()
        self.pooling = pooling

    def forward_flops(self, tokens: int, length: float) -> float:
        """2 a weight and token, 4 * layers * H a token and position (Kaplan et al. 2020, section 2.1)."""
        config = self.model.config
        weights = _linear_weights(self.backbone)
        if config.model_type == "albert":  # the same weights in every layer
            shared = _linear_weights(self.backbone.encoder.albert_layer_groups)
            weights += shared * (config.num_hidden_layers // config.num_hidden_groups - 1)
        return tokens * (2.0 * weights + 4.0 * config.num_hidden_layers * length * config.hidden_size)

    def head_flops(self, tokens: int) -> float:
        """2 a weight of the head and token; 0 without a head."""
        parts = [getattr(self.model, part) for part in self._head or ()]
        return 2.0 * tokens * sum(_linear_weights(part) for part in parts if isinstance(part, nn.Module))

    def settings(self) -> dict[str, Any]:
        config = {key: value for key, value in self.model.config.to_dict().items() if key not in _ABOUT}
        return {
            "pooling": self.pooling,
            "normalize": self.normalize,
            "dense": [dense.name for dense in self.dense],
            "config": json.loads(json.dumps(config, default=str)),
        }

    def save(self, folder: Path | str, card: str | None = None, *, dtype: torch.dtype | None = None) -> None:
        """Writes a folder that ``load``, sentence-transformers and transformers open; all of it or nothing.

        Args:
            folder: to be made, or an encoder's folder to be replaced.
            card: its README.md; None writes what is known of the weights.
            dtype: type of the saved weights (torch.float16, say); None keeps float32.

        Raises:
            UserError: if ``folder`` exists and is not an encoder's, or the pooling is "pooler", which others lack.
        """
        if self.pooling == POOLER:
            raise UserError(
                "pooling=pooler is for evaluation only: pool_by cls, say, before the encoder is saved."
            )
        folder = Path(folder)
        model, maps = (
            (self.model, self.dense)
            if dtype is None
            else (copy.deepcopy(self.model).to(dtype), copy.deepcopy(self.dense).to(dtype))
        )
        for name, parameter in model.named_parameters():
            folders.require_finite(parameter, f"{folder}: {name}")  # in half precision, large ones are not
        # A pooler that the weights do not have would only be drawn at random when others open the folder.
        lacks_pooler = pooler.has_place(self.backbone) and not pooler.has_pooler(self.backbone)
        layout = Layout(
            Path(),
            self.pooling,
            tuple(Path() for _ in maps),
            self.normalize,
            self.format.max_length,
            self._lowercase,
        )
        marker = {
            "class": f"{type(self).__module__}.{type(self).__name__}",
            "pooling": self.pooling,
            "normalize": self.normalize,
            "weights": self.weights,
            "origin": self.origin,
        }
        backend = self.tokenizer.backend_tokenizer
        backend.no_truncation()
        backend.no_padding()
        with atomic_folder(folder) as unfinished, models.quiet():
            model.save_pretrained(unfinished)
            self.tokenizer.save_pretrained(unfinished)
            arguments = {"add_pooling_layer": False} if lacks_pooler else {}
            places = write_layout(unfinished, layout, self.state_dimension, arguments)
            for dense, place in zip(maps, places, strict=True):
                dense.save(place)  # type: ignore[operator]
            write_json(unfinished / offline.MARKER, marker)
            (unfinished / "README.md").write_text(
                card or model_card(title=folder.name, encoder=self), encoding="utf-8"
            )

    @classmethod
    def load(cls, folder: Path | str) -> Transformer:
        """Opens what ``save`` wrote, or a folder of sentence-transformers or transformers."""
        return cls(path=str(folder), weights="pretrained")

    def _attention_mask(self, tokens: Tokens) -> Tensor | None:
        if bool((tokens.lengths == tokens.ids.shape[1]).all()):  # no padding; lengths are on the host
            return None
        config = self.model.config
        whole = config.model_type in models.SEE_ALL and config._attn_implementation in ("sdpa", varlen.NAME)
        if tokens.mask.device.type == "cpu" or not whole:
            return tokens.mask
        return models.full_mask(tokens.mask)  # transformers would look into the mask: the host waits for the GPU


def _linear_weights(module: nn.Module) -> int:
    return sum(inner.weight.numel() for inner in module.modules() if isinstance(inner, nn.Linear))


def _check(
    name: str | None,
    path: str | None,
    weights: str,
    shape: Mapping[str, Any] | None,
    heads: str,
    words: str,
) -> None:
    for key, begin, other in (("words", words, "cooccurrence"), ("heads", heads, "neighbours")):
        if begin == other and weights != "random":
            raise ValueError(f"encoder.{key}={other} is how a random start begins: say weights=random too.")
    if weights == "random" and not shape:
        raise ValueError("encoder.shape must say how large a random model is to be. Got nothing instead.")
    if weights == "random" and path is not None:
        raise ValueError(
            "encoder.path names trained weights, and weights=random wants none: leave one of them out."
        )
    if weights == "pretrained" and name is None and path is None:
        raise ValueError("encoder.name or encoder.path must be given where weights=pretrained.")
    if name is None and path is None and not shape:
        raise ValueError("encoder.name, encoder.path or encoder.shape must be given. Got none of them.")


def _no_mask_token(name: str) -> UserError:
    return UserError(
        f"objective.mlm_weight needs a mask token, and {name} has none: "
        "choose another encoder or objective.mlm_weight=0."
    )
