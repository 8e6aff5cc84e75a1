"""Comparisons of no paper: objectives from one start, at learning rates that were searched.

python experiments/reproduce.py figure=suite/learning_rates budget=teaching data=<SentEval folder>
python experiments/reproduce.py figure=suite/objectives budget=teaching data=<SentEval folder>
python experiments/reproduce.py figure=suite/compute budget=teaching data=<SentEval folder>
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from analysis import plots
from analysis.claims import Check, Claim, at_most, greater
from analysis.papers.base import Options, Reproduction, Run, sweep
from analysis.papers.declutr import DOWNSTREAM, START, STARTS

NAMES = {
    "MLM only": "mlm_only",
    "contrastive only": "contrastive_only",
    "DeCLUTR": "declutr",
    "NSP": "nsp",
    "SOP": "sop",
    "TSDAE": "tsdae",
    "QuickThoughts": "quick_thoughts",
    "SimCSE": "simcse",
}
# SimCSE learns from dropout only. QuickThoughts has its own optimizer by default.
ALIKE = {"QuickThoughts": "optimizer=adamw schedule=slanted_triangular gradient_norm=1.0"}
# From the bundled start: as in +experiment=declutr/mini.
MASKING, TEMPERATURE = "objective.mlm_probability=0.3", "objective.temperature=0.02"
TUNED = ALIKE | {
    "MLM only": MASKING,
    "contrastive only": TEMPERATURE,
    "DeCLUTR": f"{MASKING} {TEMPERATURE}",
    "NSP": MASKING,
    "SOP": MASKING,
    "SimCSE": "encoder.dropout=0.1",
}
RATES = ["3e-5", "1e-4", "3e-4", "1e-3", "3e-3"]
# Three rates each, and a fourth where, from modernbert-mini, the best of three was at an end (but MLM only).
TRIED = {
    "MLM only": "3e-4 1e-3 3e-3",
    "contrastive only": "1e-4 3e-4 1e-3 3e-3",
    "DeCLUTR": "1e-4 3e-4 1e-3 3e-3",
    "NSP": "1e-4 3e-4 1e-3 3e-3",
    "SOP": "1e-4 3e-4 1e-3 3e-3",
    "TSDAE": "3e-5 1e-4 3e-4 1e-3",
    "QuickThoughts": "1e-4 3e-4 1e-3",
    "SimCSE": "3e-5 1e-4 3e-4",
}
# Of suite/learning_rates from modernbert-mini-2 at half a million tokens (docs/results/objectives.md).
BEST = {
    "MLM only": "3e-3",
    "contrastive only": "1e-4",
    "DeCLUTR": "1e-3",
    "NSP": "1e-4",
    "SOP": "3e-4",
    "TSDAE": "3e-5",
    "QuickThoughts": "1e-4",
    "SimCSE": "3e-5",
}
BEFORE = "the start"
TEACHING = (
    "encoder=bundled encoder.dropout=0.0 budget=teaching "
    "budget.min_span=32 budget.max_span=128 budget.min_tokens=512"
)


def train(name: str, settings: Mapping[str, str] = TUNED) -> str:
    """Returns the overrides of an objective with the optimizer of all, at teaching size."""
    return f"objective={NAMES[name]} {settings.get(name, '')}"


AT_BEST_RATE = {name: f"{train(name)} optimizer.lr={rate}" for name, rate in BEST.items()}
SEARCH_NOTE = "At teaching size the learning rates are those that were best on dev in suite/learning_rates."


def learning_rates(options: Options) -> list[Run]:
    """Returns the runs of the search, of one seed."""

    def rate(labels: Mapping[str, str]) -> str | None:
        lr = labels["lr"]
        return f"optimizer.lr={lr}" if lr in TRIED[labels["objective"]] else None

    axes = {"objective": {name: train(name) for name in NAMES}, "lr": dict.fromkeys(RATES, "")}
    return sweep(f"{TEACHING} budget.tokens=2.0e+5", axes, rate)


LEARNING_RATES = Reproduction(
    "suite/learning_rates",
    "Learning rate of each objective",
    learning_rates,
    sizes=["teaching"],
    seeds=[1],
    draw=partial(plots.lines, x="lr", hue="objective", xlabel="peak learning rate", objectives=NAMES),
    ylabel="mean dev score of CR, TREC, SICK-E, SICK-R and STS-B, %",
    scores={"": "declutr_downstream_dev"},
    tasks=("CR", "TREC", "SICKEntailment", "SICKRelatedness", "STSBenchmark"),
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
    draw=partial(
        plots.lines,
        x="compute",
        hue="objective",
        xlabel="training compute, as a share of budget.flops",
        objectives=NAMES,
    ),
    ylabel="averaged downstream score, %",
    scores={"": "declutr_downstream"},
    tasks=DOWNSTREAM,
    claims=[
        Claim(
            "MLM and contrastive together beat either alone (DeCLUTR; here at equal compute)",
            "5.3",
            greater(
                "compute == '1' and objective == 'DeCLUTR'",
                "compute == '1' and objective in ['MLM only', 'contrastive only']",
                each="objective",
            ),
        ),
    ],
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
        axis = {name: train(name, ALIKE) for name in NAMES}
    return [Run({"row": BEFORE}, model=start), *sweep(base, {"row": axis})]


def above(row: str, other: str, panel: str = "downstream") -> Check:
    """Claims that a row is above another one."""
    return greater(f"panel == '{panel}' and row == '{row}'", f"panel == '{panel}' and row == '{other}'")


TABLE = Reproduction(
    "suite/objectives",
    "Eight objectives from one start, equal tokens",
    objectives,
    seeds=[1, 2, 3],
    scores={"downstream": "declutr_downstream", "STS12-16 (all)": "sts_spearman_all"},
    paper="declutr",
    tasks=DOWNSTREAM,
    claims=[
        Claim(
            "average downstream performance is above that of the transformer that training begins with (DeCLUTR)",
            "5.1",
            above("DeCLUTR", BEFORE),
        ),
        Claim(
            "MLM and contrastive together beat either alone (DeCLUTR)",
            "5.3",
            above("DeCLUTR", "MLM only"),
            above("DeCLUTR", "contrastive only"),
        ),
        Claim(
            "models trained with NSP or SOP do not outperform one trained with neither (DeCLUTR, of CLS vectors; "
            "here by the mean)",
            "appendix A",
            at_most(
                "panel == 'downstream' and row in ['NSP', 'SOP']",
                "panel == 'downstream' and row == 'MLM only'",
                each="row",
            ),
        ),
        Claim(
            "DeCLUTR is above QuickThoughts (on the tasks that both print DeCLUTR-base is, DeCLUTR-small is not)",
            "table 2",
            above("DeCLUTR", "QuickThoughts"),
        ),
        Claim(
            "SimCSE is above DeCLUTR on semantic textual similarity (Gao et al. 2021; setting all, of five of "
            "their seven tasks)",
            "table 5 there",
            above("SimCSE", "DeCLUTR", "STS12-16 (all)"),
        ),
        Claim(
            "TSDAE outperforms masked language modelling (Wang et al. 2021, on tasks that are not these)",
            "abstract there",
            above("TSDAE", "MLM only"),
        ),
    ],
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

REPRODUCTIONS = (LEARNING_RATES, TABLE, COMPUTE)
