"""Figures and tables of DeCLUTR's first version (Giorgi et al. 2020, arXiv:2006.03659v1).

    python experiments/reproduce.py figure=declutr_v1/s1b budget=teaching data=<SentEval folder>

Anchors lie l_max apart, from start to start; the final version has 2 l_max. Which average and split its figures
show is not stated: dev, with SNLI, as in its other dev tables.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

from analysis import plots
from analysis.claims import about_equal, at_most, best, greater
from analysis.papers import declutr
from analysis.papers.base import Options, Reproduction, Run, sweep
from analysis.papers.declutr import (
    ANCHORS,
    BOTH,
    CAPACITY,
    CONTRASTIVE,
    DEV_TASKS,
    DOWNSTREAM,
    MEMORY,
    MODELS,
    MONOTONIC,
    POSITIVES,
    PRINTED_ONLY,
    PROBING,
    QUICK_PROBING,
    STRATEGIES,
    TOGETHER,
    common,
    models,
)

GAP = "objective=declutr objective.gap=${objective.max_length}"
FIGURES: dict[str, Any] = {
    "ylabel": "SentEval score on dev, %",
    "scores": {"": "declutr_downstream_with_snli_dev"},
    "tasks": DEV_TASKS,
}


def first_version(item: Reproduction, **changes: Any) -> Reproduction:
    """Returns a figure of the final version as the first version has it."""
    return replace(
        item,
        id=item.id.replace("declutr", "declutr_v1"),
        title=item.title.replace("DeCLUTR", "DeCLUTR, first version"),
        **FIGURES | changes,
    )


# Temperatures are as printed; the final version has 0.005, 0.01 and 0.05. The paper states no controls: runs with
# one anchor or two read as many documents, and so those with two read twice the spans, in larger batches.
grid = partial(declutr.grid, base=GAP, taus=["0.0005", "0.05"], rates=[""], flops=1.2e13, controls=False)

FIGURE_2A = first_version(
    declutr.FIGURE_2A,
    rows=grid,
    claims={"several anchors per document have a large positive effect (checked: it is positive) (5.2)": ANCHORS},
)
FIGURE_2B = first_version(
    declutr.FIGURE_2B,
    rows=grid,
    claims={
        "several positives per anchor have minimal effect (5.2)": POSITIVES,
        "no P=4 for DeCLUTR-base (caption)": MEMORY,
    },
)
FIGURE_2C = first_version(declutr.FIGURE_2C, rows=partial(grid, anchors="2", strategies=[*STRATEGIES]))

# Printed values: table S6's, at 100 %. 90 is the place before 100 in the paper's grid, 70 at teaching size.
FIGURE_3 = first_version(
    declutr.FIGURE_3,
    rows=partial(declutr.sizes, overrides=GAP),
    ylabel="average SentEval score on dev, %",
    paper="declutr_v1",
    split="dev",
    printed={model: {"model": model, "objective": BOTH, "size": "100"} for model in MODELS},
    claims={
        "MLM and contrastive together beat either alone (5.3)": TOGETHER,
        "with the contrastive loss only, the score peaks at 40% of the train set (5.3)": best(
            "size == '40'", f"objective == '{CONTRASTIVE}'", each="size"
        ),
        "with MLM beside the contrastive loss the score rises monotonically with train set size (5.3)": MONOTONIC,
        "quality can grow further with train set size (5.3, 6)": greater(
            f"objective == '{BOTH}' and size == '100'",
            f"objective == '{BOTH}' and size in ['70', '90']",
            each="size",
        ),
        "quality can grow further with model capacity (5.3, 6)": CAPACITY,
    },
)

# Figure S1a: a projection head between pooler and loss, dropped after training. Stated: none, linear, non-linear;
# 128. Inferred: the hidden layer is as wide as the output, outputs of 128 to 768, one model. That "marginal" means
# half a point or less is the suite's reading.
HEADS = {"none": "", "linear": "linear", "non-linear": "relu"}


def heads(options: Options) -> list[Run]:
    """Returns the runs of figure S1a; without a head there is no width."""
    runs = []
    for head, activation in HEADS.items():
        widths = {
            width: f"objective.projection={{width: {width}, activation: {activation}}}"
            for width in ("128", "256", "512", "768")[: 3 if options.teaching else 4]
        }
        axes = {**models(options, 1), "head": {head: ""}, "width": widths if activation else {"": ""}}
        runs += sweep(f"{common(options, GAP)} {options.compute(7e12)}", axes)
    return runs


FIGURE_S1A = Reproduction(
    "declutr_v1/s1a",
    "DeCLUTR, first version, figure S1a: projection head",
    heads,
    draw=partial(plots.lines, x="width", hue="head", xlabel="output dimension of the head"),
    claims={
        "a non-linear head improves slightly at every dimension tested (Supp. 6.1)": greater(
            "head == 'non-linear'", "head == 'none'", each="width"
        ),
        "by up to +0.16 (Supp. 6.1)": greater("head == 'non-linear'", "head == 'none'", each="width", most=0.16),
        "a linear head improves slightly, and only at dimension 128 (Supp. 6.1)": [
            greater("head == 'linear' and width == '128'", "head == 'none'"),
            at_most("head == 'linear' and width != '128'", "head == 'none'", each="width"),
        ],
        "the gain is marginal, so the head was left out of the method (Supp. 6.1)": [
            about_equal("head == 'linear'", "head == 'none'", each="width"),
            about_equal("head == 'non-linear'", "head == 'none'", each="width"),
        ],
    },
    **FIGURES,
)

# Figure S1b: cross-batch memory (XBM). Stated: four temperatures, queues of none to 512; the sizes between are
# chosen here. XBM counts the batch's own embeddings, which it puts into the queue first: at N = 16, A = 2, which
# are therefore fixed, a queue of q is here a memory bank of q - 64.
QUEUES = {"none": 0, "128": 64, "256": 192, "512": 448}
TAUS = ("0.001", "0.005", "0.01", "0.05")


def queues(options: Options) -> list[Run]:
    """Returns the runs of figure S1b."""
    left_out = ("0.005", "256") if options.teaching else ()
    axes = {
        **models(options, 1),
        "tau": {tau: f"objective.temperature={tau}" for tau in TAUS if tau not in left_out},
        "queue": {size: f"objective.memory_bank={QUEUES[size]}" for size in QUEUES if size not in left_out},
    }
    documents = "budget.documents=16 objective.anchors_per_document=2"
    return sweep(f"{common(options, GAP)} {documents} {options.compute(6e12)}", axes)


FIGURE_S1B = Reproduction(
    "declutr_v1/s1b",
    "DeCLUTR, first version, figure S1b: memory bank, by temperature",
    queues,
    draw=partial(plots.lines, x="queue", hue="tau", xlabel="queue size"),
    claims={
        "a queue of any size does worse than none (Supp. 6.2)": greater(
            "queue == 'none'", "queue != 'none'", each="queue"
        )
    },
    **FIGURES,
)


# Rows are those of the final version's table 2, where a table has no others.
table: Any = partial(
    Reproduction, rows=partial(declutr.rows, overrides=GAP), notes=[PRINTED_ONLY], paper="declutr_v1"
)

NO_STS = DEV_TASKS[:4]
FEW = (*NO_STS, "WordContent", "BigramShift")


def before_and_after(options: Options) -> list[Run]:
    """Returns the rows of table S5: encoders before and after they are fine-tuned on inference.

    It is trained in Sentence-BERT's form, as in experiment/sentence_bert/allnli.yaml: on nli=, or at teaching size
    on generated pairs where that is not given.
    """
    training = (
        "objective=nli objective.features=sentence_bert optimizer=adamw optimizer.weight_decay=0.01 "
        f"schedule=linear gradient_norm=1.0 budget.sentences=16 budget={options.budget} {options.compute(5e13)}"
    )
    if options.nli:
        training += f" objective.nli={options.nli}"
    encoders = {"bundled": declutr.START}
    if not options.teaching:
        encoders = {"BERT-base": "bert-base-uncased", "RoBERTa-base": "roberta-base"}
        training += " precision=bf16 weights=pretrained optimizer.lr=2.0e-5 budget.epochs=1"
    runs = []
    for name, model in encoders.items():
        runs.append(Run({"row": f"{name}, before"}, model=model))
        if options.teaching or options.nli:
            encoder = f"encoder={'bundled' if options.teaching else model}"
            runs += sweep(training, {"row": {f"{name}, after": encoder}})
    return runs


TABLE_1 = table(
    "declutr_v1/table1",
    "DeCLUTR, first version, table 1: downstream and probing averages",
    tasks=[*NO_STS, *QUICK_PROBING],
)
TABLE_S1 = table(
    "declutr_v1/table_s1",
    "DeCLUTR, first version, table S1: sentence losses of pretrained transformers, CLS and mean pooling",
    split="dev",
    rows=declutr.poolings,
    notes=declutr.TABLE_4.notes,
    tasks=FEW,
)
TABLE_S2 = replace(
    declutr.TABLE_5,
    id="declutr_v1/table_s2",
    title="DeCLUTR, first version, table S2: sampled spans",
    examples=[GAP],
)
TABLE_S3 = table("declutr_v1/table_s3", "DeCLUTR, first version, table S3: downstream tasks", tasks=DOWNSTREAM)
TABLE_S4 = table(
    "declutr_v1/table_s4", "DeCLUTR, first version, table S4: probing tasks", columns=PROBING, tasks=QUICK_PROBING
)
TABLE_S5 = table(
    "declutr_v1/table_s5",
    "DeCLUTR, first version, table S5: before and after fine-tuning on inference",
    split="dev",
    rows=before_and_after,
    tasks=FEW,
    notes=[
        "The paper's rows are published models of Sentence Transformers; ours are trained here. BERT-large "
        "and RoBERTa-large are left out, as there is no config for them (encoder=transformer encoder.name=.. "
        "trains them)."
    ],
)
TABLE_S6 = table(
    "declutr_v1/table_s6",
    "DeCLUTR, first version, table S6: downstream averages with and without SNLI",
    split="dev",
    tasks=[*NO_STS, "SNLI"],
)
