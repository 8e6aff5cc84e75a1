"""An encoder's folder: names of its files, the suite's marker, weights, and the files of sentence-transformers.

config.json, model.safetensors, tokenizer*.json           transformers
modules.json, 1_Pooling/, 2_Normalize/, ...               sentence-transformers
encoder.json, mlm_head.safetensors                        this suite: class, origin, MLM head
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from safetensors.torch import load_file
from torch import Tensor

from data.display import printable
from data.errors import UserError
from data.files import read_json, write_json
from encoders.pooling import POOLINGS

MARKER = "encoder.json"
WEIGHTS = "model.safetensors"
HEAD = "mlm_head.safetensors"  # a file of its own, as other libraries would report its weights as unexpected
NO_LIMIT = 1_000_000  # tokens of an input; stands for "unlimited"

CLASSES: dict[str, Any] = {}  # every imported subclass of Encoder, by its name in ``encoder.json``


def class_name(kind: type) -> str:
    """Returns the name under which ``encoder.json`` holds the class of an encoder."""
    return f"{kind.__module__}.{kind.__name__}"


def encoder_class(folder: Path) -> Any:
    """Returns the class that wrote ``folder``; imports only modules of this package.

    Raises:
        UserError: if it is no encoder's.
    """
    name = read_marker(folder)["class"]
    if re.fullmatch(r"encoders\.[a-z]\w*\.\w+", name):
        importlib.import_module(name.rpartition(".")[0])
    if name not in CLASSES:
        raise UserError(f"{name} is no encoder of this suite", key=str(folder))
    return CLASSES[name]


def read_marker(folder: Path) -> dict[str, Any]:
    """Returns the content of ``encoder.json``: class, weights, origin (that it was read here first), others."""
    marker = read_json(folder / MARKER)
    return marker | {"origin": f"continued from {folder}; before that: {printable(marker['origin'])}"}


def refuse_other(folder: Path) -> None:
    """Refuses to replace ``folder`` unless it is an encoder's, empty or missing.

    Raises:
        UserError: if it is something else.
    """
    if folder.exists() and not (folder / MARKER).is_file() and (folder.is_file() or any(folder.iterdir())):
        raise UserError("exists and is not an encoder's folder: name another one", key=str(folder))


def read_weights(path: Path) -> dict[str, Tensor]:
    """Returns the weights in a safetensors file by name, as float32."""
    return {name: weight.float() for name, weight in load_file(path).items()}


class Layout(NamedTuple):
    """Contents of a folder besides the transformer itself.

    Attributes:
        transformer: folder of the transformer's own files.
        pooling: "mean", "cls", "max" or "last"; None if the folder has no pooling.
        others: class and sub-folder of the modules of sentence-transformers that follow the pooling.
        normalize: whether vectors are scaled to length 1 at the end.
        max_length: longest input in tokens, or None.
    """

    transformer: Path
    pooling: str | None = None
    others: tuple[tuple[str, str], ...] = ()
    normalize: bool = False
    max_length: int | None = None


def read_layout(folder: Path) -> Layout:
    """Reads a model's folder, of sentence-transformers or a plain one of transformers.

    Raises:
        UserError: if its modules do not begin with a transformer and a pooling of its states, or it puts a prompt
            before each sentence or lower-cases it.
    """
    if not (folder / "modules.json").is_file():
        return Layout(folder)
    modules = [(module["type"], module["path"]) for module in read_json(folder / "modules.json")]
    kinds = [kind.rpartition(".")[2] for kind, _ in modules]
    if kinds[:2] != ["Transformer", "Pooling"]:
        raise UserError(f"modules {', '.join(kinds)}, not Transformer, Pooling, ...", key=str(folder))
    settings = folder / "config_sentence_transformers.json"
    prompts = read_json(settings) if settings.is_file() else {}
    transformer, normalize = folder / modules[0][1], kinds[-1] == "Normalize"
    # Older versions name the file after the architecture.
    limits = next(map(read_json, sorted(transformer.glob("sentence_*_config.json"))), None) or {}
    prompt = prompts.get("prompts", {}).get(prompts.get("default_prompt_name"))
    if prompt or limits.get("do_lower_case"):
        raise UserError("changes each sentence (prompt, do_lower_case), which is not supported", key=str(folder))
    return Layout(
        transformer,
        _read_pooling(folder / modules[1][1] / "config.json"),
        tuple(modules[2 : len(modules) - normalize]),
        normalize,
        limits.get("max_seq_length"),
    )


def _read_pooling(path: Path) -> str:
    config = read_json(path)
    keys = [key for key, value in config.items() if key.startswith("pooling_mode_") and value]
    modes = config.get("pooling_mode") or keys or ["mean"]
    modes = [modes] if isinstance(modes, str) else modes
    names = [name for name, known in POOLINGS.items() if modes[0] in (known.name, known.key)]
    if len(modes) > 1 or not names:
        raise UserError(f"pooling {', '.join(modes)} is none of {', '.join(POOLINGS)}", key=str(path))
    return names[0]


def write_modules(folder: Path, modules: Sequence[tuple[str, str]]) -> None:
    """Writes the list of ``modules``, by folder and class, that sentence-transformers reads first."""
    entries = [
        {"idx": place, "name": str(place), "path": path, "type": f"sentence_transformers.models.{kind}"}
        for place, (path, kind) in enumerate(modules)
    ]
    write_json(folder / "modules.json", entries)


def write_pooling(folder: Path, pooling: str, dimension: int) -> None:
    """Writes sentence-transformers' pooling of states of ``dimension`` into a new ``folder``."""
    folder.mkdir()
    modes = {known.key: known is POOLINGS[pooling] for known in POOLINGS.values()}
    write_json(folder / "config.json", {"word_embedding_dimension": dimension, **modes})
