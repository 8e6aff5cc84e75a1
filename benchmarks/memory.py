"""Peak memory of a DeCLUTR step as the batch grows, with and without gradient caching, as a figure.

    python benchmarks/memory.py [--documents 16 32 64 128 256] [--chunk 16] [--folder docs/figures]

Each point is a process of its own: the growth of its peak resident memory during one step (loss, MLM and
backward) of a 4 x 256 transformer on spans of 16 to 64 tokens, A = 2, P = 2. The C library is told to give
large blocks back at once, so that what is measured is memory in use and not its allocator's reserve.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))


def growth(documents: int, chunk: int | None) -> float:
    """GiB that one step adds to this process' peak."""
    import numpy as np
    from transformers import RobertaConfig, RobertaForMaskedLM

    from data.batch import Tokens
    from data.randomness import generator
    from data.token_format import TokenFormat
    from encoders.base import Encoder, Encoding
    from objectives.declutr import Declutr

    config = RobertaConfig(
        vocab_size=8192,
        num_hidden_layers=4,
        hidden_size=256,
        num_attention_heads=4,
        intermediate_size=1024,
        max_position_embeddings=514,
    )

    class Mini(Encoder):
        """The transformer without a tokenizer: the tokens are random."""

        format = TokenFormat((0,), (2,), 1, 4, 8192, 512, frozenset({0, 1, 2, 3, 4}))
        dimension = state_dimension = 256

        def __init__(self) -> None:
            super().__init__()
            self.model = RobertaForMaskedLM(config)

        def forward(self, tokens: Tokens) -> Encoding:
            states = self.model.roberta(tokens.ids, tokens.mask).last_hidden_state
            real = tokens.mask[:, :, None].to(states)
            return Encoding(states, tokens.mask, (states * real).sum(1) / real.sum(1))

        def token_logits(self, states):  # type: ignore[no-untyped-def]
            return self.model.lm_head(states)

    Mini.__abstractmethods__ = frozenset()  # type: ignore[attr-defined]
    encoder = Mini()  # type: ignore[abstract]
    objective = Declutr(batch_size=documents, min_length=16, max_length=64, cache_chunk=chunk)
    objective.build(encoder)
    rng = np.random.default_rng(0)
    examples = [
        objective.draw(rng.integers(5, 8192, size=400), encoder.format, generator(0, i)) for i in range(documents)
    ]
    batch = objective.collate(examples, encoder.format)
    for parameter in encoder.parameters():
        parameter.grad = parameter.new_zeros(parameter.shape)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    objective.loss(encoder, batch).total.backward()
    return (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 2**20


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--documents", type=int, nargs="+", default=[16, 32, 64, 128, 256])
    parser.add_argument("--chunk", type=int, default=16)
    parser.add_argument("--folder", type=Path, default=None, help="where the figure goes; none without it")
    parser.add_argument("--point", type=int, nargs=2, help=argparse.SUPPRESS)  # one process' share
    options = parser.parse_args()
    if options.point:
        print(growth(options.point[0], options.point[1] or None))
        return
    peaks: dict[str, list[float]] = {}
    for label, chunk in (("whole batch at once", 0), (f"cache_chunk={options.chunk}", options.chunk)):
        for documents in options.documents:
            command = [sys.executable, __file__, "--point", str(documents), str(chunk)]
            environment = {**os.environ, "MALLOC_MMAP_THRESHOLD_": "65536"}
            peaks.setdefault(label, []).append(float(subprocess.check_output(command, env=environment)))
            print(f"{label:>20}  N = {documents:>4}  {6 * documents:>5} spans  {peaks[label][-1]:6.2f} GiB", flush=True)
    if options.folder:
        draw(options.documents, peaks, options.folder)


def draw(documents: list[int], peaks: dict[str, list[float]], folder: Path) -> None:
    """Peak against N."""
    from analysis.figures import style

    figure, axes = style.figure()
    for label, values in peaks.items():
        axes.plot(documents, values, marker="o", label=label)
    axes.set(xscale="log", xlabel="documents a batch (N)", ylabel="peak memory of a step (GiB)")
    axes.set_xticks(documents, [str(count) for count in documents])
    axes.set_ylim(bottom=0)
    axes.legend()
    rows = [
        {"setting": label, "documents": count, "gib": value}
        for label, values in peaks.items()
        for count, value in zip(documents, values, strict=True)
    ]
    folder.mkdir(parents=True, exist_ok=True)
    style.save(figure, folder, "gradient_caching", rows)


if __name__ == "__main__":
    main()
