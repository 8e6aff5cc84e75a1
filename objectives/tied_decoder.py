"""Decoder with the weights of a transformer encoder, which sees only the sentence vector, by cross-attention.

    h_t = T(y_1 .. y_t; s)        p(y_t+1 | y_<=t, s) = softmax(head(h_t))

T is the encoder's stack with causal attention, and with a cross-attention to the vector s after each
self-attention; only the weights of the cross-attentions belong to the decoder. Wang, Reimers and Gurevych (2021),
"TSDAE", section 3.
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

CROSS = "crossattention"  # name of the module in all families that have one


class TiedDecoder(nn.Module):
    """Decoder of one transformer encoder, whose weights it borrows at each call.

    The cross-attentions are initialised as the architecture does it, from torch's global generator (its
    initialisers take no other).

    Args:
        encoder: has an architecture that can be a decoder (as BERT, RoBERTa and their variants can).

    Raises:
        UnfitError: if the architecture cannot be a decoder, or sentence vectors and states differ in width.
    """

    def __init__(self, encoder: Transformer) -> None:
        super().__init__()
        if encoder.dimension != encoder.state_dimension:
            raise UnfitError(
                f"sentence vectors of {encoder.dimension} numbers, but states of {encoder.state_dimension}"
            )
        backbone, config = encoder.backbone, copy.deepcopy(encoder.model.config)
        config.is_decoder, config.add_cross_attention, config.use_cache = True, True, False
        with torch.device("meta"):  # without weights
            body: Any = type(backbone)(config, **({"add_pooling_layer": False} if takes_pooler(backbone) else {}))
        self.cross_attention = nn.ModuleList(
            part for name, part in body.named_modules() if name.endswith(f".{CROSS}")
        )
        if not self.cross_attention:
            raise UnfitError(f"{config.model_type} has no cross-attention")
        for part in self.cross_attention:
            part.to_empty(device="cpu").apply(body._init_weights)
        tensors = chain(body.named_parameters(), body.named_buffers())
        self._borrowed = [name for name, _ in tensors if f".{CROSS}." not in name]
        self._body = (body,)  # in a tuple, so that its weights, which are the encoder's, are not registered

    def states(self, encoder: Encoder, vectors: Tensor, targets: Tokens) -> Tensor:
        """Computes the states h_t, of shape (B, T, H), each from the tokens up to its own.

        Args:
            encoder: the encoder that this decoder was built for.
            vectors: s, of shape (B, H).
            targets: of shape (B, T), padded on the right, to which causal attention does not look.
        """
        [body] = self._body
        body.train(self.training)
        backbone: Any = encoder.backbone
        lent = {**dict(backbone.named_parameters()), **dict(backbone.named_buffers())}
        read = {"input_ids": targets.ids, "encoder_hidden_states": vectors.unsqueeze(1)}
        own = {name: lent[name] for name in self._borrowed}
        with kernels.without_cudnn_attention(targets.ids.device):
            return functional_call(body, own, kwargs=read).last_hidden_state
