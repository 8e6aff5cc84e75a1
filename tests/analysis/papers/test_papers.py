"""Every figure and table: runs at both sizes, drawing and claims on invented scores."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from analysis.claims import decide
from analysis.papers import CATALOGUE, declutr
from analysis.papers.base import Options, Reproduction, sweep
from analysis.results import paper_rows, read_table, tidy
from analysis.senteval.averages import AVERAGES

TRAINED = [item for item in CATALOGUE.values() if item.rows]
ON_SENTEVAL = [item for item in TRAINED if item.scores and not item.needs]
# Planned from the papers' grids: number of encoders at teaching and at the paper's size, with all files named.
COUNTS = {
    "declutr/2a": (18, 60), "declutr/2b": (18, 60), "declutr/2c": (18, 90), "declutr/3": (30, 60),
    "declutr/span_lengths": (15, 60), "declutr/published": (6, 6), "suite/capacity": (24, 0),
    "declutr/table2": (9, 5), "declutr/table4": (27, 9), "declutr_v1/2a": (18, 20), "declutr_v1/3": (30, 60),
    "declutr_v1/s1a": (21, 9), "declutr_v1/s1b": (27, 16), "declutr_v1/table_s5": (6, 8),
    "conssent/fig1": (54, 30), "conssent/table2": (39, 11), "suite/objectives": (69, 0),
    "suite/curves": (78, 0),
    "suite/views": (105, 0),
}  # fmt: skip


def options(size: str, **more: object) -> Options:
    return Options(budget=size, vectors="v.txt", nli="{path: n.tsv}", **more)  # type: ignore[arg-type]


def ids(item: object) -> str:
    return item.id if isinstance(item, Reproduction) else str(item)


def wide(item: Reproduction) -> pd.DataFrame:
    """Returns invented scores of all metrics for the teaching runs of a figure or table."""
    rng = np.random.default_rng(0)
    metrics = {"recall@1", "probe_word_content", "probe_bigram_shift"}
    for metric in {*item.scores.values(), "declutr_downstream_with_snli_dev", "probing_dev"}:
        rule = AVERAGES.get(metric)
        parts = [f"{task}.{name}" for group in rule.groups for task, name in group.items()] if rule else [metric]
        for task, _, names in (part.partition(".") for part in parts):
            metrics |= {f"{task}.{name}" for name in [*names.split("+"), "test"]}
    runs = item.runs(options("teaching"))
    frame = pd.DataFrame([{**run.labels, "seed": run.seed, "run": str(place)} for place, run in enumerate(runs)])
    return frame.assign(**{metric: 60 + rng.normal(size=len(frame)) for metric in sorted(metrics)})


def test_names_are_unique_and_titles_are_given() -> None:
    assert len(CATALOGUE) >= 44
    assert all(item.title and item.id == name for name, item in CATALOGUE.items())


@pytest.mark.parametrize("item", TRAINED, ids=ids)
def test_runs_are_planned_at_each_size(item: Reproduction) -> None:
    for size in item.sizes:
        runs = item.runs(options(size))
        assert len({tuple(run.labels) for run in runs}) == 1
        assert {"weights", "tokens"}.isdisjoint(runs[0].labels)  # columns of what a run was
        assert len({(*run.labels.values(), run.seed) for run in runs}) == len(runs)
        assert all(bool(run.overrides) + bool(run.model) + bool(run.members) == 1 for run in runs)
        trained = [member for run in runs for member in run.members or (run,) if not member.model]
        assert all(f"seed={run.seed}" in run.overrides for run in trained)
        if item.id in COUNTS:
            assert len(runs) == COUNTS[item.id][size == "paper"]
        assert {run.seed for run in item.runs(options(size, seeds=[7, 8]))} == ({7, 8} if trained else {1})


@pytest.mark.parametrize("item", ON_SENTEVAL, ids=ids)
def test_figures_are_drawn_tables_made_and_claims_decided(item: Reproduction, tmp_path: Path) -> None:
    frame = wide(item)
    for scores in (item.scores, item.quick):
        long = item.long(frame, options("teaching", runs=tmp_path)) if item.long else tidy(frame, scores)
        assert len(decide(item.claims, long)) == len(item.claims)
    if item.draw:
        marks = item.marks(frame) if item.printed else None
        assert item.draw(long, title=item.title, ylabel=item.ylabel, note="", printed=marks).get_axes()
    else:
        table = item.table(frame, options("teaching")) if item.table else item.score_table(frame)
        assert {*frame["row"].unique()} <= {*table.index} and len(table.columns)


@pytest.mark.parametrize(
    ("figure", "scores", "outcomes"),
    [
        ("declutr/span_lengths", "strategy; 2,4 | 4,2:62; 1,1 | 1,1:63; 3,2 | 2,3:65; 4,2 | 2,4:65", "held held"),
        ("declutr/span_lengths", "strategy; 2,4 | 4,2:67; 1,1 | 1,1:63; 8,2 | 2,8:63; 4,2 | 2,4:65", "not not"),
        (
            "declutr/table2",
            "row:panel; Transformer:CR:60; Transformer:TREC:60; Transformer:downstream:60; DeCLUTR:CR:62; "
            "DeCLUTR:TREC:58; DeCLUTR:downstream:62; Transformer-small:TREC:60; Transformer-small:CR:60; "
            "DeCLUTR-small:TREC:58; DeCLUTR-small:CR:60.4",
            "held - - not held -",
        ),
        (
            "declutr/table3",
            "row:panel; Transformer:probing:70; DeCLUTR:probing:70.1; contrastive only:probing:66",
            "held - - held",
        ),
        (
            "declutr_v1/table_s5",
            "row:panel; bundled:probing:70; bundled, fine-tuned:probing:62; roberta-base:probing:70; "
            "sentence-transformers/roberta-base-nli-mean-tokens:probing:66",
            "held - - not -",
        ),
        (
            "declutr_v1/table_s6",
            "row:panel; DeCLUTR:SNLI:60; DeCLUTR:others:60; Sent. Transformers:SNLI:66; "
            "Sent. Transformers:others:62",
            "held -",
        ),
        ("declutr_v1/table_s6", "row:panel; DeCLUTR:others:60; Sent. Transformers:others:62", "- -"),
        ("suite/capacity", "objective:layers; DeCLUTR:1:60; DeCLUTR:2:62; DeCLUTR:4:63", "held"),
        ("suite/capacity", "objective:layers; DeCLUTR:1:60; DeCLUTR:2:58; DeCLUTR:4:63", "not"),
    ],
)
def test_verdicts_on_invented_scores(figure: str, scores: str, outcomes: str) -> None:
    axes, *rows = scores.split("; ")
    table = pd.DataFrame([row.split(":") for row in rows], columns=[*axes.split(":"), "score"])
    table = table.assign(run="", panel=table.get("panel", ""))
    seeds = [
        table.assign(seed=s, score=table["score"].astype(float) + 0.1 * (table.index % 4 == s)) for s in range(4)
    ]
    words = {"held": "held", "not": "not held", "-": "not computed here"}
    for count in (4, 1):  # one: as a published model
        verdicts = decide(CATALOGUE[figure].claims, pd.concat(seeds[:count]))
        for verdict, outcome in zip(verdicts, outcomes.split(), strict=True):
            expected = words[outcome] if count > 1 or outcome == "-" else "undecided at this size"
            assert verdict.outcome == expected


def test_a_share_scales_the_flops_of_the_command_line() -> None:
    runs = declutr.grid(Options(flops=1e12))
    shares = {run.labels["P"]: text for run in runs for text in run.overrides if text.startswith("budget.flops=")}
    assert shares == {"1": "budget.flops=7.2e+11", "2": "budget.flops=1e+12", "4": "budget.flops=1.55e+12"}
    assert not any(
        "budget.flops" in text for run in declutr.grid(Options(budget="paper")) for text in run.overrides
    )


def test_sweeps_combine_axes_in_order() -> None:
    axes = {"a": {"x": "p=1 r={s: 2, t: 3}", "y": ""}, "b": {"": "", "z": "q=2"}}
    runs = sweep("o=1", axes, lambda labels: "m=3" if labels["a"] == "x" or labels["b"] else None)
    assert [tuple(run.labels.values()) for run in runs] == [("x", ""), ("x", "z"), ("y", "z")]
    assert runs[1].overrides == ("o=1", "p=1", "r={s: 2, t: 3}", "q=2", "m=3")


def test_printed_values_stand_at_their_places() -> None:
    item = CATALOGUE["declutr_v1/3"]
    marks = item.marks(wide(item)).set_index("model")["score"]
    printed = paper_rows("declutr_v1", "dev").droplevel(1)["declutr_downstream_with_snli_dev"]
    assert marks.to_dict() == {name: printed[name] for name in declutr.MODELS}


def test_a_table_has_means_over_seeds_above_printed_rows() -> None:
    item = CATALOGUE["declutr/table2"]
    frame = wide(item)
    table = item.score_table(frame)
    scores = frame.loc[frame["row"] == "DeCLUTR", "TREC.test"]
    assert table.loc["DeCLUTR", "TREC"] == f"{scores.mean():.2f} ± {scores.std():.2f}"
    assert float(table.loc["GloVe (printed)", "TREC"]) == 83.0
    quick = item.score_table(frame[["row", "seed", "run", "recall@1"]])
    assert list(quick.index) == ["word vectors", "Transformer", "DeCLUTR"]


def test_sampled_lengths_follow_their_density() -> None:
    lengths = declutr.span_lengths(pd.DataFrame(), Options()).groupby("span")["score"]
    for (_, drawn), mean in zip(lengths, (32 + 480 * 4 / 6, 32 + 480 * 2 / 6), strict=True):
        assert drawn.mean() == pytest.approx(mean, abs=5) and drawn.between(32, 512).all()


def test_tables_without_runs_are_as_printed() -> None:
    item = CATALOGUE["declutr/table1"]
    assert item.table
    assert item.table(pd.DataFrame(), Options()).loc["DeCLUTR-base", "embedding_dim"] == "768"


LONE = {"Infersent (AllNLI)": "InferSent", "Skipthought": "+STN"}
PROBED = {
    f"Skipthought{tasks}": f"+STN{tasks}, one encoder"
    for tasks in (" +Fr +De", " +Fr +De +NLI", " +Fr +De +NLI +Par")
}


@pytest.mark.parametrize(
    ("table", "names", "others"),
    [
        ("conssent/table2", {}, {13: "not computed here"}),  # no average of QuickThoughts
        ("conssent/table3", {"NLI": "InferSent", "Untrained": "Untrained LSTM"}, {5: "not computed here"}),
        ("gensen/table2", {"Infersent (AllNLI)": "InferSent"}, {5: "not computed here"}),
        (
            "gensen/table3",
            {"+STN +Fr +De +NLI +L": "+STN +Fr +De +NLI +L, one encoder", "FastText": "word vectors"},
            {},
        ),
        ("gensen/table5", LONE | PROBED, {}),
        ("gensen/table6", LONE, {}),
    ],
)
def test_printed_scores_bear_out_what_their_paper_states(
    table: str, names: dict[str, str], others: dict[int, str]
) -> None:
    """The papers' own scores, in the place of three equal seeds of ours, beside the printed rows."""
    item = CATALOGUE[table]
    printed = read_table(table.replace("/", "_")).set_index("model").apply(pd.to_numeric, errors="coerce")
    if not item.needs:
        printed = item.printed_rows().drop(columns=[*AVERAGES], errors="ignore")
        tests = {
            name: f"{name.partition('.')[0]}.test" for name in printed if name.endswith(("accuracy", "pearson"))
        }
        printed = printed.join(printed[[*tests]].rename(columns=tests))
        printed["ImageCaptionRetrieval.test"] = printed.filter(like="recalls").mean(axis=1)
    printed = printed.rename(index=names).groupby(level=0).first()
    rows = {run.labels["row"] for run in item.runs(options("paper"))} | {"Ensemble", "word vectors"}
    frame = pd.concat([printed.assign(seed=seed, run="") for seed in (1, 2, 3)]).rename_axis("row").reset_index()
    frame = (
        frame[frame["row"].isin(rows)].set_index(["row", "seed", "run"]).dropna(axis=1, how="all").reset_index()
    )
    outcomes = [verdict.outcome for verdict in decide(item.claims, item.select_compared(frame, options("paper")))]
    assert outcomes == [others.get(place, "held") for place in range(len(outcomes))]
