"""Table of a run's held-out scores, and those of its model card."""

from __future__ import annotations

from analysis.held_out import card_scores, quick_table, tabulate_scores
from tests.analysis.runs_on_disk import START, TRAINED


def test_rows_by_hand() -> None:
    table = tabulate_scores(
        {
            "start": START | {"dev_mlm": 9.0, "dev_D_accuracy": 0.5},
            "trained": TRAINED | {"dev_mlm": 6.5, "dev_D_accuracy": 0.672},
        }
    ).T
    assert [*table] == [
        *("recall@1, % ↑", "recall@5, % ↑", "probe: sentence length, % ↑", "probe: word content, % ↑"),
        *("probe: bigram shift, % ↑", "dev D accuracy, % ↑", "dev mlm ↓", "alignment ↓", "uniformity ↓"),
    ]
    assert [*table["recall@1, % ↑"]] == ["3.0", "14.5", "11.5", "0.2", "400"]
    assert [*table["probe: sentence length, % ↑"]] == ["30.0", "42.0", "12.0", "16.7", "600"]
    assert [*table["dev mlm ↓"]] == ["9.000", "6.500", "-2.500", "–", "–"]
    assert [*table["dev D accuracy, % ↑"]] == ["50.0", "67.2", "17.2", "–", "–"]
    assert [*table["alignment ↓"]] == ["0.300", "0.400", "0.100", "–", "400"]


def test_the_chance_level_of_a_loss_is_shown_beside_it() -> None:
    losses = {"dev_fr": 3.0, "dev_fr_unigram": 5.5, "dev_nli": 2.0}
    table = tabulate_scores({"trained": losses, "chance": {"dev_nli": 1.1}})
    assert table["chance"].to_dict() == {"dev fr ↓": "5.500", "dev nli ↓": "1.100"}


def test_missing_scores_and_none_at_all() -> None:
    scores = START | {"probe_length": None, "n_probe_length": 12}
    table = tabulate_scores({"start": scores}).T
    assert [*table["probe: sentence length, % ↑"]] == ["–", "–", "–", "16.7", "12"]
    assert [*table["recall@1, % ↑"]][:3] == ["3.0", "–", "–"]
    assert tabulate_scores({}).empty


def test_terminal_and_card_have_the_same_rows() -> None:
    quick = {"start": START, "trained": TRAINED | {"dev_mlm": 6.5}}
    shown = quick_table(quick, title="declutr · roberta-base", facts={"weights": "random", "steps": 3}).plain
    assert shown.startswith("declutr · roberta-base\n") and shown.endswith("\nweights: random · steps: 3")
    scores = card_scores(quick)
    assert scores["start"]["recall@1, % ↑"] == "3.0" and scores["trained"]["dev mlm ↓"] == "6.500"
    assert all(name in shown for name in scores["start"].keys() | scores["trained"].keys())
