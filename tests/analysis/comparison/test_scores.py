"""Tables over seeds, leads with their intervals, and the conclusion."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import ttest_ind

from analysis.comparison import reading, scores
from analysis.comparison.reading import Run
from analysis.senteval.results import write_results
from tests.analysis.comparison import example_comparison
from tests.analysis.runs_on_disk import START
from tests.analysis.senteval import example_results as senteval


def runs(folder: Path, first: list[float], second: list[float], **others: float | None) -> list[Run]:
    """Returns runs of two pairs with these scores of recall@1, one per seed; all have the scores ``others``."""
    return [
        example_comparison.run(folder, objective, "gru", seed, **others | {"recall@1": score})
        for objective, by_seed in (("declutr", first), ("nsp", second))
        for seed, score in enumerate(by_seed)
    ]


def lead(folder: Path, first: list[float], second: list[float]) -> scores.Lead:
    example_runs = runs(folder, first, second)
    grid = scores.quick_grid(example_runs)
    assert grid is not None
    leads = {scores.heading(lead.key): lead for lead in scores.leads(grid, scores.questions(example_runs))}
    assert not {"alignment", "uniformity"} & leads.keys()
    return leads["recall@1"]


def test_means_and_spread_over_seeds(tmp_path: Path) -> None:
    grid = scores.quick_grid(runs(tmp_path, [20.0, 24.0], [10.0, 10.0]))
    assert grid is not None
    assert [row.cells["", "recall@1"].text for row in grid.ours] == ["22.00 ± 2.83", "10.00 ± 0.00"]
    assert [row.label for row in grid.printed] == ["before training: gru"]
    assert any(note.startswith("Chance level, %: recall@1 0.25") for note in grid.notes)


@pytest.mark.parametrize(
    ("first", "second", "verdict"),
    [
        # The interval is 12 ± 5.0, with 2 degrees of freedom.
        pytest.param([20.0, 22.0, 24.0], [10.0, 10.0, 10.0], "clear", id="three seeds, lead 12"),
        # The interval is 4 ± 5.0, although the lead is more than 2 standard errors of 1.15.
        pytest.param([20.0, 22.0, 24.0], [18.0, 18.0, 18.0], "within the noise", id="three seeds, lead 4"),
        # With two seeds, as with one, the interval follows from the number of questions.
        pytest.param([20.0, 24.0], [10.0, 10.0], "clear", id="two seeds, lead 12"),
        # Two seeds that happen to be equal are no evidence.
        pytest.param([22.0, 22.0], [18.0, 18.0], "within the noise", id="two equal seeds, lead 4"),
        # The standard error is 3.0 for 400 questions.
        pytest.param([30.0], [20.0], "clear", id="one seed, lead 10"),
        pytest.param([24.0], [20.0], "within the noise", id="one seed, lead 4"),
    ],
)
def test_verdicts_on_a_lead_by_scores_of_the_seeds(
    tmp_path: Path, first: list[float], second: list[float], verdict: str
) -> None:
    found = lead(tmp_path, first, second)
    assert found.name == "declutr · gru" and found.second == "nsp · gru" and found.verdict == verdict


@pytest.mark.parametrize("seeds", [1, 2])
def test_below_three_seeds_the_interval_compares_two_shares(tmp_path: Path, seeds: int) -> None:
    found = lead(tmp_path, [30.0] * seeds, [20.0] * seeds)
    assert found.reach == pytest.approx(1.959964 * ((30 * 70 + 20 * 80) / 400) ** 0.5)
    assert found.lead == pytest.approx(10.0)


def test_from_three_seeds_on_the_interval_is_welchs(tmp_path: Path) -> None:
    first, second = [20.0, 23.0, 24.0], [10.0, 11.0, 10.5, 13.0]
    low, high = ttest_ind(first, second, equal_var=False).confidence_interval()
    found = lead(tmp_path, first, second)
    assert (found.lead - found.reach, found.lead + found.reach) == pytest.approx((low, high))  # type: ignore[operator]


def test_only_runs_that_were_evaluated_count(tmp_path: Path) -> None:
    """Three seeds are finished, two of them evaluated on SentEval: too few for an interval over seeds."""
    example_runs = runs(tmp_path, [30.0, 31.0, 32.0], [20.0, 21.0, 22.0])
    evaluated = [
        replace(run, results=senteval.results("any", senteval.records(("STSBenchmark", "STS12"), run.seed)))
        if run.seed < 2
        else run
        for run in example_runs
    ]
    grid = scores.senteval_grid(evaluated)
    assert grid is not None
    reaches = {scores.heading(lead.key): lead.reach for lead in scores.leads(grid, {})}
    assert "mean of 2 of DeCLUTR's 17 downstream tasks" in reaches and {*reaches.values()} == {None}


def test_without_counts_of_questions_the_verdict_is_unknown(tmp_path: Path) -> None:
    example_runs = runs(tmp_path, [30.0], [20.0])
    grid = scores.quick_grid(example_runs)
    assert grid is not None
    assert {lead.verdict for lead in scores.leads(grid, {})} == {"unknown: fewer than 3 seeds"}


def test_senteval_scores_have_a_table_of_their_own(tmp_path: Path) -> None:
    """The standard error is known for shares, not for correlations; rows are named after their pairs."""
    first, second = runs(tmp_path, [30.0], [20.0])
    tasks = ("CR", "STSBenchmark")
    evaluated = [
        replace(run, results=senteval.results("any", senteval.records(tasks, score)))
        for run, score in ((first, 70.0), (second, 80.0))
    ]
    grid = scores.senteval_grid([*evaluated, first])
    assert grid is not None and [row.name for row in grid.ours] == ["declutr · gru", "nsp · gru"]
    leads = {scores.heading(lead.key): lead for lead in scores.leads(grid, scores.questions(evaluated))}
    assert leads["CR"].name == "nsp · gru" and leads["CR"].verdict == "clear"
    assert leads["STS-B Spearman"].reach is None
    start = replace(
        first, objective="before training", results=senteval.results("any", senteval.records(tasks, 90.0))
    )
    with_start = scores.senteval_grid(evaluated, [start])
    assert with_start is not None and [row.label for row in with_start.printed] == ["before training: gru"]
    assert with_start.printed[0].cells.keys() == with_start.ours[0].cells.keys()
    assert scores.leads(with_start, {}) == scores.leads(grid, {})
    assert scores.senteval_grid(evaluated, [replace(start, results=senteval.results("any", {}))]) == grid


def test_without_runs_there_is_no_table() -> None:
    failed = [Run("a", "b", 1, "c", problem="gone")]
    assert scores.quick_grid(failed) is None and scores.senteval_grid(failed) is None


def conclude(folder: Path, first: list[float], second: list[float]) -> list[str]:
    return scores.conclusion(runs(folder, first, second))


def test_a_conclusion_from_three_seeds(tmp_path: Path) -> None:
    lead, effect, total = conclude(tmp_path, [20.0, 22.0, 24.0], [10.0, 10.0, 10.0])
    assert lead == (
        "On held-out text, declutr · gru has the highest recall@1, 22.00 %, 12.00 points above nsp · gru, "
        "which is beyond its 95 % interval over 3 seeds (± 4.97)."
    )
    assert effect == (
        "After training, recall@1 is higher than before for 2 of 2 pairs; the largest change is +19.00 points, "
        "of declutr · gru."
    )
    assert total.startswith(
        "In all, 1 of 5 leads is clear (declutr · gru 1); where many scores are compared, some leads may"
    )


@pytest.mark.parametrize(
    ("first", "second", "clause"),
    [
        pytest.param([24.0], [20.0], "so that the order is open.", id="unclear lead"),
        pytest.param([30.0], [20.0], "but may not repeat with other seeds.", id="clear lead"),
        pytest.param(
            [20.0],
            [20.0],
            "no pair leads in recall@1: declutr · gru and nsp · gru both score 20.00 %.",
            id="equal scores",
        ),
    ],
)
def test_a_conclusion_from_one_seed_is_careful(
    first: list[float], second: list[float], clause: str, tmp_path: Path
) -> None:
    lead, _, total = conclude(tmp_path, first, second)
    assert lead.endswith(clause)
    assert total.endswith("with fewer than 3 seeds for each pair, another seed may change the order.")


@pytest.mark.parametrize(
    ("first", "second", "change"),
    [
        pytest.param(
            [5.0],
            [4.0],
            "+2.00 points, of declutr · gru, within the 95 % interval of a test of this size (± 2.71).",
            id="unclear gains",
        ),
        pytest.param([2.0], [2.5], "-0.50 points, of nsp · gru.", id="losses"),
        pytest.param([1.0], [], "-2.00 points, of declutr · gru.", id="one pair"),
    ],
)
def test_the_conclusion_if_nothing_beats_the_untrained_encoder(
    first: list[float], second: list[float], change: str, tmp_path: Path
) -> None:
    """recall@1 was 3.00 before training, of 400 questions; the other scores are as before."""
    sentence, *others = scores.conclusion(runs(tmp_path, first, second, **START))
    assert sentence == (
        "On held-out text, no pair is clearly better than its encoder was before training: "
        f"the best change in recall@1 is {change}"
    )
    assert len(others) <= 2 and not any(
        "before" in other or "has the highest recall@1" in other for other in others
    )


def test_the_conclusion_if_a_run_beats_the_untrained_encoder_in_another_score(tmp_path: Path) -> None:
    """recall@5 rises from 9 to 17 % of 400 questions, a clearer gain than the probe's from 30 to 35 % of 600."""
    sentence, *_ = scores.conclusion(
        runs(tmp_path, [5.0], [4.0], **START | {"recall@5": 17.0, "probe_length": 35.0})
    )
    assert sentence.startswith(
        "On held-out text, no pair is clearly better in recall@1 than its encoder was before training: the best "
        "change is +2.00 points, of declutr · gru, within"
    )
    assert sentence.endswith(" The clearest gain is in recall@5: +8.00 points (± 4.63), of declutr · gru.")


def test_one_pair_that_beats_the_untrained_encoder_is_enough(tmp_path: Path) -> None:
    assert not any("no pair" in sentence for sentence in conclude(tmp_path, [6.0], [1.0]))


def test_majority_baselines_are_shown_below_the_scores(tmp_path: Path) -> None:
    """The F1 of always answering "paraphrase" is 2 * 0.7 / 1.7 if 7 of 10 test examples of MRPC are."""
    [run] = runs(tmp_path, [30.0], [])
    assert run.folder is not None
    tasks = senteval.records(("MRPC", "CR", "STSBenchmark"), 65.0)
    write_results(run.folder / "senteval.json", senteval.results("any", tasks))
    (run.folder / "predictions").mkdir()
    gold = np.array([1] * 7 + [0] * 3)
    for task, predicted in (("MRPC", np.full((10, 2), 0.5)), ("STSBenchmark", np.zeros(10))):
        np.savez(run.folder / "predictions" / f"{task}.npz", gold=gold, predicted=predicted)
    evaluated = reading.read("declutr", "gru", 1, "c", run.folder)
    grid = scores.senteval_grid([evaluated])
    assert grid is not None
    [row] = grid.printed  # no baseline is known for STS-B, a correlation, and CR, which has no predictions
    assert row.label == "baseline: most frequent class"
    assert {scores.heading(key): cell.text for key, cell in row.cells.items()} == {
        "MRPC accuracy": "70.00",
        "MRPC F1": "82.35",
    }
    assert grid.notes[-1].startswith("Baseline: the score of always answering")
    assert all(row.name != lead.name for lead in scores.leads(grid, {}))


def test_without_scores_there_is_no_conclusion(tmp_path: Path) -> None:
    assert scores.conclusion([Run("a", "b", 1, "c", problem="gone")])[0].startswith("No run has been evaluated")
    assert conclude(tmp_path, [1.0], [])[-1] == "Only one pair has scores, so there is nothing to compare it with."
