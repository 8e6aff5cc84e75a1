"""The maps of a figure of kind "map": trained encoders' vectors of labelled sentences (GenSen's figure 1)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from analysis import command, projection_map
from analysis.figures.reproduction import LabelledMap, labelled_map
from analysis.opening import Named, device
from analysis.projection_map import Labelled
from analysis.senteval.examples import Examples
from analysis.senteval.tasks import Task, absent, find, roots
from data.errors import UserError
from experiments.reproduction.planning import Run


def labelled(
    planned: Sequence[Run], runs: Path, data: str, settings: Mapping[str, Any], axis: str
) -> list[LabelledMap]:
    """A map of each set of labelled sentences in ``data``, by each finished run.

    Args:
        planned: runs, of which ``axis`` names the model.
        runs: the folder of their folders.
        data: as ``_sets`` reads it.
        settings: of the figure: ``sample`` sentences of each set, drawn by ``seed``; ``senteval``, for ``_sets``.
        axis: of the runs' labels.

    Raises:
        UserError: if there is no such folder or file, or no finished run.
    """
    finished = [run for run in planned if run.judged and (runs / run.name / "encoder").is_dir()]
    if not finished:
        raise UserError("There is nothing to draw: no run is finished.")
    size, seed = int(settings.get("sample", 1000)), int(settings.get("seed", 0))
    sets = {
        name: projection_map.sample(found, size, seed)
        for name, found in _sets(Path(data), settings.get("senteval", {}))
    }
    found = []
    for run in finished:
        encoder = Named(str(runs / run.name)).open(device("auto"))
        model = command.Model(run.name, encoder)
        for panel, sample in sets.items():
            vectors = model.rows(sample.texts)
            found.append(
                labelled_map(panel, sample, vectors, seed=run.seed, run=run.name, model=run.labels.get(axis, ""))
            )
    return found


def require(data: Path, senteval: Mapping[str, Sequence[str]]) -> None:
    """Refuses ``data`` in which ``labelled`` would find nothing, before anything is trained.

    Raises:
        UserError: saying what it may be.
    """
    if not (_files(data) or _tasks(data, senteval)):
        tasks = f", and no {' or '.join(senteval)} of SentEval" if senteval else ""
        raise UserError(f"data={data} has no labelled sentences: no .tsv or .tsv.gz (label, tab, text){tasks}.")


def _sets(data: Path, senteval: Mapping[str, Sequence[str]]) -> Iterator[tuple[str, Labelled]]:
    """The tasks of a SentEval folder by ``senteval``, which names their classes; files by their names."""
    for task in _tasks(data, senteval):
        parts = [part for part in task.load(roots(data)[task.group]).values() if isinstance(part, Examples)]
        classes = senteval[task.name]
        texts = {
            text: classes[int(kind)] for part in parts for text, kind in zip(part.first, part.targets, strict=True)
        }
        yield task.name, Labelled(list(texts), list(texts.values()))
    for file in _files(data):
        yield file.name.split(".")[0], projection_map.read(file)


def _files(data: Path) -> list[Path]:
    return sorted([*data.glob("*.tsv"), *data.glob("*.tsv.gz")]) if data.is_dir() else [data]


def _tasks(data: Path, senteval: Mapping[str, Sequence[str]]) -> list[Task]:
    tasks = find(senteval) if senteval and data.is_dir() else []
    return [task for task in tasks if absent(task, roots(data)[task.group]) is None]
