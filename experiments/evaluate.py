"""Evaluates models on SentEval, or by another evaluation: ``python experiments/evaluate.py --help``."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from pkgutil import resolve_name

sys.path.pop(0)  # this folder, which Python puts there
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import experiments  # noqa: F401  # reports missing packages

# isort: split
from experiments.command import call_command, rendered_errors

EVALUATIONS = {
    "evaluate": "experiments.evaluation:evaluate",
    "embed": "analysis.models:embed_sentences",
    "probes": "analysis.probes:report_probes",
    "wordsim": "analysis.wordsim:report_word_similarity",
    "quora": "analysis.quora:report_duplicates",
    "neighbours": "analysis.neighbours:report_neighbours",
    "projection_map": "analysis.projection_map:draw_maps",
    "masked_lm": "analysis.masked_lm:report_masked_lm",
    "mteb": "analysis.mteb:report_mteb",
    "table": "analysis.reporting.tables:report_table",
    "plot": "analysis.reporting.plotting:draw_results",
    "bootstrap": "analysis.reporting.bootstrap:report_differences",
    "ranking": "analysis.reporting.ranking:report_ranking",
    "ensemble": "analysis.reporting.ensemble:report_ensemble",
    "download": "analysis.senteval.files.download:download_data",
}


def quote_names(argument: str) -> str:
    """Quotes "name=folder" in a list, as Hydra's grammar has no "=" in values."""
    key, equals, value = argument.partition("=")
    return argument if "'" in value else key + equals + re.sub(r"[^\[\],]+=[^\[\],]*", r"'\g<0>'", value)


def main() -> None:
    name = sys.argv.pop(1) if sys.argv[1:2] and sys.argv[1] in EVALUATIONS else "evaluate"
    sys.argv[1:] = map(quote_names, sys.argv[1:])
    with rendered_errors():  # of imports, too
        call_command(resolve_name(EVALUATIONS[name]), name)


if __name__ == "__main__":
    main()
