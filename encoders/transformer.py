"""Any transformer of the Hugging Face library as a sentence encoder, with its masked-language-model head."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional as F
from transformers import PreTrainedTokenizerFast

from data.batch import Tokens
from data.errors import UnfitError, UserError, reading
from data.files import write_json
from data.ranges import Below1, Existing, SizeOrZero
from data.tokenizer import BytePairs, Recipe, train_bpe
from encoders import hub, kernels, mlm_heads, packed, varlen
from encoders.api import Encoding
from encoders.base import Encoder, token_format
from encoders.model_folder import open_config, open_model, open_module, open_tokenizer, save_model
from encoders.pooling import (
    FIRST_LAST,
    POOLER,
    POOLINGS,
    Pooling,
    add_pooler,
    has_pooler,
    pool,
    pooler_output,
    takes_pooler,
)
from encoders.random_models import configuration, random_model, with_dropout
from encoders.saving import NO_LIMIT, Layout, read_layout, write_modules, write_pooling
from encoders.smoke_test import smoke_test

IGNORED_KEYS = ("_name_or_path", "architectures", "dtype", "transformers_version")  # do not affect vectors


class Transformer(Encoder):
    """A transformer pooled to one vector for each sentence, with an MLM head if the weights have one.

    Args:
        name: a model of the Hugging Face hub, or a checkpoint in ``encoders/checkpoints``.
        path: a local folder instead: one of this suite, of sentence-transformers or of transformers.
        pooling: "mean", "cls", "max" or "last"; None takes the folder's own, else "mean".
        weights: "pretrained" (never falls back), "auto" (falls back to the bundled weights where the hub cannot be
            reached and ``shape`` is given, see ``fallback``; without ``name`` and ``path``: random ones), or
            "random" (of ``shape``).
        max_length: longest input in tokens, special ones included; None takes the model's limit.
        shape: "model_type" and sizes by the names of the family's configuration class, for random initialisation.
        vocab_size: of the byte-level BPE that is trained for random weights.
        dropout: probability everywhere in the model; None leaves the model's own.
        attention: implementation of attention by transformers' name ("sdpa", "eager", ...).
        normalize: whether vectors are scaled to length 1; None: as the folder has it.
        layers: number of the model's first layers to keep; None: all.
        tokenizer: of a randomly initialised model.

    Attributes:
        model: the transformers model, with its head if it has one.
        others: modules of sentence-transformers that follow the pooling, none in most folders.
        packing: decides whether a batch is packed.

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
        layers: SizeOrZero | None = None,
        tokenizer: PreTrainedTokenizerFast | None = None,
    ) -> None:
        super().__init__()
        self.untrained = self.tokenizer_recipe(weights=weights, name=name, path=path, shape=shape) is not None
        where = "encoder.shape" if self.untrained else path or f"{name}"
        with reading("encoder", where):
            if self.untrained:
                assert tokenizer is not None and shape is not None, "random weights need a tokenizer"
                layout, others = Layout(Path()), list[Any]()
                config = with_dropout(configuration(shape, tokenizer), dropout)
                self.model, self.tokenizer, self.weights = random_model(config), tokenizer, "random"
                size = f"{config.num_hidden_layers} layers x {config.hidden_size}"
                self.origin = f"random {config.model_type}, {size}, vocabulary of {config.vocab_size}"
            else:
                source = hub.resolve(name, path, fallback=bool(shape) and weights == "auto")
                self.weights, self.origin, self.fallback = source.weights, source.origin, source.fallback
                sizes = shape if shape and source.weights == "bundled" and not source.fallback else {}
                layout = read_layout(source.folder)
                config = with_dropout(open_config(layout.transformer), dropout)
                for key, value in sizes.items():
                    if isinstance(value, int) and getattr(config, key, value) != value:
                        raise UserError("bundled weights have another one", key=f"encoder.shape.{key}={value}")
                self.tokenizer = open_tokenizer(layout.transformer, config)
                self.model = open_model(layout.transformer, config)
                others = [open_module(source.folder, *module) for module in layout.others]
            if layers is not None:
                self.keep_layers(layers)
            self.others = nn.ModuleList(others)
            self.pooling = pooling or layout.pooling or "mean"
            self.normalize = layout.normalize if normalize is None else normalize
            self.state_dimension = config.hidden_size
            parameters = inspect.signature(self.backbone.forward).parameters
            self._takes_mask = "attention_mask" in parameters
            self._takes_type_ids = "token_type_ids" in parameters and getattr(config, "type_vocab_size", 0) > 1
            self.packing = varlen.Packing(self.model.config)
            stated = min(self.tokenizer.model_max_length, layout.max_length or NO_LIMIT)
            self.eval()  # the outer module too, as transformers' loading does
            self.format = token_format(self.tokenizer, NO_LIMIT)
            positions = getattr(config, "max_position_embeddings", None)
            self.dimension, limit, sees_padding = smoke_test(
                lambda tokens: self(tokens).sentence, self.format, positions
            )
            self.equal_lengths = sees_padding or self._is_sparse
            if max_length is not None and max_length > limit:
                raise UserError(f"the model's limit is {limit}", key=f"encoder.max_length={max_length}")
            self.format = token_format(self.tokenizer, max_length or min(limit, stated))
            if attention is None:
                varlen.enable(self.model)
            else:
                self.model.set_attn_implementation(attention)

    @classmethod
    def tokenizer_recipe(
        cls,
        *,
        weights: str = "auto",
        name: str | None = None,
        path: str | None = None,
        vocab_size: int = 8192,
        shape: Mapping[str, Any] | None = None,
        **settings: Any,
    ) -> Recipe | None:
        if weights == "random" and path is not None:
            raise UserError("names trained weights, and weights=random excludes them", key="encoder.path")
        if weights != "random" and (name or path):
            return None
        if weights == "pretrained":
            raise UserError("not set, and weights=pretrained needs it", key="encoder.name")
        if not shape:
            raise UserError("not set, and random weights need it", key="encoder.shape")
        return train_bpe, {"vocab_size": vocab_size}

    @property
    def backbone(self) -> Any:
        """The transformers model without its head."""
        return self.model.base_model

    def forward(self, tokens: Tokens) -> Encoding:
        if self.packs(tokens):
            states = varlen.states(self.backbone, tokens, self._takes_type_ids)  # (B, T, H)
        elif self.equal_lengths:
            states = torch.zeros(*tokens.ids.shape, self.state_dimension, device=tokens.ids.device)
            for length in tokens.lengths.unique().tolist():
                rows = (tokens.lengths == length).nonzero().squeeze(1)
                states[rows, :length] = self._states(tokens.rows(rows)).float()
        else:
            states = self._states(tokens)
        by_pooler, how = self.pooling == POOLER, "mean" if self.pooling == FIRST_LAST else self.pooling
        sentence = pooler_output(self.backbone, states) if by_pooler else pool(states, tokens.mask, how)
        for module in self.others:
            sentence = module({"sentence_embedding": sentence})["sentence_embedding"]
        return Encoding(states, tokens.mask, F.normalize(sentence, dim=-1) if self.normalize else sentence)

    def _states(self, tokens: Tokens) -> Tensor:
        """Computes the states of padded rows, of shape (B, T, H); with "first_last", their mean with the first."""
        more: dict[str, Any] = {"token_type_ids": tokens.type_ids} if self._takes_type_ids else {}
        if self._takes_mask:
            more["attention_mask"] = self._attention_mask(tokens)
        if self._is_sparse:  # BigBird sees a short text, changes to full attention and stays at it
            self.backbone.set_attention_type("block_sparse")
        with kernels.without_cudnn_attention(tokens.ids.device):
            if self.pooling != FIRST_LAST:
                return self.backbone(input_ids=tokens.ids, **more).last_hidden_state
            output = self.backbone(input_ids=tokens.ids, **more, output_hidden_states=True)
            last: Tensor = output.last_hidden_state
            first = output.hidden_states[0] if output.hidden_states else last  # a model without layers lists none
            return (first + last) / 2

    def _attention_mask(self, tokens: Tokens) -> Tensor | None:
        device = tokens.ids.device.type
        if device == packed.COUNTED or (tokens.lengths == tokens.ids.shape[1]).all():  # lengths are on the host
            return None
        if device != "cpu" and self.packing.sees_all:
            # From a mask (B, T) transformers would read values, for which the host waits for the GPU.
            return tokens.mask[:, None, None, :].expand(-1, -1, tokens.mask.shape[1], -1)
        return tokens.mask.long()

    @property
    def _is_sparse(self) -> bool:
        return getattr(self.model.config, "attention_type", "") == "block_sparse"

    def can_pack(self, device: torch.device, dtype: torch.dtype, longest: int) -> bool:
        return self.pooling != FIRST_LAST and self.packing.fits(device, dtype, longest)

    @property
    def has_mlm_head(self) -> bool:
        readable = self.pooling != FIRST_LAST and self.format.mask_id is not None
        return readable and mlm_heads.head_parts(self.model) is not None

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        varlen.register()  # in the process that unpickles

    def token_logits(self, states: Tensor) -> Tensor:
        return mlm_heads.token_logits(self.model, states) if self.has_mlm_head else super().token_logits(states)

    def add_mlm_head(self) -> None:
        """Adds the family's MLM head, randomly initialised and tied to the token embeddings."""
        if self.has_mlm_head:
            return
        headed: Any = random_model(self.model.config)
        if not mlm_heads.head_parts(headed) or self.format.mask_id is None:
            raise UnfitError("has no mask token, or its family no head for masked words", key=self.origin)
        headed.config = self.model.config
        setattr(headed, headed.base_model_prefix, self.model)
        headed.tie_weights()
        self.model = headed.to(self.model.device).train(self.training)
        if not self.untrained:
            self.origin += ", with a random MLM head"

    def add_pooler(self) -> None:
        """Adds the family's pooler, randomly initialised, if the weights have none."""
        add_pooler(self.backbone)

    def sequence_features(self, encoding: Encoding) -> Tensor:
        """Returns the input of a classifier of whole sequences, of shape (B, H).

        This is the first token's state, through the pooler if there is one.
        """
        return pooler_output(self.backbone, encoding.states)

    @property
    def poolings(self) -> tuple[str, ...]:  # type: ignore[override]
        """All of ``POOLINGS``, "first_last", and "pooler" if the model has one."""
        return (*POOLINGS, FIRST_LAST, *([POOLER] if has_pooler(self.backbone) else []))

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
        config = {key: value for key, value in self.model.config.to_dict().items() if key not in IGNORED_KEYS}
        return {
            "pooling": self.pooling,
            "normalize": self.normalize,
            "dense": [*map(str, self.others)],
            "config": config,
        }

    def write_files(self, folder: Path) -> dict[str, Any]:
        """Writes files that sentence-transformers opens, and transformers without the MLM head.

        Raises:
            UserError: if sentence-transformers does not have the pooling.
        """
        if self.pooling not in POOLINGS:
            text = "is for evaluation only, not for an encoder that is saved"
            raise UserError(text, key=f"pooling={self.pooling}")
        save_model(self.model, folder)
        self.tokenizer.save_pretrained(folder)
        kinds = [*(type(module).__name__ for module in self.others), *["Normalize"] * bool(self.normalize)]
        further = [(f"{place}_{kind}", kind) for place, kind in enumerate(kinds, 2)]
        write_modules(folder, [("", "Transformer"), ("1_Pooling", "Pooling"), *further])
        write_pooling(folder / "1_Pooling", self.pooling, self.state_dimension)
        for path, _ in further:
            (folder / path).mkdir()  # that of Normalize stays empty
        for (path, _), module in zip(further, self.others, strict=False):
            module.save(str(folder / path))  # type: ignore[operator]
        settings: dict[str, Any] = {"max_seq_length": self.format.max_length}
        if takes_pooler(self.backbone) and not has_pooler(self.backbone):  # transformers would add a random one
            settings["model_args"] = {"add_pooling_layer": False}
        write_json(folder / "sentence_bert_config.json", settings)
        return {"pooling": self.pooling, "normalize": self.normalize}
