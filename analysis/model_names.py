"""Names of models: folders of runs and encoders, bundled checkpoints, models of the hub, and "a+b"."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

EXPORT = "encoder"  # folder of the exported encoder in a run folder
CONFIG = "config.yaml"  # configuration in a run folder
DEFAULTS = ("None", "False", "none", "fp32")  # of options, not shown in names

Names = Annotated[list[str], Field(min_length=1)]


def split_members(model: str) -> list[str]:
    """Returns the names of the models that "a+b" concatenates; an existing path is one model."""
    return [model] if Path(model).expanduser().exists() else model.split("+")


def run_folder(model: str) -> Path | None:
    """Returns the folder of the run that exported ``model``; None for other models."""
    path = Path(model).expanduser()
    folder = path.parent if path.name == EXPORT else path
    return folder if (folder / CONFIG).is_file() and (folder / EXPORT).is_dir() else None


def model_name(model: str, **options: Any) -> str:
    """Returns the name of ``model`` in tables, with those of its options that change the vectors.

    A run has the name of its folder, another model the name that it is opened by; "+" joins several.

    Args:
        model: as in ``analysis.models.open_encoder``.
        options: see ``analysis.models.ModelOptions``.
    """
    if model == "random_vectors":  # which has no options
        return model
    names = [run.resolve().name if (run := run_folder(member)) else member for member in split_members(model)]
    shown = {key: options.get(key) for key in ("layers", "precision", "pooling", "expand")}
    shown = options.get("encoder", {}) if model == "bag_of_words" else shown
    if (kind := options.get("postprocess", "none")) != "none":
        shown = {**shown, "postprocess": kind, **options.get("fit", {})}
    settings = [f"{key} {Path(str(value)).name}" for key, value in shown.items() if str(value) not in DEFAULTS]
    return ", ".join(["+".join(names), *settings])
