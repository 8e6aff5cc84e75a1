"""Small files for each kind of source."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any


def write_lines(path: Path, lines: Iterable[Any]) -> str:
    """Writes lines of text, or of JSON if they are mappings; packed if the file is a .gz. Returns the path."""
    text = "".join((line if isinstance(line, str) else json.dumps(line)) + "\n" for line in lines)
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
    return str(path)


def write_corpora(folder: Path) -> dict[str, str]:
    """Writes a file for each kind of source; returns their paths."""
    labels = ["neutral", "entailment", "contradiction", "-"]
    lines: dict[str, Iterable[Any]] = {
        "books.jsonl": ({"id": f"book{n // 4}/{n}", "text": f"Chapter  {n}\n\nText"} for n in range(400)),
        "notes.txt": (f"note {n}\n" for n in range(400)),
        "nli.jsonl": (
            {"gold_label": labels[n % 4], "sentence1": f"premise {n // 5}", "sentence2": f"hypothesis {n}"}
            for n in range(200)
        ),
        "english.txt": (f"sentence {n}" for n in range(100)),
        "french.txt": (f"phrase {n}" if n % 9 else "" for n in range(100)),
        "gold.mrg": (f"(S (NP (NN gold{n})) (VP (VBZ sleeps)))" for n in range(40)),
    }
    return {name.split(".")[0]: write_lines(folder / f"{name}.gz", lines[name]) for name in lines}


def mixed_corpora(paths: dict[str, str]) -> dict[str, dict[str, Any]]:
    """Returns the settings of a mixture of books and notes."""
    return {
        "books": {"path": paths["books"], "group_field": "id", "weight": 2.5},
        "notes": {"path": paths["notes"], "dev_fraction": 0.3},
    }
