"""Finds the weights to start from: a folder, a bundled checkpoint, or a model of the Hugging Face hub."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import huggingface_hub  # which imports its parts when they are used

from data.errors import UserError, reading, reason
from data.sources.table import ASK_SECONDS
from encoders.saving import HEAD, MARKER, read_marker

BUNDLED = "modernbert-mini-2"  # the checkpoint that training starts from without network (encoder=bundled)
CHECKPOINTS = Path(__file__).parent / "checkpoints"
WEIGHT_FILES = "*model*.safetensors"
PATTERNS = ["*.json", "*.txt", "*.model", WEIGHT_FILES, HEAD]  # pickled weights are never downloaded


class StartWeights(NamedTuple):
    """Weights to start from.

    Attributes:
        folder: a model's folder.
        weights: "pretrained", "bundled", "own" (a folder of the user's), or what its ``encoder.json`` says.
        origin: one line that names the weights exactly.
        fallback: the warning if these are not the weights that were asked for, else None.
    """

    folder: Path
    weights: str
    origin: str
    fallback: str | None = None


def list_bundled() -> list[str]:
    """Returns the names of the bundled checkpoints."""
    return sorted(path.parent.name for path in CHECKPOINTS.glob("*/config.json"))


def resolve(name: str | None, path: str | None, *, fallback: bool = False) -> StartWeights:
    """Finds, and downloads if needed, the weights of ``path`` or else of ``name``.

    Args:
        name: a bundled checkpoint, or a model of the hub.
        path: a folder.
        fallback: whether the bundled model is taken where the hub cannot be reached.

    Raises:
        UserError: if there is no such model, the folder has none, it is an adapter, or the hub is not reachable.
    """
    if path is not None:
        folder = Path(path).expanduser()
        _refuse_adapter(folder)
        if not any((folder / file).is_file() for file in (MARKER, "modules.json", "config.json")):
            raise UserError("no encoder in this folder; a run exports one when it is finished", key=path)
        if not (folder / MARKER).is_file():
            return StartWeights(folder, "own", path)
        marker = read_marker(folder)
        return StartWeights(folder, marker["weights"], marker["origin"])
    assert name is not None
    if name in list_bundled():
        return StartWeights(CHECKPOINTS / name, "bundled", f"{name}, bundled")
    why = None
    if (cached := _cached(name)) is None and (why := _unreachable(name)) is None:
        with reading("model of the hub", name):
            cached = _download(name)
    if cached is not None:
        _refuse_adapter(cached)
        return StartWeights(cached, "pretrained", f"{name}, revision {cached.name[:12]}")
    absent = f"{name} is not on this machine, and the hub cannot be asked: {why}"
    if not fallback:
        raise UserError(absent, key="encoder.name")
    return resolve(BUNDLED, None)._replace(fallback=f"{absent}: it starts from the bundled {BUNDLED} instead")


def _refuse_adapter(folder: Path) -> None:
    """Refuses a folder of peft, whose adapter would be left out."""
    if (folder / "adapter_config.json").is_file():
        text = "a LoRA adapter: merge it into its base model with peft's merge_and_unload"
        raise UserError(text, key=str(folder))


def _cached(name: str) -> Path | None:
    """Returns the folder of ``name`` in the hub's cache, if it has all files that are needed."""
    from huggingface_hub import errors

    try:
        folder = _download(name, local_files_only=True)
    except (OSError, errors.HFValidationError, errors.EntryNotFoundError):
        return None
    needed = ("[cm]o[nd][fu]*.json", WEIGHT_FILES, "tokenizer*.json")  # config.json or modules.json
    return folder if all(any(folder.rglob(pattern)) for pattern in needed) else None


def _unreachable(name: str) -> str | None:
    """Returns why ``name`` cannot be fetched from the hub now, or None if it can.

    Raises:
        UserError: if the hub answers that there is no such model of transformers, or that it needs a login.
    """
    from huggingface_hub import errors

    try:
        huggingface_hub.get_hf_file_metadata(huggingface_hub.hf_hub_url(name, "config.json"), timeout=ASK_SECONDS)
    except Exception as error:
        # Proxies and filters send no message.
        if isinstance(error, errors.HFValidationError) or getattr(error, "server_message", None):
            raise UserError(f"its config.json cannot be downloaded: {reason(error)}", key=name) from error
        return reason(error)
    return None


def _download(name: str, **options: Any) -> Path:
    return Path(huggingface_hub.snapshot_download(name, allow_patterns=PATTERNS, **options))
