"""What each objective makes of one held-out text, drawn again from a run's configuration, for the eye."""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from accelerate import Accelerator

from analysis.comparison.contents import ObjectiveView, TaskView
from analysis.comparison.marking import Drawn, Spell, View, arrays, speller, view
from data.batch import Batch
from data.errors import UserError
from data.files import read_yaml
from data.randomness import FIXED, generator
from encoders.base import Encoder
from experiments import building
from experiments.building import Parts
from experiments.progress import Display
from experiments.settings import Settings
from objectives.base import Material, Objective

TRIES = 12  # draws from which those of different classes are shown (a sentence as it is, and one perturbed)
SHOWN = 2  # of them
CLASSES = 16  # numbers below it that go with an example are classes, others have nothing to tell
NEIGHBOURS = 5  # sentences shown of a batch that is one of neighbours
SENTENCE = (10, 24)  # tokens of a sentence that is shown, where there is one; of documents the shortest is


@dataclass
class Example:
    """The held-out document that all objectives show where they can: its number in the corpus."""

    document: int | None = None


def drawn(config: Mapping[str, Any], folder: Path, example: Example) -> tuple[ObjectiveView, list[str]]:
    """What the objective of the run in ``folder`` does, and the corpus' held-out texts.

    Args:
        config: of a finished run, as this command composes it: what its folder names is not called.
        folder: of the run.
        example: what is shown; filled by the first objective.

    Raises:
        UserError: if the run's parts cannot be built again.
    """
    stored = read_yaml(folder / "config.yaml")
    config = {**config, "names": stored["names"]}  # which tell from what the run began, on which text
    if "revision" in config["corpus"]:
        if not re.fullmatch("[0-9a-f]{40}", str(revision := stored["corpus"]["revision"])):
            raise UserError(
                f"{folder}/config.yaml: corpus.revision must be a commit. Got {revision!r:.100} instead."
            )
        config["corpus"] = config["corpus"] | {"revision": revision}
    settings = Settings.of(config)
    display = Display(shown=False)
    parts = building.build(config, settings, Accelerator(cpu=True), display, folder / "tokenizer")
    own = parts.objective.own_data()
    tasks = []
    for name, task in parts.objective.tasks.items():
        chosen = _chosen(parts.materials[name], parts, example, of_corpus=name not in own)
        kind = f"{chosen.kind} of corpus {config['names']['corpus']}"
        if name in own:
            kind = f"{'made-up' if own[name].get('synthetic') else 'held-out'} pair of {own[name]['name']}"
        tasks.append(TaskView(name, kind, tuple(_views(task, chosen, parts.encoder))))
    headline, equation = told(type(parts.objective))
    names = config["names"]
    shown = ObjectiveView(str(names["objective"]), headline, equation, str(names["encoder"]), tuple(tasks))
    return shown, parts.store.held_out_texts()


def told(kind: type[Objective]) -> tuple[str, str]:
    """The first sentence of an objective's module, and the equation below it."""
    text = inspect.getdoc(importlib.import_module(kind.__module__)) or ""
    headline = " ".join(text.split("\n\n")[0].split())
    equation = re.search(r"(?:^ {4}.*\n?)+", text, re.MULTILINE)
    return headline, inspect.cleandoc(equation[0]) if equation else ""


class Chosen(NamedTuple):
    """What is drawn from.

    Attributes:
        number: of the first unit.
        units: several where a batch is one of neighbours.
        kind: what they are.
        around: what rows are looked for in: the units, or the text from there, where these are places in one.
    """

    number: int
    units: list[Any]
    kind: str
    around: Any


def _chosen(material: Material, parts: Parts, example: Example, *, of_corpus: bool) -> Chosen:
    """Of the example's document, and of a length that can be read."""
    numbers, store = material.dev.indices, parts.store
    if not of_corpus:
        lengths = material.lengths
        number = int(numbers[0]) if lengths is None else _readable(numbers, lengths[numbers])
        return Chosen(number, [material.units[number]], "pair", material.units[number])
    documents = store.documents
    if example.document is None:
        short = store.sentences is None  # of documents the shortest can be read
        first = numbers[store.lengths[numbers].argmin()] if short else _readable(numbers, store.lengths[numbers])
        example.document = int(documents[first])
    own = numbers[documents[numbers] == example.document]
    own = own if len(own) else numbers
    if material.contiguous:
        own = own[:NEIGHBOURS] if len(own) >= NEIGHBOURS else numbers[:NEIGHBOURS]
        units = [material.units[int(number)] for number in own]
        return Chosen(int(own[0]), units, "run of held-out sentences", units)
    number = _readable(own, store.lengths[own])
    unit = material.units[number]
    if store.sentences is None or material.units is store or any(True for _ in arrays(unit)):
        return Chosen(number, [unit], f"held-out {parts.objective.needs.unit}", unit)
    number = int(own[0])  # a place in running text: there is most of it from the beginning
    text = np.concatenate([store[int(i)] for i in np.flatnonzero(documents == documents[number]) if i >= number])
    return Chosen(number, [material.units[number]], "place in held-out text", text)


def _readable(numbers: np.ndarray, lengths: np.ndarray) -> int:
    """The first of ``numbers`` whose length lies in SENTENCE, else the one that is nearest to it."""
    low, high = SENTENCE
    return int(numbers[np.argmin(np.maximum(np.maximum(low - lengths, lengths - high), 0))])


def _views(task: Any, chosen: Chosen, encoder: Encoder) -> list[View]:
    """One draw of each class, at most SHOWN; of what has no classes one."""
    found: dict[tuple[tuple[str, str], ...], View] = {}
    for attempt in range(TRIES):
        rngs = (generator(FIXED, attempt + 1, chosen.number, place) for place in range(len(chosen.units)))
        examples = [task.draw(unit, encoder.format, rng) for unit, rng in zip(chosen.units, rngs, strict=True)]
        batch: Batch = task.collate(examples, encoder.format)
        numbers = _classes(batch)
        key = tuple(numbers.items())
        if key not in found:
            found[key] = view(chosen.around, _roles(task, batch, encoder), numbers)
        if not numbers or len(found) == SHOWN:
            break
    return list(found.values())


def _classes(batch: Batch) -> dict[str, str]:
    """Those of a batch's numbers that are classes."""
    return {
        name: ", ".join(str(int(one)) for one in value.flatten())
        for name, value in batch.numbers.items()
        if not torch.is_floating_point(value) and value.numel() <= 4 and bool((value.abs() < CLASSES).all())
    }


def _roles(task: Any, batch: Batch, encoder: Encoder) -> Mapping[str, Drawn]:
    """The rows by role; those that a decoder writes are spelt by its own tokenizer, where the task has one."""
    own = getattr(task, "tokenizer", None)
    written: Sequence[str] = getattr(task, "part_names", ()) if own is not None else ()
    spellers: dict[int, tuple[Spell, frozenset[int], int | None]] = {}

    def spelt(tokenizer: Any) -> tuple[Spell, frozenset[int], int | None]:
        if id(tokenizer) not in spellers:
            mask = tokenizer.mask_token_id
            special = {*tokenizer.all_special_ids} - {mask, tokenizer.unk_token_id}
            spellers[id(tokenizer)] = speller(tokenizer), frozenset(special), mask
        return spellers[id(tokenizer)]

    return {
        role: Drawn(tokens, *spelt(own if role in written else encoder.tokenizer))
        for role, tokens in batch.tokens.items()
    }
