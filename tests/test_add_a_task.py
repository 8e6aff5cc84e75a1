"""The page docs/add-a-task.md: its reader, its entry and its tests, run in this process."""

from __future__ import annotations

import inspect
import re
import subprocess
from pathlib import Path

import pytest

from analysis.senteval import loaders, records, tasks
from tests import command_runner

ROOT = Path(__file__).resolve().parents[1]
PAGE = (ROOT / "docs" / "add-a-task.md").read_text(encoding="utf-8")
TEST, READER, ENTRY = re.findall(r"^```python\n(.*?)^```$", PAGE, re.M | re.S)


@pytest.fixture
def task(monkeypatch: pytest.MonkeyPatch) -> None:
    """Adds the page's task to the suite."""
    names = {**vars(loaders)}
    exec(compile(READER, "reader", "exec"), names)
    monkeypatch.setattr(loaders, "mine", names["mine"], raising=False)
    added = eval(ENTRY.rstrip().rstrip(","), {**vars(tasks)})
    monkeypatch.setitem(tasks.TASKS, added.name, added)
    monkeypatch.setitem(records.PUBLISHED, added.name, added.sizes)


def test_the_tests_on_the_page_pass(task: None, tmp_path: Path) -> None:
    names: dict[str, object] = {"__name__": "test_mine"}
    exec(compile(TEST, "test_mine", "exec", dont_inherit=True), names)
    make_data = inspect.unwrap(names["data"])  # type: ignore[arg-type]
    tests = [value for name, value in names.items() if name.startswith("test_")]
    assert len(tests) == 3
    for number, test in enumerate(tests):
        folder = tmp_path / str(number)
        folder.mkdir()
        test(make_data(folder))  # type: ignore[operator]


def test_the_command_on_the_page_evaluates_the_task(task: None, tmp_path: Path) -> None:
    [data] = re.findall(r"^```sh\n(.+?)^```$", PAGE, re.M | re.S)
    subprocess.run(["bash", "-e", "-c", data], cwd=tmp_path, check=True)
    [arguments] = re.findall(r"^    python experiments/evaluate\.py (.+)$", PAGE, re.M)
    outcome = command_runner.run_command("experiments.evaluate", *arguments.split(), "cache=null", folder=tmp_path)
    assert outcome.status == 0 and re.search(r"^Mine +accuracy +100\.00 +100\.00", outcome.output, re.M), outcome
