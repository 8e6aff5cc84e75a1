"""Measures the peak memory of a DeCLUTR step as the batch grows, with and without gradient caching.

    python benchmarks/memory.py [--documents 16 32 64 128 256] [--chunk 1024] [--device cuda] [--folder DIR]

Each point is a process of its own: the growth of its peak resident memory during one step (loss, MLM and
backward pass) of a 4 x 256 transformer on spans of 16 to 64 tokens, A = 2, P = 2. On a GPU it is the growth of
torch's peak allocated memory. The C library returns large blocks to the system at once, so that the figure is
memory in use and not the allocator's reserve. Prints GiB for each batch size, and draws them as a figure in DIR.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))


def growth(documents: int, chunk: int | None, device: str = "cpu") -> float:
    """Returns the GiB that one step adds to this process' peak."""
    import numpy as np

    from data.randomness import generator
    from encoders.transformer import Transformer
    from objectives.declutr import Declutr

    shape = {"model_type": "roberta", "num_hidden_layers": 4, "hidden_size": 256}
    shape |= {"num_attention_heads": 4, "intermediate_size": 1024}
    numbers = [" ".join(map(str, range(5000)))]  # the tokenizer needs some text; the documents are random tokens
    encoder = Transformer(weights="random", shape=shape, vocab_size=1000, texts=lambda: numbers)
    objective = Declutr(batch_size=documents, min_length=16, max_length=64, cache_chunk=chunk)
    objective.build(encoder)
    encoder.to(device)
    rng = np.random.default_rng(0)
    examples = [
        objective.sample(rng.integers(5, encoder.format.vocab_size, size=400), encoder.format, generator(0, i))
        for i in range(documents)
    ]
    batch = objective.collate(examples, encoder.format).to(device)
    for parameter in encoder.parameters():
        parameter.grad = parameter.new_zeros(parameter.shape)
    return peak_growth(lambda: objective.loss(encoder, batch).total.backward(), device)[1]


def peak_growth(function: Callable[[], Any], device: str = "cpu") -> tuple[Any, float]:
    """Returns the result of ``function``, and by how many GiB it raised the peak of this process or of the GPU."""
    if device == "cuda":
        import torch

        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated() / 2**30
        return function(), torch.cuda.max_memory_allocated() / 2**30 - before
    before = reset_peak()
    return function(), resident("VmHWM") - before


def reset_peak() -> float:
    """Resets the high-water mark of this process' memory to what is in use, and returns that in GiB."""
    Path("/proc/self/clear_refs").write_text("5")
    return resident("VmRSS")


def resident(figure: str) -> float:
    """Returns this process' resident memory in GiB: VmRSS (now) or VmHWM (peak since ``reset_peak``)."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(figure)) / 2**20


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--documents", type=int, nargs="+", default=[16, 32, 64, 128, 256])
    parser.add_argument("--chunk", type=int, default=1024, help="tokens at once")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--folder", type=Path, default=None, help="where the figure goes; none without it")
    parser.add_argument("--point", type=int, nargs=2, help=argparse.SUPPRESS)  # one process' share
    options = parser.parse_args()
    if options.point:
        print(growth(options.point[0], options.point[1] or None, options.device))
        return
    peaks: dict[str, list[float]] = {}
    for label, chunk in (("whole batch at once", 0), (f"cache_chunk={options.chunk}", options.chunk)):
        for documents in options.documents:
            command = [sys.executable, __file__, "--device", options.device]
            command += ["--point", str(documents), str(chunk)]
            environment = {**os.environ, "MALLOC_MMAP_THRESHOLD_": "65536"}  # freed blocks go back at once
            peaks.setdefault(label, []).append(float(subprocess.check_output(command, env=environment)))
            spans = f"{6 * documents:>5} spans"
            print(f"{label:>20}  N = {documents:>4}  {spans}  {peaks[label][-1]:6.2f} GiB", flush=True)
    if options.folder:
        draw(options.documents, peaks, options.folder)


def draw(documents: list[int], peaks: dict[str, list[float]], folder: Path) -> None:
    """Draws the peaks against N."""
    import pandas as pd
    from matplotlib.figure import Figure

    from analysis import plots

    with plots.suite_style():
        figure = Figure(figsize=(plots.WIDTH / 2, 2.6))
        axes = figure.subplots()
        for (label, values), colour in zip(peaks.items(), (plots.ACCENT, plots.colour("declutr")), strict=True):
            axes.plot(documents, values, marker="o", markersize=4, label=label, color=colour)
        axes.set_xscale("log", base=2)
        axes.set_xticks(documents, [str(count) for count in documents])
        axes.set(xlabel="documents a batch (N)", ylabel="GiB added by a step")
        axes.set_ylim(bottom=0)
        axes.set_title("Gradient caching keeps memory flat")
        axes.legend()
        plots.save(figure, folder / "gradient_caching", pd.DataFrame({"documents": documents, **peaks}))


if __name__ == "__main__":
    main()
