"""Names of models: folders of runs and encoders, bundled checkpoints, models of the hub, and "a+b"."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import Field

EXPORT = "encoder"  # folder of the exported encoder in a run folder
CONFIG = "config.yaml"  # configuration in a run folder

Names = Annotated[list[Annotated[str, Field(min_length=1)]], Field(min_length=1)]


def split_members(model: str) -> list[str]:
    """Returns the names of the models that "a+b" concatenates; an existing path is one model."""
    return [model] if Path(model).expanduser().exists() else model.split("+")


def run_folder(model: str) -> Path | None:
    """Returns the folder of the run that exported ``model``; None for other models."""
    path = Path(model).expanduser()
    folder = path.parent if path.name == EXPORT else path
    return folder if (folder / CONFIG).is_file() and (folder / EXPORT).is_dir() else None


def short_name(model: str) -> str:
    """Returns the name in tables: a run's name, or the last two parts of a folder's path; "+" joins members."""
    names = []
    for member in split_members(model):
        run, folder = run_folder(member), Path(member).expanduser()
        parts = (run or folder).resolve().parts[-1 if run else -2 :]  # two, as many folders end alike ("model")
        names.append("/".join(parts) if folder.is_dir() else member)
    return "+".join(names)
