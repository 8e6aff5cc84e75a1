"""Comparisons of the suite's own, of no paper.

python experiments/reproduce.py figure=suite/objectives budget=teaching data=<SentEval folder>
python experiments/reproduce.py figure=suite/objectives budget=teaching budget.tokens=2e6  # seven times as long
"""

from __future__ import annotations

from analysis.figures.claims import above, at_most
from analysis.figures.declutr import DOWNSTREAM
from analysis.figures.declutr_tables import UNTRAINED
from analysis.figures.exhibits import Grid, Table, Value
from analysis.figures.verdicts import Claim

# All take one optimiser, schedule and clipping, and the learning rate that suits DeCLUTR from this start
# (+experiment=declutr/mini). The start: one step at a learning rate that moves nothing.
ROWS = (
    Value("the start", ["objective=mlm_only", *UNTRAINED], share=0),
    Value("MLM only", ["objective=mlm_only"]),
    Value("NSP", ["objective=nsp"]),
    Value("SOP", ["objective=sop"]),
    Value("TSDAE", ["objective=tsdae"]),
    Value(
        "QuickThoughts",
        ["objective=quick_thoughts", "optimizer=adamw", "schedule=slanted_triangular", "gradient_norm=1.0"],
    ),
    Value("SimCSE", ["objective=simcse"]),
    Value("DeCLUTR", ["objective=declutr"]),
)

OBJECTIVES = Table(
    id="suite/objectives",
    title="Seven objectives from one start, equal tokens",
    printed_paper="declutr",
    base=["encoder=bundled"],
    teaching=Grid(
        {"row": ROWS},
        seeds=[1, 2, 3],
        base=["budget.tokens=3.0e+5", "budget.min_span=32", "budget.max_span=128", "budget.min_tokens=512"],
        flops=7.5e12,  # what so many tokens take of the seven on average
        evaluation=120,
    ),
    paper=Grid(
        {"row": ROWS},
        seeds=[1, 2, 3],
        base=[
            "encoder=distilroberta-base", "weights=pretrained", "corpus=openwebtext", "precision=bf16",
            "budget.tokens=5.0e+8",
        ],
        flops=5.0e17,
        evaluation=7200,
    ),
    tasks=DOWNSTREAM,
    scores={"downstream": "declutr_downstream", "STS12-16 (all)": "sts_spearman_all"},
    claims=[
        Claim(
            "above_start",
            "average downstream performance is above that of the transformer that training begins with (DeCLUTR)",
            "5.1",
            above("downstream", "DeCLUTR", "the start"),
        ),
        Claim(
            "contrastive_helps",
            "masked language modelling with the contrastive loss improves performance over masked language "
            "modelling alone (DeCLUTR)",
            "5.3",
            above("downstream", "DeCLUTR", "MLM only"),
        ),
        Claim(
            "sentence_losses_no_better",
            "models trained with NSP or SOP do not outperform one trained with neither (DeCLUTR, of CLS vectors; "
            "here by the mean)",
            "appendix A",
            lambda scores: at_most(
                scores(panel="downstream", group=["NSP", "SOP"]),
                scores(panel="downstream", group="MLM only"),
                each="group",
            ),
        ),
        Claim(
            "quick_thoughts",
            "DeCLUTR is above QuickThoughts (on the tasks that both print DeCLUTR-base is, DeCLUTR-small is not)",
            "table 2",
            above("downstream", "DeCLUTR", "QuickThoughts"),
        ),
        Claim(
            "simcse_on_sts",
            "SimCSE is above DeCLUTR on semantic textual similarity (Gao et al. 2021; setting all, of five of "
            "their seven tasks)",
            "table 5 there",
            above("STS12-16 (all)", "SimCSE", "DeCLUTR"),
        ),
        Claim(
            "tsdae_above_mlm",
            "TSDAE outperforms masked language modelling (Wang et al. 2021, on tasks that are not these)",
            "abstract there",
            above("downstream", "TSDAE", "MLM only"),
        ),
    ],
    departures=[
        "No paper trains these seven in the same way: printed rows are of far larger models, each trained its "
        "own way.",
        "All rows are evaluated with mean pooling. Tokens are those that an encoder reads, including positives "
        "and what a decoder is to write. Time and batches differ, and so do updates: MLM only, TSDAE, SimCSE and "
        "QuickThoughts have about two to three times those of NSP, SOP and DeCLUTR.",
        "QuickThoughts reads each sentence with two encoders (its tokens count twice, as those of SimCSE's two "
        "passes do) and is evaluated with both concatenated, twice as wide as the others; both start from the "
        "same checkpoint.",
        "SimCSE and TSDAE as published take [CLS], which from a start that never learned from [CLS] would not be "
        "equal terms.",
        "The rows DeCLUTR and MLM only are trained on documents of 4 * max_span tokens and more; TSDAE, SimCSE "
        "and QuickThoughts on single sentences of 3 to 64 words, each once.",
    ],
)  # fmt: skip

EXHIBITS = (OBJECTIVES,)
