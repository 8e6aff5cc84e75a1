"""SentEval scores on the model card of an exported encoder, for readers and as the hub's ``model-index``."""

from __future__ import annotations

from pathlib import Path

from analysis.senteval.records import Results, incomparable
from analysis.tables import render
from data.errors import reading
from data.files import atomic_write
from encoders.card import with_section

DATASET = "SentEval"
TASK_TYPES = {
    "relatedness": "sentence-similarity",
    "similarity": "sentence-similarity",
    "retrieval": "text-retrieval",
}


def add_scores(path: Path, results: Results) -> None:
    """Writes test scores onto the card ``path``, in place of earlier ones of the same protocol; the rest stays.

    Raises:
        UserError: if the card cannot be read or written.
    """
    from huggingface_hub import EvalResult, ModelCard  # late, as in ``encoders.card``

    table = results.table()[["dev", "test"]]
    with reading("model card", path):
        card = ModelCard.load(path)
        entries = [
            entry
            for entry in card.data.get("eval_results") or []
            if entry.dataset_config != results.protocol or not entry.dataset_name.startswith(DATASET)
        ]
        for (task, metric), score in table["test"].dropna().items():
            record = results.tasks[task]
            reason = incomparable(task, record)
            entry = EvalResult(
                task_type=TASK_TYPES.get(record.kind, "text-classification"),
                dataset_type=f"senteval-{task.lower()}",
                dataset_name=f"{DATASET} {task}",
                dataset_config=results.protocol,
                dataset_args={"not_comparable": reason} if reason else None,
                metric_type=metric.lower(),
                metric_value=round(score, 2),
            )
            entries.append(entry)
        card.data.eval_results = entries
        card.data.model_name = card.data.model_name or results.model["name"]
        text = render(table, "markdown", notes=results.notes())
        card.text = with_section(card.text, f"{DATASET}, protocol {results.protocol}", text)
        with atomic_write(path) as file:
            file.write(card.content)
