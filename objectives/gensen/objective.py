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
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, get_args

import numpy as np

from data.errors import UserError
from data.randomness import TASK, generator
from data.ranges import AtLeast8, Below1, Count, Size, Width
from data.sources.pairs import Inference, Parallel
from data.sources.samples import MOST, Generated, Samples
from data.sources.trees import Trees
from data.tokenizer import Words
from objectives.base import Multitask, Requirements, task_keys
from objectives.gensen.heads import OFFSETS, Decoders, PairClassifier, Sizes

TaskName = Literal["stn", "stp", "fr", "de", "parse", "nli"]
TASKS: tuple[TaskName, ...] = get_args(TaskName)

CITATION = """@inproceedings{subramanian-etal-2018-gensen,
  title = {Learning General Purpose Distributed Sentence Representations via Large Scale Multi-task Learning},
  author = {Subramanian, Sandeep and Trischler, Adam and Bengio, Yoshua and Pal, Christopher J.},
  booktitle = {International Conference on Learning Representations},
  year = {2018}
}"""


class GenSen(Multitask):
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
        fr, de: arguments of ``data.sources.pairs.Parallel``, e.g. {"source": "a.en.gz", "target": "a.fr.gz"};
            None: generated pairs.
        parse: arguments of ``data.sources.trees.Trees``; None: generated pairs.
        nli: arguments of ``data.sources.pairs.Inference``; None: generated pairs.
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

    def __init__(
        self,
        *,
        batch_size: Size = 48,
        tasks: Sequence[TaskName] = TASKS,
        alpha: Mapping[str, float] | None = None,
        nli_every: Count = 10,
        max_length: AtLeast8 = 90,
        vocab_size: Words = 30_000,
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
        heads: dict[str, Decoders | PairClassifier] = {}
        if offsets := tuple(name for name in OFFSETS if name in tasks):
            heads["skip_thought"] = Decoders("skip_thought", offsets, sizes, None)
        kinds: dict[Any, Any] = {
            "fr": (Parallel, fr),
            "de": (Parallel, de),
            "parse": (Trees, parse),
            "nli": (Inference, nli),
        }
        for name, (kind, data) in kinds.items():
            if name not in tasks:
                continue
            with task_keys(name):
                source = Samples(kind=name, pairs=synthetic_pairs) if data is None else kind(**data)
            if name == "nli":
                heads[name] = PairClassifier(name, ("nli", "nli_accuracy"), sizes, source)
            else:
                heads[name] = Decoders(name, (name,), sizes, source)
        super().__init__(heads)
        self.batch_size = batch_size
        self.chosen = chosen
        self.nli_every = nli_every
        self.shares = _normalise(alpha, [name for name in heads if name != "nli"])
        self.own_sources = {name: head.source for name, head in heads.items() if head.source is not None}
        self.perplexities = tuple(name for name in chosen if name != "nli")

    def task_at(self, step: int, seed: int) -> str:
        if "nli" in self.heads and (not self.shares or step % (self.nli_every + 1) == self.nli_every):
            return "nli"
        number = generator(TASK, seed, step).random()
        *ends, _ = np.cumsum([*self.shares.values()]).tolist()
        return [*self.shares][int(np.searchsorted(ends, number, side="right"))]

    def facts(self) -> dict[str, Any]:
        """Returns the tasks, and those of them that learn from generated pairs."""
        return {"tasks": ", ".join(self.chosen)} | super().facts()


def _normalise(alpha: Mapping[str, float] | None, names: Sequence[str]) -> dict[str, float]:
    """Returns the share of each sequence task, by ``alpha`` (None: all equal)."""
    weights = dict.fromkeys(names, 1.0) if alpha is None else dict(alpha)
    if {*weights} != {*names} or any(not 0 < weight < math.inf for weight in weights.values()):
        listed = ", ".join(names) or "no task"
        raise UserError(f"needs a positive number for each of {listed}, and no other", key="objective.alpha")
    return {name: weights[name] / sum(weights.values()) for name in names}
