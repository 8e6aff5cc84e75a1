"""The papers' printed tables (``analysis/paper_tables``), by SentEval's task names and ``records``' metrics."""

from __future__ import annotations

import csv
from functools import cache
from pathlib import Path
from typing import NamedTuple

from analysis.senteval.records import RECALLS, STS

FOLDER = Path(__file__).resolve().parents[1] / "paper_tables"

Key = tuple[str, str]  # task and metric; for an average, "" and its rule's name


class Cell(NamedTuple):
    """A score in percent and its text."""

    value: float
    text: str


class PrintedRow(NamedTuple):
    """A row of a paper: its model, its block of the table, and its cells by (task, metric) or ("", average)."""

    paper: str
    model: str
    group: str
    cells: dict[Key, Cell]

    def score(self, task: str, metric: str) -> float | None:
        """Returns the printed score, for "accuracy+f1" the mean of two; None if one is not printed."""
        cells = [self.cells.get((task, part)) for part in metric.split("+")]
        known = [cell.value for cell in cells if cell is not None]
        return sum(known) / len(known) if len(known) == len(cells) else None


class _Table(NamedTuple):
    paper: str
    split: str
    averages: dict[str, str]  # column to the name of its rule in ``averages``


_TABLES = {
    "declutr_table2_downstream": _Table("declutr", "test", {"avg": "declutr_downstream"}),
    "declutr_table3_probing": _Table("declutr", "test", {"avg": "probing"}),
    "declutr_table4": _Table("declutr", "dev", {"downstream": "declutr_downstream_dev", "probing": "probing_dev"}),
    "declutr_v1_S3": _Table("declutr_v1", "test", {}),
    "declutr_v1_S4": _Table("declutr_v1", "test", {}),
    "declutr_v1_table1": _Table(
        "declutr_v1",
        "test",
        {"downstream": "declutr_downstream_with_snli", "probing": "probing", "avg": "declutr_v1_all"},
    ),
    "declutr_v1_S1": _Table(
        "declutr_v1",
        "dev",
        {"downstream": "declutr_downstream_with_snli_dev", "probing": "probing_dev", "avg": "declutr_v1_all_dev"},
    ),
    "declutr_v1_S5": _Table(
        "declutr_v1",
        "dev",
        {"downstream": "declutr_downstream_with_snli_dev", "probing": "probing_dev", "avg": "declutr_v1_all_dev"},
    ),
    "declutr_v1_S6": _Table(
        "declutr_v1",
        "dev",
        {
            "downstream": "declutr_downstream_with_snli_dev",
            "downstream_wo_snli": "declutr_downstream_dev",
        },
    ),
    # ConsSent and GenSen do not name the split; they compare with test scores.
    "conssent_table2": _Table("conssent", "test", {"avg": "conssent_transfer"}),
    "conssent_table3": _Table("conssent", "test", {"avg": "probing"}),
    "gensen_table2": _Table("gensen", "test", {"delta": "gensen_delta"}),
    "gensen_table6": _Table("gensen", "test", {}),
    "gensen_table7": _Table("gensen", "test", {}),
}

_COLUMNS: dict[str, Key] = {
    **{name.lower(): (name, "test") for name in ("MR", "CR", "SUBJ", "MPQA", "SST2", "SST5", "TREC", "SNLI")},
    "mrpc_acc": ("MRPC", "accuracy"),
    "mrpc_f1": ("MRPC", "f1"),
    "sick_e": ("SICKEntailment", "test"),
    "stsb_pearson": ("STSBenchmark", "pearson"),
    "stsb_spearman": ("STSBenchmark", "spearman"),
    "coco": ("ImageCaptionRetrieval", "test"),
    **{name: ("ImageCaptionRetrieval", f"recalls.{name}") for name in RECALLS},
    "sentlen": ("Length", "test"),
    "wc": ("WordContent", "test"),
    "treedepth": ("Depth", "test"),
    "topconst": ("TopConstituents", "test"),
    "bshift": ("BigramShift", "test"),
    "tense": ("Tense", "test"),
    "subjnum": ("SubjNumber", "test"),
    "objnum": ("ObjNumber", "test"),
    "somo": ("OddManOut", "test"),
    "coordinv": ("CoordinationInversion", "test"),
}


def _column(name: str, table: _Table) -> Key | None:
    """Returns a column's key; SICK-R, STS-B and STS12-16 are Spearman in DeCLUTR and Pearson elsewhere."""
    correlation = "spearman" if table.paper.startswith("declutr") else "pearson"
    by_correlation: dict[str, Key] = {
        "sick_r": ("SICKRelatedness", correlation),
        "stsb": ("STSBenchmark", correlation),
        **{task.lower(): (task, f"{correlation}.mean") for task in STS},
    }
    if name in table.averages:
        return "", table.averages[name]
    return by_correlation.get(name) or _COLUMNS.get(name)


@cache
def read_table(table: str) -> tuple[dict[str, str], ...]:
    """Reads a CSV of ``analysis/paper_tables``: rows from column to text, as printed."""
    with (FOLDER / f"{table}.csv").open(encoding="utf-8", newline="") as file:
        return tuple(csv.DictReader(file))


@cache
def printed(table: str) -> tuple[PrintedRow, ...]:
    """Reads the rows of a printed table of SentEval scores, in percent (GenSen prints SICK-R on a scale of 0-1).

    Empty cells are left out, and so are columns that are neither a task's score nor an average (sizes, deltas).
    """
    facts = _TABLES[table]
    result = []
    for line in read_table(table):
        cells = {}
        for name, text in line.items():
            key = _column(name, facts)
            if key and text:
                unit = facts.paper == "gensen" and name == "sick_r"
                cells[key] = (
                    Cell(100 * float(text), f"{100 * float(text):.1f}") if unit else Cell(float(text), text)
                )
        result.append(PrintedRow(facts.paper, line["model"], line["group"], cells))
    return tuple(result)


def paper_rows(paper: str, split: str) -> list[PrintedRow]:
    """Returns all rows of ``paper`` on "test" or "dev"; rows of one name and block are merged over its tables."""
    joined: dict[tuple[str, str], PrintedRow] = {}
    for name, table in _TABLES.items():
        if (table.paper, table.split) == (paper, split):
            for row in printed(name):
                known = joined.setdefault((row.model, row.group), row._replace(cells={}))
                known.cells.update(row.cells)
    return list(joined.values())
