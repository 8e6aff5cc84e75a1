"""Comparisons of no paper: objectives from one start, at learning rates that were searched.

python experiments/reproduce.py figure=suite/learning_rates budget=teaching data=<SentEval folder>
python experiments/reproduce.py figure=suite/objectives budget=teaching data=<SentEval folder>
python experiments/reproduce.py figure=suite/compute budget=teaching data=<SentEval folder>
"""

from __future__ import annotations

from functools import partial

from analysis import plots
from analysis.claims import above, at_most, greater
from analysis.papers.base import Options, Reproduction, Run, sweep
from analysis.papers.declutr import DEV_TASKS, DOWNSTREAM, START, STARTS

ALIKE = "optimizer=adamw schedule=slanted_triangular gradient_norm=1.0"  # QuickThoughts has its own by default
MASKING, TEMPERATURE = "objective.mlm_probability=0.3", "objective.temperature=0.02"
# Overrides; those for the bundled start, as in +experiment=declutr/mini (SimCSE learns from dropout only); the
# learning rates that are tried: three, and a fourth where, from modernbert-mini, the best of three was at an end
# (but MLM only); the best of them from modernbert-mini-2 at half a million tokens (docs/results/objectives.md).
OBJECTIVES = {
    "MLM only": ("objective=mlm_only", MASKING, "3e-4 1e-3 3e-3", "3e-3"),
    "contrastive only": ("objective=contrastive_only", TEMPERATURE, "1e-4 3e-4 1e-3 3e-3", "1e-4"),
    "DeCLUTR": ("objective=declutr", f"{MASKING} {TEMPERATURE}", "1e-4 3e-4 1e-3 3e-3", "1e-3"),
    "NSP": ("objective=nsp", MASKING, "1e-4 3e-4 1e-3 3e-3", "1e-4"),
    "SOP": ("objective=sop", MASKING, "1e-4 3e-4 1e-3 3e-3", "3e-4"),
    "TSDAE": ("objective=tsdae", "", "3e-5 1e-4 3e-4 1e-3", "3e-5"),
    "QuickThoughts": (f"objective=quick_thoughts {ALIKE}", "", "1e-4 3e-4 1e-3", "1e-4"),
    "SimCSE": ("objective=simcse", "encoder.dropout=0.1", "3e-5 1e-4 3e-4", "3e-5"),
}
COLOURS = {"MLM only": "mlm_only", "contrastive only": "contrastive_only", "QuickThoughts": "quick_thoughts"}
AT_BEST_RATE = {
    name: f"{objective} {tuned} optimizer.lr={best}" for name, (objective, tuned, _, best) in OBJECTIVES.items()
}
BEFORE = "the start"
TEACHING = (
    "encoder=bundled encoder.dropout=0.0 budget=teaching "
    "budget.min_span=32 budget.max_span=128 budget.min_tokens=512"
)
SEARCH_NOTE = "At teaching size the learning rates are those that were best on dev in suite/learning_rates."


def learning_rates(options: Options) -> list[Run]:
    """Returns the runs of the search, of one seed."""
    runs = []
    for name, (objective, tuned, rates, _) in OBJECTIVES.items():
        lr = {rate: f"optimizer.lr={rate}" for rate in rates.split()}
        runs += sweep(f"{TEACHING} budget.tokens=2.0e+5", {"objective": {name: f"{objective} {tuned}"}, "lr": lr})
    return runs


curves = partial(plots.lines, hue="objective", objectives=COLOURS)
LEARNING_RATES = Reproduction(
    "suite/learning_rates",
    "Learning rate of each objective",
    learning_rates,
    sizes=["teaching"],
    seeds=[1],
    draw=partial(curves, x="lr", xlabel="peak learning rate"),
    ylabel="mean dev score of CR, TREC, SICK-E, SICK-R and STS-B, %",
    scores={"": "declutr_downstream_dev"},
    tasks=DEV_TASKS[:5],
    notes=["The five tasks were chosen for speed. Each objective is tried at three or four rates."],
)


def shares_of_compute(options: Options) -> list[Run]:
    """Returns the runs of two budgets of compute, and the start."""
    shares = {"1/4": options.compute(3e12, 0.25), "1": options.compute(3e12)}
    runs = sweep(TEACHING, {"objective": AT_BEST_RATE, "compute": shares})
    return [*runs, Run({"objective": BEFORE, "compute": ""}, model=START)]


COMPUTE = Reproduction(
    "suite/compute",
    "Objectives from one start, by training compute",
    shares_of_compute,
    sizes=["teaching"],
    draw=partial(curves, x="compute", xlabel="training compute, as a share of budget.flops"),
    ylabel="averaged downstream score, %",
    scores={"": "declutr_downstream"},
    tasks=DOWNSTREAM,
    claims={
        "MLM and contrastive together beat either alone (DeCLUTR; here at equal compute) (5.3)": greater(
            "compute == '1' and objective == 'DeCLUTR'",
            "compute == '1' and objective in ['MLM only', 'contrastive only']",
            each="objective",
        )
    },
    notes=[
        SEARCH_NOTE,
        "No paper compares objectives at equal compute, which here is the operations of all updates, decoders and "
        "heads included.",
    ],
)


def objectives(options: Options) -> list[Run]:
    """Returns the runs of equal tokens, and the start; at the paper's size, objectives are not tuned."""
    base, start, axis = f"{TEACHING} budget.tokens=3.0e+5", START, AT_BEST_RATE
    if not options.teaching:
        start = STARTS["-small"]
        base = (
            f"encoder={start} weights=pretrained corpus=openwebtext precision=bf16 budget=paper "
            "budget.tokens=5.0e+8 budget.epochs=1"
        )
        axis = {name: objective for name, (objective, *_) in OBJECTIVES.items()}
    return [Run({"row": BEFORE}, model=start), *sweep(base, {"row": axis})]


TABLE = Reproduction(
    "suite/objectives",
    "Eight objectives from one start, equal tokens",
    objectives,
    seeds=[1, 2, 3],
    scores={"downstream": "declutr_downstream", "STS12-16 (all)": "sts_spearman_all"},
    paper="declutr",
    tasks=DOWNSTREAM,
    claims={
        "average downstream performance is above that of the start (DeCLUTR, 5.1)": above(
            "downstream", "DeCLUTR", BEFORE
        ),
        "MLM and contrastive together beat either alone (DeCLUTR) (5.3)": [
            above("downstream", "DeCLUTR", "MLM only"),
            above("downstream", "DeCLUTR", "contrastive only"),
        ],
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
        "No paper trains these eight in the same way: printed rows are of far larger models, each trained its own "
        "way.",
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
