"""A paper's table from our runs: SentEval beside the printed rows, other evaluations, sizes, examples."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from analysis.senteval.printed import Cell, Key, read_table
from analysis.senteval.rendering import Grid, Row, as_csv, as_markdown, escape_markdown, score_cell
from analysis.senteval.results import Results
from analysis.senteval.spreads import merged
from analysis.senteval.tables import comparison
from data.errors import UserError
from data.files import atomic_write
from experiments.reproduction import examples
from experiments.reproduction.judged import Judged, made_up
from experiments.reproduction.planning import Run
from experiments.reproduction.specification import Specification, Table
from experiments.run_folder import ROOT

ROW = "row"
QUICK_COLUMNS = ("recall@1", "recall@5", "probe_length", "probe_word_content", "probe_bigram_shift")


def row_of(specification: Specification, run: Run, judged: Judged) -> str:
    """The name of the row that ``run`` gives, which says what was learned from synthetic text."""
    name, synthetic = run.labels[specification.point.get(ROW, ROW)], made_up(judged.facts[run])
    return f"{name} (synthetic {synthetic})" if synthetic else name


def senteval_table(
    specification: Specification, judged: Judged, ensembles: Mapping[int, Results]
) -> tuple[Grid, list[str]]:
    """Our rows, mean and standard deviation over seeds, above the paper's, and what must be said of them."""
    table = _table(specification)
    results = [_named(one, row_of(specification, run, judged)) for run, one in judged.senteval.items()]
    if ensembles and specification.ensemble:
        results += [_named(one, specification.ensemble["group"]) for one in ensembles.values()]
    try:
        grid = comparison(results, (table.paper,), table.split, tasks=table.tasks, mean=True)
        if any(task for task, _ in grid.columns):
            return grid, []
        note = "The printed rows are left out: no task of the table was judged on SentEval's own data."
    except UserError as error:
        note = f"The printed rows are left out. {error}"
    return comparison(results, (), table.split, tasks=table.tasks, mean=True), [note]


def _named(results: Results, name: str) -> Results:
    return Results(
        results.protocol, results.model | {"name": name}, results.data, results.tasks, dict(results.missing)
    )


def quick_table(specification: Specification, judged: Judged) -> Grid:
    """Our rows by the quick judgement, which stands beside nothing printed."""
    rows = []
    for run, scores in judged.quick.items():
        known = {name: value for name in QUICK_COLUMNS if (value := scores.get(name)) is not None}
        cells: dict[Key, Cell] = {("", name): score_cell(value) for name, value in known.items()}
        rows.append(Row(row_of(specification, run, judged), cells, protocol="quick"))
    columns: list[Key] = [("", name) for name in QUICK_COLUMNS if any(("", name) in row.cells for row in rows)]
    notes = [
        "Percentages on held-out text, the quick judgement: there is no SentEval data here (data=<folder>), and "
        "none of the paper's scores may stand beside."
    ]
    if unjudged := {run.labels[specification.point.get(ROW, ROW)] for run in judged.facts if run.pooling}:
        notes.append(
            f"Judged by SentEval alone, as it is not their encoder's own pooling: {', '.join(sorted(unjudged))}."
        )
    return merged(Grid(specification.title, columns, rows, [], notes))


def printed_grid(table: Table, ours: Sequence[Row] = ()) -> Grid:
    """The rows of a printed table that holds no SentEval scores, below ``ours``."""
    rows = read_table(table.printed)
    names = [name for name in rows[0] if name not in ("group", "line", next(iter(rows[0])))]
    below = []
    for row in rows:
        cells: dict[Key, Cell] = {("", name): _text_cell(row[name]) for name in names if row[name]}
        below.append(Row(row[next(iter(row))], cells, table.paper))
    columns: list[Key] = [("", name) for name in names]
    # All as printed rows: of sizes none is best.
    return Grid(table.title, columns, [], [*ours, *below], [table.note] if table.note else [])


def _text_cell(text: str) -> Cell:
    try:
        return Cell(float(text), text)
    except ValueError:  # a size with its unit, or words
        return Cell(0.0, text)


def size_rows(table: Table) -> list[Row]:
    """Parameters and dimension of encoders, from their shapes; no weights are made.

    ``table.settings`` has by row {encoder: its YAML's name, vocab_size: .., positions: ..}; without sizes it is a
    bundled one, whose own count.
    """
    import torch
    from transformers import AutoConfig, AutoModelForMaskedLM

    from encoders.offline import CHECKPOINTS
    from experiments import compose

    rows = []
    for name, given in table.settings.items():
        encoder = compose.check([f"encoder={given['encoder']}"])["encoder"]
        if "vocab_size" in given:
            sizes = {"vocab_size": given["vocab_size"], "max_position_embeddings": given["positions"]}
            config = AutoConfig.for_model(**encoder["shape"], **sizes, type_vocab_size=1)
        else:
            config = AutoConfig.from_pretrained(CHECKPOINTS / encoder["name"])
        with torch.device("meta"):
            model = AutoModelForMaskedLM.from_config(config)
        count = sum(parameter.numel() for parameter in model.parameters())
        dimension = config.hidden_size
        rows.append(
            Row(
                name,
                {
                    ("", "parameters"): Cell(count / 1e6, f"{count / 1e6:.1f}M"),
                    ("", "embedding_dim"): Cell(dimension, str(dimension)),
                },
            )
        )
    return rows


def command_text(table: Table, models: Mapping[str, Path], data: str) -> str:
    """What the evaluation ``table.command`` prints of ``models`` (by row), as Markdown.

    Raises:
        UserError: with its own line, where it refuses.
    """
    module, *arguments = [part.replace("{data}", data) for part in table.command]
    alone = module in ("analysis.neighbours", "analysis.projection_map")  # of one model
    parts = []
    for names in [[name] for name in models] if alone else [[*models]]:
        folders = [str(models[name]) for name in names]
        found = subprocess.run(
            # -P: of this checkout, whatever lies in the current folder or is installed.
            [sys.executable, "-P", "-m", module, *folders, *arguments, "--format", "md"],
            env=os.environ | {"PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            check=False,
        )
        if found.returncode:
            lines = found.stderr.strip().splitlines() or ["it said nothing"]
            raise UserError(f"{module}: {lines[-1]}")
        parts += [f"## {escape_markdown(names[0])}"] * alone + [found.stdout.strip()]
    text = "\n\n".join(parts)
    for name, folder in models.items():  # a row goes by the paper's name, not by its folder's
        text = text.replace(escape_markdown(folder.name), escape_markdown(name))
    return text


def write(specification: Specification, content: Grid | str, folder: Path, notes: Sequence[str]) -> list[Path]:
    """Writes ``<name>.md`` with ``notes`` below, and of a grid ``<name>.csv``; gives their paths.

    Raises:
        UserError: if ``folder`` cannot be written.
    """
    body = as_markdown(content) if isinstance(content, Grid) else content
    paths = [folder / f"{specification.name}.md"]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with atomic_write(paths[0]) as file:
            file.write("\n\n".join([f"# {specification.title}", body, *notes]) + "\n")
        if isinstance(content, Grid):
            paths.append(folder / f"{specification.name}.csv")
            with atomic_write(paths[1]) as file:
                file.write(as_csv(content) + "\n")
    except OSError as error:
        raise UserError(f"{folder} cannot be written ({error.strerror}): out=<folder> names another.") from None
    return paths


def untrained(table: Table, config: Callable[[], Mapping[str, Any]]) -> Grid | str:
    """A table for which nothing is trained; ``config`` gives a run's, whose corpus examples are drawn from."""
    if table.kind == "sizes":
        return printed_grid(table, size_rows(table))
    if table.kind == "spans":
        return examples.spans(config(), table.settings)
    if table.kind == "sequences":
        return examples.sequences(config(), table.settings)
    return printed_grid(table)


def _table(specification: Specification) -> Table:
    assert specification.table is not None
    return specification.table
