"""Finds the weights to start from: a folder, a bundled checkpoint, or a model of the Hugging Face hub."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

from huggingface_hub import errors, get_hf_file_metadata, hf_hub_url, snapshot_download
from huggingface_hub.utils import tqdm

from data import network
from data.display import nearest_model
from data.errors import UserError, reading
from encoders.saving import HEAD, MARKER, origin_of, read_marker

BUNDLED = "modernbert-mini-2"  # the checkpoint that training starts from without network (encoder=bundled)
CHECKPOINTS = Path(__file__).parent / "checkpoints"
WEIGHTS = "*model*.safetensors"
PATTERNS = ("*.json", "*.txt", "*.model", WEIGHTS, HEAD)  # pickled weights are never downloaded


class Source(NamedTuple):
    """Weights to start from.

    Attributes:
        folder: a model's folder.
        weights: "pretrained", "own" (a folder of the user's), or what its ``encoder.json`` says.
        origin: one line that names the weights exactly.
        fallback: the warning if these are not the weights that were asked for, else None.
    """

    folder: Path
    weights: str
    origin: str
    fallback: str | None = None


def bundled() -> list[str]:
    """Returns the names of the bundled checkpoints."""
    return sorted(path.parent.name for path in CHECKPOINTS.glob("*/config.json"))


def resolve(name: str | None, path: str | None, *, fallback: bool = False) -> Source:
    """Finds, and downloads if needed, the weights of ``path`` or else of ``name``.

    Args:
        name: a bundled checkpoint, or a model of the hub.
        path: a folder.
        fallback: whether the bundled model is taken where the hub cannot be reached.

    Raises:
        UserError: if there is no such folder or model, it has no safetensors, or the hub is not reachable.
    """
    if path is not None:
        folder = Path(path).expanduser()
        if not (folder / "config.json").is_file() and not (folder / "modules.json").is_file():
            inner = folder / "encoder"
            hint = f"Did you mean {inner}?" if inner.is_dir() else ""
            lora = "a LoRA adapter without its base model: merge them with peft's merge_and_unload"
            adapter = (folder / ADAPTER).is_file()
            raise UserError(lora if adapter else "not a model's folder (no config.json)", key=path, hint=hint)
        require_weights(folder, path)
        if not (folder / MARKER).is_file():
            return Source(folder, "own", path)
        marker = read_marker(folder)
        return Source(folder, marker["weights"], origin_of(folder, marker))
    assert name is not None
    if name in bundled():
        return Source(CHECKPOINTS / name, "bundled", f"{name}, bundled")
    reason = None
    if (cached := _cached(name)) is None and (reason := _unreachable(name)) is None:
        with reading("model of the hub", name):
            cached = _download(name)
        require_weights(cached, name)
    if cached is not None:
        return Source(cached, "pretrained", f"{name}, revision {cached.name[:12]}")
    near, absent = nearest_model(name, bundled()), f"{name} is not on this machine, and {reason}"
    if near or not fallback:
        raise UserError(absent, key="encoder.name", hint=f"Did you mean {near}?" if near else "")
    warning = f"{absent}: the encoder starts from the bundled {BUNDLED} instead."
    return Source(CHECKPOINTS / BUNDLED, "bundled", f"{BUNDLED}, bundled", warning)


ADAPTER = "adapter_config.json"  # of peft


def require_weights(folder: Path, key: str) -> None:
    """Refuses a folder without safetensors, or with an adapter that would be left out.

    Raises:
        UserError: naming ``key``.
    """
    if (folder / ADAPTER).is_file():
        text = "holds a LoRA adapter beside its base model: merge them with peft's merge_and_unload"
        raise UserError(text, key=key)
    if not any(folder.rglob(WEIGHTS)):
        raise UserError("no model.safetensors (pickled weights are not opened)", key=key)


def _cached(name: str) -> Path | None:
    """Returns the folder of ``name`` in the hub's cache, if it has all files that are needed."""
    try:
        folder = _download(name, local_files_only=True)
    except (OSError, errors.HFValidationError, errors.EntryNotFoundError):
        return None
    needed = ("[cm]o[nd][fu]*.json", WEIGHTS, "tokenizer*.json")  # config.json or modules.json
    return folder if all(any(folder.rglob(pattern)) for pattern in needed) else None


def _unreachable(name: str) -> str | None:
    """Returns why ``name`` cannot be fetched from the hub now, or None if it can; takes 5 s at most.

    Raises:
        UserError: if the hub answers that there is no such model, or that it needs a login.
    """
    try:
        return network.unreachable(
            lambda seconds: get_hf_file_metadata(hf_hub_url(name, "config.json"), timeout=seconds)
        )
    except errors.EntryNotFoundError as error:
        raise UserError(f"no model of transformers (no config.json on {network.hub()})", key=name) from error
    except (*network.ANSWERS, errors.HfHubHTTPError) as error:
        raise UserError(f"cannot be downloaded: {network.refusal(error, name)}", key=name) from error


def _download(name: str, **options: Any) -> Path:
    patterns: dict[str, Any] = {
        "allow_patterns": [*PATTERNS],
        "ignore_patterns": ["onnx/*", "openvino/*", "*.onnx*"],
    }
    return Path(snapshot_download(name, **patterns, tqdm_class=_Bar, **options))


class _Bar(tqdm):
    """A progress bar on terminals only; the hub library shows one of its bars in logs, too."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **({"disable": None} | options))
