"""A transformer's forward pass over packed rows: one sequence of real tokens, no padding.

    ids (B, T)  ->  (1, N), N real tokens; a token attends to its own row only  ->  states (B, T, H)

Each attention layer gets the rows' boundaries as cumulative lengths, among the keyword arguments that transformers
passes on; ``register`` registers the attention function with transformers under ``NAME``. (``encoders/packed.py``
packs rows for recurrent layers, in another order of the tokens.)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from transformers import PretrainedConfig

from data.batch import Tokens, to_device

NAME = "packed|sdpa"
# Families whose packed states were tested equal to the padded ones. Others count positions or bias attention in a
# way that packing breaks (MPNet, DeBERTa), or are untested; they keep the padded path.
FAMILIES = frozenset(
    ("albert", "bert", "camembert", "distilbert", "electra", "modernbert", "roberta", "xlm-roberta")
)
HALF = (torch.float16, torch.bfloat16)


def enable(model: Any) -> None:
    """Sets a model to the attention that can run packed, if it is of one of ``FAMILIES`` and uses "sdpa".

    Padded batches still go through "sdpa" itself, with its masks.
    """
    if Packing(model.config).possible and model.config._attn_implementation == "sdpa":
        register()
        model.set_attn_implementation(NAME)


def register() -> None:
    """Registers the attention function in this process, for models that ``enable`` has prepared."""
    from transformers import AttentionInterface, AttentionMaskInterface  # takes seconds

    AttentionInterface.register(NAME, attention)
    AttentionMaskInterface.register(NAME, AttentionMaskInterface()["sdpa"])


@dataclass
class Packing:
    """Decides whether a model computes a batch as one packed sequence.

    Args:
        config: configuration of the model.

    Attributes:
        forced: whether batches are packed on any device and in any precision, if the model can.
    """

    config: PretrainedConfig
    forced = False

    @property
    def sees_all(self) -> bool:
        """Returns whether a token attends to all real tokens, by a kernel with a mask of shape (B, 1, T, T)."""
        return self.possible and not self._has_windows and self.config._attn_implementation in ("sdpa", NAME)

    @property
    def possible(self) -> bool:
        """Returns whether the model is of one of ``FAMILIES`` and not causal: only windows limit its attention."""
        return self.config.model_type in FAMILIES and not getattr(self.config, "is_decoder", False)

    @property
    def _has_windows(self) -> bool:
        return "sliding_attention" in (getattr(self.config, "layer_types", None) or ())

    def fits(self, device: torch.device, dtype: torch.dtype, longest: int) -> bool:
        """Returns whether a batch is packed.

        In float32 on a GPU the padded path is taken: flash attention is for half precision only, and a loop over
        the rows would cost more than the padding.

        Args:
            device: of the batch.
            dtype: that its products are computed in.
            longest: tokens of its longest row.
        """
        config = self.config
        if not self.possible or config._attn_implementation != NAME:
            return False
        if self._has_windows and longest > config.sliding_window:
            return False
        return self.forced or (
            device.type == "cuda"
            and dtype in HALF
            and config.hidden_size // config.num_attention_heads % 8 == 0  # width of a head
            and torch.backends.cuda.is_flash_attention_available()
            and torch.cuda.get_device_capability(device) >= (8, 0)
        )


def states(backbone: Any, tokens: Tokens, takes_type_ids: bool) -> Tensor:
    """Computes the states of ``tokens`` in one packed pass, of shape (B, T, H), 0 at padding.

    Args:
        backbone: a model that ``enable`` has prepared and that can be packed (see ``Packing``).
        tokens: with at least one real token.
        takes_type_ids: whether the model has segment embeddings.
    """
    ids, device, lengths, width = tokens.ids, tokens.ids.device, tokens.lengths, tokens.ids.shape[1]
    # Computed on the host, which then never waits for a GPU: places of the N real tokens in the flattened block;
    # 0 and the end of each row that is not empty.
    places = to_device((torch.arange(width) < lengths[:, None]).flatten().nonzero().squeeze(1), device)
    ends = to_device(F.pad(lengths[lengths > 0].cumsum(0), (1, 0)).to(torch.int32), device)

    def pack(block: Tensor) -> Tensor:
        return block.flatten().index_select(0, places)[None]  # (1, N)

    count = getattr(backbone.embeddings, "create_position_ids_from_input_ids", None)  # RoBERTa's family
    positions = (places % width)[None] if count is None else pack(count(ids, backbone.embeddings.padding_idx))
    types = {}
    if takes_type_ids and tokens.type_ids is not None:
        types["token_type_ids"] = pack(tokens.type_ids)
    packed = backbone(
        input_ids=pack(ids),
        # A mask that no implementation of attention takes: if a layer does not get the lengths, the pass fails
        # instead of attending across rows.
        attention_mask=torch.zeros(1, 1, 1, 1, dtype=torch.int8, device=device),
        position_ids=positions,
        cu_seq_lens_q=ends,
        max_length_q=int(lengths.max()),
        **types,
    ).last_hidden_state[0]  # (N, H)
    padded = packed.new_zeros(ids.numel(), packed.shape[1]).index_copy(0, places, packed)
    return padded.view(*ids.shape, -1)


def attention(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    dropout: float = 0.0,
    scaling: float | None = None,
    cu_seq_lens_q: Tensor | None = None,
    max_length_q: int = 0,
    **more: Any,
) -> tuple[Tensor, Tensor | None]:
    """Computes attention within rows if cumulative lengths are given, else transformers' "sdpa".

    Args:
        module: the attention layer.
        query, key, value: of shape (1, heads, N, D) where rows are packed, else (B, heads, T, D).
        attention_mask: not used where rows are packed.
        dropout: probability of a weight to be dropped.
        scaling: of the scores; None: D ** -0.5.
        cu_seq_lens_q: 0 and the end of each row, of shape (rows + 1,), int32; None where rows are padded.
        max_length_q: tokens of the longest row.
        more: further arguments for "sdpa".

    Returns:
        The output, of shape (1, N, heads, D) or (B, T, heads, D), and None in place of the weights.
    """
    if cu_seq_lens_q is None:
        from transformers.integrations.sdpa_attention import sdpa_attention_forward as sdpa

        return sdpa(module, query, key, value, attention_mask, dropout=dropout, scaling=scaling, **more)
    if query.is_cuda and query.dtype in HALF:
        return _flash(query, key, value, cu_seq_lens_q, max_length_q, dropout, scaling), None
    return _row_by_row(query, key, value, cu_seq_lens_q, dropout, scaling), None


def _row_by_row(
    query: Tensor, key: Tensor, value: Tensor, ends: Tensor, dropout: float, scaling: float | None
) -> Tensor:
    """Computes attention row by row, on any device and in any type; on a GPU the host waits for ``ends``."""
    rows = zip(*(part.split(ends.diff().tolist(), dim=2) for part in (query, key, value)), strict=True)
    outputs = [F.scaled_dot_product_attention(q, k, v, dropout_p=dropout, scale=scaling) for q, k, v in rows]
    return torch.cat(outputs, dim=2).transpose(1, 2)


def _flash(
    query: Tensor, key: Tensor, value: Tensor, ends: Tensor, longest: int, dropout: float, scaling: float | None
) -> Tensor:
    """Calls flash attention's kernel directly: ``torch.nn.attention.varlen`` has no dropout."""
    query, key, value = (part[0].transpose(0, 1) for part in (query, key, value))  # (N, heads, D)
    output, *_ = torch.ops.aten._flash_attention_forward(
        query, key, value, ends, ends, longest, longest, dropout, False, False, scale=scaling
    )
    return output[None]
