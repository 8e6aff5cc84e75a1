"""Any transformer of the Hugging Face library as a sentence encoder, with its masked-language-model head."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional as F

from data.batch import Tokens
from data.errors import UserError, reading
from data.ranges import Below1, Existing
from data.tokenizer import BytePairs
from encoders import folder as folders
from encoders import kernels, models, starts, varlen
from encoders.base import Encoder, Encoding
from encoders.folder import NO_LIMIT
from encoders.layout import Layout, write_layout
from encoders.pooling import (
    POOLER,
    POOLINGS,
    Pooling,
    add_pooler,
    has_pooler,
    pool,
    pooler_output,
    saved_pooler,
    share_pooler,
    takes_pooler,
)

# Keys of the model's configuration that do not affect vectors.
_IGNORED_KEYS = ("_name_or_path", "architectures", "dtype", "transformers_version")


class Transformer(Encoder):
    """A transformer pooled to one vector for each sentence, with an MLM head if the weights have one.

    Args:
        name: a model of the Hugging Face hub, or a checkpoint in ``encoders/checkpoints``.
        path: a local folder instead: one of this suite, of sentence-transformers or of transformers.
        pooling: "mean", "cls", "max" or "last"; None takes the folder's own, else "mean".
        weights: "pretrained" (never falls back), "auto" (falls back to bundled weights, else to a small
            random model, see ``fallback``), or "random" (of ``shape``).
        max_length: longest input in tokens, special ones included; None takes the model's limit.
        shape: "model_type" and sizes by the names of the family's configuration class, for random
            initialisation.
        vocab_size: of the byte-level BPE that random initialisation trains on ``texts``.
        dropout: probability everywhere in the model; None leaves the model's own.
        attention: implementation of attention by transformers' name ("sdpa", "eager", ...).
        texts: returns the texts that the tokenizer of a randomly initialised model is trained on.
        texts_key: returns a name for the texts, under which a cached tokenizer is found without reading them.
        cache: folder of cached tokenizers.
        tokenizer: folder of the tokenizer of a randomly initialised model, instead of training one.
        require_mask_token: whether a model without a mask token is refused, before its weights are downloaded.
        normalize: whether vectors are scaled to length 1; None: as the folder has it.
        device: device of the model.

    Attributes:
        fallback: the warning if ``weights=auto`` did not get the weights of ``name``, else None.
        model: the transformers model, with its head if it has one.
        dense: the linear maps that follow the pooling, none in most folders.
        force_packing: whether rows are packed on any device and in any precision, if the model can.

    The encoder starts in eval mode. Random weights are drawn from torch's global generator, as transformers'
    initialisers take no other.

    Raises:
        UserError: if two arguments contradict each other, the weights are not available, or the tokenizer lacks a
            required mask token.

    References: Reimers and Gurevych (2019), "Sentence-BERT"; Giorgi et al. (2021), "DeCLUTR", section 3.1.
    """

    computes_padding = True
    force_packing = False

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
        texts: Callable[[], Iterable[str]] | None = None,
        texts_key: Callable[[], str] | None = None,
        cache: Path | None = None,
        tokenizer: Path | None = None,
        require_mask_token: bool = False,
        normalize: bool | None = None,
        device: torch.device | str | None = None,
    ) -> None:
        super().__init__()
        start = starts.transformer(
            name=name,
            path=path,
            weights=weights,
            shape=shape,
            vocab_size=vocab_size,
            max_length=max_length,
            dropout=dropout,
            attention=attention,
            texts=texts,
            texts_key=texts_key,
            cache=cache,
            tokenizer=tokenizer,
            require_mask_token=require_mask_token,
        )
        self.model, self.tokenizer, layout = start.model, start.tokenizer, start.layout
        self.weights, self.fallback, self.origin = start.source.weights, start.source.fallback, start.origin
        self.untrained = start.folder is None
        self._folder = start.folder  # of the first weights
        if attention is None:
            varlen.enable(self.model)
        self.pooling = pooling or layout.pooling or "mean"
        self.normalize = layout.normalize if normalize is None else normalize
        self._lowercase = layout.lowercase
        self._head = models.head_parts(self.model)
        self.dense = nn.Sequential(*start.dense)
        self.state_dimension = self.model.config.hidden_size
        self.dimension = start.dense[-1].linear.out_features if start.dense else self.state_dimension
        self.format = start.format
        types = inspect.signature(self.backbone.forward).parameters.keys() & {"token_type_ids"}
        self._takes_type_ids = bool(types) and getattr(self.model.config, "type_vocab_size", 0) > 1
        self.eval()  # the outer module too, as transformers' loading does
        if start.source.folder is not None and attention is None:  # another implementation may need a GPU
            with reading("encoder", start.source.folder):
                folders.try_out(self)
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
        by_pooler = self.pooling == POOLER
        vector = pooler_output(self.backbone, states) if by_pooler else pool(states, tokens.mask, self.pooling)
        sentence = self.dense(vector)  # (B, D)
        return Encoding(states, tokens.mask, F.normalize(sentence, dim=-1) if self.normalize else sentence)

    def padding_reason(self, device: torch.device, dtype: torch.dtype, longest: int) -> str | None:
        config = self.model.config
        missing = None if self.force_packing else varlen.no_kernel(config, device, dtype)
        return varlen.unsupported(config, longest) or missing

    def token_logits(self, states: Tensor) -> Tensor:
        """Computes scores over the vocabulary, of shape (M, V), for M states of shape (M, H).

        Raises:
            ValueError: if there is no MLM head (see ``add_mlm_head``).
        """
        if self._head is None:
            raise ValueError(f"{self.origin} has no MLM head; add_mlm_head() adds one.")
        for part in self._head:
            states = getattr(self.model, part)(states)
        return states

    def add_mlm_head(self) -> None:
        """Adds the family's MLM head, randomly initialised and tied to the token embeddings.

        Raises:
            UserError: if the family has none.
        """
        if self._head is not None:
            return
        config = self.model.config
        headed = models.untrained(config, {"attn_implementation": config._attn_implementation})
        head = models.head_parts(headed)
        if head is None:
            raise UserError(f"the family {config.model_type} has no MLM head", key=self.origin)
        share_pooler(self.model, headed.base_model)
        headed.base_model.load_state_dict(self.model.state_dict())
        headed.tie_weights()
        self.model = headed.to(next(self.model.parameters()).device).train(self.training)
        self._head = head

    @property
    def sequence_dimension(self) -> int:
        return self.state_dimension

    def add_pooler(self) -> None:
        """Adds the family's pooler, if it has one: that of the first weights, else a random one."""
        add_pooler(self.backbone, self._folder)

    def sequence_features(self, encoding: Encoding) -> Tensor:
        """Returns the input of a classifier of whole sequences, of shape (B, H).

        This is the first token's state, through the pooler if there is one.
        """
        return pooler_output(self.backbone, encoding.states)

    @property
    def poolings(self) -> tuple[str, ...]:
        """All of ``POOLINGS``, and "pooler" if the model or its first weights have one."""
        trained = has_pooler(self.backbone) or saved_pooler(self.backbone, self._folder)
        return (*POOLINGS, *([POOLER] if trained else []))

    def pool_by(self, pooling: str) -> None:
        super().pool_by(pooling)
        if pooling == POOLER:
            self.add_pooler()
        self.pooling = pooling

    def forward_flops(self, tokens: int, length: float) -> float:
        """Returns tokens * (2 * weights + 4 * layers * length * H).

        Reference: Kaplan et al. (2020), "Scaling Laws for Neural Language Models", section 2.1.
        """
        config = self.model.config
        weights = _linear_weights(self.backbone)
        if config.model_type == "albert":  # the same weights in every layer
            shared = _linear_weights(self.backbone.encoder.albert_layer_groups)
            weights += shared * (config.num_hidden_layers // config.num_hidden_groups - 1)
        return tokens * (2.0 * weights + 4.0 * config.num_hidden_layers * length * config.hidden_size)

    def head_flops(self, tokens: int) -> float:
        """Counts 2 per weight of the head and token; 0 without a head."""
        parts = [getattr(self.model, part) for part in self._head or ()]
        return 2.0 * tokens * sum(_linear_weights(part) for part in parts if isinstance(part, nn.Module))

    def settings(self) -> dict[str, Any]:
        config = {key: value for key, value in self.model.config.to_dict().items() if key not in _IGNORED_KEYS}
        return {
            "pooling": self.pooling,
            "normalize": self.normalize,
            "dense": [dense.name for dense in self.dense],
            "config": json.loads(json.dumps(config, default=str)),
        }

    def write_files(self, folder: Path) -> dict[str, Any]:
        """Writes files that sentence-transformers opens, and transformers without the MLM head.

        Raises:
            UserError: if a weight is not finite, no layer is left of a model with ``layer_types``, or the pooling
                is "pooler", which sentence-transformers does not support.
        """
        if self.pooling == POOLER:
            raise UserError("is for evaluation only, not for an encoder that is saved", key="pooling=pooler")
        if getattr(self.model.config, "layer_types", None) == []:
            raise UserError("is for evaluation only, not for an encoder that is saved", key="layers=0")
        for name, parameter in self.named_parameters():
            folders.require_finite(parameter, name)  # in half precision, large weights overflow
        models.save_model(self.model, folder)
        self.tokenizer.save_pretrained(folder)
        # Without this, transformers would add a randomly initialised pooler when it opens the folder.
        lacks_pooler = takes_pooler(self.backbone) and not has_pooler(self.backbone)
        layout = Layout(
            Path(),
            self.pooling,
            tuple(Path() for _ in self.dense),
            self.normalize,
            self.format.max_length,
            self._lowercase,
        )
        arguments = {"add_pooling_layer": False} if lacks_pooler else {}
        places = write_layout(folder, layout, self.state_dimension, arguments)
        for dense, place in zip(self.dense, places, strict=True):
            dense.save(place)  # type: ignore[operator]
        return {"pooling": self.pooling, "normalize": self.normalize}

    @classmethod
    def load(cls, folder: Path | str) -> Self:
        """Opens a folder that ``save`` wrote, or one of sentence-transformers or transformers."""
        return cls(path=str(folder), weights="pretrained")

    def _attention_mask(self, tokens: Tokens) -> Tensor | None:
        if bool((tokens.lengths == tokens.ids.shape[1]).all()):  # no padding; lengths are on the host
            return None
        config = self.model.config
        uses_sdpa = config._attn_implementation in ("sdpa", varlen.NAME)
        sees_all = varlen.can_pack(config) and not varlen.has_windows(config)
        if tokens.mask.device.type == "cpu" or not uses_sdpa or not sees_all:
            return tokens.mask
        # From a mask (B, T) transformers would read values, for which the host waits for the GPU.
        return models.full_mask(tokens.mask)


def _linear_weights(module: nn.Module) -> int:
    return sum(inner.weight.numel() for inner in module.modules() if isinstance(inner, nn.Linear))
