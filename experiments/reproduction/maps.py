"""The maps of a figure of kind "map": trained encoders' vectors of labelled sentences (GenSen's figure 1)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from analysis import command, projection_map
from analysis.figures.reproduction import LabelledMap, labelled_map
from analysis.opening import Named, device
from data.errors import UserError
from experiments.reproduction.planning import Run


def labelled(planned: Sequence[Run], runs: Path, data: str, settings: Mapping[str, Any]) -> list[LabelledMap]:
    """A map of each file of labelled sentences in ``data`` (label, tab, text), by each finished run.

    Raises:
        UserError: if there is no such folder or file, or no finished run.
    """
    path = Path(data)
    files = sorted([*path.glob("*.tsv"), *path.glob("*.tsv.gz")]) if path.is_dir() else [path]
    finished = [run for run in planned if (runs / run.name / "encoder").is_dir()]
    if not files or not finished:
        what = f"no .tsv or .tsv.gz in {data}" if finished else "no run is finished"
        raise UserError(f"There is nothing to draw: {what}.")
    found = []
    for run in finished:
        encoder = Named(str(runs / run.name)).open(device("auto"))
        model = command.Model(run.name, encoder)
        for file in files:
            sample = projection_map.sample(
                projection_map.read(file), int(settings.get("sample", 1000)), int(settings.get("seed", 0))
            )
            vectors = model.rows(sample.texts)
            found.append(labelled_map(file.name.split(".")[0], sample, vectors, seed=run.seed, run=run.name))
    return found
