"""A transformer encoder's own weights as a decoder, which sees the sentence vector through cross-attention alone.

    h_t = T(y_1 .. y_t; s)        p(y_t+1 | y_<=t, s) = softmax(head(h_t))

T is the encoder's stack with causal attention, and after each self-attention a cross-attention to the one vector
s, whose weights are the only own ones. Wang, Reimers and Gurevych (2021), "TSDAE", section 3.
"""

from __future__ import annotations

import copy
from itertools import chain
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.func import functional_call

from data.batch import Tokens
from data.errors import UnfitError
from encoders import kernels
from encoders.base import Encoder
from encoders.pooling import takes_pooler

if TYPE_CHECKING:
    from encoders.transformer import Transformer

CROSS = "crossattention"  # what the families that have one call the layer's part


def decoder_form(encoder: Transformer) -> tuple[Any, list[nn.Module]]:
    """The encoder's stack as a decoder, without weights (on torch's device "meta"), and its cross-attentions.

    Raises:
        UnfitError: if it has no such form, or its sentence vector is not as wide as its states.
    """
    backbone, config = encoder.backbone, copy.deepcopy(encoder.model.config)
    if encoder.dimension != encoder.state_dimension:
        raise UnfitError(
            f"objective=tsdae: a tied decoder reads vectors as wide as its states, {encoder.state_dimension}, "
            f"and these have {encoder.dimension}: take an encoder without linear maps after its pooling."
        )
    config.is_decoder, config.add_cross_attention, config.use_cache = True, True, False
    with torch.device("meta"):
        body: Any = type(backbone)(config, **({"add_pooling_layer": False} if takes_pooler(backbone) else {}))
    parts = [part for name, part in body.named_modules() if name.endswith(f".{CROSS}")]
    if not parts:
        raise UnfitError(
            f"objective=tsdae ties a decoder to the encoder, and the family {config.model_type} has no such "
            "form: take another one (bert, roberta, xlm-roberta, camembert, electra), or an encoder that is "
            "no transformer."
        )
    return body, parts


class TiedDecoder(nn.Module):
    """The decoder of one transformer, whose weights it borrows at each call.

    Its cross-attention begins as the family initialises it, from torch's global generator, as its initialisers
    take no other.

    Args:
        encoder: gives the architecture, which must have a form as a decoder (BERT, RoBERTa and their kin do).

    Raises:
        UnfitError: as ``decoder_form``.
    """

    def __init__(self, encoder: Transformer) -> None:
        super().__init__()
        body, parts = decoder_form(encoder)
        self.cross_attention = nn.ModuleList(parts)
        for part in self.cross_attention:
            part.to_empty(device="cpu").apply(body._init_weights)
        tensors = chain(body.named_parameters(), body.named_buffers())
        self._borrowed = [name for name, _ in tensors if f".{CROSS}." not in name]
        self._body = (body,)  # in a tuple, so that it is no part of this: its other weights are the encoder's

    def states(self, encoder: Encoder, vectors: Tensor, targets: Tokens) -> Tensor:
        """States h_t, of shape (B, T, H), each of which saw the tokens up to its own.

        Args:
            encoder: the one that this was made for.
            vectors: s, of shape (B, H).
            targets: of shape (B, T). Padding stands on the right, where no real token looks.
        """
        [body] = self._body
        body.train(self.training)
        backbone: Any = encoder.backbone
        lent = {**dict(backbone.named_parameters()), **dict(backbone.named_buffers())}
        read = {"input_ids": targets.ids, "encoder_hidden_states": vectors.unsqueeze(1)}
        own = {name: lent[name] for name in self._borrowed}
        with kernels.without_cudnn_attention(targets.ids.device):
            return functional_call(body, own, kwargs=read).last_hidden_state

    def flops(self, encoder: Encoder, rows: int, tokens: int) -> float:
        """Floating-point operations of a forward pass over ``tokens`` in ``rows``, scores included.

        Of the cross-attention's weights one half (query, output) is used for each token, the other (key, value)
        for each row.
        """
        weights = sum(weight.numel() for weight in self.cross_attention.parameters() if weight.ndim == 2)
        return (
            encoder.forward_flops(tokens, tokens / rows) + encoder.head_flops(tokens) + weights * (rows + tokens)
        )
