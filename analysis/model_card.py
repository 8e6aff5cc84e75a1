"""SentEval scores on the model card of an exported encoder, for readers and as the hub's ``model-index``."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import yaml

from analysis.senteval.display import metrics_of, remarks
from analysis.senteval.protocols import PROTOCOLS
from analysis.senteval.records import headlines, incomparable, measure, metric_of
from analysis.senteval.results import Results
from analysis.senteval.scores import metric_name
from data.errors import reading
from data.files import atomic_write
from encoders.export import with_section

if TYPE_CHECKING:
    from huggingface_hub import EvalResult

FRONT = re.compile(r"\s*---\n(.*?)^---[ \t]*$", re.MULTILINE | re.DOTALL)
INDEX = re.compile(r"^model-index:.*\n(?:[ \t-].*\n|\n)*", re.MULTILINE)  # up to the next key
TASK_TYPES = {
    "relatedness": "sentence-similarity",
    "similarity": "sentence-similarity",
    "retrieval": "text-retrieval",
}
METRIC_TYPES = {
    "f1": "f1",
    "spearman": "spearmanr",
}  # the hub's; others are accuracies and recalls
DATASET = "SentEval"  # with the task behind it, the name of a data set on the card


def add_scores(path: Path, results: Results) -> None:
    """Writes ``results`` onto the card ``path``, in place of earlier ones of the same protocol; the rest stays.

    Raises:
        UserError: if the card cannot be read or written.
    """
    with reading("model card", path):
        text = path.read_bytes().decode()
        ending = "\r\n" if "\r\n" in text else "\n"
        card = with_section(_with_index(text.replace("\r\n", "\n"), results), *_section(results))
        with atomic_write(path) as file:
            file.write(card.replace("\n", ending))


def _with_index(card: str, results: Results) -> str:
    """Returns ``card`` with the ``model-index`` of all protocols in its front matter, whose other lines stay."""
    from huggingface_hub import ModelCard, ModelCardData  # late, as in ``encoders.export``
    from huggingface_hub.repocard import REGEX_YAML_BLOCK

    def replaced(one: EvalResult) -> bool:
        return one.dataset_name.startswith(f"{DATASET} ") and one.dataset_config == results.protocol

    block = REGEX_YAML_BLOCK.search(card)
    plain = yaml.safe_load(block[2]) if block else None
    given = plain.get("model-index") if isinstance(plain, dict) else None
    found = block and INDEX.search(f"{block[2]}\n")
    if given and not (found and isinstance(given, list) and len(given) == 1):
        raise ValueError("its model-index has a form that cannot be replaced")
    data = ModelCard(card).data
    earlier = list(data.get("eval_results", []))
    place = next((place for place, one in enumerate(earlier) if replaced(one)), len(earlier))
    entries = [*earlier[:place], *_entries(results), *(one for one in earlier[place:] if not replaced(one))]
    name = data.get("model_name", str(results.model.get("name")))
    index = f"{ModelCardData(model_name=name, eval_results=entries).to_yaml()}\n" if entries else ""
    front = FRONT.match(card)
    if front is None:
        return f"---\n{index}---\n\n{card}"
    changed = card[: front.start(1)] + INDEX.sub("", front[1]) + index + card[front.end(1) :]
    if sorted(map(repr, ModelCard(changed).data.get("eval_results", []))) != sorted(map(repr, entries)):
        raise ValueError("its model-index has a form that cannot be replaced")
    return changed


def _entries(results: Results) -> Iterator[EvalResult]:
    """Yields the test scores, in percent."""
    from huggingface_hub import EvalResult

    for task, record in results.tasks.items():
        why = incomparable(task, record)
        for metric in headlines(task, record):
            if (value := measure(record, metric)) is None:
                continue
            plain = "recall" if record["kind"] == "retrieval" else "accuracy"
            yield EvalResult(
                task_type=TASK_TYPES.get(record["kind"], "text-classification"),
                dataset_type=f"senteval-{task.lower()}",
                dataset_name=f"{DATASET} {task}",
                dataset_config=results.protocol,
                dataset_split="test",
                dataset_args={"not_comparable": why} if why else None,
                metric_type=METRIC_TYPES.get(metric.partition(".")[0], plain),
                metric_name=metric_name(metric) or metric_of(record),
                metric_value=round(value, 2),
            )


def _section(results: Results) -> tuple[str, str]:
    """Returns heading and text of the scores: a table, and remarks."""
    lines = ["| task | metric | dev | test | protocol |", "| --- | --- | ---: | ---: | --- |"]
    for task, record in results.tasks.items():
        for place, metric in enumerate(headlines(task, record)):
            name, dev = (metric_name(metric), None) if place else (metrics_of(record), record["dev"])
            scores = dev, measure(record, metric)
            cells = " | ".join("–" if score is None else f"{score:.2f}" for score in scores)
            lines.append(f"| {task} | {name} | {cells} | {results.protocol} |")
    remarked = "\n".join(f"- {line}" for line in remarks(results.tasks))
    protocol = PROTOCOLS.get(results.protocol.partition("+")[0])
    source = f" ({protocol.source})" if protocol else ""
    text = f"Accuracies in percent, correlations x 100; protocol {results.protocol}{source}."
    return f"{DATASET}, protocol {results.protocol}", "\n\n".join([text, "\n".join(lines), remarked]).strip()
