"""Comparisons of no paper: objectives from one start, at learning rates that were searched.

python experiments/reproduce.py figure=suite/learning_rates budget=teaching data=<SentEval folder>
python experiments/reproduce.py figure=suite/objectives budget=teaching data=<SentEval folder>
python experiments/reproduce.py figure=suite/curves budget=teaching data=<SentEval folder>
python experiments/reproduce.py figure=suite/views budget=teaching data=<SentEval folder>
python experiments/reproduce.py figure=suite/capacity budget=teaching data=<SentEval folder>
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

import pandas as pd

from analysis import plots
from analysis.claims import Check, Evidence, above, at_most, best, greater, rising
from analysis.papers.base import Options, Reproduction, Run, sweep
from analysis.papers.declutr import DEV_TASKS, DOWNSTREAM, START
from analysis.senteval.averages import STS

ALIKE = "optimizer=adamw schedule=slanted_triangular gradient_norm=1.0"  # QuickThoughts has its own by default
MASKING, TEMPERATURE = "objective.mlm_probability=0.3", "objective.temperature=0.02"
# Overrides as in +experiment=declutr/mini (SimCSE learns from dropout only), and the best learning rate known, of
# a million tokens (docs/results/declutr.md; SimCSE's of half a million).
OBJECTIVES = {
    "MLM only": (f"objective=mlm_only {MASKING}", "1e-3"),
    "contrastive only": (f"objective=contrastive_only {TEMPERATURE}", "3e-4"),
    "DeCLUTR": (f"objective=declutr {MASKING} {TEMPERATURE}", "1e-3"),
    "NSP": (f"objective=nsp {MASKING}", "1e-4"),
    "SOP": (f"objective=sop {MASKING}", "3e-4"),
    "TSDAE": ("objective=tsdae", "1e-6"),
    "QuickThoughts": (f"objective=quick_thoughts {ALIKE}", "3e-4"),
    "SimCSE": ("objective=simcse encoder.dropout=0.1", "3e-4"),
    "ConsSent-N(3)": (f"objective=conssent objective.task=N objective.k=3 {ALIKE}", "3e-5"),
}
SUPERVISED = {  # with options.nli, the ceilings
    "pairs of NLI": ("objective=pairs objective.nli={} encoder.dropout=0.1", "1e-3"),
    "NLI": (f"objective=nli objective.nli={{}} {ALIKE}", "3e-4"),
}
RATES = [f"{digit}e-{exponent}" for exponent in range(7, 0, -1) for digit in (1, 3)]
COLOURS = {"MLM only": "mlm_only", "contrastive only": "contrastive_only", "QuickThoughts": "quick_thoughts"}
BEFORE = "the start"
TEACHING = (
    "encoder=bundled encoder.dropout=0.0 budget=teaching "
    "budget.min_span=32 budget.max_span=128 budget.min_tokens=512"
)
SEARCH_NOTE = (
    "The learning rates are those that were best on dev at a million tokens (suite/learning_rates), each between "
    "two others: of MLM only and DeCLUTR by two seeds, of the rest by one and the protocol simcse."
)


def list_objectives(options: Options) -> dict[str, tuple[str, str]]:
    """Returns objectives as in ``OBJECTIVES``, the supervised ones last."""
    ceilings = {name: (text.format(options.nli), best) for name, (text, best) in SUPERVISED.items()}
    return OBJECTIVES | ceilings if options.nli else OBJECTIVES


def best_rate_overrides(options: Options) -> dict[str, str]:
    """Returns the overrides of each objective at its best learning rate."""
    return {name: f"{text} optimizer.lr={best}" for name, (text, best) in list_objectives(options).items()}


def learning_rates(options: Options, best: Mapping[str, str] | None = None) -> list[Run]:
    """Returns runs of one seed at the ``best`` rate of each objective, by default the known one, and beside it."""
    runs = []
    for name, (text, known) in list_objectives(options).items():
        place = RATES.index((best or {}).get(name, known))
        lr = {rate: f"optimizer.lr={rate}" for rate in RATES[max(0, place - 1) : place + 2]}
        runs += sweep(f"{TEACHING} budget.tokens=2.0e+5", {"objective": {name: text}, "lr": lr})
    return runs


def find_best(long: pd.DataFrame, options: Options) -> pd.DataFrame:
    """Returns means by objective and rate, without those that lack a seed, and the best rate of each objective.

    Of equal means that of the highest rate counts: those of the lowest rates are all the start's.
    """
    scores = long.groupby(["objective", "lr"], sort=False)["score"]
    means = scores.mean()[scores.size() == long["seed"].nunique()].unstack()
    means = means[[rate for rate in RATES if rate in means]]
    return means.assign(best=means.iloc[:, ::-1].idxmax(axis="columns"))


def extend_rates(long: pd.DataFrame, options: Options) -> list[Run]:
    """Returns runs around the best rate of each objective; there are new ones if it is its lowest or highest."""
    runs = learning_rates(options, find_best(long, options)["best"].to_dict())
    return [run.repeat(seed) for run in runs for seed in long["seed"].unique().tolist()]


curves = partial(plots.lines, hue="objective", objectives=COLOURS)
LEARNING_RATES = Reproduction(
    "suite/learning_rates",
    "Learning rate of each objective",
    learning_rates,
    sizes=["teaching"],
    seeds=[1, 2],
    search=extend_rates,
    draw=partial(curves, x="lr", xlabel="peak learning rate"),
    table=find_best,
    ylabel="mean dev score of CR, TREC, SICK-E, SICK-R and STS-B, %",
    scores={"": "declutr_downstream_dev"},
    tasks=DEV_TASKS[:5],
    notes=[
        "The five tasks were chosen for speed. Each objective is tried at three rates, then at further ones, by a "
        "factor of about three, until its best lies between two others or the next one is out of range "
        f"({RATES[0]} to {RATES[-1]}) or diverges.",
    ],
)


def budgets(options: Options) -> list[Run]:
    """Returns the runs of five lengths, and the start."""
    tokens = {label: f"budget.flops=null budget.tokens={label}e+6" for label in LENGTHS}
    rows = best_rate_overrides(options)
    runs = sweep(TEACHING, {"objective": {name: rows[name] for name in CURVE_OBJECTIVES}, "millions": tokens})
    return [*runs, Run({"objective": BEFORE, "millions": ""}, model=START)]


LENGTHS = ("0.25", "0.5", "1.0", "2.0", "4.0")  # million tokens
CURVE_OBJECTIVES = ("MLM only", "contrastive only", "DeCLUTR", "SimCSE", "QuickThoughts")
CURVES = Reproduction(
    "suite/curves",
    "Objectives from one start, by training tokens",
    budgets,
    sizes=["teaching"],
    draw=partial(curves, x="millions", xlabel="training tokens, millions"),
    ylabel="test score, %",
    scores={"downstream": "declutr_downstream", "STS12-16": "sts_spearman_mean"},
    tasks=DOWNSTREAM,
    claims={
        f"DeCLUTR is ahead downstream at {length} million tokens (of no paper)": best(
            "objective == 'DeCLUTR'", f"panel == 'downstream' and millions == '{length}'", each="objective"
        )
        for length in LENGTHS
    },
    notes=[
        SEARCH_NOTE,
        "One rate serves all lengths of an objective. Each length is a run with its own schedule.",
    ],
)


def capacities(options: Options) -> list[Run]:
    """Returns the runs of the start's first layers, before and after DeCLUTR on equal tokens."""
    return sweep(
        f"{TEACHING} {best_rate_overrides(options)['DeCLUTR']}",
        {
            "objective": {BEFORE: "budget.steps=0", "DeCLUTR": "budget.tokens=3.0e+5"},
            "layers": {label: f"encoder.layers={label}" for label in "1234"},
        },
    )


CAPACITY = replace(
    CURVES,
    id="suite/capacity",
    title="DeCLUTR by the number of layers",
    rows=capacities,
    ylabel="averaged downstream score, %",
    scores={"": "declutr_downstream"},
    draw=partial(curves, x="layers", xlabel="first layers of the bundled start, which are trained"),
    claims={
        "embedding quality scales with the number of trainable parameters (DeCLUTR, abstract, 5.3)": rising(
            "objective == 'DeCLUTR'", "layers", margin=0.5
        )
    },
    notes=[
        "All have the learning rate that was best with four layers, and equal numbers of tokens. The start itself "
        "depends on its layers: what DeCLUTR adds is the distance to it."
    ],
)


def objectives(options: Options) -> list[Run]:
    """Returns the runs of equal tokens, raw and whitened, and the start."""
    trained = sweep(f"{TEACHING} budget.tokens=3.0e+5", {"row": best_rate_overrides(options)})
    whitened = [
        replace(run, labels={"row": f"{run.labels['row']}, whitened"}, evaluation=("postprocess=whiten",))
        for run in trained
    ]
    return [Run({"row": BEFORE}, model=START), *trained, *whitened]


TABLE = Reproduction(
    "suite/objectives",
    "Objectives from one start, equal tokens",
    objectives,
    sizes=["teaching"],
    scores={"downstream": "declutr_downstream", "STS12-16 (all)": "sts_spearman_all"},
    paper="declutr",
    tasks=DOWNSTREAM,
    claims={
        "average downstream performance is above that of the start (DeCLUTR, 5.1)": above(
            "downstream", "DeCLUTR", BEFORE
        ),
        "MLM and contrastive together beat either alone (DeCLUTR) (5.3)": above(
            "downstream", "DeCLUTR", ("MLM only", "contrastive only")
        ),
        "models trained with NSP or SOP do not outperform one trained with neither (DeCLUTR, of CLS vectors; "
        "here by the mean) (appendix A)": above("downstream", ("NSP", "SOP"), "MLM only", check=at_most),
        "DeCLUTR is above QuickThoughts (of printed rows DeCLUTR-base is, DeCLUTR-small is not; table 2)": above(
            "downstream", "DeCLUTR", "QuickThoughts"
        ),
        "SimCSE is above DeCLUTR on semantic textual similarity (Gao et al. 2021; setting all, of five of "
        "their seven tasks; table 5 there)": above("STS12-16 (all)", "SimCSE", "DeCLUTR"),
        "TSDAE outperforms masked language modelling (Wang et al. 2021, abstract, on other tasks)": above(
            "downstream", "TSDAE", "MLM only"
        ),
    },
    notes=[
        SEARCH_NOTE,
        "No paper trains these in the same way: printed rows are of far larger models, each trained its own way.",
        "All rows are evaluated with mean pooling; SimCSE and TSDAE as published take [CLS], from which this "
        "start never learned. Tokens are those that an encoder reads, including positives and what a decoder is "
        "to write. Time and batches differ, and so do updates: MLM only, TSDAE, SimCSE and QuickThoughts have "
        "about two to three times those of the others. TSDAE decodes with GenSen's GRU where the encoder has no "
        "cross-attention, as the bundled one.",
        "QuickThoughts reads each sentence with two encoders (its tokens count twice, as those of SimCSE's two "
        "passes do) and is evaluated with both concatenated, twice as wide as the others; both start from the "
        "same checkpoint.",
        "DeCLUTR, MLM only and contrastive only are trained on documents of 4 * max_span tokens and more; TSDAE, "
        "SimCSE and QuickThoughts on single sentences of 3 to 64 words, each once.",
    ],
)


VIEWS = {
    "dropout": "dropout",
    "words deleted": "deletion",
    "tokens repeated": "repetition",
    "crops of a sentence": "crops",
    "sentences of a document": "sentences",
    "spans of a document": "spans",
}
LAYERS = "01234"  # of the start


def views(options: Options) -> list[Run]:
    """Returns the runs of equal tokens and the start, each evaluated by its first layers."""
    base = f"{TEACHING} objective=simcse encoder.dropout=0.1 optimizer.lr=1e-4 budget.tokens=3.0e+5"
    trained = sweep(base, {"views": {name: f"objective.views={view}" for name, view in VIEWS.items()}})
    return [
        replace(
            run,
            labels={**run.labels, "layers": count},
            evaluation=(f"layers={count}",) if count != LAYERS[-1] else (),
        )
        for run in (Run({"views": BEFORE}, model=START), *trained)
        for count in LAYERS
    ]


def last_layer_gains_most(scores: pd.DataFrame) -> Evidence:
    """gains over the start by spans of a document: those of the last layer above those of each other layer"""
    place = ["layers", "panel", "seed"]
    before = scores[scores["views"] == BEFORE].set_index(place)["score"]
    gains = scores["score"] - before.reindex(pd.MultiIndex.from_frame(scores[place])).to_numpy()
    trained, last = "views == 'spans of a document'", f"layers == '{LAYERS[-1]}'"
    check = greater(f"{trained} and {last}", f"{trained} and not {last}", each="layers")
    return check(scores.assign(score=gains).dropna())


def better(rows: Sequence[str], others: Sequence[str], panels: Sequence[str] = ("STS12-16",)) -> Check:
    """Claims that each of ``rows`` is above each of ``others`` with all layers, by the mean of ``panels``."""
    last = f"layers == '{LAYERS[-1]}' and panel in {[*panels]} and views in {{}}".format
    return greater(last(rows), last(others), each="views")


LAYER_VIEWS = Reproduction(
    "suite/views",
    "Views of a text in contrastive learning, by layer",
    views,
    sizes=["teaching"],
    draw=partial(plots.lines, x="layers", hue="views", xlabel="first layers that are evaluated"),
    ylabel="test score, %",
    scores={"STS12-16": "sts_spearman_mean", "TREC": "TREC.test"},
    tasks=["TREC", *STS],
    claims={
        "crops of a document outperform dropout (González-Márquez et al. 2026, 3.2, on MTEB)": better(
            ["sentences of a document", "spans of a document"], ["dropout"], ["STS12-16", "TREC"]
        ),
        "with crops, quality rises towards the last layers (5)": rising(
            "views == 'spans of a document'", "layers", margin=0.5
        ),
        "the last layers change most in training (5; here by their scores)": last_layer_gains_most,
        "training the last layers only is sufficient (5)": "all layers are trained here",
        "on other domains the vectors stay far below supervised models, on their own domain short training makes "
        "good ones (3.2, 3.3)": "no supervised model has this start, and no task the text of the training corpus",
        "dropout is above crops of a sentence and deleted words (Gao et al. 2021, table 1, on STS-B)": better(
            ["dropout"], ["words deleted", "crops of a sentence"]
        ),
        "repeated tokens improve on dropout (ESimCSE; Wu et al. 2022, on STS)": better(
            ["tokens repeated"], ["dropout"]
        ),
    },
    notes=[
        "All rows have SimCSE's loss, head, batch of 64 pairs, temperature 0.05, dropout 0.1 and learning rate "
        "(1e-4, not searched for each view), and at most 32 tokens a view before repetition; updates differ with "
        "the length of views. The paper crops two sentences of an abstract.",
    ],
)
