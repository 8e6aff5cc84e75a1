"""Figures and tables of DeCLUTR's first version (Giorgi et al. 2020, arXiv:2006.03659v1).

    python experiments/reproduce.py figure=declutr_v1/s1b budget=teaching data=<SentEval folder>

Anchors lie l_max apart, from start to start; the final version has 2 l_max. Which average and split its figures
show is not stated: dev, with SNLI, as in its other dev tables.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import pandas as pd

from analysis import plots
from analysis.claims import Evidence, about_equal, above, at_most, best, greater
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
    for_each_size,
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
FIGURE_2C = first_version(declutr.FIGURE_2C, rows=partial(grid, anchors="2", strategies=STRATEGIES))

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
        "the gain is marginal, so the head was left out of the method (Supp. 6.1)": about_equal(
            "head != 'none'", "head == 'none'", each="head width"
        ),
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


NO_STS = DEV_TASKS[:4]
FEW = (*NO_STS, "WordContent", "BigramShift")


# Published models, and what fine-tuning on inference has made of them.
TUNED = {
    "bert-base-uncased": "sentence-transformers/bert-base-nli-mean-tokens",
    "bert-large-uncased": "sentence-transformers/bert-large-nli-mean-tokens",
    "roberta-base": "sentence-transformers/roberta-base-nli-mean-tokens",
    "roberta-large": "sentence-transformers/roberta-large-nli-mean-tokens",
}


def tune(options: Options, row: str) -> list[Run]:
    """Returns the row of the bundled encoder, fine-tuned as in experiment/sentence_bert/allnli.yaml."""
    nli = f"objective.nli={options.nli}" if options.nli else ""
    training = (
        "objective=nli objective.features=sentence_bert optimizer=adamw optimizer.weight_decay=0.01 "
        f"schedule=linear gradient_norm=1.0 budget.sentences=16 budget=teaching {options.compute(5e13)} {nli}"
    )
    return sweep(training, {"row": {row: "encoder=bundled"}})


def before_and_after(options: Options) -> list[Run]:
    """Returns the rows of table S5: the bundled encoder, or the published ones."""
    if options.teaching:
        return [Run({"row": "bundled"}, model=declutr.START), *tune(options, "bundled, fine-tuned")]
    return [Run({"row": model}, model=model) for pair in TUNED.items() for model in pair]


def with_supervised(options: Options) -> list[Run]:
    """Returns the rows of table S6: those of the other tables, and at teaching size one that learns from nli=."""
    supervised = tune(options, "Sent. Transformers") if options.teaching and options.nli else []
    return [*declutr.rows(options, GAP), *supervised]


def gain_by_snli(scores: pd.DataFrame) -> Evidence:
    """score on SNLI minus the mean of the other tasks: that of Sent. Transformers above that of DeCLUTR"""
    panels = scores.pivot_table("score", ["row", "seed"], "panel").reindex(columns=["others", "SNLI"])
    gains = panels.diff(axis=1)["SNLI"].dropna().reset_index(name="score")
    return greater("row == 'Sent. Transformers'", "row == 'DeCLUTR'")(gains)


BOOSTED = for_each_size("downstream", greater, "significantly boosts downstream performance over its start")
MAINTAINED = for_each_size("probing", partial(about_equal, margin=1.0), "maintains high probing performance")
# Rows are those of the final version's table 2, where a table has no others.
TABLE_1 = Reproduction(
    "declutr_v1/table1",
    "DeCLUTR, first version, table 1: downstream and probing averages",
    partial(declutr.rows, overrides=GAP),
    paper="declutr_v1",
    notes=[PRINTED_ONLY],
    scores={"downstream": "declutr_downstream_with_snli", "probing": "probing", "all": "declutr_v1_all"},
    tasks=[*NO_STS, *QUICK_PROBING],
    claims={
        **BOOSTED,
        **MAINTAINED,
        **for_each_size("all", greater, "has the highest average (checked: above its start)"),
        "except for InferSent, existing methods perform poorly on probing (5.1)": (
            "declutr/published and declutr_v1/table_s5 have Sentence Transformers; USE is not opened here"
        ),
    },
)
TABLE_S1 = replace(
    TABLE_1,
    id="declutr_v1/table_s1",
    title="DeCLUTR, first version, table S1: sentence losses of pretrained transformers, CLS and mean pooling",
    split="dev",
    rows=declutr.poolings,
    scores={"": "declutr_downstream_with_snli_dev"},
    claims=declutr.TABLE_4.claims,
    notes=declutr.TABLE_4.notes,
    tasks=FEW,
)
TABLE_S2 = replace(
    declutr.TABLE_5,
    id="declutr_v1/table_s2",
    title="DeCLUTR, first version, table S2: sampled spans",
    examples=[GAP],
)
TABLE_S3 = replace(
    TABLE_1,
    id="declutr_v1/table_s3",
    title="DeCLUTR, first version, table S3: downstream tasks",
    claims=BOOSTED,
    tasks=DOWNSTREAM,
)
TABLE_S4 = replace(
    TABLE_1,
    id="declutr_v1/table_s4",
    title="DeCLUTR, first version, table S4: probing tasks",
    claims=MAINTAINED,
    columns=PROBING,
    tasks=QUICK_PROBING,
)
TABLE_S5 = replace(
    TABLE_1,
    id="declutr_v1/table_s5",
    title="DeCLUTR, first version, table S5: before and after fine-tuning on inference",
    split="dev",
    rows=before_and_after,
    scores={"probing": "probing_dev"},
    tasks=FEW,
    claims={
        f"fine-tuning {before} on inference reduces average probing performance by at least 6 % (Supp. 4)": above(
            "probing", before, after, check=partial(greater, least=6.0)
        )
        for before, after in {"bundled": "bundled, fine-tuned", **TUNED}.items()
    },
    notes=[
        "At the paper's size the rows are published models, each one run: differences are shown, but not decided. "
        "At teaching size the encoder learns from nli=, without it from generated pairs.",
    ],
)
TABLE_S6 = replace(
    TABLE_1,
    id="declutr_v1/table_s6",
    title="DeCLUTR, first version, table S6: downstream averages with and without SNLI",
    split="dev",
    rows=with_supervised,
    scores={"SNLI": "SNLI.dev", "others": "declutr_downstream_dev"},
    tasks=[*NO_STS, "SNLI"],
    claims={
        "without SNLI the difference to supervised methods shrinks (Supp. 5, 5.1)": gain_by_snli,
        "then DeCLUTR is only 1 % below USE, and its lead over InferSent and Sentence Transformers grows by 33 % "
        "and 50 % (Supp. 5)": (
            "USE and InferSent are not opened here; printed: 1.03, (2.20 - 1.47) / 2.20, (1.32 - 0.66) / 1.32"
        ),
    },
    notes=[
        PRINTED_ONLY,
        "The supervised row is trained at teaching size only, and needs nli= with pairs of SNLI.",
    ],
)
