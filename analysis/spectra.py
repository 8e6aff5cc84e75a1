"""Spectra of several encoders in one picture, and a table of the geometry of their vectors.

    p_i = l_i / sum_j l_j      of the covariance's eigenvalues l_1 >= l_2 >= ..; isotropic vectors have p_i = 1 / D

Spans, sentences and scores are as at the end of a run (``analysis.quick``, ``analysis.geometry``).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Unpack

import pandas as pd

from analysis import plots, quick
from analysis.geometry import MIN_SENTENCES, measure_geometry, variance_shares
from analysis.models import Model
from analysis.reports import ReportOptions, make_command
from data.errors import UserError
from data.ranges import ExpandedPath
from data.sources.pydocs import Pydocs
from data.sources.reading import lines

LEAST = 1e-6  # share of the variance that is drawn


def draw_spectra(
    *, data: str | None = None, out: ExpandedPath = "geometry", **options: Unpack[ReportOptions]
) -> pd.DataFrame:
    """Draws the spectra of several models in one picture, and tabulates their geometry.

    Scores: mean cosine of random pairs, effective rank and IsoScore of up to 2,000 sentences; recall,
    alignment and uniformity of up to 400 pairs of neighbouring spans, if long documents give at least 20. They are
    defined in ``analysis.geometry``.

    Args:
        data: text file, a document or a sentence a line; None: the held-out part of pydocs.
        out: path of the picture (.pdf, .png) and its numbers (.csv), without the ending.
        options: see ``analysis.reports.ReportOptions``.

    Returns:
        The table: a row for each score, a column for each model.

    Raises:
        UserError: if the text or a model cannot be read, or the text has fewer than 500 distinct sentences.
    """
    pydocs = Pydocs()
    held_out = (example.texts[0] for example in pydocs.read() if pydocs.assign_part(example) == "dev")
    texts = [*(lines(data) if data else held_out)]
    *samples, _ = quick.draw_texts(texts, 0)
    count = len(samples[-1])
    if count < MIN_SENTENCES:
        raise UserError(f"fewer than {MIN_SENTENCES} sentences of 5 to 28 words", key="data")
    spectra = dict[str, pd.Series]()

    def evaluate(model: Model, **_: Any) -> dict[str, float]:
        vectors = [model.rows(sample).astype(float) for sample in samples]
        spectra[model.name] = pd.Series(variance_shares(vectors[-1]))
        return measure_geometry(*vectors)

    table = make_command(evaluate)(**options)
    frame = pd.DataFrame(spectra).rename_axis("principal component")
    frame.index += 1
    with plots.suite_style():
        note = f"{count:,} sentences of {data or 'held-out pydocs'}"
        figure = plots.new_figure("Spectra of sentence vectors", note, plots.TALL)
        frame.where(frame > LEAST).plot(
            ax=figure.subplots(),
            loglog=True,
            color=plots.SERIES,
            style=[*plots.DASHES],
            ylabel="share of the variance",
        )
    print(*plots.save(figure, Path(out), frame.reset_index()))
    return table
