"""Samples what each objective makes of one held-out text, from a run's configuration, to be shown on the page."""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from copy import copy
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from accelerate import Accelerator

from analysis.comparison.marking import Block, View, arrays, numbered, token_texts, view
from analysis.comparison.views import ObjectiveView, TaskView
from data.batch import Batch, Tokens
from data.errors import UserError
from data.files import read_yaml
from data.randomness import FIXED, generator
from encoders.base import Encoder
from experiments import building
from experiments.building import Parts
from experiments.progress import Display
from experiments.settings import Settings
from objectives.base import Objective, TaskData

TRIES = 12  # samples from which examples with different labels are chosen (a sentence as it is, and one perturbed)
SHOWN = 2  # examples of a task
CLASSES = 16  # integers below it that come with an example are class labels
NEIGHBOURS = 5  # sentences shown of a batch of neighbouring sentences
SENTENCE = (10, 24)  # preferred length in tokens of a sentence; of documents the shortest is shown


@dataclass
class Document:
    """The held-out document that all objectives show where they can, by its number in the corpus."""

    number: int | None = None


def examples(
    objective: str, config: Mapping[str, Any], folder: Path, document: Document
) -> tuple[ObjectiveView, list[str]]:
    """Returns examples of the objective of the run in ``folder``, and the corpus' held-out texts.

    Args:
        objective: its name on the page.
        config: of a finished run, as this command composes it: nothing that the run folder names is called.
        folder: the run folder.
        document: the document to show; set by the first objective.

    Raises:
        UserError: if the run's parts cannot be built again.
    """
    stored = read_yaml(folder / "config.yaml")
    names = stored["names"]  # with the weights and the text that the run began with
    config = {**config, "names": names}
    if "revision" in config["corpus"]:
        if not re.fullmatch("[0-9a-f]{40}", str(revision := stored["corpus"]["revision"])):
            raise UserError(
                f"{folder}/config.yaml: corpus.revision must be a commit. Got {revision!r:.100} instead."
            )
        config["corpus"] = config["corpus"] | {"revision": revision}
    settings, display = Settings.of(config), Display(shown=False)
    parts = building.build(config, settings, Accelerator(cpu=True), display, folder / "tokenizer")
    own = parts.objective.own_data()
    tasks = []
    for name, task in parts.objective.tasks.items():
        chosen = _chosen(parts.task_data[name], parts, document, of_corpus=name not in own)
        kind = f"{chosen.kind} of corpus {names['corpus']}"
        if name in own:
            kind = f"{'generated' if own[name].get('synthetic') else 'held-out'} pair of {own[name]['name']}"
        tasks.append(TaskView(name, kind, tuple(_views(task, chosen, parts.encoder))))
    description = describe(type(parts.objective))
    shown = ObjectiveView(objective, *description, str(names["encoder"]), tuple(tasks))
    return shown, parts.store.held_out_texts()


def describe(objective: type[Objective]) -> tuple[str, str]:
    """Returns the first sentence of an objective's module, and the first equation there or in a base class's."""
    modules = dict.fromkeys(kind.__module__ for kind in objective.__mro__[: objective.__mro__.index(Objective)])
    texts = [inspect.getdoc(importlib.import_module(module)) or "" for module in modules]
    headline = " ".join(texts[0].split("\n\n")[0].split())
    equations = (re.search(r"(?:^ {4}.*\n?)+", text, re.MULTILINE) for text in texts)
    return headline, next((inspect.cleandoc(equation[0]) for equation in equations if equation), "")


class Chosen(NamedTuple):
    """The units that an example is sampled from.

    Attributes:
        number: of the first unit.
        units: several if a batch is one of neighbours.
        kind: what they are, in words.
        around: where rows are looked up: the units, or the document if units are places in it.
        numbered: the only unit with the numbers of tokens in ``around`` for their ids; None if there is no such.
    """

    number: int
    units: list[Any]
    kind: str
    around: Any
    numbered: Any = None


class NumberedSentences:
    """Sentences of ``lengths`` tokens: each token is its number, counted from sentence ``first`` on."""

    def __init__(self, lengths: np.ndarray, first: int) -> None:
        self.lengths = lengths
        self.starts = np.cumsum(lengths, dtype=np.int64) - lengths
        self.starts -= self.starts[first]

    def __getitem__(self, i: int) -> np.ndarray:
        return numbered(int(self.lengths[i]), int(self.starts[i]))


def _chosen(data: TaskData, parts: Parts, document: Document, *, of_corpus: bool) -> Chosen:
    """Returns units of the document to show, of a readable length."""
    numbers, store = data.dev.indices, parts.store
    if not of_corpus:
        lengths = data.lengths
        number = int(numbers[0]) if lengths is None else _readable(numbers, lengths[numbers])
        return Chosen(number, [data.units[number]], "pair", data.units[number])
    documents = store.documents
    if document.number is None:
        whole = store.sentences is None
        first = numbers[store.lengths[numbers].argmin()] if whole else _readable(numbers, store.lengths[numbers])
        document.number = int(documents[first])
    own = numbers[documents[numbers] == document.number]
    own = own if len(own) else numbers
    if data.contiguous:
        own = own[:NEIGHBOURS] if len(own) >= NEIGHBOURS else numbers[:NEIGHBOURS]
        units = [data.units[int(number)] for number in own]
        return Chosen(int(own[0]), units, "run of held-out sentences", units)
    number = _readable(own, store.lengths[own])
    unit = data.units[number]
    if store.sentences is None or data.units is store or any(True for _ in arrays(unit)):
        own_numbers = numbered(len(unit)) if isinstance(unit, np.ndarray) else None
        return Chosen(number, [unit], f"held-out {parts.objective.requirements.unit}", unit, own_numbers)
    number = int(own[0])  # a place in running text, of which most is left from the beginning
    sentences = np.flatnonzero(documents == documents[number])
    place = data.units[number]
    text = copy(place.text)
    text.sentences = NumberedSentences(store.lengths, int(sentences[0]))
    around = np.concatenate([store[int(i)] for i in sentences])
    return Chosen(number, [place], "place in held-out text", around, place._replace(text=text))


def _readable(numbers: np.ndarray, lengths: np.ndarray) -> int:
    """Returns the first of ``numbers`` whose length is in SENTENCE, else the one closest to it."""
    low, high = SENTENCE
    return int(numbers[np.argmin(np.maximum(np.maximum(low - lengths, lengths - high), 0))])


def _views(task: Any, chosen: Chosen, encoder: Encoder) -> list[View]:
    """Returns an example of each class, at most SHOWN; one if the task has no classes."""
    found: dict[tuple[tuple[str, str], ...], View] = {}
    for attempt in range(TRIES):
        seed = attempt + 1, chosen.number
        batch = _sample(task, chosen.units, encoder, seed)
        labels = dict(_labels(batch))
        key = tuple(labels.items())
        if key not in found:
            numbers: Mapping[str, Tokens] = {}
            if chosen.numbered is not None:
                with suppress(LookupError):  # in a table of tokens (word starts, say): numbers are not in it
                    numbers = _sample(task, [chosen.numbered], encoder, seed).tokens
            found[key] = view(chosen.around, _blocks(task, batch, numbers, encoder), labels)
        if not labels or len(found) == SHOWN:
            break
    return list(found.values())


def _sample(task: Any, units: Sequence[Any], encoder: Encoder, seed: tuple[int, int]) -> Batch:
    """Returns a batch of an example of each unit."""
    rngs = (generator(FIXED, *seed, place) for place in range(len(units)))
    sampled = [task.sample(unit, encoder.format, rng) for unit, rng in zip(units, rngs, strict=True)]
    batch: Batch = task.collate(sampled, encoder.format)
    return batch


def _labels(batch: Batch) -> Iterator[tuple[str, str]]:
    """Yields those numbers of a batch that are class labels."""
    for name, value in batch.numbers.items():
        if not torch.is_floating_point(value) and value.numel() <= 4 and bool((value.abs() < CLASSES).all()):
            yield name, ", ".join(str(int(one)) for one in value.flatten())


def _blocks(task: Any, batch: Batch, numbers: Mapping[str, Tokens], encoder: Encoder) -> dict[str, Block]:
    """Returns the rows by role; what a decoder writes is in its own vocabulary, if the task has one."""
    own = getattr(task, "tokenizer", None)
    written: Sequence[str] = getattr(task, "part_names", ()) if own is not None else ()
    read, decoded = _vocabulary(encoder.tokenizer), _vocabulary(own) if written else ()
    return {
        role: Block(tokens, *(decoded if role in written else read))._replace(numbered=numbers.get(role))
        for role, tokens in batch.tokens.items()
    }


def _vocabulary(tokenizer: Any) -> tuple[Any, ...]:
    """Returns the fields ``texts``, ``special`` and ``mask`` of a ``Block``."""
    special = {*tokenizer.all_special_ids} - {tokenizer.mask_token_id, tokenizer.unk_token_id}
    return token_texts(tokenizer), special, tokenizer.mask_token_id
