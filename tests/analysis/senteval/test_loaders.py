"""Readers against naive implementations of the toolkit's rules, on small and on real files."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analysis.senteval import loaders
from analysis.senteval.loaders import Examples, read_rows
from analysis.senteval.tasks import TASKS
from data.errors import UserError
from tests.real_data import suite_data

WORDS = st.lists(st.sampled_from(["a", "bb", "ccc", "."]), max_size=4).map(" ".join)
Content = str | bytes
few_examples = settings(max_examples=30)


def load(reader: Callable[..., Any], folder: Path, **parts: Iterable[Content]) -> dict[str, Examples]:
    """Writes the files of each part, as <part>.<number>, and reads them."""
    files: dict[str, list[Path]] = {part: [] for part in parts}
    for part, contents in parts.items():
        for number, content in enumerate(contents):
            files[part].append(folder / f"{part}.{number}")
            files[part][-1].write_bytes(content.encode() if isinstance(content, str) else content)
    return reader(files)


def rows(examples: Examples) -> list[tuple[str, ...]]:
    columns = examples.first, examples.second, list(map(str, examples.targets))
    return list(zip(*filter(None, columns), strict=True))


def whole(line: str) -> tuple[int, str]:
    return 0, line


@given(
    text=st.text(st.sampled_from("ab \t\n\r\x0b\x0c\x1c\x1e\x85\xa0\u2028é"), min_size=1),
    encoding=st.sampled_from(["utf-8", "latin-1"]),
)
def test_lines_equal_those_of_an_open_file(tmp_path_factory: Any, text: str, encoding: str) -> None:
    path = tmp_path_factory.getbasetemp() / "x.txt"
    path.write_bytes(text.encode(encoding, errors="replace"))
    with path.open(encoding=encoding) as opened:
        expected = [line.removesuffix("\n") for line in opened]
    rows = read_rows(whole, path, encoding=encoding, tokens=lambda line: [line])
    assert [line for _, line in rows] == expected


@few_examples
@given(positive=st.lists(WORDS, min_size=1), negative=st.lists(WORDS, min_size=1))
def test_binary_tasks_are_sorted_like_the_toolkit(
    tmp_path_factory: Any, positive: list[str], negative: list[str]
) -> None:
    files = tuple("".join(f"{line}\n" for line in lines) for lines in (positive, negative))
    examples = load(loaders.binary, tmp_path_factory.getbasetemp(), all=files)["all"]
    expected = sorted(
        [(text, 1) for text in positive] + [(text, 0) for text in negative],
        key=lambda e: (len(e[0].split()), e[1]),
    )
    assert rows(examples) == [(text or ".", str(target)) for text, target in expected]
    assert examples.targets.dtype == np.int64


def test_binary_tasks_are_read_as_latin_1(tmp_path: Path) -> None:
    examples = load(loaders.binary, tmp_path, all=(b"caf\xe9\xa0au  lait\n\nun\x85deux\n", b"x\n"))["all"]
    assert examples.first == [".", "x", "un deux", "café au lait"]


SICK = "a header\r\n1\ta b\tc\t4.5\tNEUTRAL\r\n2\ta\tc d\t3.2\tCONTRADICTION\r\n3\tb\td c\t1\tENTAILMENT\r\n"


@pytest.mark.parametrize(
    ("reader", "content", "expected"),
    [
        (
            loaders.trec,
            "NUM:date When was : it ?\nABBR:exp What is it ?\nLOC:city Where ?\nHUM:ind  Who  \n",
            [("Who", "3"), ("Where ?", "4"), ("What is it ?", "0"), ("When was : it ?", "5")],
        ),
        (loaders.sst2, "a b\t1\nc d\t0\n\t0\r\ne\t1\n", [(".", "0"), ("e", "1"), ("c d", "0"), ("a b", "1")]),
        (loaders.sst5, "4 a b\n0 a c\n2 z\n", [("z", "2"), ("a c", "0"), ("a b", "4")]),
        (
            loaders.mrpc,
            "\ufeffa header\r\n1\t1\t2\ta b\tc d e\n0\t3\t4\ta b\tc d\n1\t5\t6\ta c\tc d\n",
            [("a b", "c d", "0"), ("a c", "c d", "1"), ("a b", "c d e", "1")],
        ),
        (loaders.sick_relatedness, SICK, [("b", "d c", "1.0"), ("a", "c d", "3.2"), ("a b", "c", "4.5")]),
        (loaders.sick_entailment, SICK, [("a", "c d", "0"), ("b", "d c", "2"), ("a b", "c", "1")]),
        (
            loaders.sts_benchmark,
            "g\tf\t2012\t1\t5.000\ta b\tc\ng\tf\t2012\t1\t0\t\td\textra\n",
            [(".", "d", "0.0"), ("a b", "c", "5.0")],
        ),
    ],
)
def test_lines_are_parsed_and_sorted_like_the_toolkit(
    tmp_path: Path, reader: Callable[..., Any], content: str, expected: list[tuple[str, ...]]
) -> None:
    parts = load(reader, tmp_path, train=(content,), test=(content,))
    assert [*parts] == ["train", "test"] and rows(parts["train"]) == rows(parts["test"]) == expected


def test_sts_pairs_without_a_score_are_left_out(tmp_path: Path) -> None:
    subsets = {"b": ("a b c\td\textra\ne\tf\u2028g\nh\ti\n", "2.5\n\n0\n"), "a": ("x\ty\r\n", "5\r\n")}
    parts = load(loaders.sts, tmp_path, **subsets)
    assert [*parts] == ["b", "a"] and rows(parts["b"]) == [("h", "i", "0.0"), ("a b c", "d", "2.5")]


LABELS = {"entailment": "0", "neutral": "1", "contradiction": "2"}


@few_examples
@given(pairs=st.lists(st.tuples(WORDS, WORDS, st.sampled_from([*LABELS])), min_size=1))
def test_snli_is_sorted_by_hypothesis_and_name(tmp_path_factory: Any, pairs: list[tuple[str, str, str]]) -> None:
    files = tuple("".join(f"{text}\n" for text in column) for column in zip(*pairs, strict=True))
    examples = load(loaders.snli, tmp_path_factory.getbasetemp(), dev=files)["dev"]
    ordered = sorted(pairs, key=lambda e: (len(e[1].split()), len(e[0].split()), e[2]))
    assert rows(examples) == [(a or ".", b or ".", LABELS[label]) for a, b, label in ordered]


def test_snli_splits_only_at_ascii_blanks(tmp_path: Path) -> None:
    """The toolkit splits bytes, where the second half of "à", \\xa0, is no blank, and decodes them as latin-1."""
    [(first, second, _)] = rows(load(loaders.snli, tmp_path, dev=("voilà  là\n", "Å b\n", "neutral\n"))["dev"])
    assert (first, second) == ("voilà là".encode().decode("latin-1"), "Å b".encode().decode("latin-1"))


def test_probing_tasks_are_read_like_the_toolkit(tmp_path: Path) -> None:
    content = "te\t10\ta\ntr\t9\ta b\r\ntr\t10\tc d\nva\t10\t a  b \ntr\t10\tignored\te\ntr\t9\ta\n"
    parts = load(loaders.probing, tmp_path, all=(content,))
    # Labels are strings: "10" comes before "9".
    assert {part: rows(examples) for part, examples in parts.items()} == {
        "train": [("e", "0"), ("a", "1"), ("c d", "0"), ("a b", "1")],
        "dev": [("a b", "0")],
        "test": [("a", "0")],
    }


@pytest.mark.parametrize(
    ("reader", "files", "where"),
    [
        (loaders.probing, ["tr\tA\tx\nva\tA\tx\nte\tB\tx\n"], ""),
        (loaders.sst2, [b"a\t1\nna\xefve\t1\n"], ":2"),
        (loaders.sts, ["a\tb\na\tb\n", "1\nsix\n"], ":2"),
    ],
)
def test_errors_name_files_and_line(
    tmp_path: Path, reader: Callable[..., Any], files: list[Content], where: str
) -> None:
    with pytest.raises(UserError) as error:
        load(reader, tmp_path, all=files)
    assert error.value.key == ", ".join(f"{tmp_path}/all.{number}{where}" for number in range(len(files)))


def test_the_order_of_real_files_equals_the_toolkits() -> None:
    """STS16 is in the order that the toolkit's own code gives."""
    root = suite_data("senteval/downstream")
    pairs, scores = (
        (root / f"STS/STS16-en-test/STS.{column}.plagiarism.txt").read_text("utf-8").splitlines()
        for column in ("input", "gs")
    )
    kept: list[tuple] = [
        (*pair.split("\t"), float(score)) for pair, score in zip(pairs, scores, strict=True) if score
    ]
    kept = sorted(kept, key=lambda e: (len(e[0].split()), len(e[1].split()), e[2]))
    examples = TASKS["STS16"].load(root)
    assert rows(examples["plagiarism"]) == [(a, b, str(score)) for a, b, score in kept] and len(kept) == 230
