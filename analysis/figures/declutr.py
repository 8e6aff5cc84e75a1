"""Figures of DeCLUTR (Giorgi et al. 2021, ACL); its tables are in declutr_tables.

python experiments/reproduce.py figure=declutr/2a budget=teaching
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from analysis.figures.claims import about_equal, all_of, at_most, greater, rising
from analysis.figures.exhibits import Figure, Grid, Value
from analysis.figures.verdicts import Claim
from data.views.spans import SpanSampler

DOWNSTREAM = (
    "CR", "TREC", "MRPC", "SICKEntailment", "SICKRelatedness", "STSBenchmark",
    "STS12", "STS13", "STS14", "STS15", "STS16",
)  # fmt: skip
DEV_TASKS = tuple(task for task in DOWNSTREAM if task != "MRPC")

# Models. The base size takes twice the compute of the small one.
DISTILROBERTA = ("encoder=distilroberta-base", "weights=pretrained")
ROBERTA = ("encoder=roberta-base", "weights=pretrained")
SMALL = Value("DeCLUTR-small", DISTILROBERTA)
BASE = Value("DeCLUTR-base", ROBERTA, share=2)
BUNDLED = Value("bundled", ["encoder=bundled"])
NAMES = ("DeCLUTR-small", "DeCLUTR-base", "bundled")
COLOURS = dict.fromkeys(NAMES, "declutr")

# Anchors, positives and strategies (figure 2). P and the strategy change what a document costs, and with it a
# run's share of the hour, so that all runs see about as many documents. The shares are computed, not measured: at
# spans of 16 to 64 tokens an anchor has 48 on average (with the masked language model a little more work), a
# positive 32.
POSITIVES = (
    Value("1", ["objective.positives_per_anchor=1"], share=0.72),
    Value("2", ["objective.positives_per_anchor=2"]),
    Value("4", ["objective.positives_per_anchor=4"], share=1.55),
)
BOTH_VIEWS = Value("adjacent and subsumed")
STRATEGIES = (
    Value("adjacent only", ["objective.strategy=adjacent"]),
    Value("subsumed only", ["objective.strategy=subsuming"], share=0.91),  # its positives are shorter
    BOTH_VIEWS,
)
# Controls of section 5.2: with one anchor, twice as many epochs in batches of twice as many documents, so that the
# spans seen and the effective batch (4N embeddings) are equal. At teaching size equal compute gives the former.
ANCHORS = (
    Value("1", ["objective.anchors_per_document=1"], documents=2, epochs=2),
    Value("2", ["objective.anchors_per_document=2"]),
)
TEMPERATURES = (
    Value("0.005", ["objective.temperature=5.0e-3"]),
    Value("0.01", ["objective.temperature=1.0e-2"]),
    Value("0.05", ["objective.temperature=5.0e-2"]),
)
START_RATE = Value("start's")  # optimizer.lr_trained, lr_bundled or lr_untrained, by the weights
RATES = (Value("5e-5", ["optimizer.lr=5.0e-5"]), Value("1e-4", ["optimizer.lr=1.0e-4"]))

OPENWEBTEXT = ("corpus=openwebtext", "precision=bf16")
# 6 x 42 million weights x 1,472 tokens of each of 497,868 documents
PAPER = dict[str, Any](base=OPENWEBTEXT, flops=2.0e17, evaluation=7200)
TOO_LARGE = ({"model": ["DeCLUTR-base"], "P": ["4"]},)  # did not fit into the authors' GPUs


def figure_2(letter: str, **more: Any) -> Figure:
    """Returns a part of figure 2: a distribution over the grid, by model."""
    return Figure(
        id=f"declutr/2{letter}",
        kind="distribution",
        y="averaged downstream score on dev, %",
        groups=NAMES,
        colours=COLOURS,
        base=["objective=declutr"],
        scores={"": "declutr_downstream_dev"},
        tasks=DEV_TASKS,
        **more,
    )


def grids(anchors: Sequence[Value], positives: Sequence[Value], strategies: Sequence[Value]) -> dict[str, Grid]:
    """Returns the grids of a part of figure 2; ``positives`` are those at teaching size."""
    return {
        "teaching": Grid(
            {"model": [BUNDLED], "A": anchors, "P": positives, "tau": TEMPERATURES[2:], "lr": [START_RATE],
             "strategy": strategies},
            seeds=[1, 2, 3], flops=9.0e12, evaluation=120,
        ),
        "paper": Grid(
            {"model": [SMALL, BASE], "A": anchors, "P": POSITIVES, "tau": TEMPERATURES, "lr": RATES,
             "strategy": strategies},
            without=TOO_LARGE, **PAPER,
        ),
    }  # fmt: skip


FIGURE_1C = Figure(
    id="declutr/1c",
    title="DeCLUTR, figure 1C: lengths of anchors and positives",
    kind="density",
    x="length of a span in tokens",
    y="density",
    groups=["anchor", "positive"],
    spans=SpanSampler(min_length=32, max_length=512, anchor_beta=(4, 2), positive_beta=(2, 4)),
    claims=[
        Claim(
            "anchors_longer",
            "anchors are skewed towards longer spans, positives towards shorter ones",
            "3.2",
            lambda scores: greater(scores(group="anchor"), scores(group="positive")),
        )
    ],
)

FIGURE_2A = figure_2(
    "a",
    title="DeCLUTR, figure 2a: anchors per document",
    x="anchor spans per document, A",
    ticks=["1", "2"],
    point={"group": "model", "x": "A"},
    **grids(ANCHORS, POSITIVES, [BOTH_VIEWS]),
    claims=[
        Claim(
            "a2_beats_a1",
            "several anchors per document have a large positive effect (that it is positive is checked)",
            "5.2",
            lambda scores: greater(scores(x="2"), scores(x="1")),
        ),
        Claim(
            "a2_control",
            "the gain holds with the number of training spans and the effective batch size (4N) equal",
            "5.2",
            lambda scores: greater(scores(x="2"), scores(x="1")),
        ),
    ],
)

# "Minimal" is the paper's word; that it means half a point or less is the suite's reading.
FIGURE_2B = figure_2(
    "b",
    title="DeCLUTR, figure 2b: positives per anchor",
    x="positive spans per anchor, P",
    ticks=["1", "2", "4"],
    point={"group": "model", "x": "P"},
    **grids(ANCHORS, POSITIVES, [BOTH_VIEWS]),
    claims=[
        Claim(
            "p_minimal",
            "several positives per anchor have minimal effect",
            "5.2",
            lambda scores: all_of(
                about_equal(scores(x="2"), scores(x="1"), margin=0.5),
                about_equal(scores(x="4"), scores(x="1"), margin=0.5),
            ),
        ),
        Claim(
            "p_contra_saunshi",
            "this differs from Saunshi et al. 2019, who gain from averaging several positives",
            "5.2",
            lambda scores: at_most(scores(x=["2", "4"]), scores(x="1"), margin=0.5, each="x"),
        ),
        Claim(
            "p4_absent_base",
            "no P=4 for DeCLUTR-base",
            "caption",
            reason="a matter of their GPUs' memory; the paper's grid leaves it out here too",
        ),
    ],
)

# The caption's grid has no axis for the strategy; here it crosses P, temperature and learning rate at A = 2.
FIGURE_2C = figure_2(
    "c",
    title="DeCLUTR, figure 2c: sampling strategy of positives",
    x="positives",
    ticks=["adjacent only", "subsumed only", "adjacent and subsumed"],
    point={"group": "model", "x": "strategy"},
    **grids(ANCHORS[1:], POSITIVES[:2], STRATEGIES),
    claims=[
        Claim(
            "both_views_best",
            "allowing adjacent and subsumed positives beats allowing one kind only",
            "5.2",
            lambda scores: greater(
                scores(x="adjacent and subsumed"), scores(x="adjacent only"), scores(x="subsumed only")
            ),
        ),
        Claim(
            "views_complementary",
            "the two kinds of view carry complementary information",
            "5.2",
            reason="the paper's reading of the previous statement; it has no comparison of its own",
        ),
    ],
)  # fmt: skip

# Figure 3: every run is one epoch over a fraction of the train set. At teaching size flops are what that takes
# with corpus=pydocs (2,029 documents, spans of 16 to 64 tokens); other text takes another time, and budget.flops=
# another number of epochs. MLM does not read positives.
SIZES = tuple(Value(f"{size}", [f"corpus.fraction={size / 100}"], share=size / 100) for size in range(10, 101, 10))
LOSSES = (
    Value("MLM only", ["objective=mlm_only"], share=0.45),
    Value("contrastive only", ["objective=contrastive_only"], share=0.96),
    Value("MLM + contrastive", ["objective=declutr"]),
)


BOTH = "MLM + contrastive"
FIGURE_3 = Figure(
    id="declutr/3",
    title="DeCLUTR, figure 3: objective, train set size and capacity",
    kind="line",
    x="train set size, %, in one epoch",
    y="averaged downstream score on dev, %",
    panels=NAMES,
    groups=[loss.label for loss in LOSSES],
    ticks=[size.label for size in SIZES],
    scale="linear",
    colours={"MLM only": "mlm_only", "contrastive only": "contrastive_only", "MLM + contrastive": "declutr"},
    point={"panel": "model", "group": "objective", "x": "size"},
    scores={"": "declutr_downstream_dev"},
    tasks=DEV_TASKS,
    teaching=Grid(
        {"model": [BUNDLED], "objective": LOSSES, "size": SIZES[::3]},
        # Nothing is stated of the shape of MLM only: its part of the hour goes to a third seed.
        without=[{"objective": ["MLM only"], "size": ["10", "70"]}],
        base=["budget.epochs=1"],
        seeds=[1, 2, 3],
        flops=9.7e12,
        evaluation=120,
    ),
    paper=Grid({"model": [SMALL, BASE], "objective": LOSSES, "size": SIZES}, **PAPER),
    claims=[
        Claim(
            "both_objectives_best",
            "MLM and contrastive together beat either alone",
            "5.3",
            lambda scores: greater(scores(group=BOTH), scores(group="MLM only"), scores(group="contrastive only")),
        ),
        Claim(
            "monotonic_with_mlm",
            "with MLM beside the contrastive loss the score rises monotonically with train set size",
            "5.3",
            lambda scores: rising(scores(group=BOTH), margin=0.5),
        ),
        Claim(
            "scales_with_capacity",
            "embedding quality scales with model capacity",
            "5.3, 1, 6",
            lambda scores: greater(
                scores(group=BOTH, panel="DeCLUTR-base"), scores(group=BOTH, panel="DeCLUTR-small")
            ),
        ),
        Claim(
            "scales_with_data",
            "embedding quality scales with train set size",
            "5.3, 1, 6",
            lambda scores: greater(scores(group=BOTH, x="100"), scores(group=BOTH, x="10")),
        ),
    ],
    departures=["At teaching size there is one encoder, bundled: capacity does not vary."],
)

EXHIBITS = (FIGURE_1C, FIGURE_2A, FIGURE_2B, FIGURE_2C, FIGURE_3)
