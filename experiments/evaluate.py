"""Evaluates models on SentEval, or by another evaluation: ``python experiments/evaluate.py --help``."""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path
from pkgutil import resolve_name
from textwrap import fill
from typing import Any

sys.path.pop(0)  # this folder, which Python puts there
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import experiments  # noqa: F401  # reports missing packages

# isort: split
from experiments.command import HELP, call_command, rendered_errors
from experiments.config import CONFIGS, unknown

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
    "embed": "analysis.models:embed_sentences",
    **OF_MODELS,
    "table": "analysis.results:report_table",
    "plot": "analysis.results:draw_results",
    "bootstrap": "analysis.results:report_differences",
    "ranking": "analysis.results:report_ranking",
    "ensemble": "analysis.ensemble:report_ensemble",
    "download": "analysis.senteval.download:download",
}


def quote_names(argument: str) -> str:
    """Quotes "name=folder" in a list, as Hydra's grammar has no "=" in values."""
    key, equals, value = argument.partition("=")
    return argument if "'" in value else key + equals + re.sub(r"[^\[\],]+=[^\[\],]*", r"'\g<0>'", value)


def describe(module: str, name: str) -> str:
    """Returns signature and docstring of a function, and the docstrings of the options that it refers to.

    They are read from the source, as imports take seconds.
    """
    source = CONFIGS.parents[1].joinpath(*module.split(".")).with_suffix(".py").read_text(encoding="utf-8")
    definition: Any = next(node for node in ast.parse(source).body if getattr(node, "name", None) == name)
    text = str(ast.get_docstring(definition))
    options = [describe(*place) for place in re.findall(r"``(analysis\.\w+)\.(\w+Options)``", text)]
    if isinstance(definition, ast.FunctionDef):
        definition.args.args = []  # the model
        text = f"{fill(ast.unparse(definition.args), 110)}\n\n{text}"
    return "\n\n".join([text, *options])


def main() -> None:
    name = sys.argv.pop(1) if re.fullmatch(r"\w+", "".join(sys.argv[1:2])) else "evaluate"
    with rendered_errors():  # of imports, too
        if name not in EVALUATIONS:
            raise unknown(name, name, EVALUATIONS)
        if {*HELP} & {*sys.argv}:
            print(describe(*EVALUATIONS[name].split(":")))
            return
        sys.argv[1:] = map(quote_names, sys.argv[1:])
        function = resolve_name(EVALUATIONS[name])
        if name in OF_MODELS:
            function = resolve_name("analysis.reports:make_command")(function)
        call_command(function, "evaluate")


if __name__ == "__main__":
    main()
