"""GenSen: one encoder, and a head for each of six tasks, which take turns (Subramanian et al. 2018).

    task of an update ~ Cat(alpha) among skip-thought, translations and parsing; after every ten, one of inference

The tasks of "Learning General Purpose Distributed Sentence Representations via Large Scale Multi-task Learning",
section 4: the next and the previous sentence (STN, STP), French and German (Fr, De), parsing (Par) and inference
(NLI); its ablation is a choice among them. Where the published program differs from the paper or goes beyond it:

- both neighbours of a sentence are predicted in one update, where both are chosen (as published);
- an inference update follows ten others, as the paper says (the program begins with one, and nine follow);
- sources and targets are cut to 90 tokens (as published);
- a turn is a micro-batch's: with accumulation=n an update joins n turns, which the paper has apart;
- batches are random among those of sentences of similar length (the program goes through sorted buffers);
- held-out losses are measured without dropout, of sentences read under the training vocabulary (the program has
  neither).

A task without data gets generated pairs (``data.sources.samples``), and ``facts`` says so.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal, get_args

import numpy as np
from torch import nn

from data.batch import Batch
from data.randomness import TURN, generator
from data.ranges import AtLeast3, AtLeast6, Below1, Count, Size, Width
from data.sources.inference import Inference
from data.sources.parallel import Parallel
from data.sources.samples import MOST, Generated
from data.sources.trees import Trees
from encoders.base import Encoder
from objectives.base import Corpus, Loss, Material, Multitask, Needs, evaluating
from objectives.gensen.base import GenSenTask, Sizes, blamed
from objectives.gensen.nli import NLI
from objectives.gensen.parsing import Parsing
from objectives.gensen.skip_thought import OFFSETS, SkipThought
from objectives.gensen.translation import Translation

TaskName = Literal["stn", "stp", "fr", "de", "parse", "nli"]
TASKS: tuple[TaskName, ...] = get_args(TaskName)
MET = 1 << 21  # texts that are known again; in more text than that no word is frequent by repetition alone

CITATION = """@inproceedings{subramanian-etal-2018-gensen,
  title = {Learning General Purpose Distributed Sentence Representations via Large Scale Multi-task Learning},
  author = {Subramanian, Sandeep and Trischler, Adam and Bengio, Yoshua and Pal, Christopher J.},
  booktitle = {International Conference on Learning Representations},
  year = {2018}
}"""


class GenSen(Multitask):
    """Any of the six tasks.

    Args:
        batch_size: examples of a micro-batch over all processes (the paper: 48).
        tasks: which are learned.
        alpha: probability of each sequence task ("skip_thought" where stn or stp is chosen, "fr", "de", "parse"),
            in any unit; None: all are as likely.
        nli_every: updates of sequence tasks before each one of inference.
        max_length: tokens of a source or target of the sequence tasks, what begins and ends it included; the rest
            is cut.
        vocab_size: most words of a decoder, five special tokens included.
        min_count: occurrences that such a word needs.
        word_size: of a decoder's word vectors.
        hidden: of a decoder's states; None: as wide as a sentence vector, as published.
        dropout: of the sentence vector in the decoders, and of the classifier's input.
        classifier_width: of the layer before the three classes.
        fr, de: arguments of ``data.sources.parallel.Parallel``, e.g. {"source": "a.en.gz", "target": "a.fr.gz"};
            None: generated pairs.
        parse: arguments of ``data.sources.trees.Trees``; None: the same.
        nli: arguments of ``data.sources.inference.Inference``; None: the same.
        synthetic_pairs: number of generated pairs for a task without data.

    Raises:
        ValueError: if an argument is out of range.
        UserError: if the data of a chosen task is not there.
    """

    citation = CITATION
    inference: ClassVar[type[NLI]] = NLI

    def __init__(
        self,
        *,
        batch_size: Size = 48,
        tasks: Sequence[TaskName] = TASKS,
        alpha: Mapping[str, float] | None = None,
        nli_every: Count = 10,
        max_length: AtLeast3 = 90,
        vocab_size: AtLeast6 = 30_000,
        min_count: Count = 2,
        word_size: Width = 512,
        hidden: Width | None = None,
        dropout: Below1 = 0.3,
        classifier_width: Width = 512,
        fr: Annotated[Mapping[str, Any], Parallel] | None = None,
        de: Annotated[Mapping[str, Any], Parallel] | None = None,
        parse: Annotated[Mapping[str, Any], Trees] | None = None,
        nli: Annotated[Mapping[str, Any], Inference] | None = None,
        synthetic_pairs: Generated = MOST,
    ) -> None:
        super().__init__()
        if not tasks or len({*tasks}) < len(tasks) or not {*tasks} <= {*TASKS}:
            raise ValueError(
                f"objective.tasks must be some of {', '.join(TASKS)}, each once. Got {list(tasks)} instead."
            )
        sizes = Sizes(
            batch_size=batch_size,
            max_length=max_length,
            vocab_size=vocab_size,
            min_count=min_count,
            word_size=word_size,
            hidden=hidden,
            dropout=dropout,
            classifier_width=classifier_width,
        )
        self.batch_size = batch_size
        self.chosen = tuple(name for name in TASKS if name in tasks)
        self.nli_every = nli_every
        found: list[GenSenTask] = []
        if beside := [name for name in OFFSETS if name in tasks]:
            found.append(SkipThought(beside, sizes))
        if "fr" in tasks:
            found.append(Translation("fr", fr, synthetic_pairs, sizes))
        if "de" in tasks:
            found.append(Translation("de", de, synthetic_pairs, sizes))
        if "parse" in tasks:
            found.append(Parsing(parse, synthetic_pairs, sizes))
        self.sequences = tuple(task.name for task in found)  # that alpha is about
        if "nli" in tasks:
            found.append(self.inference(nli, synthetic_pairs, sizes))
        self._tasks = {task.name: task for task in found}
        self._sources = {task.name: task.source for task in found if task.source is not None}
        self.heads = nn.ModuleDict(self._tasks)  # registers them
        self.alpha = self._normalised(alpha)

    def _normalised(self, alpha: Mapping[str, float] | None) -> dict[str, float]:
        weights = dict.fromkeys(self.sequences, 1.0) if alpha is None else dict(alpha)
        if {*weights} != {*self.sequences} or any(not 0 < weight < math.inf for weight in weights.values()):
            names = ", ".join(self.sequences) or "no task"
            raise ValueError(
                f"objective.alpha must have a positive number for each of {names} and for nothing else. "
                f"Got {weights} instead."
            )
        return {name: weights[name] / sum(weights.values()) for name in self.sequences}

    @property
    def tasks(self) -> Mapping[str, GenSenTask]:
        return self._tasks

    @property
    def shares(self) -> dict[str, float]:
        """How often each task's turn comes."""
        if "nli" not in self._tasks:
            return self.alpha
        if not self.alpha:
            return {"nli": 1.0}
        cycle = self.nli_every + 1
        return {name: share * self.nli_every / cycle for name, share in self.alpha.items()} | {"nli": 1 / cycle}

    def turn(self, step: int, seed: int) -> str:
        if "nli" in self._tasks and (not self.alpha or step % (self.nli_every + 1) == self.nli_every):
            return "nli"
        drawn = generator(TURN, seed, step).random()
        *ends, _ = np.cumsum(list(self.alpha.values())).tolist()
        return self.sequences[int(np.searchsorted(ends, drawn, side="right"))]

    @property
    def part_names(self) -> tuple[str, ...]:
        return tuple(name for task in self._tasks.values() for name in task.part_names)

    @property
    def needs(self) -> Needs:
        return Needs(unit="sentence")

    # Data

    def texts(self) -> Iterator[str]:
        """What tasks with data of their own read, each text once: a premise has several hypotheses, two languages
        may share their English, gold trees come again, and all words of such a text would seem frequent."""
        met: set[int] = set()
        for name, source in self._sources.items():
            with blamed(name):
                for text in source.source_texts():
                    if (mark := hash(text)) not in met:
                        if len(met) < MET:
                            met.add(mark)
                        yield text

    def texts_key(self) -> str:
        keys = ["each once"] if self._sources else []
        for name, source in self._sources.items():
            with blamed(name):
                keys.append(source.texts_key())
        return " ".join(keys)

    def materials(self, corpus: Corpus) -> Mapping[str, Material]:
        return {name: task.prepare(corpus) for name, task in self._tasks.items()}

    def own_data(self) -> Mapping[str, Mapping[str, Any]]:
        found = {}
        for name, source in self._sources.items():
            with blamed(name):
                found[name] = source.describe()
        return found

    def build(self, encoder: Encoder) -> None:
        for task in self._tasks.values():
            task.build(encoder)

    # Loss

    def loss(self, encoder: Encoder, batch: Batch) -> Loss:
        return self._tasks[batch.task].loss(encoder, batch)

    def dev_metrics(self, encoder: Encoder, batches: Iterable[Batch]) -> dict[str, float]:
        """Besides the parts, ``dev_<part>_perplexity`` of every decoder: exp of its mean loss a token.

        ``dev_<part>_accuracy`` is the share of tokens (of inference: of pairs) that are the likeliest of all.

        ``dev_<part>_unigram`` and ``dev_<part>_accuracy_unigram`` are what loss and accuracy would be, on the same
        targets, for one who knows how often each word or class occurs in training, and nothing else.
        """
        found = super().dev_metrics(encoder, batches)
        decoders = [name for name in self.part_names if not name.startswith("nli") and f"dev_{name}" in found]
        return found | {f"dev_{name}_perplexity": float(np.exp(found[f"dev_{name}"])) for name in decoders}

    def step_flops(self, encoder: Encoder) -> float:
        """The mean over the turns."""
        return sum(share * self._tasks[name].step_flops(encoder) for name, share in self.shares.items())

    # What is told of it

    def facts(self) -> dict[str, Any]:
        """Tasks, and which of them learn from generated pairs."""
        synthetic = [name for name, task in self._tasks.items() if task.synthetic]
        return {
            "tasks": ", ".join(self.chosen),
            **({"synthetic": ", ".join(synthetic)} if synthetic else {}),
        }

    def samples(self, encoder: Encoder) -> str:
        blocks = ["# Held-out examples, as they come"]
        with evaluating(encoder, self):
            for name, task in self._tasks.items():
                blocks.append(f"## {name}{' (synthetic: generated pairs)' if task.synthetic else ''}")
                for sample in task.samples(encoder):
                    width = max(map(len, sample))
                    blocks.append("\n".join(f"    {key:{width}}  {text}" for key, text in sample.items()))
        return "\n\n".join(blocks) + "\n"
