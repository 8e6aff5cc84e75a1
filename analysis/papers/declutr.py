"""Figures and tables of DeCLUTR (Giorgi et al. 2021, ACL).

python experiments/reproduce.py figure=declutr/2a budget=teaching data=<SentEval folder>
python experiments/reproduce.py figure=declutr/table2 vectors=<file of word vectors>
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from analysis import plots
from analysis.claims import Check, Claims, about_equal, above, at_most, greater, rising
from analysis.papers.base import Axes, Options, Reproduction, Run, printed_table, sweep
from analysis.senteval.averages import AVERAGES, PROBING, STS
from data.randomness import EVALUATED_SPLIT, generator
from data.views.spans import SpanSampler

DEV_TASKS = ("CR", "TREC", "SICKEntailment", "SICKRelatedness", "STSBenchmark", *STS)
DOWNSTREAM = ("MRPC", *DEV_TASKS)
QUICK_PROBING = ("Length", "WordContent", "BigramShift", "SubjNumber")

START = "modernbert-mini-2"  # that of encoder=bundled
STARTS = {"-small": "distilroberta-base", "-base": "roberta-base"}
MODELS = {f"DeCLUTR{size}": f"encoder={name} weights=pretrained" for size, name in STARTS.items()}
MLM, CONTRASTIVE, BOTH = "MLM only", "contrastive only", "MLM + contrastive"
LOSSES = {MLM: "mlm_only", CONTRASTIVE: "contrastive_only", BOTH: "declutr"}
STRATEGIES = {
    "adjacent only": "objective.strategy=adjacent",
    "subsumed only": "objective.strategy=subsuming",
    "adjacent and subsumed": "",
}
# Beta(a, b) of the lengths of anchors | of positives; the paper names only its own.
LENGTHS = {
    "2,4 | 4,2": "objective.anchor_beta=[2,4] objective.positive_beta=[4,2]",
    "1,1 | 1,1": "objective.anchor_beta=[1,1] objective.positive_beta=[1,1]",
    "3,2 | 2,3": "objective.anchor_beta=[3,2] objective.positive_beta=[2,3]",
    "4,2 | 2,4": "",
    "8,2 | 2,8": "objective.anchor_beta=[8,2] objective.positive_beta=[2,8]",
}
# P, the strategy, the lengths and the losses change what a document costs, and with it a run's share of the
# compute, so that all runs read about as many documents. Computed, not measured: of spans of 16 to 64 tokens an
# anchor has 48 on average (with the masked language model a little more work), a positive 32; subsumed positives
# are shorter.
SHARES = {
    "1": 0.72,
    "2": 1.0,
    "4": 1.55,
    "subsumed only": 0.91,
    "2,4 | 4,2": 1.14,
    "1,1 | 1,1": 1.07,
    "3,2 | 2,3": 1.03,
    "8,2 | 2,8": 0.94,
}
LOSS_SHARES = {MLM: 0.45, CONTRASTIVE: 0.96, BOTH: 1.0}
# Published weights, by the rows of tables 2 and 3 where these have them.
PUBLISHED = {
    "DeCLUTR-small": "johngiorgi/declutr-small",
    "DeCLUTR-base": "johngiorgi/declutr-base",
    "Transformer-small": "distilroberta-base",
    "Transformer-base": "roberta-base",
    "Sent. Transformers": "sentence-transformers/roberta-base-nli-mean-tokens",
    "all-MiniLM-L6-v2": "sentence-transformers/all-MiniLM-L6-v2",
}
# Tasks on which a model is below its start (section 5.1).
WORSE = {"": (), "-small": ("SST2", "SST5", "TREC"), "-base": ("SST5",)}


def models(options: Options, count: int = 2) -> Axes:
    """Returns the axis of encoders, at the paper's size the first ``count``."""
    return {"model": {"bundled": "encoder=bundled"} if options.teaching else dict([*MODELS.items()][:count])}


def common(options: Options, overrides: str) -> str:
    """Returns the overrides of all runs; at the paper's size one epoch of OpenWebText."""
    paper = "" if options.teaching else "corpus=openwebtext precision=bf16"
    return f"{overrides} budget={options.budget} {paper}"


def grid(
    options: Options,
    anchors: str = "12",
    positives: str = "124",
    strategies: Mapping[str, str] = {"adjacent and subsumed": ""},
    base: str = "objective=declutr",
    taus: Sequence[str] = ("0.005", "0.01", "0.05"),
    rates: Sequence[str] = ("5e-5", "1e-4"),
    flops: float = 9e12,
    controls: bool = True,
) -> list[Run]:
    """Returns the runs of a part of figure 2, at teaching size with the last temperature and the default rate.

    DeCLUTR-base with P=4 did not fit into the authors' GPUs. Controls of section 5.2: with one anchor twice as
    many epochs, in batches of twice as many documents, so that the spans seen and the effective batch (4N
    embeddings) are equal. At teaching size equal compute gives the former.
    """
    if options.teaching:
        taus, rates, positives = taus[-1:], [""], positives[: len(anchors) + 1]
    axes: Axes = {
        **models(options),
        "A": {label: f"objective.anchors_per_document={label}" for label in anchors},
        "P": {label: f"objective.positives_per_anchor={label}" for label in positives},
        "tau": {label: f"objective.temperature={label}" for label in taus},
        "lr": {label: label and f"optimizer.lr={label}" for label in rates},
        "strategy": strategies,
    }

    def size(labels: Mapping[str, str]) -> str | None:
        if labels["model"] == "DeCLUTR-base" and labels["P"] == "4":
            return None
        share = SHARES[labels["P"]] * SHARES.get(labels["strategy"], 1.0)
        if labels["A"] == "2":
            return options.compute(flops, share)
        if not controls:
            return options.compute(flops, share / 2)
        longer = "" if options.teaching else "budget.epochs=2"
        return f"budget.documents=32 {longer} {options.compute(flops, share)}"

    return sweep(common(options, base), axes, size)


# Of both versions.
ANCHORS = greater("A == '2'", "A == '1'")
POSITIVES = about_equal("P != '1'", "P == '1'", each="P")
MEMORY = "a matter of their GPUs' memory; the paper's grid leaves it out here too"
TOGETHER = greater(f"objective == '{BOTH}'", f"objective != '{BOTH}'", each="objective")
MONOTONIC = rising(f"objective == '{BOTH}'", "size", margin=0.5)
CAPACITY = greater(
    f"objective == '{BOTH}' and model == 'DeCLUTR-base'", f"objective == '{BOTH}' and model == 'DeCLUTR-small'"
)

means = partial(plots.lines, hue="model", linestyle="")
FIGURE_2A = Reproduction(
    "declutr/2a",
    "DeCLUTR, figure 2a: anchors per document",
    grid,
    draw=partial(means, x="A", xlabel="anchor spans per document, A"),
    ylabel="averaged downstream score on dev, %",
    scores={"": "declutr_downstream_dev"},
    tasks=DEV_TASKS,
    claims={
        "several anchors per document have a large positive effect (checked: it is positive) (5.2)": ANCHORS,
        "the gain holds with the number of training spans and the effective batch size (4N) equal (5.2)": ANCHORS,
    },
)
FIGURE_2B = replace(
    FIGURE_2A,
    id="declutr/2b",
    title="DeCLUTR, figure 2b: positives per anchor",
    draw=partial(means, x="P", xlabel="positive spans per anchor, P"),
    claims={
        "several positives per anchor have minimal effect (5.2)": POSITIVES,
        "this differs from Saunshi et al. 2019, who gain from averaging several positives (5.2)": at_most(
            "P != '1'", "P == '1'", each="P", margin=0.5
        ),
        "no P=4 for DeCLUTR-base (caption)": MEMORY,
    },
)
FIGURE_2C = replace(
    FIGURE_2A,
    id="declutr/2c",
    title="DeCLUTR, figure 2c: sampling strategy of positives",
    # The caption's grid has no strategy, which here crosses it at A = 2.
    rows=partial(grid, anchors="2", strategies=STRATEGIES),
    draw=partial(means, x="strategy", xlabel="positives"),
    claims={
        "allowing adjacent and subsumed positives beats allowing one kind only (5.2)": greater(
            "strategy == 'adjacent and subsumed'", "strategy != 'adjacent and subsumed'", each="strategy"
        ),
        "the two kinds of view carry complementary information (5.2)": (
            "the paper's reading of the previous statement; it has no comparison of its own"
        ),
    },
)


SPAN_LENGTHS = replace(
    FIGURE_2A,
    id="declutr/span_lengths",
    title="DeCLUTR, section 3.2: lengths of anchors and positives",
    rows=partial(grid, anchors="2", positives="2", strategies=LENGTHS),
    draw=partial(means, x="strategy", xlabel="Beta(α, β) of the lengths of anchors | of positives"),
    claims={
        "longer lengths of anchors than of positives improve downstream performance (3.2; first version 3.1.1)": (
            greater("strategy == '4,2 | 2,4'", "strategy in ['2,4 | 4,2', '1,1 | 1,1']", each="strategy")
        ),
        "performance is not sensitive to the choice of alpha and beta (checked: of those with longer anchors) "
        "(3.2; first version 3.1.1)": about_equal(
            "strategy in ['3,2 | 2,3', '8,2 | 2,8']", "strategy == '4,2 | 2,4'", each="strategy"
        ),
    },
    notes=["The paper has no figure of this, and names no distribution but its own, Beta(4, 2) and Beta(2, 4)."],
)


def sizes(options: Options, overrides: str = "") -> list[Run]:
    """Returns the runs of figure 3, each of one epoch over a fraction of the train set.

    At teaching size MLM only has two sizes, as nothing is stated of the shape of its curve.
    """
    axes: Axes = {
        **models(options),
        "objective": {label: f"objective={name}" for label, name in LOSSES.items()},
        "size": {
            str(size): f"corpus.fraction={size / 100}" for size in range(10, 101, 30 if options.teaching else 10)
        },
    }

    def length(labels: Mapping[str, str]) -> str | None:
        if options.teaching and labels["objective"] == MLM and labels["size"] in ("10", "70"):
            return None
        share = LOSS_SHARES[labels["objective"]] * int(labels["size"]) / 100
        return options.compute(0, share) if options.flops else "budget.epochs=1"

    return sweep(common(options, overrides), axes, length)


FIGURE_3 = Reproduction(
    "declutr/3",
    "DeCLUTR, figure 3: objective, train set size and capacity",
    sizes,
    draw=partial(
        plots.lines,
        x="size",
        hue="objective",
        panel="model",
        xlabel="train set size, %, in one epoch",
        objectives=LOSSES,
        linear=True,
    ),
    ylabel="averaged downstream score on dev, %",
    scores={"": "declutr_downstream_dev"},
    tasks=DEV_TASKS,
    claims={
        "MLM and contrastive together beat either alone (5.3)": TOGETHER,
        "with MLM beside the contrastive loss the score rises monotonically with train set size (5.3)": MONOTONIC,
        "embedding quality scales with model capacity (5.3, 1, 6)": CAPACITY,
        "embedding quality scales with train set size (5.3, 1, 6)": greater(
            f"objective == '{BOTH}' and size == '100'", f"objective == '{BOTH}' and size == '10'"
        ),
    },
    notes=["At teaching size there is one encoder, bundled: capacity does not vary, but in suite/capacity."],
)

SPANS = SpanSampler()  # its defaults are those of the paper


def span_lengths(frame: pd.DataFrame, options: Options) -> pd.DataFrame:
    """Samples the lengths of the spans of 2,000 documents as in training; a document is a seed."""
    rng, rows = generator(EVALUATED_SPLIT, 0), []
    for document in range(2000):
        anchors, positives = SPANS.draw(2 * SPANS.min_tokens, rng)
        for span, places in (("anchor", anchors), ("positive", chain(*positives))):
            rows += [(span, document, end - start) for start, end in places]
    return pd.DataFrame(rows, columns=["span", "seed", "score"]).assign(panel="", run="")


def draw_lengths(frame: pd.DataFrame, *, title: str, ylabel: str, note: str, **_: Any) -> Figure:
    """Draws histograms of lengths under Beta(a, b) stretched over the range of lengths (section 3.2)."""
    from scipy.stats import beta

    low, high = SPANS.min_length, SPANS.max_length
    x = np.linspace(low, high, 400)
    with plots.suite_style():
        figure = plots.new_figure(title, f"{note}\nFilled: sampled lengths; line: density.", plots.TALL)
        axes = figure.subplots()
        axes.set(xlabel="length of a span in tokens", ylabel=ylabel)
        for hue, (span, lengths) in zip(plots.SERIES, frame.groupby("span")["score"], strict=False):
            shape = getattr(SPANS, f"{span}_beta")
            axes.hist(lengths, 40, density=True, color=hue, alpha=0.35)
            axes.plot(x, beta(*shape, low, high - low).pdf(x), color=hue, label=f"{span}: Beta{shape}")
        figure.legend(loc="outside right upper")
    return figure


FIGURE_1C = Reproduction(
    "declutr/1c",
    "DeCLUTR, figure 1C: lengths of anchors and positives",
    long=span_lengths,
    draw=draw_lengths,
    ylabel="density",
    claims={
        "anchors are skewed towards longer spans, positives towards shorter ones (3.2)": greater(
            "span == 'anchor'", "span == 'positive'"
        )
    },
)


TABLE_1 = Reproduction(
    "declutr/table1",
    "DeCLUTR, table 1: trainable parameters and embedding dimensions",
    table=partial(printed_table, "declutr_table1"),
    notes=["As printed. The text compares only DeCLUTR-small with Sentence Transformers: declutr/published."],
)


def word_vectors(options: Options, row: str = "word vectors") -> list[Run]:
    """Returns the row of word vectors, if the command line names a file of them."""
    vectors = f"encoder.vectors={options.vectors}"
    return [Run({"row": row}, model="bag_of_words", evaluation=(vectors,))] if options.vectors else []


def rows(options: Options, overrides: str = "objective=declutr") -> list[Run]:
    """Returns the rows of tables 2 and 3: word vectors, the transformers before training, and DeCLUTR."""
    before, encoders = {"": START}, {"DeCLUTR": "encoder=bundled"}
    if not options.teaching:
        before, encoders = STARTS, MODELS
    return [
        *word_vectors(options),
        *(Run({"row": f"Transformer{size}"}, model=model) for size, model in before.items()),
        *sweep(f"{common(options, overrides)} {options.compute(5e13)}", {"row": encoders}),
    ]


def probing_rows(options: Options) -> list[Run]:
    """Returns the rows of table 3, and the last of them without MLM."""
    *_, last = rows(options, "objective=contrastive_only")
    return [*rows(options), replace(last, labels={"row": CONTRASTIVE})]


def for_each_size(panel: str, compare: Callable[..., Check], text: str) -> Claims:
    """Returns claims that compare DeCLUTR with its start in a panel: the bundled one, small and base."""
    return {
        f"DeCLUTR{size} {text} (5.1)": above(panel, f"DeCLUTR{size}", f"Transformer{size}", check=compare)
        for size in WORSE
    }


PRINTED_ONLY = "InferSent, USE and Sentence Transformers are shown as printed only (but see declutr/published)."
TABLE_2 = Reproduction(
    "declutr/table2",
    "DeCLUTR, table 2: downstream tasks",
    rows,
    scores={
        "downstream": "declutr_downstream",
        **{
            task: f"{task}.{metric.partition('+')[0]}"
            for task, metric in AVERAGES["declutr_downstream"].groups[0].items()
        },
    },
    paper="declutr",
    tasks=DOWNSTREAM,
    claims={
        **for_each_size(
            "downstream",
            greater,
            "obtains a large boost in average downstream performance over its start (small: +4 %, base: +6 %; "
            "checked: it is above)",
        ),
        **{
            f"DeCLUTR{size} has improved or equivalent performance on every downstream task (exceptions: "
            f"{', '.join(tasks) or 'none'}; checked: at most half a point below) (5.1)": at_most(
                f"row == 'Transformer{size}' and panel not in {('downstream', *tasks)}",
                f"row == 'DeCLUTR{size}'",
                each="panel",
                margin=0.5,
            )
            for size, tasks in WORSE.items()
        },
    },
    notes=[f"{PRINTED_ONLY} So is QuickThoughts; conssent/table2 trains an InferSent."],
)
TABLE_3 = Reproduction(
    "declutr/table3",
    "DeCLUTR, table 3: probing tasks",
    probing_rows,
    scores={"probing": "probing"},
    paper="declutr",
    columns=PROBING,
    tasks=QUICK_PROBING,
    claims={
        **for_each_size("probing", partial(about_equal, margin=1.0), "is comparable to its start on average"),
        "MLM in the objective is responsible for the relatively high probing performance (suspected) (5.1)": above(
            "probing", ("DeCLUTR", "DeCLUTR-base"), CONTRASTIVE
        ),
    },
    notes=[PRINTED_ONLY],
)
TABLE_PUBLISHED = replace(
    TABLE_2,
    id="declutr/published",
    title="DeCLUTR, tables 2 and 3: published weights",
    rows=lambda options: [Run({"row": row}, model=model) for row, model in PUBLISHED.items()],
    scores={**TABLE_2.scores, **TABLE_3.scores},
    tasks=[*DOWNSTREAM, *QUICK_PROBING],
    claims={
        **TABLE_2.claims,
        "DeCLUTR-base matches or outperforms existing methods with labels on average (here: Sentence "
        "Transformers) (5.1, abstract)": above("downstream", "Sent. Transformers", "DeCLUTR-base", check=at_most),
        "DeCLUTR-small outperforms Sentence Transformers with 34 % fewer parameters (5.1)": above(
            "downstream", "DeCLUTR-small", "Sent. Transformers"
        ),
        "Sentence Transformers is about 10 % lower on the probing tasks than the model it fine-tunes (checked: 8 "
        "to 12 points) (5.1)": above(
            "probing", "Transformer-base", "Sent. Transformers", check=partial(greater, least=8.0, most=12.0)
        ),
        "USE performs particularly well across the unsupervised evaluations (5.1)": (
            "USE is published for TensorFlow only; its printed rows are below"
        ),
    },
    notes=[
        "A published model is one run: its differences are shown, but not decided. InferSent, USE and "
        "QuickThoughts are not published in a format that is read here. Weights are read as safetensors only; "
        "models=[<folder>] adds converted ones, or any other model.",
    ],
)


def poolings(options: Options) -> list[Run]:
    """Returns the rows of table 4: each run is evaluated with each pooling, which enters none of these losses.

    The authors' script took the pooler's output for CLS; their configuration names the last state.
    """
    encoders = {"NSP": "nsp", "SOP": "sop", "MLM": "mlm_only"}
    if not options.teaching:
        encoders = {
            "BERT-base": "bert-base-uncased",
            "ALBERT-base-V2": "albert-base-v2",
            "RoBERTa-base": "roberta-base",
        }
    base = "encoder=bundled budget=teaching budget.tokens=7.5e+5"
    rows = word_vectors(options)
    for name, encoder in encoders.items():
        for pooling in ("CLS", "mean", "pooler")[: 2 if name in ("MLM", "RoBERTa-base") else 3]:
            row = f"{name}-{pooling}"
            run = Run({"row": row}, model=encoder)
            if options.teaching:
                [run] = sweep(base, {"row": {row: f"objective={encoder}"}})
            evaluation = () if pooling == "mean" else (f"pooling={pooling.lower()}",)  # mean: the encoder's own
            rows.append(replace(run, evaluation=evaluation))
    return rows


TABLE_4 = Reproduction(
    "declutr/table4",
    "DeCLUTR, table 4: sentence losses of pretrained transformers, CLS and mean pooling",
    poolings,
    scores={"downstream": "declutr_downstream_dev"},
    paper="declutr",
    split="dev",
    tasks=DOWNSTREAM,
    claims={
        "pooling token embeddings via averaging outperforms pooling via the CLS token (appendix A)": [
            *(greater(f"row == '{loss}-mean'", f"row == '{loss}-CLS'") for loss in ("NSP", "SOP", "MLM"))
        ],
        "CLS embeddings of models trained with NSP or SOP do not outperform those of a model trained with "
        "neither (appendix A)": at_most("row in ['NSP-CLS', 'SOP-CLS']", "row == 'MLM-CLS'", each="row"),
        "CLS embeddings of models trained with NSP or SOP sometimes do not outperform a bag of words "
        "(appendix A)": "one that does not is enough; the table has its row and that of word vectors",
    },
    notes=[
        "At teaching size the rows are small transformers trained here over as many tokens. MLM reads spans of "
        "long documents, in smaller batches and so in more updates, NSP and SOP pairs of segments. Probing is not "
        "evaluated (tasks=[Length, ..] does), nor are the larger downstream tasks.",
        "At the paper's size each row is one published model, without seeds: no claim is decided.",
    ],
)


TABLE_5 = Reproduction(
    "declutr/table5",
    "DeCLUTR, table 5: sampled spans",
    examples=["objective=declutr"],
    notes=["Positives lie beside, over or within their anchor; the spans of other anchors are negatives."],
)
