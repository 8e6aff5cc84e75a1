"""Writes run folders with generated losses and scores, in the format of real runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import yaml

PROBES = ("probe_length", "probe_word_content", "probe_bigram_shift")
START: dict[str, float | None] = {
    "recall@1": 3.0,
    "recall@5": 9.0,
    "alignment": 0.3,
    "uniformity": -1.0,
    "iso_score": 0.1,
}
START |= dict(zip(PROBES, (30.0, 8.0, 50.0), strict=True))
START |= {"n_pairs": 400} | {f"n_{probe}": 600 for probe in PROBES}
TRAINED = START | {"recall@1": 14.5, "recall@5": 31.0, "alignment": 0.4, "uniformity": -2.5, "probe_length": 42.0}


def write(
    folder: Path, *, parts: tuple[str, ...] = ("contrastive", "mlm"), steps: int = 60, finished: bool = True
) -> Path:
    """Writes a run of ``steps`` steps with a dev evaluation at every tenth."""
    folder.mkdir(parents=True)
    names = {"objective": "declutr", "encoder": "roberta-base", "corpus": "pydocs", "budget": "teaching"}
    (folder / "config.yaml").write_text(yaml.safe_dump({"names": names, "seed": 1, "weights": "auto"}))
    lines: list[dict[str, Any]] = []
    for step in range(steps + 1):
        losses = dict.fromkeys(parts, 2 + 3 * float(np.exp(-step / 10)))
        if step:
            lines.append({"step": step, "loss": sum(losses.values()), **losses, "lr": 5e-5, "tokens": 2500 * step})
        if step % 10 == 0:
            lines.append({"step": step} | {f"dev_{part}": value + 0.1 for part, value in losses.items()})
    costs = {"seconds": 2.0, "memory_gib": 1.0}
    timings = [{"step": step, "tokens_per_second": 9000.0 + step, **costs} for step in range(10, steps + 1, 10)]
    for name, rows in (("metrics", lines), ("timings", timings)):
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    quick = {"weights": "random", "start": START} | ({"trained": TRAINED} if finished else {})
    (folder / "quick.json").write_text(json.dumps(quick))
    if finished:
        (folder / "encoder").mkdir()
    return folder
