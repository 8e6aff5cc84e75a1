"""Evaluates models on SentEval, or by another evaluation: ``python experiments/evaluate.py --help``."""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable
from pathlib import Path
from pkgutil import resolve_name
from textwrap import fill
from typing import Any

sys.path[0] = str(Path(__file__).resolve().parents[1])  # Python puts this folder there

from experiments.command import HELP, call_with_hydra, rendered_errors
from experiments.config import parse, unknown

OF_MODELS = {  # of one model each; analysis.reports makes a table of several
    "probes": "analysis.probes:evaluate_probes",
    "wordsim": "analysis.wordsim:evaluate_word_similarity",
    "quora": "analysis.quora:evaluate_duplicates",
    "neighbours": "analysis.neighbours:evaluate_neighbours",
    "projection_map": "analysis.projection_map:evaluate_map",
    "masked_lm": "analysis.masked_lm:evaluate_masked_lm",
    "mteb": "analysis.mteb:evaluate_mteb",
}
EVALUATIONS = {
    "evaluate": "experiments.evaluation:evaluate",
    "export": "analysis.models:export_encoder",
    **OF_MODELS,
    "geometry": "analysis.spectra:draw_spectra",
    "table": "analysis.results:report_table",
    "ensemble": "analysis.ensemble:report_ensemble",
    "download": "analysis.senteval.download:download",
}


def describe(function: Callable[..., Any]) -> str:
    """Returns signature and docstring of a function, and the docstrings of the options that it refers to."""
    texts = [inspect.getdoc(function) or ""]
    for text in texts:  # those that a text refers to follow it
        places = re.findall(r"``(analysis\.\w+\.\w+Options)``", text)
        texts += [inspect.getdoc(resolve_name(place)) or "" for place in places]
    return "\n\n".join([fill(str(inspect.signature(function)), 110), *texts])


def main() -> None:
    name = sys.argv.pop(1) if re.fullmatch(r"\w+", "".join(sys.argv[1:2])) else "evaluate"
    with rendered_errors():  # of imports, too
        if name not in EVALUATIONS:
            raise unknown(name, name, EVALUATIONS)
        function = resolve_name(EVALUATIONS[name])
        if {*HELP} & {*sys.argv}:
            print(describe(function))
            return
        if name in OF_MODELS:
            function = resolve_name("analysis.reports:make_command")(function)
        call_with_hydra(lambda config: function(**parse(function, config)), "evaluate")


if __name__ == "__main__":
    main()
