"""Whole tasks through ``evaluate``, against what the published toolkit gave for all-MiniLM-L6-v2."""

from __future__ import annotations

from pathlib import Path

import pytest

import encoders
from analysis.senteval.evaluation import run_tasks
from analysis.senteval.protocols import PROTOCOLS
from encoders.fingerprint import fingerprint
from tests.encoders.models import minilm
from tests.support import suite_data

PUBLISHED: dict[str, dict[str, dict[str, float]]] = {  # commit 5d6dc117, on a CPU; percentages
    "default": {"TREC": {"dev": 84.41, "test": 90.0}, "SICKEntailment": {"dev": 83.2, "test": 82.85}},
    "prototyping": {
        "SICKEntailment": {"dev": 84.2, "test": 83.19},
        "MRPC": {"dev": 73.58, "test": 72.29, "f1": 80.9},
    },
}


@pytest.mark.slow
def test_scores_of_whole_tasks_are_the_toolkits(tmp_path: Path) -> None:
    data = suite_data("senteval")
    encoder = encoders.load(minilm())
    for protocol, tasks in PUBLISHED.items():
        results = run_tasks(
            lambda _: encoder,
            {"name": "MiniLM"},
            PROTOCOLS[protocol],
            fingerprint=fingerprint,
            data=data,
            out=tmp_path / protocol,
            tasks=list(tasks),
            cache=tmp_path / "vectors",
        )
        for task, scores in tasks.items():
            found = dict(results.tasks[task])
            assert {name: found[name] for name in scores} == scores
