"""Figures and tables of ConsSent (Brahma 2018, arXiv:1808.04217).

python experiments/reproduce.py figure=conssent/fig1 budget=teaching data=<SentEval folder>
python experiments/reproduce.py figure=conssent/table2 vectors=<word vectors> nli='{path: [<SNLI train>]}'

At teaching size encoders are narrow and trained with Adam, as in experiment/conssent/small.yaml. The label k is k
of D, I and R, and k - 1 of the other tasks, as on the paper's axes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import pandas as pd

from analysis import plots
from analysis.claims import about_equal, above, at_most, best, greater, peak_inside
from analysis.papers.base import Options, Reproduction, Run, sweep
from analysis.papers.declutr import QUICK_PROBING, word_vectors
from analysis.senteval.averages import AVERAGES, PROBING
from analysis.senteval.records import flat_scores

PAIRS = ("ConsSent-C", "ConsSent-N")  # tasks of pairs; the others classify single sequences
SINGLE = ("ConsSent-D", "ConsSent-P", "ConsSent-I", "ConsSent-R")
TASKS = (*PAIRS, *SINGLE)
MULTITASK = "ConsSent-MT"
KS = (*"12345",)
SINGLE_ROWS = ("ConsSent-D(5)", "ConsSent-P(3)", "ConsSent-I(3)", "ConsSent-R(2)")
PAIR_ROWS = ("ConsSent-C(4)", "ConsSent-N(3)")
TASK_ROWS = (*PAIR_ROWS, *SINGLE_ROWS)
CONSSENT_ROWS = (*TASK_ROWS, "ConsSent-MT(3)")
OTHERS = (*PAIR_ROWS, *SINGLE_ROWS[2:])  # than D and P
ENSEMBLE, BEST_SIX = "Ensemble", "Ensemble of the best six"
SMALL = "encoder.vocab_size=30000 encoder.word_size=100"
ADAM = "optimizer=adam schedule=constant optimizer.lr=2.0e-3"
# Of InferSent, as in experiment/infersent/allnli.yaml.
BEST_EPOCH = "checkpoint.metric=dev_nli_accuracy checkpoint.mode=max checkpoint.export=best dev_batches=154"
NOTES = (
    "At teaching size Adam trains at a constant rate; published is SGD at 0.1, annealed.",
    "At the paper's size MT(3) trains for at most 20 epochs of its own: 15 passes over the text for each of D, P, "
    "I and R, and 30 for each of N and C, as the paper does not say how it counts them.",
    "Without data=<SentEval folder> there is no ensemble: it needs predictions on its tasks.",
)
BASELINE_NOTE = (
    "SkipThought (a GRU without layer normalisation) and QuickThoughts learn from the run's corpus, at teaching "
    "size only: its sentences must be in order, and those of the paper's corpus are not. At the paper's size "
    "claims compare with the printed rows."
)


def common(options: Options, flops: float) -> str:
    """Returns the overrides of all runs; at the paper's size of at most 20 epochs, as the schedule ends them."""
    compute = options.compute(flops)
    if options.teaching:
        return f"budget=teaching dev_batches=40 {compute}"
    return f"+experiment=conssent/table2 budget=paper {compute}"


def train(task: str, options: Options) -> str:
    """Returns the overrides of a training task; MT's encoder joins two of half the width."""
    multitask = task == MULTITASK
    objective = "objective=conssent_mt" if multitask else f"objective=conssent objective.task={task[-1]}"
    width = "encoder.hidden=1024" * multitask
    if options.teaching:
        width = f"encoder.hidden={128 if multitask else 256} {SMALL} {ADAM}"
    return f"{objective} encoder=bilstm_max {width}"


def by_k(tasks: Sequence[str], teaching_ks: Sequence[str], options: Options) -> list[Run]:
    """Returns the runs of a figure."""
    ks = dict.fromkeys(teaching_ks if options.teaching else KS, "")
    axes = {"task": {task: train(task, options) for task in tasks}, "k": ks}
    return sweep(
        common(options, 2.4e12), axes, lambda labels: f"objective.k={int(labels['k']) + shift(labels['task'])}"
    )


def shift(task: str) -> int:
    """Returns the difference of k to its label."""
    return int(task[-1] not in "DIR")


def place(row: str) -> dict[str, str]:
    """Returns the labels of a printed row ("ConsSent-C(4)", "Ensemble") in a figure."""
    task, _, k = row.rstrip(")").partition("(")
    return {"task": task, "k": k and str(int(k) - shift(task))}


def add_ensembles(axis: str, frame: pd.DataFrame, options: Options) -> pd.DataFrame:
    """Adds the ensemble of each task's best encoder by mean dev score, for each seed (section 5).

    Where there are more encoders than tasks, a second ensemble joins the best of all, as many.
    """
    members = frame[frame[axis].str.startswith(TASKS)]
    dev = members.filter(regex=r"^\w+\.dev$").dropna(axis=1)
    if dev.empty:
        return frame
    from analysis.ensemble import ensemble  # late: it imports torch

    ranked = members.loc[dev.mean(axis=1).sort_values(ascending=False, kind="stable").index]
    tasks, rows = [column.removesuffix(".dev") for column in dev], [frame]
    for seed, group in ranked.groupby("seed"):
        best = group.drop_duplicates(axis).sort_values(axis)
        if len(best) == len(TASKS):
            ensembles = {BEST_SIX: group[: len(TASKS)], ENSEMBLE: best}
            for name in [*ensembles] if len(group) > len(TASKS) else [ENSEMBLE]:
                scores = flat_scores(ensemble([*ensembles[name]["results"]], tasks).tasks)
                rows.append(pd.DataFrame([{axis: name, "k": "", "run": "", "seed": seed, **scores}]))
    return pd.concat(rows, ignore_index=True)


curves = partial(plots.lines, x="k", hue="task", linear=True)
INVERTED = f"panel in ('TREC', 'MRPC') and task in {SINGLE}"
# The paper does not state the split: test, as in the tables that the printed values are from.
FIGURE_1 = Reproduction(
    "conssent/fig1",
    "ConsSent, figure 1: TREC, MRPC and STS-B by k",
    partial(by_k, TASKS, ("1", "2", "5")),
    draw=partial(curves, xlabel="k (D, I, R) or k - 1 (C, N, P)"),
    ylabel="accuracy, or Pearson x 100, on test, %",
    scores={"TREC": "TREC.test", "MRPC": "MRPC.accuracy", "STS-B": "STSBenchmark.pearson"},
    paper="conssent",
    printed={row: place(row) for row in TASK_ROWS},
    tasks=["TREC", "MRPC", "STSBenchmark"],
    protocol="conssent",
    # The last: that scores drop towards both ends is checked, as it follows on the inverted V of these two tasks.
    claims={
        "TREC and MRPC: roughly an inverted V for D, P, I, R, an intermediate k being best (5)": peak_inside(
            INVERTED, "k"
        ),
        "TREC: the trend for C and N is less clear (5)": "no shape is stated that could be checked",
        "MRPC: C and N are closer to an inverted V (5)": peak_inside(f"panel == 'MRPC' and task in {PAIRS}", "k"),
        "STSB: no clear pattern in k (5)": "no shape is stated that could be checked",
        "small k: negatives close to positives, noisier training; large k: superficial cues (5)": [
            greater(f"{INVERTED} and k in {KS[1:4]}", f"{INVERTED} and k == '{end}'") for end in "15"
        ],
    },
    notes=NOTES[:1],
)
FIGURE_2 = replace(
    FIGURE_1,
    id="conssent/fig2",
    title="ConsSent, figure 2: three probing tasks by k",
    ylabel="accuracy on test, %",
    scores={"WC": "WordContent.test", "BShift": "BigramShift.test", "SubjNum": "SubjNumber.test"},
    quick={"WC": "probe_word_content", "BShift": "probe_bigram_shift"},
    tasks=["WordContent", "BigramShift", "SubjNumber"],
    claims={
        "on the probing tasks encoders of single sequences (D, P, I, R) are in general better than those of "
        "pairs (C, N) (6)": greater(f"task in {SINGLE}", f"task in {PAIRS}")
    },
)
# The paper has bars by increasing k. Printed values: the means of tables 2 and 3.
FIGURE_3 = Reproduction(
    "conssent/fig3",
    "ConsSent, figure 3: mean over 20 tasks",
    partial(by_k, (*TASKS, MULTITASK), ("2", "5")),
    extend=partial(add_ensembles, "task"),
    draw=partial(curves, xlabel="k (D, I, R) or k - 1 (C, N, P, MT); levels: ensembles"),
    ylabel="mean score on test, %",
    scores={"": "conssent_all"},
    paper="conssent",
    printed={row: place(row) for row in (*CONSSENT_ROWS, ENSEMBLE)},
    tasks=["CR", "TREC", "SICKEntailment", "WordContent", "BigramShift", "SubjNumber"],
    protocol="conssent",
    claims={
        "ConsSent-R(2) is the best single-task model, 81.9 (7, caption)": best(
            "task == 'ConsSent-R' and k == '2'", f"task in {TASKS}", "task k"
        ),
        "ConsSent-MT(3) is the best single encoder, 82.4 (7)": best(
            f"task == '{MULTITASK}' and k == '2'", f"task in {(*TASKS, MULTITASK)}", "task k"
        ),
        "the ensemble reaches 84.7, +2.8 over the best single-task model (checked: it is above) (7)": greater(
            f"task == '{ENSEMBLE}'", f"task in {TASKS}", "task k"
        ),
        "D, P, I, R are better overall than C, N (7)": greater(f"task in {SINGLE}", f"task in {PAIRS}"),
        "R encoders tend to be slightly better than D, P, I (7)": greater(
            "task == 'ConsSent-R'", f"task in {SINGLE[:3]}", "task"
        ),
        "the best six of thirty encoders are slightly worse together than the best of each task (on transfer "
        "tasks; checked: on all) (5)": greater(f"task == '{ENSEMBLE}'", f"task == '{BEST_SIX}'"),
    },
    notes=[*NOTES, "Section 7 also compares with other methods: conssent/table3 does."],
)


TABLE_1 = Reproduction(
    "conssent/table1",
    "ConsSent, table 1: training sequences",
    examples=[f"objective=conssent objective.task={task[-1]} encoder=bilstm_max" for task in TASKS],
    notes=["Nothing is claimed of these examples; tests compare them with the definitions of section 3."],
)


def table_rows(options: Options) -> list[Run]:
    """Returns the rows of tables 2 and 3; LangMod is trained as in experiment/conssent/langmod.yaml."""
    narrow = f"encoder.hidden=256 {SMALL}" if options.teaching else ""
    once = "" if options.flops else "budget.epochs=1"
    rows = {
        "LangMod": f"objective=language_model encoder=lstm encoder.hidden=4096 encoder.word_size=512 {once}",
        "Untrained LSTM": f"objective=conssent encoder=bilstm_max {narrow} budget.steps=0",
    }
    if options.teaching:
        rows |= {
            "LangMod": "objective=language_model encoder=lstm encoder.hidden=512 encoder.vocab_size=30000",
            "SkipThought": "objective=gensen objective.tasks=[stn,stp] objective.vocab_size=3000 encoder=gru "
            f"{narrow}",
            "QuickThoughts": f"objective=quick_thoughts encoder=gru {narrow} encoder.hidden=128",
        }
    for name in CONSSENT_ROWS:
        task, k = name[:-1].split("(")
        rows[name] = f"{train(task, options)} objective.k={k}"
    if options.teaching or options.nli:  # generated pairs stand in at teaching size
        nli = f"objective.nli={options.nli}" if options.nli else ""
        rows["InferSent"] = f"objective=nli encoder=bilstm_max {nli} {narrow}"
        rows["InferSent"] += f" {ADAM if options.teaching else BEST_EPOCH}"
    return [*word_vectors(options, "FastText BoW"), *sweep(common(options, 4.8e12), {"row": rows})]


TRANSFER = AVERAGES["conssent_transfer"].tasks  # of GenSen, too
TRANSFER_SCORES = {task: f"{task}.{metric}" for task, metric in AVERAGES["conssent_transfer"].groups[0].items()}
QUICK_TRANSFER = ("CR", "TREC", "MRPC", "SICKEntailment", "SICKRelatedness", "STSBenchmark")
LITERATURE = "SkipThought-LN SkipThought QuickThoughts AutoEncoder BoV-fastText NMTEn-Fr"
TABLE_NOTES = (
    "At teaching size runs are of equal compute, not of equal text: MT(3)'s narrower encoders read more of it, "
    "LangMod, which scores 30,000 words, far less.",
    *NOTES,
    BASELINE_NOTE,
    "The ensemble's members are of the k that the paper found best; conssent/fig3 chooses them by their dev "
    "scores, as the paper does.",
    "InferSent learns from nli=, its words included, and reads nothing of the corpus; its word vectors, "
    "initialised at random, are trained, and those of the untrained LSTM are random (published: fixed GloVe). At "
    "teaching size InferSent's last step is evaluated, not its best epoch.",
)
TABLE_2 = Reproduction(
    "conssent/table2",
    "ConsSent, table 2: transfer tasks",
    table_rows,
    extend=partial(add_ensembles, "row"),
    paper="conssent",
    columns=TRANSFER,
    printed={name: {"row": name.removesuffix("-LN")} for name in LITERATURE.split()},
    scores={"transfer": "conssent_transfer", **TRANSFER_SCORES},
    tasks=QUICK_TRANSFER,
    protocol="conssent",
    claims={
        "ConsSent-N(3) performs the best on an average of any single task (5)": above(
            "transfer", "ConsSent-N(3)", ("ConsSent-C(4)", *SINGLE_ROWS)
        ),
        "ConsSent-MT(3) achieves an average similar to that of ConsSent-N(3) (5)": above(
            "transfer", "ConsSent-MT(3)", "ConsSent-N(3)", check=about_equal
        ),
        "and is the best of our models on five tasks (5)": [
            at_most(
                f"panel in ('CR', 'SUBJ', 'MPQA', 'TREC', 'SICKRelatedness') and row == '{row}'",
                "row == 'ConsSent-MT(3)'",
                "panel",
            )
            for row in TASK_ROWS
        ],
        "of the methods that classify single sequences ConsSent-R(2) performs the best (5)": above(
            "transfer", "ConsSent-R(2)", SINGLE_ROWS[:3]
        ),
        "and second only to ConsSent-N(3) (5)": above("transfer", "ConsSent-R(2)", "ConsSent-C(4)"),
        "ConsSent-C is dominated by ConsSent-N in most cases (checked: on average) (5)": above(
            "transfer", "ConsSent-N(3)", "ConsSent-C(4)"
        ),
        "ConsSent-D and ConsSent-P perform the worst (5)": above(
            "transfer", SINGLE_ROWS[:2], OTHERS, check=at_most
        ),
        "all methods are above SkipThought-LN on average and on most tasks (checked: on average) (5)": above(
            "transfer", CONSSENT_ROWS, "SkipThought"
        ),
        "ConsSent-MT(3) outperforms QuickThoughts on MPQA and TREC, ConsSent-N(3) on MRPC (5)": [
            greater("panel in ('MPQA', 'TREC') and row == 'ConsSent-MT(3)'", "row == 'QuickThoughts'", "panel"),
            above("MRPC", "ConsSent-N(3)", "QuickThoughts"),
        ],
        "QuickThoughts is better than both on the other tasks (5)": [
            greater(
                "panel not in ('transfer', 'MPQA', 'TREC', 'MRPC') and row == 'QuickThoughts'",
                f"row == '{row}'",
                "panel",
            )
            for row in ("ConsSent-MT(3)", "ConsSent-N(3)")
        ],
        "the language model is generally much worse than any of the models (5)": above(
            "transfer", CONSSENT_ROWS, "LangMod"
        ),
        "the ensemble improves on the best single model, by almost 1.6 on average (5)": above(
            "transfer", ENSEMBLE, CONSSENT_ROWS
        ),
        "the ensemble performs better than InferSent (5)": above("transfer", ENSEMBLE, "InferSent"),
        "and comparably to QuickThoughts (5)": above("transfer", ENSEMBLE, "QuickThoughts", check=about_equal),
    },
    notes=["MultiTask is shown as printed only; gensen/table2 trains such encoders.", *TABLE_NOTES],
)

TABLE_3 = replace(
    TABLE_2,
    id="conssent/table3",
    title="ConsSent, table 3: probing tasks",
    columns=PROBING,
    scores={"probing": "probing", "all": "conssent_all"},
    tasks=QUICK_PROBING,
    claims={
        "encoders of single sequences (D, P, I, R) are in general better than those of pairs (C, N) (6)": above(
            "probing", SINGLE_ROWS, PAIR_ROWS, each=""
        ),
        "ConsSent-D(5) and ConsSent-P(3) are the best, ConsSent-MT(3) is slightly worse (6)": above(
            "probing", SINGLE_ROWS[:2], (*OTHERS, "ConsSent-MT(3)")
        ),
        "the encoders are significantly better than the other unsupervised methods (6)": above(
            "probing",
            CONSSENT_ROWS,
            ("SkipThought", "QuickThoughts", "Untrained LSTM", "AutoEncoder", "BoV-fastText"),
        ),
        "ConsSent-MT(3) is almost 7 points above QuickThoughts (checked: it is above) (6)": above(
            "probing", "ConsSent-MT(3)", "QuickThoughts"
        ),
        "ConsSent-MT(3) is significantly better than an encoder of translation (6)": above(
            "probing", "ConsSent-MT(3)", "NMTEn-Fr"
        ),
        "Seq2Tree is significantly better than the encoders, except on word content (6)": (
            "its gated convolutional encoder is not in the suite, and its printed average is below theirs"
        ),
        "the language model performs poorly (below all of the models, as printed) (6)": above(
            "probing", CONSSENT_ROWS, "LangMod"
        ),
        "ConsSent-MT(3) is significantly better than an encoder of inference (InferSent) (6)": above(
            "probing", "ConsSent-MT(3)", "InferSent"
        ),
        "R(2), MT(3) and the ensemble are well above SkipThought, QuickThoughts and the language model on average "
        "over all tasks (checked: above, over those evaluated) (7)": above(
            "all", ("ConsSent-R(2)", "ConsSent-MT(3)", ENSEMBLE), ("LangMod", "SkipThought", "QuickThoughts")
        ),
        "the ensemble is best, by 2.8 above the best single model (6)": above("probing", ENSEMBLE, CONSSENT_ROWS),
    },
    notes=["AutoEncoder, Seq2Tree and NMT are shown as printed only.", *TABLE_NOTES],
)
