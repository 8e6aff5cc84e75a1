"""The page of a comparison: objectives and encoders side by side, as one HTML file (``page.html``).

Beside it lie a CSV of all scores and a PDF of their picture. A change is that of a single run: its score minus the
score of the encoder that it began with, on the same test examples. Means and intervals are over runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import cycle
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter

from analysis import plots, quick
from analysis.bootstrap import LEAST, half_width
from analysis.run_figure import running_mean
from analysis.senteval.records import PUBLISHED
from data.batch import IGNORE, Tokens
from data.errors import UserError
from data.files import atomic_write
from data.token_format import TokenFormat

MEAN = "mean of SentEval"
PAIR = ["objective", "encoder"]
COSTS = ["steps", "tokens", "seconds", "tokens_per_second", "memory_gib"]
PLAIN = ("", "special", "unchanged")  # marks that a text does not show
LOSSES = "^dev_.*(?<!_accuracy)(?<!_unigram)(?<!_perplexity)$"  # their keys on held-out text in a journal

# What an objective does to a text


class Piece(NamedTuple):
    """A token as it is shown; ``mark``: a class of the style sheet, ``original``: the token that stood there."""

    text: str
    mark: str = ""
    original: str = ""


class ShownRow(NamedTuple):
    """A row of a batch: its role, its tokens, and its places in the unit, if it is a span of it."""

    role: str
    pieces: list[Piece]
    span: range | None = None

    @property
    def kind(self) -> str:
        """The role without a number."""
        return self.role.split()[0]


class ShownExample(NamedTuple):
    """An example: tokens of the unit that it was sampled from, if rows are spans of it, rows and class labels."""

    unit: list[str]
    rows: list[ShownRow]
    labels: Mapping[str, str]


class View(NamedTuple):
    """An objective: formula and first paragraph of its class, and examples by task and unit ("D: a sentence")."""

    objective: str
    summary: str
    formula: str
    examples: Mapping[str, list[ShownExample]]


def list_rows(view: View) -> pd.DataFrame:
    """Returns the rows of all examples as text, changed tokens with their original or the name of the change."""
    rows = [
        (
            view.objective,
            " ".join([row.role, *map("=".join, example.labels.items())]),
            "".join(
                piece.text + f"‹{piece.original or piece.mark}›" * (piece.mark not in PLAIN)
                for piece in row.pieces
            ),
        )
        for examples in view.examples.values()
        for example in examples
        for row in example.rows
    ]
    return pd.DataFrame(rows, columns=["objective", "row", "text"]).set_index("objective")


def token_texts(tokenizer: Any) -> Callable[[Iterable[int]], list[str]]:
    """Returns a function from token ids to their texts, each with the blank before it."""
    decode = partial(tokenizer.decode, clean_up_tokenization_spaces=False)
    special, first = {*tokenizer.all_special_ids}, decode([0])

    def text(number: int) -> str:
        # Some tokenizers drop the blank before the first token.
        return f" {decode([number])}" if number in special else decode([0, number]).removeprefix(first)

    return lambda ids: [text(int(number)) for number in ids]


def show_rows(
    role: str,
    tokens: Tokens,
    texts: Callable[[Iterable[int]], list[str]],
    format: TokenFormat,
    *,
    unit: Sequence[str] = (),
    sources: Sequence[np.ndarray] = (),
) -> list[ShownRow]:
    """Returns the rows of a role with their marks.

    Args:
        role: its name in the batch.
        tokens: its rows.
        texts: tokens to texts.
        format: special tokens of the rows.
        unit: texts of the unit's tokens.
        sources: for each row the positions in the unit, as ``Objective.sample`` gives them; () if not known.
    """
    labels = torch.full_like(tokens.ids, IGNORE) if tokens.labels is None else tokens.labels
    rows = []
    for number, length in enumerate(tokens.lengths.tolist()):
        ids, originals = (block[number, :length].tolist() for block in (tokens.ids, labels))
        pieces, span = mark_masked(ids, originals, texts, format), None
        if sources:
            content = slice(len(format.prefix), length - len(format.suffix))
            positions = sources[number][: format.max_content]
            start = int(positions[0])
            if start < 0 or (np.diff(positions) != 1).any():
                pieces[content] = mark_changes(positions, [piece.text for piece in pieces[content]], unit)
            elif len(positions) < len(unit):
                span = range(start, start + len(positions))
        rows.append(ShownRow(role if len(tokens) == 1 else f"{role} {number + 1}", pieces, span))
    return rows


def mark_masked(
    ids: Sequence[int], labels: Sequence[int], texts: Callable[[Iterable[int]], list[str]], format: TokenFormat
) -> list[Piece]:
    """Marks special tokens and those with a label: masked, exchanged for a random token, or left as they are."""
    pieces = []
    for text, token, label in zip(texts(ids), ids, labels, strict=True):
        if label == IGNORE:
            pieces.append(Piece(text, "special" if token in format.special_ids else ""))
        elif label == token:
            pieces.append(Piece(text, "unchanged"))
        else:
            mark = "masked" if token == format.mask_id else "exchanged"
            pieces.append(Piece(text, mark, texts([label])[0].strip()))
    return pieces


def mark_changes(sources: np.ndarray, row: Sequence[str], unit: Sequence[str]) -> list[Piece]:
    """Marks replaced, inserted and moved tokens of a row, with the deleted ones where they stood.

    Args:
        sources: positions in the unit of the row's tokens, of shape (n,); -1: not of the unit.
        row: their texts.
        unit: texts of the unit's tokens.
    """
    left = {*sources.tolist()}
    pieces, at = list[Piece](), 0  # the position in the unit that comes next
    for source, text in zip(sources.tolist(), row, strict=True):
        while source > at and at not in left:
            pieces.append(Piece(unit[at], "deleted"))
            at += 1
        if source == at:
            pieces.append(Piece(text))
        elif source < 0 and (at in left or at == len(unit)):
            pieces.append(Piece(text, "inserted"))
            continue
        else:
            pieces.append(Piece(text, "replaced" if source < 0 else "moved", unit[at].strip()))
        at += 1
    return [*pieces, *(Piece(unit[i], "deleted") for i in range(at, len(unit)) if i not in left)]


# Scores


def compare_scores(frame: pd.DataFrame, starts: pd.DataFrame) -> pd.DataFrame:
    """Returns a row for each run and score, the main one first: pair, seed, score, before, after and change.

    Runs of the seeds that most pairs have, as each seed has its own test examples.

    Args:
        frame: wide frame of trained runs (``analysis.results``).
        starts: scores before training, with the same columns and index; NaN where they are not known.

    Raises:
        UserError: if there are none.
    """
    pairs = frame.groupby("seed")["seed"].transform("size")
    frame = frame[pairs == pairs.max()]
    labels = {f"{task}.test": task for task in PUBLISHED} | quick.LABELS
    wide = pd.concat({"before": starts.loc[frame.index], "after": frame}).reindex(columns=[*labels]).astype(float)
    common = [*wide.loc["after"].filter(regex=r"\.test$").dropna(axis=1)]
    if len(common) > 1:
        wide.insert(0, f"{MEAN} ({len(common)} tasks)", wide[common].mean(axis=1, skipna=False))
    scores = wide.rename(columns=labels).T.stack().dropna(subset="after")
    if scores.empty:
        hint = "corpus.dev_fraction=0.4 holds out more, and data=<folder> evaluates on SentEval."
        raise UserError("the runs have no scores: held-out text is short", hint=hint)
    scores = scores.assign(change=scores["after"] - scores["before"]).reset_index(level=0, names="score")
    return frame[[*PAIR, "seed"]].join(scores, how="right").reset_index(drop=True)


def summarise(scores: pd.DataFrame) -> pd.DataFrame:
    """Returns means over seeds for each score and pair, and half-widths of 95 % intervals of "after" and "change".

    The half-widths are NaN for fewer than LEAST seeds, or if one is NaN.
    """
    groups = scores.groupby(["score", *PAIR], sort=False)
    halves = groups[["after", "change"]].agg(half_width).add_suffix(" ±")
    return groups[["before", "after", "change"]].mean().join(halves)


def find_lead(scores: pd.DataFrame) -> tuple[pd.Series, pd.Series]:
    """Returns means of the first score by pair, the highest first, and the lead of the first over the second pair.

    The lead is by seed, as the runs of a seed share test examples; it is 0 if there is no other pair.
    """
    tables = scores.pivot_table(index="seed", columns=["score", *PAIR], values="after", sort=False)
    table = tables[scores["score"].iloc[0]]
    means = table.mean().sort_values(ascending=False, kind="stable")
    return means, (table[means.index[0]] - table[means.index[:2][-1]]).dropna()


# Pictures


def draw_scores(summaries: Mapping[str, pd.DataFrame]) -> Figure:
    """Draws each score on an axis of its own, a bar for each pair; takes rows of ``summarise`` by score."""
    with plots.suite_style():
        figure = plots.new_figure(
            "",
            f"Bars: means after training. Lines: before it. Error bars: 95 % intervals, from {LEAST} seeds on.",
            sum(0.2 * len(rows) + 0.5 for rows in summaries.values()),
        )
        grid = figure.subplots(len(summaries), squeeze=False)
        for (axes,), (name, rows) in zip(grid, summaries.items(), strict=True):
            pairs, hues = [*map(" · ".join, rows.index)], [plots.colour(objective) for objective, _ in rows.index]
            axes.barh(pairs, rows["after"], xerr=rows["after ±"], color=hues)
            axes.plot(rows["before"], pairs, "|", color=plots.INK, markersize=12)
            axes.set_title(name)
            axes.invert_yaxis()
    return figure


def draw_losses(axes: Axes, part: str, runs: pd.DataFrame) -> None:
    """Draws a part of the loss over tokens: running mean on training text, dots on held-out text, chance level."""
    for run, dash in zip(runs.itertuples(), cycle(plots.DASHES), strict=False):
        hue = plots.colour(run.objective)
        lines = pd.DataFrame(run.metrics, columns=["tokens", part, f"dev_{part}"])
        lines.index = lines["tokens"].ffill().fillna(0)
        axes.plot(running_mean(lines[part].dropna()), color=hue, linestyle=dash, label=run.encoder)
        axes.plot(lines[f"dev_{part}"], ".", color=hue)
        axes.axhline(run.chance.get(f"dev_{part}", np.nan), color=plots.MUTED, linestyle=":")
    axes.xaxis.set_major_formatter(EngFormatter(sep=""))
    axes.set(title=f"{run.objective}: {part}", xlabel="tokens")
    axes.legend()


def draw_equation(equation: str) -> str:
    """Returns an equation in LaTeX as an SVG picture."""
    figure = Figure(figsize=(0.1, 0.1))
    figure.text(0, 0, f"${equation}$", fontsize=13, color=plots.INK)
    return plots.svg(figure)


# The page


def write_page(
    out: Path, frame: pd.DataFrame, starts: pd.DataFrame, runs: list[dict[str, Any]], **texts: Any
) -> list[Path]:
    """Writes the page, a CSV of all scores and a picture of them as PDF and PNG; returns their paths.

    Args:
        out: the page.
        frame, starts: as ``compare_scores`` takes them.
        runs: ``analysis.runs.read_run`` of each row of ``frame``, with "metrics", its labels and "command".
        texts: "title"; "notes" on failures; "views" of the objectives; "sample"
            and "spaces", the sample under the encoder of each pair; "command" that writes the page.
    """
    scores, table = compare_scores(frame, starts), pd.DataFrame(runs)
    means, lead = find_lead(scores)
    rows = summarise(scores)
    summaries = {name: rows.loc[name] for name in rows.index.unique("score")}
    figure = draw_scores(summaries)
    html = Environment(loader=FileSystemLoader(Path(__file__).parent), autoescape=True, undefined=StrictUndefined)
    page = html.get_template("page.html").render(
        means=means,
        lead=lead,
        half_width=half_width(lead),
        losses=[
            (objective, part, plots.picture(draw_losses, part, pairs))
            for objective, pairs in table.drop_duplicates(PAIR).groupby("objective", sort=False)
            for part in pd.DataFrame(pairs["metrics"].iloc[0]).filter(regex=LOSSES).columns.str[4:]
        ],
        costs=table.groupby(PAIR, sort=False)[COSTS].mean().fillna(0),
        summaries=summaries,
        scores=scores,
        first=frame.iloc[0],
        figure=figure,
        least=LEAST,
        plots=plots,
        quick=quick,
        draw_equation=draw_equation,
        runs=runs,
        **texts,
    )
    paths = plots.save(figure, out.with_suffix(""), scores)
    with atomic_write(out) as file:
        file.write(page)
    return [out, *paths]
