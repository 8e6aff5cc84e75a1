"""Table of a run's held-out scores, and those of its model card."""

from __future__ import annotations

from rich.console import Console

from analysis.held_out import card_scores, quick_table
from tests.analysis.runs_on_disk import START, TRAINED


def quick_rows(quick: dict[str, dict[str, float | None]], **facts: object) -> tuple[dict[str, list[str]], str]:
    """Returns the table's cells by the name of their row, and the printed table."""
    table = quick_table(quick, title="declutr · roberta-base", facts=facts)
    cells = [list(column.cells) for column in table.columns]
    console = Console(width=120)
    with console.capture() as capture:
        console.print(table)
    return {str(name): [str(cell) for cell in row] for name, *row in zip(*cells, strict=True)}, capture.get()


def test_rows_by_hand() -> None:
    found, shown = quick_rows(
        {
            "start": START | {"dev_mlm": 9.0, "dev_D_accuracy": 0.5},
            "trained": TRAINED | {"dev_mlm": 6.5, "dev_D_accuracy": 0.672},
        },
        weights="random",
        negatives_per_anchor=62,
        tokens_seen=3_123_456,
    )
    assert found["recall@1, % ↑"] == ["3.0", "14.5", "[green]+11.5[/green]", "0.2", "400"]
    assert found["probe: sentence length, % ↑"] == ["30.0", "42.0", "[green]+12.0[/green]", "16.7", "600"]
    assert found["dev mlm ↓"] == ["9.000", "6.500", "[green]-2.500[/green]", "–", ""]
    assert found["dev D accuracy, % ↑"] == ["50.0", "67.2", "[green]+17.2[/green]", "–", ""]
    assert found["alignment ↓"] == ["0.300", "0.400", "+0.100", "–", "400"]
    assert "declutr · roberta-base" in shown
    assert "weights: random · negatives per anchor: 62 · tokens seen: 3,123,456" in shown


def test_the_chance_level_of_a_loss_is_shown_beside_it() -> None:
    found, _ = quick_rows(
        {"start": {"dev_fr": 9.0, "dev_fr_unigram": 5.5}, "trained": {"dev_fr": 3.0, "dev_fr_unigram": 5.5}}
    )
    assert list(found) == ["dev fr ↓"] and found["dev fr ↓"][3] == "5.500"


def test_differences_are_coloured_only_beyond_two_standard_errors() -> None:
    def change(trained: float) -> str:
        # 600 test sentences at about 50 %: the difference of two accuracies has a standard error of 2.9.
        return quick_rows({"start": START, "trained": START | {"probe_bigram_shift": trained}})[0][
            "probe: bigram shift, % ↑"
        ][2]

    assert change(55.0) == "+5.0"
    assert change(49.99) == "+0.0"  # not "-0.0"
    assert change(45.0) == "-5.0"
    assert change(56.0) == "[green]+6.0[/green]"
    assert change(44.0) == "[red]-6.0[/red]"


def test_a_loss_that_rises_is_red() -> None:
    assert (
        quick_rows({"start": {"dev_mlm": 6.0}, "trained": {"dev_mlm": 7.0}})[0]["dev mlm ↓"][2]
        == "[red]+1.000[/red]"
    )


def test_missing_scores_are_explained() -> None:
    too_few = START | {"probe_length": None, "n_probe_length": 12}
    found, shown = quick_rows({"start": too_few, "trained": too_few})
    assert found["probe: sentence length, % ↑"][:3] == ["–", "–", "–"]
    line = "probe: sentence length: held-out text gives 12 test sentences; 60 are needed"
    assert line in " ".join(shown.split())


def test_scores_before_training_only_and_no_scores_at_all() -> None:
    assert quick_rows({"start": START})[0]["recall@1, % ↑"][:3] == ["3.0", "–", "–"]
    assert quick_rows({})[0] == {}


def test_the_card_has_the_same_rows_with_their_numbers_of_questions() -> None:
    scores = card_scores({"start": START | {"dev_mlm": 9.0}, "trained": TRAINED | {"dev_mlm": 6.5}})
    assert scores["start"]["recall@1, % ↑, n = 400"] == "3.0" and scores["trained"]["dev mlm ↓"] == "6.500"
    assert [*scores["start"]] == [*scores["trained"]]
