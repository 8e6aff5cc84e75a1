"""Where an encoder's weights come from: a folder, the hub or its cache, the box, or nowhere (a random start).

The hub is asked once, with a limit of 5 s in all: its library's own retries take 25 s for one file.
"""

from __future__ import annotations

import difflib
import json
import socket
import threading
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from huggingface_hub import constants, errors, get_hf_file_metadata, hf_hub_url, snapshot_download

from data.errors import UserError

CHECKPOINTS = Path(__file__).parent / "checkpoints"
KNOWN = ("roberta-base", "distilroberta-base", "bert-base-uncased", "albert-base-v2")
IN_THE_BOX = ("roberta-mini",)  # never asked of the hub
MARKER = "encoder.json"  # what our own folders have beside sentence-transformers' files
CONNECT_SECONDS = 2.0
ASK_SECONDS = 5.0
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

    def fetch(self) -> Path:
        """Downloads the weights where they are missing, safetensors if there are any; returns the folder."""
        assert self.folder is not None
        if self.hub_id is not None:
            for pattern in ("*model*.safetensors", "pytorch_model*.bin"):
                _snapshot(self.hub_id, (*SETTINGS, pattern))
                if any(self.folder.rglob(pattern)):
                    break
        return self.folder


def find(name: str | None, path: Path | str | None, weights: str, model_type: str | None) -> Source:
    """Looks for weights where ``name`` or ``path`` and ``weights`` ("auto" or "pretrained") say.

    ``model_type`` is the architecture family, where known: what to fall back to.

    Raises:
        UserError: if there is no such folder or model, or the hub is not reachable and a random start is
            not wanted or not possible.
    """
    if path is not None:
        return _from_folder(Path(path).expanduser())
    if name is None:
        return Source(None, "random")
    if name in bundled():
        return Source(CHECKPOINTS / name, "bundled", f"{name}, bundled")
    if name in IN_THE_BOX:
        if weights == "pretrained":
            raise UserError(f"This copy has no weights of {name} in {CHECKPOINTS}: use weights=auto or random.")
        return Source(None, "random")
    cached = _cached(name)
    if cached is not None:
        return Source(cached, "pretrained", _hub_origin(name, cached))
    reason = unreachable(name)
    if reason is None:
        folder = _snapshot(name, SETTINGS)
        return Source(folder, "pretrained", _hub_origin(name, folder), hub_id=name)
    absent = f"{name} is not on this machine, and {reason}"
    if weights == "pretrained":
        raise UserError(f"{absent}: connect, name a folder by encoder.path=, or start without it (weights=auto).")
    if model_type is None or not has_masked_lm(model_type):
        raise UserError(f"{absent}: connect, or name a folder by encoder.path=.")
    stand_in = next(iter(bundled(model_type)), None)
    if stand_in is None:
        sentence = f"{absent}: the encoder is a small {model_type} with random weights instead."
        return Source(None, "random", fallback=sentence)
    sentence = f"{absent}: the encoder starts from the bundled {stand_in} instead."
    return Source(CHECKPOINTS / stand_in, "bundled", f"{stand_in}, bundled", sentence)


def bundled(model_type: str | None = None) -> list[str]:
    """Names of the checkpoints in the box, of one architecture family if ``model_type`` is given."""
    folders = [path.parent for path in CHECKPOINTS.glob("*/config.json")]
    if model_type is not None:
        folders = [folder for folder in folders if read_json(folder / "config.json")["model_type"] == model_type]
    return sorted(folder.name for folder in folders)


def read_json(path: Path) -> Any:
    """What a JSON file holds."""
    return json.loads(path.read_text(encoding="utf-8"))


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


def unreachable(name: str) -> str | None:
    """Why the hub cannot be asked for ``name`` now, or None if it can; takes 5 s at most.

    Raises:
        UserError: if the hub answers that there is no such model, or that it needs a login.
    """
    if constants.is_offline_mode():
        return "HF_HUB_OFFLINE is set"
    hub = urlsplit(constants.ENDPOINT)
    host = hub.hostname or ""
    proxy = None if urllib.request.proxy_bypass(host) else urllib.request.getproxies().get(hub.scheme)
    door = urlsplit(proxy) if proxy else hub
    address = (door.hostname or host, door.port or (443 if door.scheme == "https" else 80))
    answers: list[BaseException | None] = []

    def ask() -> None:  # in a thread, as name resolution obeys no time limit
        try:
            socket.create_connection(address, timeout=CONNECT_SECONDS).close()
            get_hf_file_metadata(hf_hub_url(name, "config.json"), timeout=ASK_SECONDS - CONNECT_SECONDS)
            answers.append(None)
        except Exception as error:
            answers.append(error)

    thread = threading.Thread(target=ask, daemon=True)
    thread.start()
    thread.join(ASK_SECONDS)
    match answers:
        case [None]:
            return None
        case [errors.GatedRepoError()]:
            raise UserError(f"{name} needs its licence accepted and a login on {host}: run `hf auth login`.")
        case [errors.RepositoryNotFoundError() | errors.HFValidationError()]:
            near = difflib.get_close_matches(name, [*bundled(), *KNOWN], n=1)
            raise UserError(
                f"There is no model {name!r} on {host}" + (f"; did you mean {near[0]}?" if near else ".")
            )
        case [errors.EntryNotFoundError()]:
            raise UserError(f"{name} on {host} has no config.json: not a transformers model.")
        case [_]:
            return f"the model hub ({host}) is not reachable"
        case _:
            return f"the model hub ({host}) did not answer within {ASK_SECONDS:g} s"


def _from_folder(folder: Path) -> Source:
    if not folder.is_dir():
        raise UserError(f"encoder.path: there is no folder {folder}.")
    if not any((folder / name).is_file() for name in ("config.json", "modules.json")):
        inner = folder / "encoder"
        hint = f"; did you mean {inner}?" if inner.is_dir() else "."
        raise UserError(f"encoder.path: {folder} is not a model's folder (it has no config.json){hint}")
    if not any(folder.rglob("model*.safetensors")):
        found = next(folder.rglob("*.bin"), None)
        what = f"has pickled weights ({found.name}), which are not opened here" if found else "has no weights"
        raise UserError(f"encoder.path: {folder} {what}: model.safetensors is needed.")
    if (folder / MARKER).is_file():
        marker = read_json(folder / MARKER)
        return Source(folder, marker["weights"], f"{folder} (from: {marker['origin']})")
    return Source(folder, "pretrained", str(folder))


def _cached(name: str) -> Path | None:
    """The folder of ``name`` in the hub's cache, if nothing is missing there."""
    try:
        folder = Path(snapshot_download(name, local_files_only=True))
    except (OSError, errors.HFValidationError, errors.EntryNotFoundError):
        return None
    weights = [*folder.rglob("*model*.safetensors"), *folder.glob("pytorch_model*.bin")]
    whole = (folder / "config.json").is_file() or (folder / "modules.json").is_file()
    return folder if whole and weights and any(folder.rglob("tokenizer*.json")) else None


def _snapshot(name: str, patterns: tuple[str, ...]) -> Path:
    keep: dict[str, Any] = {"allow_patterns": patterns, "ignore_patterns": ("onnx/*", "openvino/*", "*.onnx*")}
    try:
        return Path(snapshot_download(name, **keep))
    except Exception as error:
        reason = str(error).strip().splitlines()[:1]
        raise UserError(f"The download of {name} broke off ({' '.join(reason)}): run it again.") from error


def _hub_origin(name: str, folder: Path) -> str:
    return f"{name}, revision {folder.name[:12]}"
