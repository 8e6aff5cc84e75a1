"""Where an encoder's weights come from: a folder, the hub or its cache, the box, or nowhere (a random start)."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from huggingface_hub import errors, get_hf_file_metadata, hf_hub_url, snapshot_download
from huggingface_hub.utils import tqdm

from data import network
from data.errors import UserError, reason
from data.files import read_json
from encoders.folder import BUNDLED, MARKER, contained, read_marker, readable

CHECKPOINTS = Path(__file__).parent / "checkpoints"
KNOWN = ("roberta-base", "distilroberta-base", "bert-base-uncased", "albert-base-v2")
WEIGHTS = "*model*.safetensors"
SETTINGS = ("*.json", "*.txt", "*.model")  # all that a hub folder holds but weights


@dataclass(frozen=True)
class Source:
    """Where an encoder starts from.

    Attributes:
        folder: a model's folder, or None for random weights.
        weights: "pretrained", "bundled" or "random".
        origin: one line that says exactly which weights.
        fallback: the sentence to warn with, where these are not the weights that were asked for.
        hub_id: set where ``folder`` holds settings and tokenizer alone, and the weights are still on the hub.
    """

    folder: Path | None
    weights: str
    origin: str = ""
    fallback: str | None = None
    hub_id: str | None = None

    def fetch(self) -> None:
        """Downloads the weights where they are missing.

        Raises:
            UserError: if there are none but pickled ones, or the download breaks off.
        """
        if self.folder is None or self.hub_id is None:
            return
        contained(_snapshot(self.hub_id, (*SETTINGS, WEIGHTS), self.folder.name))
        if not any(self.folder.rglob(WEIGHTS)):
            raise UserError(
                f"{self.hub_id} has no model.safetensors on the hub, and pickled weights are not opened here: "
                "convert it elsewhere and name the folder by encoder.path=."
            )


def find(
    name: str | None,
    path: Path | str | None,
    weights: str,
    model_type: str | None,
    shape: Mapping[str, Any] | None = None,
) -> Source:
    """Looks for weights where ``name`` or ``path`` and ``weights`` ("auto" or "pretrained") say.

    ``model_type`` is the architecture family, where known: what to fall back to. ``shape`` is what the user asks
    of ``name``.

    Raises:
        UserError: if there is no such folder or model, bundled weights have another shape, or the hub is not
            reachable and a random start is not wanted or not possible.
    """
    if path is not None:
        with readable(repr(str(path))[:200]):
            return _from_folder(Path(path).expanduser())
    if name is None:
        return Source(None, "random")
    if name in bundled():
        known = read_json(CHECKPOINTS / name / "config.json")
        for key, value in (shape or {}).items():
            if key in known and known[key] != value:
                raise UserError(
                    f"encoder.shape.{key}={value}: the bundled weights of {name} have {known[key]}. "
                    "weights=random draws new ones."
                )
        return Source(CHECKPOINTS / name, "bundled", f"{name}, bundled")
    if name == BUNDLED:
        if weights == "pretrained":
            raise UserError(f"This copy has no weights of {name} in {CHECKPOINTS}: use weights=auto or random.")
        return Source(None, "random")
    cached = _cached(name)
    if cached is not None:
        return Source(cached, "pretrained", _hub_origin(name, cached))
    why = _unreachable(name)
    if why is None:
        folder = _snapshot(name, SETTINGS)
        return Source(folder, "pretrained", _hub_origin(name, folder), hub_id=name)
    absent = f"{name} is not on this machine, and {why}"
    if weights == "pretrained":
        raise UserError(f"{absent}: connect, name a folder, or, to train, start without it (weights=auto).")
    if model_type is None or not has_masked_lm(model_type):
        raise UserError(f"{absent}: connect, or name a folder by encoder.path=.")
    # A start is one that has only been pretrained: what an objective has trained is asked for by its name.
    if model_type != "roberta" or BUNDLED not in bundled():
        sentence = f"{absent}: the encoder is a small {model_type} with random weights instead."
        return Source(None, "random", fallback=sentence)
    sentence = f"{absent}: the encoder starts from the bundled {BUNDLED} instead."
    return Source(CHECKPOINTS / BUNDLED, "bundled", f"{BUNDLED}, bundled", sentence)


def bundled() -> list[str]:
    """Returns the names of the bundled checkpoints."""
    return sorted(path.parent.name for path in CHECKPOINTS.glob("*/config.json"))


def family(name: str) -> str | None:
    """The architecture family (``model_type``) that a model's name tells, if it is one of text models."""
    from transformers.models.auto import modeling_auto

    known = {
        **modeling_auto.MODEL_FOR_MASKED_LM_MAPPING_NAMES,
        **modeling_auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES,
    }
    stem = name.rsplit("/", 1)[-1].lower()
    return max((each for each in known if len(each) > 3 and each in stem), key=len, default=None)


def has_masked_lm(model_type: str) -> bool:
    """Whether the family is trained with a mask token at all (GPT-2, say, is not)."""
    from transformers.models.auto import modeling_auto

    return model_type in modeling_auto.MODEL_FOR_MASKED_LM_MAPPING_NAMES


def _unreachable(name: str) -> str | None:
    """Why the hub cannot be asked for ``name`` now, or None if it can; takes 5 s at most.

    Raises:
        UserError: if the hub answers that there is no such model, or that it needs a login.
    """
    try:
        return network.unreachable(
            lambda seconds: get_hf_file_metadata(hf_hub_url(name, "config.json"), timeout=seconds)
        )
    except errors.EntryNotFoundError as error:
        raise UserError(f"{name} on {network.hub()} has no config.json: not a transformers model.") from error
    except (*network.ANSWERS, errors.HfHubHTTPError) as error:
        unknown = type(error) in (errors.RepositoryNotFoundError, errors.HFValidationError)
        near = difflib.get_close_matches(name, [*bundled(), *KNOWN], n=1) if unknown else []
        hint = f"; did you mean {near[0]}?" if near else "."
        why = network.refusal(error, name)
        raise UserError(f"The model {name!r} cannot be downloaded: {why}{hint}") from error


def _from_folder(folder: Path) -> Source:
    if not folder.is_dir():
        raise UserError(f"encoder.path: there is no folder {folder}.")
    if not any((folder / name).is_file() for name in ("config.json", "modules.json")):
        inner = folder / "encoder"
        if (folder / "config.yaml").is_file() and not inner.is_dir():
            raise UserError(f"{folder} is a run that is not finished: resume={folder} first.")
        hint = f"; did you mean {inner}?" if inner.is_dir() else "."
        raise UserError(f"encoder.path: {folder} is not a model's folder (it has no config.json){hint}")
    if not any(folder.rglob(WEIGHTS)):
        found = next(folder.rglob("*.bin"), None)
        what = f"has pickled weights ({found.name}), which are not opened here" if found else "has no weights"
        raise UserError(f"encoder.path: {folder} {what}: model.safetensors is needed.")
    contained(folder)
    if (folder / MARKER).is_file():
        marker = read_marker(folder)
        return Source(folder, marker["weights"], f"continued from {folder}; before that: {marker['origin']}")
    return Source(folder, "pretrained", str(folder))


def _cached(name: str) -> Path | None:
    """The folder of ``name`` in the hub's cache, if nothing that is opened here is missing there."""
    try:
        folder = Path(_download(name, (*SETTINGS, WEIGHTS), local_files_only=True))
    except (OSError, errors.HFValidationError, errors.EntryNotFoundError):
        return None
    whole = (folder / "config.json").is_file() or (folder / "modules.json").is_file()
    return folder if whole and any(folder.rglob(WEIGHTS)) and any(folder.rglob("tokenizer*.json")) else None


def _snapshot(name: str, patterns: tuple[str, ...], commit: str | None = None) -> Path:
    try:
        return Path(_download(name, patterns, revision=commit))
    except Exception as error:
        raise UserError(f"The download of {name} broke off ({reason(error)}): run it again.") from error


def _download(
    name: str, patterns: tuple[str, ...], *, revision: str | None = None, local_files_only: bool = False
) -> str:
    return snapshot_download(
        name,
        revision=revision,
        allow_patterns=list(patterns),
        ignore_patterns=["onnx/*", "openvino/*", "*.onnx*"],
        local_files_only=local_files_only,
        tqdm_class=_Bar,
    )


class _Bar(tqdm):
    """A progress bar on terminals only; the hub library shows one of its bars in logs, too."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **({"disable": None} | options))


def _hub_origin(name: str, folder: Path) -> str:
    return f"{name}, revision {folder.name[:12]}"
