"""Examples of what an objective does to a text, sampled by the objective itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from accelerate import Accelerator

from analysis.page import ShownExample, View, show_rows, token_texts
from data.randomness import FIXED, generator
from experiments.building import Parts, build_components, build_parts
from experiments.progress import Display

READABLE = 17  # tokens of the sentence that is shown, about
TRIES, SHOWN, NEIGHBOURS = 12, 2, 3  # samples, examples of different classes, consecutive sentences


def show_objective(name: str, config: Mapping[str, Any], tokenizer: Path | None) -> tuple[View, list[str]]:
    """Returns what an objective does to held-out text, and that text; ``tokenizer`` is the folder of a run's."""
    accelerator, display = Accelerator(cpu=True), Display(shown=False)
    components = build_components(config)
    parts = build_parts(config, components, accelerator, display, tokenizer)
    objective, data, examples = parts.objective, parts.objective.own_data(), {}
    for task in objective.tasks:
        unit = data[task]["name"] if task in data else objective.requirements.unit
        heading = f"{task}{': ' * bool(task)}{unit}, in the tokens of {config['names']['encoder']}"
        examples[heading] = sample_examples(parts, task)
    summary = " ".join((type(objective).__doc__ or "").split("\n\n")[0].split())
    return View(name, summary, objective.formula, examples), parts.store.held_out_texts()


def sample_examples(parts: Parts, task: str) -> list[ShownExample]:
    """Returns an example of each class, at most SHOWN, sampled from a readable held-out unit."""
    objective, data, format = parts.objective.tasks[task], parts.task_data[task], parts.encoder.format
    numbers, sizes = data.dev.indices, data.lengths
    if sizes is None:  # units without lengths are of the corpus
        sizes = getattr(data.units, "lengths", parts.store.lengths)[:, 0]
    middle = abs(sizes[numbers].astype(int) - READABLE).argmin()
    chosen = numbers[:NEIGHBOURS] if data.contiguous else [numbers[middle]]
    units, texts = [data.units[int(i)] for i in chosen], token_texts(parts.encoder.tokenizer)
    examples = dict[str, ShownExample]()
    for attempt in range(TRIES):
        rng = generator(FIXED, attempt + 1)
        sampled = [objective.sample(unit, format, rng) for unit in units]
        batch, sources = objective.collate(sampled, format), getattr(sampled[0], "sources", {})
        labels = {key: str(value.item()) for key, value in batch.numbers.items() if value.numel() == 1}
        unit, rows = texts(units[0]) if sources else [], []
        for role, block in batch.tokens.items():
            equal = [name for name, other in batch.tokens.items() if block.ids.equal(other.ids)]
            if role != equal[0] or (sources and role not in sources):
                continue
            decoder = getattr(objective, "tokenizer", None) if role in objective.part_names else None
            names = token_texts(decoder) if decoder else texts
            if not parts.objective.requirements.mask_token:  # labels are the next tokens
                block = replace(block, labels=None)
            rows += show_rows(" = ".join(equal), block, names, format, unit=unit, sources=sources.get(role, ()))
        examples.setdefault(str(labels), ShownExample(unit, rows, labels))
        if not labels or len(examples) == SHOWN:
            break
    return [*examples.values()]
