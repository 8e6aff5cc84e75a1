"""A folder of transformers: opens its model and tokenizer without running code of the folder, and writes one."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from transformers import CONFIG_MAPPING, AutoTokenizer, PretrainedConfig
from transformers.utils import logging

from data.files import read_json, write_json
from encoders.mlm_heads import head_parts
from encoders.pooling import POOLER, add_pooler
from encoders.random_models import model_class
from encoders.saving import HEAD, WEIGHTS

# Settings that choose code or other files; those in a folder are ignored ("implementation" can name kernels).
UNTRUSTED = re.compile("implementation|auto_map|name_or_path|transformers_weights|backbone")
MLM_INDEX = "model.safetensors.index.mlm.json"  # lists model and MLM head, for transformers' variant="mlm"

logging.set_verbosity_error()  # transformers reports heads without weights, which ``open_model`` leaves out
logging.disable_progress_bar()


def open_config(folder: Path) -> PretrainedConfig:
    """Returns the configuration of a folder's model, without the settings that choose code or other files."""
    settings = read_json(folder / "config.json")
    trusted = {key: value for key, value in settings.items() if not UNTRUSTED.search(key)}
    return CONFIG_MAPPING[trusted["model_type"]].from_dict(trusted, name_or_path=str(folder))


def open_tokenizer(folder: Path, config: PretrainedConfig) -> Any:
    """Opens the tokenizer of a folder.

    Raises:
        ValueError: if it has none, for which transformers makes one of special tokens only.
    """
    options = {"trust_remote_code": False, "local_files_only": True}
    tokenizer = AutoTokenizer.from_pretrained(folder, config=config, **options)
    if len(tokenizer) <= len(tokenizer.all_special_ids):
        raise ValueError("it has no tokenizer: save that there, too")
    return tokenizer


def open_model(folder: Path, config: PretrainedConfig) -> Any:
    """Opens a model in float32, with its pooler and its MLM head if their weights are there, without other heads.

    Raises:
        ValueError: if weights of the model itself are missing.
    """
    model, report = model_class(config).from_pretrained(
        folder,
        config=config,
        variant="mlm" if (folder / MLM_INDEX).is_file() else None,
        dtype=torch.float32,
        use_safetensors=True,
        trust_remote_code=False,
        local_files_only=True,
        output_loading_info=True,
    )
    inside = _prefix(model)
    missing = [key for key in report["missing_keys"] if key.startswith(inside) and POOLER not in key]
    if missing:
        raise ValueError(f"{len(missing)} weights are missing, {min(missing)} among them")
    if any(POOLER in key for key in report["unexpected_keys"]):
        add_pooler(model.base_model, folder)
    return model if head_parts(model) and not report["missing_keys"] else model.base_model


def save_model(model: Any, folder: Path) -> None:
    """Writes ``model`` without head as transformers does, and the MLM head's weights into a file of their own.

    In one file, other libraries would report the head's weights as unexpected. With ``variant="mlm"``, the
    ``from_pretrained`` of transformers opens both files.
    """
    body = model.base_model
    body.save_pretrained(folder)
    if body is not model:
        weights, inside = dict[str, Any](model.named_parameters()), _prefix(model)
        head = {name: weight for name, weight in weights.items() if not name.startswith(inside)}
        save_file(head, folder / HEAD, metadata={"format": "pt"})
        places = dict.fromkeys(body.state_dict(), WEIGHTS) | dict.fromkeys(head, HEAD)
        write_json(folder / MLM_INDEX, {"metadata": {}, "weight_map": places})


def open_module(folder: Path, kind: str, path: str) -> Any:
    """Opens a module of a sentence-transformers folder that follows the pooling."""
    from sentence_transformers.util import import_module_class  # few folders have one

    module: Any = import_module_class(kind, model_name_or_path=str(folder), trust_remote_code=False)
    return module.load(str(folder), subfolder=path, local_files_only=True)


def _prefix(model: Any) -> str:
    """Returns how the names of weights begin that belong to the model without head."""
    return "" if model.base_model is model else f"{model.base_model_prefix}."
