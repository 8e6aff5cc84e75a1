"""Figures and tables of GenSen (Subramanian et al. 2018, ICLR).

python experiments/reproduce.py figure=gensen/table2 objective.fr='{source: a.en.gz, target: a.fr.gz}'
python experiments/reproduce.py figure=gensen/fig1 data=<SentEval, or a folder of label-tab-text .tsv[.gz]>

A task without data learns from generated pairs. At teaching size encoders are narrow, decoders know 3,000 words,
not 30,000, whose scores would take most of the compute, and every second update is of inference, not every
eleventh, which leaves it too few in so short a run; word vectors to begin with (encoder.vectors=<file>) and
budget.flops=2e13 let it learn on real pairs.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
from matplotlib.figure import Figure

from analysis import plots
from analysis.claims import Claims, about_equal, above, at_most, greater
from analysis.papers.base import Options, Reproduction, Run, printed_table, sweep
from analysis.papers.conssent import QUICK_TRANSFER, TRANSFER, TRANSFER_SCORES
from analysis.senteval.averages import STS
from data.display import bar

NOTES = (
    "vectors=<file> expands the vocabulary (section 8), but not in figure 1, table 3 and gensen/pooling.",
    "InferSent is one BiLSTM-Max that learns GenSen's inference only, with its classifier and optimiser. "
    "Skip-thought is +STN, one GRU that predicts the next sentence only.",
    "At budget=teaching every second update is of inference; published is every eleventh, of many more.",
)


def common(options: Options, flops: float) -> str:
    """Returns the overrides of all runs."""
    compute = options.compute(flops)
    size = compute if options.teaching else f"+experiment=gensen/table2 {compute}"
    return f"objective=gensen encoder=gru budget={options.budget} {size}"


# Figure 1. SUBJ and TREC are SentEval's; the paper's third set is DBpedia. Perplexity, points and model are not
# stated. Skip-thought vectors, with whose map by Kiros et al. 2015 the paper compares, are trained on this text.
CLASSES = {"SUBJ": ("subjective", "objective"), "TREC": ("ABBR", "DESC", "ENTY", "HUM", "LOC", "NUM")}
MEASURES = ("in the vectors", "in the map", "by guessing")


def mapped_runs(options: Options) -> list[Run]:
    """Returns the runs of figure 1."""
    narrow = "encoder.hidden=256 encoder.word_size=256 encoder.vocab_size=30000" if options.teaching else ""
    models = {"tasks": {"GenSen": narrow, "skip-thought": f"{narrow} objective.tasks=[stn,stp]"}}
    return sweep(common(options, 3.3e13), models)


def labelled_sets(data: Path) -> dict[str, pd.DataFrame]:
    """Samples at most 1,000 sentences of each set: SentEval's SUBJ and TREC, and .tsv[.gz] of label, tab, text.

    Raises:
        UserError: if the folder ``data`` has none.
    """
    from analysis.projection_map import read_labelled, take_sample
    from analysis.senteval.tasks import available

    sets = {file.name.split(".")[0]: read_labelled(file) for file in sorted(data.glob("*.tsv*"))}
    folder = data / "downstream"
    for task in available(CLASSES, data)[0] if folder.is_dir() or not sets else ():
        labels = {
            text: CLASSES[task.name][int(target)]
            for part in task.load(folder).values()
            for text, target in zip(part.first, part.targets, strict=True)
        }
        sets[task.name] = pd.DataFrame(labels.items(), columns=["text", "label"])
    return {name: take_sample(labelled, 1000, 0) for name, labelled in sets.items()}


def map_sets(frame: pd.DataFrame, options: Options) -> pd.DataFrame:
    """Returns shares of sentences with their neighbours' label; ``attrs["maps"]`` has the last seed's maps."""
    from analysis.models import open_encoder
    from analysis.projection_map import place_sentences

    sets, rows, maps = labelled_sets(options.data or Path()), [], {}
    with bar("maps") as show:
        for run in frame.itertuples():
            show(run.Index / len(frame), run.run)
            encoder = open_encoder(str(options.runs / run.run))
            for panel, labelled in sets.items():
                texts, labels = (labelled[column].tolist() for column in ("text", "label"))
                places, shares = place_sentences(encoder.encode(texts), labels, seed=run.seed)
                maps[panel, run.tasks] = places, labels, shares
                for measure, share in zip(MEASURES, shares.values(), strict=True):
                    rows.append((panel, f"{run.tasks}, {measure}", run.seed, run.run, share))
    long = pd.DataFrame(rows, columns=["panel", "tasks", "seed", "run", "score"])
    long.attrs["maps"] = maps
    return long


def draw_maps(frame: pd.DataFrame, *, title: str, note: str, **_: Any) -> Figure:
    """Draws the maps of the last seed, a row for each set, with the share that neighbours predict in the map."""
    from analysis.projection_map import scatter

    maps, rows = sorted(frame.attrs["maps"].items()), frame["panel"].nunique()
    with plots.suite_style():
        figure = plots.new_figure(title, f"{note}\nMaps of the last seed; the CSV has all scores.", 3 * rows)
        grid = figure.subplots(rows, len(maps) // rows, squeeze=False)
        for axes, ((panel, model), (places, labels, shares)) in zip(grid.flat, maps, strict=True):
            scatter(axes, places, labels)
            axes.set_title(f"{model}: {panel}")
            axes.set_xlabel(
                f"label of the neighbours: {shares['map']:.0f} % (by guessing {shares['guess']:.0f} %)"
            )
    return figure


FIGURE_1 = Reproduction(
    "gensen/fig1",
    "GenSen, figure 1: maps of labelled sentences",
    mapped_runs,
    long=map_sets,
    draw=draw_maps,
    needs="a folder: SentEval's, or of labelled sentences (.tsv[.gz]: label, tab, text)",
    claims={
        "sentences cluster reasonably well by label (5.2)": greater(
            "tasks == 'GenSen, in the map'", "tasks == 'GenSen, by guessing'", "panel"
        ),
        "clustering on TREC and SUBJ looks better than in Figure 2 of Kiros et al. 2015 (5.2)": greater(
            "tasks == 'GenSen, in the map' and panel in ('TREC', 'SUBJ')",
            "tasks == 'skip-thought, in the map'",
            "panel",
        ),
    },
    notes=[
        NOTES[0],
        "DBpedia is not fetched: a file DBpedia.tsv in data= is mapped too (label, tab, text a line).",
    ],
)


TABLE_1 = Reproduction(
    "gensen/table1",
    "GenSen, table 1: training pairs",
    table=partial(printed_table, "gensen_table1"),
    notes=[
        "Ours: skip-thought from the run's corpus; translation, parsing and inference from the files that "
        "objective.fr, .de, .parse and .nli name, or objective.synthetic_pairs of generated pairs each. A run's "
        "encoder card counts them.",
        "The table states sizes only: there is nothing that scores could decide.",
    ],
)

# Encoders: tasks and other overrides, units per direction at teaching size and at the paper's. InferSent is
# updated as often as the others are by inference.
SINGLE = ", one encoder"
ENCODERS = {
    "+STN": ("[stn]", 128, 750),
    "+STN +Fr +De, one direction": ("[stn,fr,de] encoder.bidirectional=false", 256, 1500),
    "+STN +Fr +De, one encoder": ("[stn,fr,de]", 128, 750),
    "+STN +Fr +De +NLI, one encoder": ("[stn,fr,de,nli]", 128, 750),
    "+STN +Fr +De +L, one encoder": ("[stn,fr,de]", 192, 1024),
    "+STN +Fr +De +NLI +L, one encoder": ("[stn,fr,de,nli]", 192, 1024),
    "+STN +Fr +De +NLI +L +STP, one encoder": ("[stn,stp,fr,de,nli]", 192, 1024),
    "+STN +Fr +De +NLI +2L +STP, one encoder": ("[stn,stp,fr,de,nli] encoder.layers=2", 192, 1024),
    "+STN +Fr +De +NLI +L +STP +Par, one encoder": ("[stn,stp,fr,de,parse,nli]", 192, 1024),
    "+STN +Fr +De +NLI +Par, one encoder": ("[stn,fr,de,parse,nli]", 128, 750),
    "InferSent": ("[nli] encoder=bilstm_max", 128, "2048 budget.steps=125000"),
}
# The second encoder of each row but the first (section 9): it lacks a task, or reads forwards with as many units.
SECOND = {
    "+STN +Fr +De": "+STN +Fr +De, one direction",
    "+STN +Fr +De +NLI": "+STN +Fr +De, one encoder",
    "+STN +Fr +De +NLI +L": "+STN +Fr +De +L, one encoder",
    "+STN +Fr +De +NLI +L +STP": "+STN +Fr +De +NLI +L, one encoder",
    "+STN +Fr +De +NLI +2L +STP": "+STN +Fr +De +NLI +L, one encoder",
    "+STN +Fr +De +NLI +L +STP +Par": "+STN +Fr +De +NLI +L +STP, one encoder",
}
BEST = "+STN +Fr +De +NLI +L +STP"
SMALL = (
    "budget.sentences=48 encoder.word_size=128 encoder.vocab_size=20000 objective.word_size=128 "
    "objective.vocab_size=3000 objective.nli_every=1"
)
SENTIMENT = "panel in ('MR', 'CR', 'SUBJ', 'MPQA')"


def members(row: str) -> tuple[str, ...]:
    """Returns the encoders of a row, one or two."""
    return (row,) if row in ENCODERS else (row + SINGLE, SECOND[row])


def expand_rows(names: Sequence[str], options: Options) -> list[Run]:
    """Returns ``rows`` with the words of ``vectors=`` (section 8)."""
    evaluation = (f"expand={options.vectors}",) if options.vectors else ()
    return [replace(run, evaluation=evaluation) for run in rows(names, options)]


def rows(names: Sequence[str], options: Options) -> list[Run]:
    """Returns the runs of rows: of single encoders, or of two that table 2 joins."""
    axis = {
        name: f"objective.tasks={tasks} encoder.hidden={f'{small} {SMALL}' if options.teaching else large}"
        for name, (tasks, small, large) in ENCODERS.items()
    }
    encoders = {run.labels["row"]: run for run in sweep(common(options, 5.0e12), {"row": axis})}
    return [
        encoders.get(name) or Run({"row": name}, members=tuple(encoders[member] for member in members(name)))
        for name in names
    ]


TABLE_2 = Reproduction(
    "gensen/table2",
    "GenSen, table 2: transfer tasks",
    partial(expand_rows, ["+STN", *SECOND, "InferSent"]),
    paper="gensen",
    columns=TRANSFER,
    scores={"transfer": "gensen_delta", **TRANSFER_SCORES},
    tasks=QUICK_TRANSFER,
    protocol="gensen",
    claims={
        "adding more tasks improves the transfer performance (5)": [
            above("transfer", "+STN +Fr +De", "+STN"),
            above("transfer", "+STN +Fr +De +NLI", "+STN +Fr +De"),
            above("transfer", BEST, "+STN +Fr +De +NLI +L"),
            above("transfer", f"{BEST} +Par", BEST),
        ],
        "more hidden units (+L) lead to improved transfer performance (5)": above(
            "transfer", "+STN +Fr +De +NLI +L", "+STN +Fr +De +NLI"
        ),
        "an additional layer (+2L) leads to improved transfer performance (5)": above(
            "transfer", "+STN +Fr +De +NLI +2L +STP", BEST
        ),
        "the addition of constituency parsing improves performance on SICK-R and SICK-E (5)": greater(
            f"panel in ('SICKRelatedness', 'SICKEntailment') and row == '{BEST} +Par'",
            f"row == '{BEST}'",
            "panel",
        ),
        "gains over InferSent on MR, CR, SUBJ and MPQA (1.1 to 2.0), TREC (6) and MRPC (2.3) (checked: above) "
        "(5.2)": greater(
            f"({SENTIMENT} or panel in ('TREC', 'MRPC')) and row == '{BEST}'", "row == 'InferSent'", "panel"
        ),
        "on TREC a gain of about 2 over the CNN-LSTM (5.2)": "the CNN-LSTM is shown as printed only",
    },
    notes=[
        "Every row but the first joins two encoders, as in the paper: with the compute and parameters of two, a "
        "gain over +STN is not due to its tasks only.",
        *NOTES,
        "Other rows from the literature and those trained from scratch are shown as printed only.",
    ],
)


def list_poolings(options: Options) -> list[Run]:
    """Returns the best row of table 2 with each pooling."""
    [run] = rows([BEST], options)
    return [replace(run, labels={"row": name}, evaluation=(f"pooling={name}",)) for name in ("max", "last")]


POOLING = replace(
    TABLE_2,
    id="gensen/pooling",
    title="GenSen, section 8: pooling, maximum over time or last state",
    rows=list_poolings,
    scores=TRANSFER_SCORES,
    tasks=TRANSFER,
    protocol="default",
    claims={
        "maximum over time is best on sentiment tasks such as MR, CR, SUBJ and MPQA (8)": greater(
            f"{SENTIMENT} and row == 'max'", "row == 'last'", "panel"
        ),
        "the last state is better on all other tasks (8)": greater(
            f"not {SENTIMENT} and row == 'last'", "row == 'max'", "panel"
        ),
    },
    notes=[
        *NOTES,
        f"The paper has no such table. Both rows are {BEST}; printed rows have the better pooling on dev.",
    ],
)


def evaluation_table(
    number: int,
    title: str,
    needs: str,
    names: Sequence[str],
    report: str,
    *notes: str,
    claims: Claims,
    key: str = "data",
    printed: bool = False,
    expand: bool = True,
    **settings: Any,
) -> Reproduction:
    """Returns a table of another evaluation of encoders, and of the word vectors of ``vectors=``, for each seed.

    Args:
        number, title, needs, notes, claims: of the table; see ``Reproduction``.
        names: rows, as the function ``rows`` takes them.
        report: module and function of the evaluation.
        key: its argument that takes ``data``.
        printed: the printed rows stand below; otherwise a row is a score.
        expand: the encoders get the words of ``vectors=``.
        settings: further arguments of the evaluation.
    """

    def evaluate(frame: pd.DataFrame, options: Options) -> pd.DataFrame:
        from analysis.reports import make_command  # late: it imports torch

        runs = frame.pivot(index="seed", columns="row", values="run")
        models = [
            (name, seed, "+".join(str(options.runs / run) for run in joined))
            for name in names
            for seed, *joined in runs.reindex(columns=[*members(name)]).dropna().itertuples()
        ]
        models += [("word vectors", seed, "bag_of_words") for seed in runs.index if options.vectors]
        labels = pd.DataFrame(models, columns=["row", "seed", "run"])
        command = make_command(pkgutil.resolve_name(f"analysis.{report}"))
        words = options.vectors and options.vectors.strip('"')
        data = {key: str(options.data), "encoder": {"vectors": words}, "expand": words if expand else None}
        scores = command(models=[*labels["run"]], **data, **settings)
        return labels.join(scores.T.reset_index(drop=True).infer_objects())

    def show(frame: pd.DataFrame, options: Options) -> pd.DataFrame:
        names = frame["row"] + ", seed " + frame["seed"].astype(str)
        ours = frame.iloc[:, 3:].round(3).astype(str).set_axis(names)
        if not printed:
            return ours.T.rename_axis("score")
        theirs = printed_table(f"gensen_table{number}", frame, options).rename("{} (printed)".format)
        return pd.concat([ours, theirs])[ours.columns]

    return Reproduction(
        f"gensen/table{number}",
        f"GenSen, table {number}: {title}",
        partial(rows, names),
        extend=evaluate,
        table=show,
        claims=claims,
        needs=needs,
        notes=[*NOTES, *notes],
    )


TABLE_3 = evaluation_table(
    3,
    "word similarity",
    "a folder of word similarity sets (EN-*.txt)",
    [f"+STN +Fr +De +NLI +L{SINGLE}"],
    "wordsim:evaluate_word_similarity",
    "Rows are comparable if they cover the same pairs, and the paper gives no coverage. QVEC needs its file of "
    "semantic features (Tsvetkov et al. 2015), which is not included.",
    claims={
        "the learned word vectors are competitive with GloVe, word2vec and fastText (checked with those of "
        "vectors=, each on the pairs that it covers: at most 0.05 below on average) (5.2)": at_most(
            "panel.str.endswith('spearman') and row == 'word vectors'",
            f"panel.str.endswith('spearman') and row == '+STN +Fr +De +NLI +L{SINGLE}'",
            margin=0.05,
        )
    },
    printed=True,
    expand=False,
)
TABLE_4 = evaluation_table(
    4,
    "duplicate questions",
    "a folder of question pairs (train.tsv, test.tsv)",
    [BEST, "InferSent"],
    "quora:evaluate_duplicates",
    "The printed rows are over Quora's own pairs and partition, are not comparable with others, and are left out.",
    claims={
        "above InferSent at each number of training pairs (table 4)": greater(
            f"not panel.str.startswith('majority') and row == '{BEST}'", "row == 'InferSent'", "panel"
        ),
        "an MLP on fixed vectors outperforms supervised models with attention; 6 % of the pairs are enough to "
        "outperform Siamese and multi-perspective CNNs (5.2)": (
            "those models are not in the suite, and printed only over all of Quora's 400,000 pairs"
        ),
    },
)
SYNTAX = "panel in ('passive.logistic.test', 'tense.logistic.test', 'tss.logistic.test')"
PROBED = (
    "+STN",
    f"+STN +Fr +De{SINGLE}",
    f"+STN +Fr +De +NLI{SINGLE}",
    f"+STN +Fr +De +NLI +Par{SINGLE}",
)
TABLE_5 = evaluation_table(
    5,
    "six probes",
    "a folder of trees (x_train, x_dev, x_test)",
    ["InferSent", *PROBED],
    "probes:evaluate_probes",
    "The paper's rows are over its own sentences: each must be read against its own majority class.",
    "The paper does not say whether its skip-thought predicts both neighbours; ours is STN.",
    claims={
        "syntactic properties are better encoded with translation and with parsing (5.2)": [
            greater(f"{SYNTAX} and row == '{more}'", f"row == '{less}'", "panel")
            for less, more in (PROBED[:2], PROBED[2:])
        ],
        "inference beside the other tasks does not amplify syntax (5.2)": at_most(
            f"{SYNTAX} and row == '{PROBED[2]}'", f"row == '{PROBED[1]}'", "panel", margin=0.5
        ),
        "length and word order are better encoded with parsing (5.2)": greater(
            f"panel in ('length.mlp.test', 'order.mlp.test') and row == '{PROBED[3]}'",
            f"row == '{PROBED[2]}'",
            "panel",
        ),
    },
    printed=True,
)
TABLE_6 = replace(
    TABLE_2,
    id="gensen/table6",
    title="GenSen, table 6: image-caption retrieval",
    rows=partial(expand_rows, [BEST, "InferSent", "+STN"]),
    columns=["ImageCaptionRetrieval"],
    scores={"": "ImageCaptionRetrieval.test"},
    tasks=["ImageCaptionRetrieval"],
    claims={
        "the representations outperform skip-thoughts (5.2)": above("", BEST, "+STN"),
        "they are on par with InferSent (5.2)": above("", BEST, "InferSent", check=about_equal),
    },
    notes=[
        *NOTES,
        "COCO's captions and image features come with SentEval's data; without them there is no score.",
    ],
)
TABLE_7 = replace(
    TABLE_6,
    id="gensen/table7",
    title="GenSen, table 7: semantic textual similarity",
    columns=STS,
    scores={task: f"{task}.pearson.mean" for task in STS},
    tasks=STS,
    claims={
        "cosine similarities correlate reasonably well with relatedness (5.2)": "no bound is stated to be checked"
    },
    notes=[*NOTES, "Other rows of the literature and supervised ones are shown as printed only."],
)


TABLE_8 = evaluation_table(
    8,
    "nearest neighbours",
    "a file of sentences, one a line",
    [BEST],
    "neighbours:evaluate_neighbours",
    "The paper searches 500,000 sentences of BookCorpus, which is not available.",
    claims={
        "sentences with some lexical overlap and similar discourse structure are neighbours (5.2)": (
            "it is for the eye: no score decides it"
        )
    },
    key="sentences",
    queries=("a man is playing a guitar .", "she looked at him for a long time ."),
)
