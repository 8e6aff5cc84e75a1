"""Finished, unfinished and broken run folders are all listed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from analysis import runs
from analysis.run_tables import mean_table
from data.errors import UserError
from tests.analysis.runs_on_disk import START, TRAINED, write
from tests.analysis.test_run_tables import printed_table


def test_a_finished_run_is_read(tmp_path: Path) -> None:
    row = runs.read(write(tmp_path / "declutr-roberta-base-pydocs-1-x"))
    assert row["state"] == "finished" and row["problem"] is None
    assert (row["objective"], row["encoder"], row["corpus"], row["budget"]) == (
        "declutr",
        "roberta-base",
        "pydocs",
        "teaching",
    )
    assert (row["steps"], row["tokens"], row["weights"], row["seed"]) == (60, 150_000, "random", 1)
    assert row["start"] == START and row["trained"] == TRAINED and row["senteval"] == {}


def test_an_unfinished_run_is_read_though_its_last_line_is_cut(tmp_path: Path) -> None:
    folder = write(tmp_path / "run", finished=False)
    with (folder / "metrics.jsonl").open("a") as file:
        file.write('{"step": 61, "lo')
    row = runs.read(folder)
    assert row["state"] == "unfinished" and row["steps"] == 60 and row["trained"] == {}


@pytest.mark.parametrize(
    ("file", "content", "problem"),
    [
        pytest.param("config.yaml", "a: [1", "while parsing a flow sequence", id="config is not YAML"),
        pytest.param("config.yaml", "- 1", "config.yaml is not a mapping", id="config is a list"),
        pytest.param(
            "metrics.jsonl",
            '{"step": 1\n{"step": 2, "loss": 1}\n',
            "metrics.jsonl:1 is not JSON",
            id="truncated line of metrics",
        ),
        pytest.param("metrics.jsonl", "3\n4\n", "metrics.jsonl:1 is not a JSON object", id="metrics are numbers"),
        pytest.param(
            "metrics.jsonl", "\n" * 1_000_000, "metrics.jsonl:1 is not JSON", id="a million empty lines of metrics"
        ),
        pytest.param("quick.json", "{", "Expecting property name", id="truncated scores"),
        pytest.param("quick.json", "[]", "quick.json is not a JSON object", id="scores are a list"),
        pytest.param(
            "quick.json",
            '{"start": {}, "trained": {"probe_length": 50.0}, "version": 3}',
            "quick.json is of version 3; known here are versions 1 to 2",
            id="version too high",
        ),
        pytest.param(
            "quick.json",
            '{"start": {}, "version": 0}',
            "quick.json is of version 0; known here are versions 1 to 2",
            id="version too low",
        ),
    ],
)
def test_a_broken_run_is_listed_as_such(tmp_path: Path, file: str, content: str, problem: str) -> None:
    write(tmp_path / "a-good")
    (write(tmp_path / "b-broken") / file).write_text(content)
    (tmp_path / "c-pictures").mkdir()  # not a run
    (tmp_path / ".cache").mkdir()
    (tmp_path / "notes.txt").touch()
    (write(tmp_path / "d-bare") / "config.yaml").unlink()
    rows = runs.scan(tmp_path)
    assert [(row["run"], row["state"]) for row in rows] == [
        ("a-good", "finished"),
        ("b-broken", "broken"),
        ("d-bare", "broken"),
    ]
    assert problem in rows[1]["problem"]
    shown = printed_table(rows)
    assert "3.0 → 14.5" in shown and problem in shown
    assert runs.mixed_probes(rows) == []
    mean_table(rows)


def test_a_run_with_too_long_a_journal_is_broken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    count = len((write(tmp_path / "run") / "metrics.jsonl").read_text().splitlines())
    monkeypatch.setattr(runs, "MOST_LINES", count)
    assert runs.scan(tmp_path)[0]["state"] == "finished"
    monkeypatch.setattr(runs, "MOST_LINES", count - 1)
    assert runs.scan(tmp_path)[0]["problem"] == f"metrics.jsonl has more than {count - 1} lines"


@pytest.mark.parametrize(
    "line", ['{"step": 1.5}', '{"step": -1}', '{"step": 1, "tokens": Infinity}', '{"step": 1, "loss": 1e308}']
)
def test_a_run_whose_journal_has_impossible_numbers_is_broken(tmp_path: Path, line: str) -> None:
    journal = write(tmp_path / "run") / "metrics.jsonl"
    journal.write_text(f"{line}\n{journal.read_text()}")
    assert runs.scan(tmp_path)[0]["problem"] == "metrics.jsonl:1 is not a step and its numbers"


def test_a_run_that_cannot_be_read_is_broken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "a-good")
    closed = write(tmp_path / "b-closed")
    exists = Path.exists

    def refuse(path: Path, **options: Any) -> bool:
        if path.parent == closed:
            raise PermissionError(13, "Permission denied", str(path))
        return exists(path, **options)

    monkeypatch.setattr(Path, "exists", refuse)
    assert [row["state"] for row in runs.scan(tmp_path)] == ["finished", "broken"]


def test_a_run_with_undecodable_files_is_broken(tmp_path: Path) -> None:
    (write(tmp_path / "run") / "metrics.jsonl").write_bytes(b"\xff\xfe\x00")
    assert runs.scan(tmp_path)[0]["state"] == "broken"


def test_a_run_folder_itself_may_be_named(tmp_path: Path) -> None:
    assert [row["run"] for row in runs.scan(write(tmp_path / "one"))] == ["one"]


def test_a_missing_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(
        UserError, match=r"There is no folder .*nowhere: name the folder that holds the run folders"
    ):
        runs.scan(tmp_path / "nowhere")


def test_a_key_that_older_runs_lack_counts_as_its_default() -> None:
    older = {"corpus": {"path": "a.txt"}}
    newer = {"corpus": {"path": "a.txt", "document": None, "max_bytes": 9}}
    assert runs.comparable(newer) == runs.comparable(older)
    assert runs.comparable({"corpus": {"path": "a.txt", "document": "file"}}) != runs.comparable(older)
