"""GenSen: multitask learning of one encoder with six tasks (Subramanian et al. 2018).

    task of an update ~ Cat(alpha) over skip-thought, translation and parsing; one NLI update after every ten

"Learning General Purpose Distributed Sentence Representations via Large Scale Multi-task Learning", section 4: the
next and the previous sentence (STN, STP), translation to French and German (Fr, De), parsing (Par) and natural
language inference (NLI); the paper's ablations choose among them. Where the paper and its published program
differ, or the paper leaves a choice open:

- STN and STP share an update if both are chosen (as in the program);
- one NLI update follows ten others (as in the paper; the program begins with NLI, and nine others follow);
- sources and targets are cut to 90 tokens (as in the program);
- a task is sampled for each micro-batch, so with accumulation=n an update joins n tasks (our choice);
- batches hold sentences of similar length, in random order (the program reads sorted buffers in their order);
- held-out losses are computed without dropout and with the training vocabulary (the program does neither).

Tasks without data get generated pairs (``data.sources.samples``), which ``facts`` reports as synthetic.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal, get_args

import numpy as np

from data.batch import Batch
from data.errors import UserError
from data.pairs import PairSource
from data.randomness import FIXED, TASK, generator
from data.ranges import AtLeast3, AtLeast6, Below1, Count, Size, Width
from data.sources.inference import Inference
from data.sources.parallel import Parallel
from data.sources.samples import MOST, Generated, Samples
from data.sources.trees import Trees
from encoders.base import Encoder
from objectives.base import Corpus, Multitask, Requirements, TaskData, evaluating
from objectives.gensen.base import GenSenTask, Sizes, task_keys
from objectives.gensen.nli import NLI
from objectives.gensen.sequences import OFFSETS, PairTask, SkipThought

TaskName = Literal["stn", "stp", "fr", "de", "parse", "nli"]
Kind = Literal["fr", "de", "parse", "nli"]  # of tasks with pairs of text
TASKS: tuple[TaskName, ...] = get_args(TaskName)
SHOWN = 5  # random held-out examples of each task in ``example_predictions``
REMEMBERED = 1 << 21  # texts that are remembered to skip repetitions; limits memory

CITATION = """@inproceedings{subramanian-etal-2018-gensen,
  title = {Learning General Purpose Distributed Sentence Representations via Large Scale Multi-task Learning},
  author = {Subramanian, Sandeep and Trischler, Adam and Bengio, Yoshua and Pal, Christopher J.},
  booktitle = {International Conference on Learning Representations},
  year = {2018}
}"""


class GenSen(Multitask[GenSenTask]):
    """Any subset of the six tasks.

    Args:
        batch_size: examples of a micro-batch over all processes (the paper: 48).
        tasks: tasks to learn.
        alpha: relative frequencies of the sequence tasks ("skip_thought" if stn or stp is chosen, "fr", "de",
            "parse"); None: all equal.
        nli_every: number of updates of sequence tasks before each NLI update.
        max_length: most tokens of a source or target of a sequence task, start and end tokens included; longer
            ones are cut.
        vocab_size: most entries of a decoder's vocabulary, five special tokens included.
        min_count: fewest occurrences of a word in a decoder's vocabulary.
        word_size: width of a decoder's word vectors.
        hidden: width of a decoder's states; None: that of a sentence vector, as published.
        dropout: dropout probability of the sentence vector in decoders, and of the input of the NLI classifier.
        classifier_width: width of the NLI classifier's hidden layer.
        fr, de: arguments of ``data.sources.parallel.Parallel``, e.g. {"source": "a.en.gz", "target": "a.fr.gz"};
            None: generated pairs.
        parse: arguments of ``data.sources.trees.Trees``; None: generated pairs.
        nli: arguments of ``data.sources.inference.Inference``; None: generated pairs.
        synthetic_pairs: number of generated pairs of each task without data.

    Raises:
        UserError: if ``tasks`` and ``alpha`` do not fit, or the data of a chosen task cannot be found.
    """

    citation = CITATION
    formula = (
        r"L_{\mathrm{decoder}} = -\sum_t \log p\,(y_t \mid y_{<t},\ E(S))"
        "\n"
        r"L_{\mathrm{NLI}} = -\log\, \mathrm{softmax}(\mathrm{MLP}([u;\ v;\ |u - v|;\ u * v]))_{\mathrm{class}}"
    )
    requirements = Requirements(unit="sentence")
    inference: ClassVar[type[NLI]] = NLI  # class of the NLI task

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
        chosen = tuple(name for name in TASKS if name in tasks)
        if len(chosen) != len(tasks) or not tasks:
            raise UserError(f"must be some of {', '.join(TASKS)}, each once", key="objective.tasks")
        neighbours = [name for name in OFFSETS if name in tasks]
        built: list[GenSenTask] = [SkipThought(neighbours, sizes)] if neighbours else []
        pairs: dict[Kind, tuple[Callable[..., PairSource], Mapping[str, Any] | None]] = {
            "fr": (Parallel, fr),
            "de": (Parallel, de),
            "parse": (Trees, parse),
            "nli": (Inference, nli),
        }
        for name, (source, data) in pairs.items():
            if name not in tasks:
                continue
            with task_keys(name):
                opened = Samples(kind=name, pairs=synthetic_pairs) if data is None else source(**data)
            if name == "nli":
                built.append(self.inference(name, sizes, opened))
            else:
                built.append(PairTask(name, [name], sizes, opened))
        super().__init__({task.name: task for task in built})
        self.batch_size = batch_size
        self.chosen = chosen
        self.nli_every = nli_every
        self.sequences = tuple(task.name for task in built if task.name != "nli")  # the tasks of alpha
        self._sources = {task.name: task.source for task in built if task.source is not None}
        self.alpha = self._normalised(alpha)

    def _normalised(self, alpha: Mapping[str, float] | None) -> dict[str, float]:
        weights = dict.fromkeys(self.sequences, 1.0) if alpha is None else dict(alpha)
        if {*weights} != {*self.sequences} or any(not 0 < weight < math.inf for weight in weights.values()):
            names = ", ".join(self.sequences) or "no task"
            raise UserError(f"needs a positive number for each of {names}, and no other", key="objective.alpha")
        return {name: weights[name] / sum(weights.values()) for name in self.sequences}

    @property
    def shares(self) -> dict[str, float]:
        if "nli" not in self._tasks:
            return self.alpha
        if not self.alpha:
            return {"nli": 1.0}
        cycle = self.nli_every + 1
        return {name: share * self.nli_every / cycle for name, share in self.alpha.items()} | {"nli": 1 / cycle}

    def task_at(self, step: int, seed: int) -> str:
        if "nli" in self._tasks and (not self.alpha or step % (self.nli_every + 1) == self.nli_every):
            return "nli"
        number = generator(TASK, seed, step).random()
        *ends, _ = np.cumsum(list(self.alpha.values())).tolist()
        return self.sequences[int(np.searchsorted(ends, number, side="right"))]

    # Data

    def texts(self) -> Iterator[str]:
        """Yields the source texts of the pairs, each once.

        Repeated texts would make all their words frequent: a premise has several hypotheses, two languages may
        share their English text, and gold trees are repeated.
        """
        seen: set[int] = set()
        for name, source in self._sources.items():
            with task_keys(name):
                for text in source.source_texts():
                    if (digest := hash(text)) not in seen:
                        if len(seen) < REMEMBERED:
                            seen.add(digest)
                        yield text

    def texts_key(self) -> str:
        keys = ["each once"] if self._sources else []
        for name, source in self._sources.items():
            with task_keys(name):
                keys.append(source.texts_key())
        return " ".join(keys)

    def task_data(self, corpus: Corpus) -> Mapping[str, TaskData]:
        self._data = {name: task.prepare(corpus) for name, task in self._tasks.items()}
        return self._data

    def own_data(self) -> Mapping[str, Mapping[str, Any]]:
        found = {}
        for name, source in self._sources.items():
            with task_keys(name):
                found[name] = source.describe()
        return found

    # Evaluation

    def dev_metrics(self, encoder: Encoder, batches: Iterable[Batch]) -> dict[str, float]:
        """Computes the held-out loss parts, and more.

        Returns:
            ``dev_<part>``, the mean loss per token (NLI: per pair); ``dev_<part>_perplexity`` of each decoder;
            ``dev_<part>_accuracy``, the share of tokens (pairs) predicted correctly; ``dev_<part>_unigram`` and
            ``dev_<part>_accuracy_unigram``, loss and accuracy of predicting the same targets from the frequencies
            of words or classes in training only.
        """
        found = super().dev_metrics(encoder, batches)
        decoders = [name for name in self.part_names if not name.startswith("nli") and f"dev_{name}" in found]
        return found | {f"dev_{name}_perplexity": float(np.exp(found[f"dev_{name}"])) for name in decoders}

    # Reports

    def facts(self) -> dict[str, Any]:
        """Returns the tasks, and those of them that learn from generated pairs."""
        synthetic = [name for name, task in self._tasks.items() if task.synthetic]
        return {
            "tasks": ", ".join(self.chosen),
            **({"synthetic": ", ".join(synthetic)} if synthetic else {}),
        }

    def example_predictions(self, encoder: Encoder) -> str:
        blocks = ["# Held-out examples, not selected by hand"]
        with evaluating(encoder, self):
            for name, task in self._tasks.items():
                blocks.append(f"## {name}{' (synthetic: generated pairs)' if task.synthetic else ''}")
                data = self._data[name]
                indices = generator(FIXED).permutation(data.dev.indices)[:SHOWN]
                for example in task.predict(encoder, [data.units[int(i)] for i in indices]):
                    width = max(map(len, example))
                    blocks.append("\n".join(f"    {key:{width}}  {text}" for key, text in example.items()))
        return "\n\n".join(blocks) + "\n"
