"""A paper's table from our runs: SentEval beside the printed rows, other evaluations, sizes, examples."""

from __future__ import annotations

import importlib
import io
from collections.abc import Mapping, Sequence
from contextlib import redirect_stdout
from dataclasses import replace
from pathlib import Path
from typing import Any

from analysis.figures.exhibits import ROW, Exhibit, Table
from analysis.quick import PERCENTAGES
from analysis.reporting.printed import Cell, Key, read_table
from analysis.reporting.rendering import Grid, Row, as_csv, as_markdown, escape_markdown, score_cell
from analysis.reporting.tables import comparison, merged
from analysis.runs import mixed_probes
from analysis.senteval.results import Results
from analysis.settings import EVALUATIONS
from data.errors import UserError, about
from data.files import atomic_write
from experiments import compose
from experiments.reproduction.planning import Run
from experiments.reproduction.results import Found, synthetic


def row_of(run: Run, found: Found) -> str:
    """Returns the name of a run's row, with the tasks learned from generated text."""
    tasks = synthetic(found.facts[run])
    return f"{run.labels[ROW]} (synthetic {tasks})" if tasks else run.labels[ROW]


def senteval_table(table: Table, found: Found) -> tuple[Grid, list[str]]:
    """Returns our rows, mean and standard deviation over seeds, above the paper's, and notes on them."""
    results = [_named(one, row_of(run, found)) for run, one in found.senteval.items()]
    if table.ensemble:
        results += [_named(one, table.ensemble.group) for one in found.ensembles.values()]
    try:
        grid = comparison(results, (table.printed_paper,), table.split, tasks=table.columns, mean=True)
        if any(task for task, _ in grid.columns):
            return grid, []
        note = "The printed rows are left out: no task of the table was evaluated on SentEval's own data."
    except UserError as error:
        note = f"The printed rows are left out. {error}"
    return comparison(results, (), table.split, tasks=table.columns, mean=True), [note]


def _named(results: Results, name: str) -> Results:
    return replace(results, model=results.model | {"name": name})


def quick_grid(table: Table, found: Found) -> Grid:
    """Returns our rows by the quick evaluation, which is not comparable with printed ones."""
    rows = []
    for run, scores in found.quick.items():
        known = {score.key: value for score in PERCENTAGES if (value := scores.get(score.key)) is not None}
        cells: dict[Key, Cell] = {("", key): score_cell(value) for key, value in known.items()}
        rows.append(Row(row_of(run, found), cells, protocol="quick"))
    known_columns = [("", score.key) for score in PERCENTAGES]
    columns: list[Key] = [key for key in known_columns if any(key in row.cells for row in rows)]
    notes = [
        "Percentages on held-out text by the quick evaluation, as there is no SentEval data here (data=<folder>); "
        "they are not comparable with the paper's scores."
    ]
    notes += mixed_probes([found.facts[run] for run in found.quick])
    if others := {run.labels[ROW] for run in found.facts if run.pooling}:
        notes.append(
            f"Evaluated on SentEval only, as it is not their encoder's own pooling: {', '.join(sorted(others))}."
        )
    return merged(Grid(table.title, columns, rows, [], notes))


def printed_grid(table: Table, ours: Sequence[Row] = ()) -> Grid:
    """Returns the rows of a printed table that has no SentEval scores, below ``ours``."""
    rows = read_table(table.printed)
    names = [name for name in rows[0] if name not in ("group", "line", next(iter(rows[0])))]
    below = []
    for row in rows:
        cells: dict[Key, Cell] = {("", name): _text_cell(row[name]) for name in names if row[name]}
        below.append(Row(row[next(iter(row))], cells, table.printed_paper))
    columns: list[Key] = [("", name) for name in names]
    # All as printed rows: no size is the best.
    return Grid(table.title, columns, [], [*ours, *below], [table.note] if table.note else [])


def _text_cell(text: str) -> Cell:
    try:
        return Cell(float(text), text)
    except ValueError:  # a size with its unit, or words
        return Cell(0.0, text)


def size_rows(table: Table) -> list[Row]:
    """Returns parameters and dimension of the encoders of ``table.sizes``; no weights are made."""
    import torch
    from transformers import AutoConfig, AutoModelForMaskedLM

    from encoders.starts import CHECKPOINTS

    rows = []
    for name, given in table.sizes.items():
        encoder = compose.check([f"encoder={given if isinstance(given, str) else given[0]}"])["encoder"]
        if isinstance(given, str):  # a bundled one
            config = AutoConfig.from_pretrained(CHECKPOINTS / encoder["name"])
        else:
            sizes: dict[str, Any] = {"vocab_size": given[1], "max_position_embeddings": given[2]}
            config = AutoConfig.for_model(**encoder["shape"], **sizes, type_vocab_size=1)
        with torch.device("meta"):
            model = AutoModelForMaskedLM.from_config(config)
        count = sum(parameter.numel() for parameter in model.parameters())
        cells: dict[Key, Cell] = {
            ("", "parameters"): Cell(count / 1e6, f"{count / 1e6:.1f}M"),
            ("", "embedding_dim"): Cell(config.hidden_size, str(config.hidden_size)),
        }
        rows.append(Row(name, cells))
    return rows


def evaluation_text(table: Table, models: Mapping[str, Path], data: str) -> str:
    """Returns what the evaluation ``table.evaluation`` prints of ``models`` (by row), as Markdown.

    Raises:
        UserError: with the evaluation's own line, where it fails.
    """
    given = {key: data if value == "{data}" else value for key, value in table.settings.items()}
    schema = EVALUATIONS[table.evaluation]
    try:
        settings = schema.of({"models": [*map(str, models.values())], "format": "md", **given})
    except ValueError as error:
        raise UserError(f"{table.evaluation}: {error}") from None
    with redirect_stdout(io.StringIO()) as printed, about(table.evaluation):
        importlib.import_module(schema.module).run(settings)
    text = printed.getvalue().strip()
    for name, folder in models.items():  # rows are named as in the paper, not as their folders
        text = text.replace(escape_markdown(folder.name), escape_markdown(name))
    return text


def write(exhibit: Exhibit, content: Grid | str, folder: Path, notes: Sequence[str]) -> list[Path]:
    """Writes ``<name>.md`` with ``notes`` below, and of a grid ``<name>.csv``; returns their paths.

    Raises:
        UserError: if ``folder`` cannot be written.
    """
    body = as_markdown(content) if isinstance(content, Grid) else content
    paths = [folder / f"{exhibit.name}.md"]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with atomic_write(paths[0]) as file:
            file.write("\n\n".join([f"# {exhibit.title}", body, *notes]) + "\n")
        if isinstance(content, Grid):
            paths.append(folder / f"{exhibit.name}.csv")
            with atomic_write(paths[1]) as file:
                file.write(as_csv(content) + "\n")
    except OSError as error:
        raise UserError(f"{folder} cannot be written ({error.strerror}): out=<folder> names another.") from None
    return paths


def untrained(table: Table, passed: Sequence[str]) -> Grid | str:
    """Returns a table for which nothing is trained; examples are from the corpus that ``passed`` names."""
    if table.examples is not None:
        config = compose.check([*table.base, *passed])
        return table.examples(config, compose.build(config["corpus"], "corpus"))
    return printed_grid(table, size_rows(table) if table.sizes else ())
