"""Table of a run's held-out scores."""

from __future__ import annotations

from analysis.held_out import tabulate_scores
from tests.analysis.runs_on_disk import START, TRAINED


def test_rows_by_hand() -> None:
    quick = {"start": START | {"dev_mlm": 9.0}, "trained": TRAINED | {"dev_mlm": 6.5}}
    quick["chance"] = {"dev_mlm": 8.0}
    table = tabulate_scores(quick).T
    assert {*table} == {
        *("recall@1, % ↑", "recall@5, % ↑", "probe: sentence length, % ↑", "probe: word content, % ↑"),
        *("probe: bigram shift, % ↑", "dev_mlm", "alignment ↓", "uniformity ↓"),
    }
    assert [*table["recall@1, % ↑"]] == ["3.0", "14.5", "11.5", "0.2"]
    assert [*table["probe: sentence length, % ↑"]] == ["30.0", "42.0", "12.0", "16.7"]
    assert [*table["dev_mlm"]] == ["9.000", "6.500", "-2.500", "8.000"]
    assert [*table["alignment ↓"]] == ["0.300", "0.400", "0.100", "–"]
