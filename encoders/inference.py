"""Encodes sentences: tokenised in bulk, sorted by length, in batches of a limited number of padded tokens."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import torch
from tokenizers import Tokenizer
from torch import Tensor

from data.batch import Tokens
from data.display import bar
from data.errors import UserError
from data.grouping import length_chunks
from data.token_format import TokenFormat
from encoders.kernels import Precision, float32_products

PIECE = 16_384  # sentences tokenised and sorted at a time, while those before them are computed
CPU_TOKENS = 768  # of a batch on a CPU: larger ones overflow its cache
GPU_TOKENS = 32_768  # of a batch on a GPU: smaller ones are computed faster than the host can start them
MOST_AT_ONCE = 8  # batches on a CPU: more would wait for Python's interpreter lock


def encode(
    sentences: list[str],
    embed: Callable[[Tokens], Tensor],
    tokenizer: Any,
    format: TokenFormat,
    *,
    dimension: int,
    device: torch.device,
    precision: Precision = "fp32",
    concurrent: bool = True,
    batch_size: int | None = None,
    batch_tokens: int | None = None,
    progress: bool = False,
) -> np.ndarray:
    """Encodes n sentences; those without any token, special ones included, get zeros.

    Sentences of similar length share a batch. On a CPU several batches run at once, each in a thread of its own:
    threads that split a small matrix product wait for each other at every layer (encoding took three times as long
    on two cores, and longer beside other programs). On a GPU one thread starts a batch while another waits for the
    vectors of the one before. Meanwhile the next piece of the sentences is tokenised.

    Args:
        sentences: texts.
        embed: computes sentence vectors of shape (b, D) for tokens of shape (b, T) on ``device``.
        tokenizer: a fast tokenizer; its truncation side is used, its state is not changed.
        format: special tokens and longest input.
        dimension: D.
        device: device of the weights.
        precision: precision of matrix products.
        concurrent: whether ``embed`` may run in several threads.
        batch_size, batch_tokens, progress: see ``SentenceEncoder.encode``.

    Returns:
        Vectors of shape (n, D), float32, in the order of ``sentences``.

    Raises:
        UserError: if a sentence is not a string of Unicode, or a vector is not finite.
    """
    for place, text in enumerate(sentences):
        try:
            text.encode()
        except (AttributeError, UnicodeEncodeError) as error:
            raise UserError(f"not a text: {text!r:.80}", key=f"sentences[{place}]") from error
    on_cpu = device.type == "cpu"
    most_tokens = min(batch_tokens or CPU_TOKENS, CPU_TOKENS) if on_cpu else batch_tokens or GPU_TOKENS
    threads = torch.get_num_threads()
    workers = (min(threads, MOST_AT_ONCE) if on_cpu else 2) if concurrent else 1
    vectors = np.zeros((len(sentences), dimension), dtype=np.float32)

    def batches() -> Iterator[tuple[np.ndarray, list[np.ndarray]]]:
        for first in range(0, len(sentences), PIECE):
            rows = _tokenize(tokenizer, sentences[first : first + PIECE], format.max_content)
            lengths = np.array([len(row) for row in rows]) + len(format.prefix) + len(format.suffix)
            full = np.flatnonzero(lengths)
            for chunk in length_chunks(lengths[full], most_tokens):
                most = max(1, batch_size or len(chunk))
                for begin in range(0, len(chunk), most):
                    places = full[chunk[begin : begin + most]]
                    yield first + places, [rows[place] for place in places]

    @torch.inference_mode()
    def run(batch: tuple[np.ndarray, list[np.ndarray]]) -> int:
        places, rows = batch
        tokens = Tokens.pad([format.wrap(row) for row in rows], format.pad_id)
        with torch.autocast(device.type, torch.bfloat16, enabled=precision == "bf16"):
            vectors[places] = embed(tokens.to(device)).float().cpu().numpy()
        return len(places)

    count = 0
    pool = ThreadPoolExecutor(workers, "", torch.set_num_threads, (max(1, threads // workers),))
    try:
        with float32_products(precision), pool, bar("encoding", shown=progress) as update:
            for done in pool.map(run, batches()):
                count += done
                update(count / len(sentences))
    finally:
        torch.set_num_threads(threads)  # the pool's threads changed it for later ones
    if not np.isfinite(vectors).all():
        raise UserError("vectors are not finite", key="encode")
    return vectors


def _tokenize(tokenizer: Any, sentences: list[str], most: int) -> list[np.ndarray]:
    """Returns the content tokens of each sentence, cut to ``most`` on the tokenizer's truncation side."""
    backend = tokenizer.backend_tokenizer
    if backend.truncation or backend.padding:  # by a call of the tokenizer itself
        backend = Tokenizer.from_str(backend.to_str())
        backend.no_truncation()
        backend.no_padding()
    encodings = backend.encode_batch_fast(sentences, add_special_tokens=False)
    for encoding in encodings:
        encoding.truncate(most, direction=tokenizer.truncation_side)
    return [np.array(encoding.ids, dtype=np.int32) for encoding in encodings]
