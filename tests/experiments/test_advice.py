"""Advice for texts that are too short: the advised settings make the run start."""

from __future__ import annotations

import random
import re
import shlex
from pathlib import Path

import pytest

from data.errors import UserError
from experiments import advice, compose, experiment
from tests.experiments import tiny


def text(sentences: int, end: str) -> str:
    rng = random.Random(0)
    return end.join(
        " ".join(rng.sample(tiny.WORDS, rng.randint(6, 14))).capitalize() + "." for _ in range(sentences)
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "two.txt").write_text("A short text.\nAnd another one.")
    (tmp_path / "thirty.txt").write_text(text(30, "\n"))
    (tmp_path / "long.txt").write_text(text(200, " "))
    (tmp_path / "files").mkdir()
    for number in range(3):
        (tmp_path / "files" / f"{number}.txt").write_text(text(8 + number, "\n"))
    return tmp_path


def overrides(folder: Path, objective: str, file: str, *more: str) -> list[str]:
    if objective in ("declutr", "nsp", "sop"):
        encoder = [given for given in tiny.overrides(folder) if given.startswith(("encoder", "weights", "device"))]
    else:
        encoder = ["encoder=gru", "encoder.hidden=8", "encoder.word_size=8", "device=cpu"]
    data = [f"objective={objective}", "corpus=text", f"corpus.path={folder / file}", "evaluation=none"]
    return [
        *encoder,
        *data,
        "budget.steps=1",
        "threads=1",
        f"cache={folder / 'cache'}",
        f"run_dir={folder / 'run'}",
        *more,
    ]


def refusal(arguments: list[str]) -> str:
    with pytest.raises(UserError) as error:
        experiment.run(compose.check(arguments))
    return str(error.value)


@pytest.mark.usefixtures("without_plots")
@pytest.mark.parametrize(
    ("objective", "file", "read"),
    [
        ("conssent", "thirty.txt", "as one document a line: 30 documents, the longest of 14 words."),
        ("declutr", "thirty.txt", "as one document a line: 30 documents, the longest of 14 words."),
        ("nsp", "long.txt", r"as one document a line: 1 document, the longest of [\d,]+ words."),
        ("sop", "thirty.txt", "as one document a line: 30 documents, the longest of 14 words."),
        ("quick_thoughts", "files", r"as one document a file: 3 documents, the longest of \d+ words."),
    ],
)
def test_the_advised_settings_make_the_run_start(objective: str, file: str, read: str, folder: Path) -> None:
    arguments = overrides(folder, objective, file)
    line = refusal(arguments)
    assert "\n" not in line and re.search(f"The corpus was read {read}", line)
    advised = re.search(
        r" Add (.+?)(?: \(enough to run, hardly enough to learn from\))?, or take a longer text\.$", line
    )
    assert advised, line
    sizes = re.findall(r"corpus\.document=(\d+)", line)
    meanings = [f" (documents of {int(size):,} words)" for size in sizes]
    assert re.findall(r" \(documents of .*?\)", line) == meanings
    for number, settings in enumerate(re.sub(r" \(documents of .*?\)", "", advised.group(1)).split(", or ")):
        experiment.run(compose.check([*arguments, *shlex.split(settings), f"run_dir={folder / str(number)}"]))


def test_a_setting_that_is_already_given_is_not_advised(folder: Path) -> None:
    line = refusal(overrides(folder, "nsp", "long.txt", "corpus.document=file"))
    assert "The corpus was read as one document a file: 1 document," in line
    assert "corpus.document=" in line and "corpus.document=file" not in line


def test_a_text_that_no_setting_makes_long_enough_needs_more_words(folder: Path) -> None:
    line = refusal(overrides(folder, "quick_thoughts", "two.txt", "encoder.min_count=1"))
    match = re.search(
        r"No setting was found .*: about ([\d,]+) words in sentences are enough\.$",
        line,
    )
    assert match, line
    words = int(match.group(1).replace(",", ""))
    (folder / "more.txt").write_text(text(words // 10, "\n"))
    assert "No setting" not in refusal(overrides(folder, "quick_thoughts", "more.txt"))


def test_the_search_for_advice_ends(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(advice, "TRIALS", 2)
    line = refusal(overrides(folder, "conssent", "thirty.txt"))
    assert " No setting was found that makes it long enough; take a longer text" in line
