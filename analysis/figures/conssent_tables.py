"""Tables of ConsSent (Brahma 2018, arXiv:1808.04217).

python experiments/reproduce.py figure=conssent/table2 budget=teaching vectors=<file of word vectors>
python experiments/reproduce.py figure=conssent/table2 nli='{path: [<SNLI train>], dev_path: <SNLI dev>}'
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from analysis.figures import examples
from analysis.figures.claims import Check, about_equal, above, all_of, at_most, greater
from analysis.figures.conssent import ADAM_DEPARTURE, MULTITASK_DEPARTURE, NO_ENSEMBLE, PAPER, TASKS
from analysis.figures.declutr_tables import PROBING, QUICK_PROBING
from analysis.figures.exhibits import NLI, VECTORS, Ensemble, Grid, Table, Value
from analysis.figures.verdicts import Claim, Evidence

TABLE_1 = Table(
    id="conssent/table1",
    title="ConsSent, table 1: training sequences",
    printed_paper="conssent",
    examples=examples.sequences,
    base=["objective=conssent", "encoder=bilstm_max"],
)

# Tables 2 and 3. Untrained: the encoder as initialised, after one step at a learning rate that moves nothing. How
# LangMod is trained is the suite's choice at both sizes, as in experiment/conssent/langmod.yaml.
UNTRAINED = ("schedule=constant", "budget.steps=1", "optimizer.lr=1.0e-12")
NARROW = ("encoder.vocab_size=30000", "encoder.hidden=256", "encoder.word_size=100")
ADAM = ("optimizer=adam", "schedule=constant", "optimizer.lr=2.0e-3")
SINGLE_ROWS = ("ConsSent-D(5)", "ConsSent-P(3)", "ConsSent-I(3)", "ConsSent-R(2)")
PAIR_ROWS = ("ConsSent-C(4)", "ConsSent-N(3)")
TASK_ROWS = (*PAIR_ROWS, *SINGLE_ROWS)
CONSSENT_ROWS = (*TASK_ROWS, "ConsSent-MT(3)")
TRANSFER = (  # of GenSen, too
    "MR", "CR", "SUBJ", "MPQA", "SST2", "TREC", "MRPC", "SICKEntailment", "SICKRelatedness", "STSBenchmark",
)  # fmt: skip
# Of InferSent, as in experiment/infersent/allnli.yaml.
BEST_EPOCH = (
    "checkpoint.metric=dev_nli_accuracy", "checkpoint.mode=max", "checkpoint.export=best", "dev_batches=154",
)  # fmt: skip
BY_SIZE = {"model": {"small": [*NARROW, *ADAM]}}

ROWS = (
    Value(
        "LangMod",
        ["objective=language_model", "encoder=lstm"],
        by={
            "model": {
                "small": ["encoder.vocab_size=30000", "encoder.hidden=512"],
                "paper": ["encoder.hidden=4096", "encoder.word_size=512"],
            }
        },
        most_epochs=1,
    ),
    Value(
        "Untrained LSTM",
        ["objective=conssent", "encoder=bilstm_max", *UNTRAINED],
        by={"model": {"small": NARROW}},
        share=0,
    ),
    Value(
        "FastText BoW",
        ["objective=conssent", "encoder=bag_of_words", f"encoder.vectors={VECTORS}", *UNTRAINED],
        share=0,
        other_encoder=True,
    ),
    *(
        Value(
            row,
            ["objective=conssent", f"objective.task={row[9]}", f"objective.k={row[11]}", "encoder=bilstm_max"],
            by=BY_SIZE,
        )
        for row in TASK_ROWS
    ),
    Value(
        "ConsSent-MT(3)",
        ["objective=conssent_mt", "objective.k=3", "encoder=bilstm_max"],
        by={
            "model": {
                "small": ["encoder.vocab_size=30000", "encoder.hidden=128", "encoder.word_size=100", *ADAM],
                "paper": ["encoder.hidden=1024"],
            }
        },
    ),
    Value(
        "InferSent",
        ["objective=nli", f"objective.nli={NLI}", "encoder=bilstm_max"],
        by={"model": {"small": [*NARROW, *ADAM], "paper": BEST_EPOCH}},
    ),
)
TABLE_ROWS = dict[str, Any](
    teaching=Grid(
        {"row": ROWS, "model": [Value("small")]},
        seeds=[1, 2, 3],
        base=["dev_batches=40"],
        flops=4.8e12,
        evaluation=120,
    ),
    paper=Grid({"row": ROWS, "model": [Value("paper")]}, **PAPER),
    protocol="conssent",
    ensemble=Ensemble("Ensemble", "row", TASKS),
)
DEPARTURES = (
    "At teaching size runs are of equal compute, not of equal text: MT(3)'s narrower encoders read more of "
    "it, LangMod, which scores 30,000 words, far less.",
    ADAM_DEPARTURE,
    MULTITASK_DEPARTURE,
    "The ensemble's members are of the k that the paper found best; conssent/fig3 chooses them by their dev "
    "scores, as the paper does.",
    "InferSent learns from nli=, its words included, and reads nothing of the corpus; its word vectors, "
    "initialised at random, are trained, and those of the untrained LSTM are random (published: fixed GloVe). At "
    "teaching size InferSent's last step is evaluated, not its best epoch.",
    NO_ENSEMBLE,
)


def above_each(panel: str, row: str, others: Sequence[str]) -> Check:
    """Claims that ``row`` is above each of ``others``, which must all have scores."""
    return lambda scores: greater(
        scores(panel=panel, group=row), *(scores(panel=panel, group=other) for other in others)
    )


def d_and_p(compare: Callable[..., Evidence], panel: str, others: Sequence[str]) -> Check:
    """Claims that both ConsSent-D and ConsSent-P compare so with each of ``others``."""
    return lambda scores: all_of(
        *(
            compare(scores(panel=panel, group=row), scores(panel=panel, group=others), each="group")
            for row in ("ConsSent-D(5)", "ConsSent-P(3)")
        )
    )


QUICK_TRANSFER = ("CR", "TREC", "MRPC", "SICKEntailment", "SICKRelatedness", "STSBenchmark")
TABLE_2 = Table(
    id="conssent/table2",
    title="ConsSent, table 2: transfer tasks",
    printed_paper="conssent",
    columns=TRANSFER,
    tasks=QUICK_TRANSFER,
    **TABLE_ROWS,
    scores={"transfer": "conssent_transfer", "STS-B": "STSBenchmark.pearson"},
    claims=[
        Claim(
            "n3_best_single_task",
            "ConsSent-N(3) performs the best on an average of any single task",
            "5",
            above_each("transfer", "ConsSent-N(3)", ("ConsSent-C(4)", *SINGLE_ROWS)),
        ),
        Claim(
            "mt3_similar",
            "ConsSent-MT(3) achieves an average similar to that of ConsSent-N(3)",
            "5",
            lambda scores: about_equal(
                scores(panel="transfer", group="ConsSent-MT(3)"),
                scores(panel="transfer", group="ConsSent-N(3)"),
                margin=0.5,
            ),
        ),
        Claim(
            "r2_best_of_sequences",
            "of the methods that classify single sequences ConsSent-R(2) performs the best",
            "5",
            above_each("transfer", "ConsSent-R(2)", SINGLE_ROWS[:3]),
        ),
        Claim(
            "r2_above_c",
            "and second only to ConsSent-N(3)",
            "5",
            above("transfer", "ConsSent-R(2)", "ConsSent-C(4)"),
        ),
        Claim(
            "n_above_c",
            "ConsSent-N is above ConsSent-C on average, as printed",
            "table 2",
            above("transfer", "ConsSent-N(3)", "ConsSent-C(4)"),
        ),
        Claim(
            "d_p_worst",
            "ConsSent-D and ConsSent-P perform the worst",
            "5",
            d_and_p(at_most, "transfer", (*PAIR_ROWS, *SINGLE_ROWS[2:])),
        ),
        Claim(
            "pairs_lead_stsb",
            "on STS-B the tasks of pairs (C, N) are above those of single sequences, as printed",
            "table 2",
            above("STS-B", PAIR_ROWS, SINGLE_ROWS),
        ),
        Claim(
            "langmod_worse",
            "the language model is generally much worse than any of the models",
            "5",
            above("transfer", CONSSENT_ROWS, "LangMod", each="group"),
        ),
        Claim(
            "above_untrained",
            "every model is above the untrained LSTM on average, as printed",
            "table 2",
            above("transfer", CONSSENT_ROWS, "Untrained LSTM", each="group"),
        ),
        Claim(
            "ensemble_best",
            "the ensemble improves on the best single model, by almost 1.6 on average",
            "5",
            above("transfer", "Ensemble", CONSSENT_ROWS, each="group"),
        ),
    ],
    departures=[
        "SkipThought-LN and MultiTask are shown as printed only; gensen/table2 trains such encoders.",
        "QuickThoughts is shown as printed only; objective=quick_thoughts trains it.",
        *DEPARTURES,
    ],
)

ALL_20 = "all 20 tasks"
TABLE_3 = Table(
    id="conssent/table3",
    title="ConsSent, table 3: probing tasks",
    printed_paper="conssent",
    columns=PROBING,
    tasks=[*QUICK_TRANSFER, *QUICK_PROBING],  # "all 20": of both kinds
    **TABLE_ROWS,
    scores={"probing": "probing", ALL_20: "conssent_all"},
    claims=[
        Claim(
            "single_beat_pairs_probing",
            "encoders of single sequences (D, P, I, R) are in general better than those of pairs (C, N)",
            "6",
            above("probing", SINGLE_ROWS, PAIR_ROWS),
        ),
        Claim(
            "d_p_best",
            "ConsSent-D(5) and ConsSent-P(3) are the best, ConsSent-MT(3) is slightly worse",
            "6",
            d_and_p(greater, "probing", (*PAIR_ROWS, *SINGLE_ROWS[2:], "ConsSent-MT(3)")),
        ),
        Claim(
            "langmod_poor",
            "the language model performs poorly (below all of the models, as printed)",
            "6",
            above("probing", CONSSENT_ROWS, "LangMod", each="group"),
        ),
        Claim(
            "above_untrained",
            "every model is above the untrained LSTM on average, as printed",
            "table 3",
            above("probing", CONSSENT_ROWS, "Untrained LSTM", each="group"),
        ),
        Claim(
            "above_inference",
            "ConsSent-MT(3) is significantly better than an encoder of inference (InferSent)",
            "6",
            above("probing", "ConsSent-MT(3)", "InferSent"),
        ),
        Claim(
            "ensemble_best_probing",
            "the ensemble is best, by 2.8 above the best single model",
            "6",
            above("probing", "Ensemble", CONSSENT_ROWS, each="group"),
        ),
        Claim(
            "sequences_lead_overall",
            "over all 20 tasks encoders of single sequences are better than those of pairs",
            "7",
            above(ALL_20, SINGLE_ROWS, PAIR_ROWS),
        ),
        Claim(
            "mt3_best_encoder",
            "over all 20 tasks ConsSent-MT(3) is the best single encoder",
            "7",
            above(ALL_20, "ConsSent-MT(3)", TASK_ROWS, each="group"),
        ),
        Claim(
            "ensemble_best",
            "over all 20 tasks the ensemble is best, by 2.8 above the best model of a single task",
            "7",
            above(ALL_20, "Ensemble", CONSSENT_ROWS, each="group"),
        ),
    ],
    departures=[
        "AutoEncoder, SkipThought, QuickThoughts, Seq2Tree and NMT are shown as printed only.",
        *DEPARTURES,
    ],
)

EXHIBITS = (TABLE_1, TABLE_2, TABLE_3)
