"""Lines and loaders against naive implementations of the toolkit's rules, on small and on real files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analysis.senteval.files import loaders
from analysis.senteval.files.loaders import Examples, Line, lines, stream
from data.errors import UserError
from tests.real_data import suite_data

WORDS = st.lists(st.sampled_from(["a", "bb", "ccc", "."]), max_size=4).map(" ".join)
few_examples = settings(max_examples=30)


def write(folder: Path, **files: str) -> None:
    """Writes files by name; in names "__" stands for a full stop and "___" for a hyphen."""
    for name, text in files.items():
        (folder / name.replace("___", "-").replace("__", ".")).write_bytes(text.encode())


def rows(examples: Examples) -> list[tuple[str, ...]]:
    columns = [
        examples.first,
        *([examples.second] if examples.second else []),
        map(str, examples.targets.tolist()),
    ]
    return list(zip(*columns, strict=True))


def naive_order(found: list[tuple], key: Callable[[tuple], tuple]) -> list[tuple]:
    """Insertion sort, stable by construction."""
    done: list[tuple] = []
    for item in found:
        place = len(done)
        while place and key(done[place - 1]) > key(item):
            place -= 1
        done.insert(place, item)
    return done


def place(call: Callable[[], object]) -> str:
    """Returns the file and line that a refusal names."""
    with pytest.raises(UserError) as error:
        call()
    return error.value.key


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "x.txt"


@given(
    text=st.text(st.sampled_from("ab \t\n\r\x0b\x0c\x1c\x1e\x85\xa0\u2028é")).filter(str.strip),
    encoding=st.sampled_from(["utf-8", "latin-1"]),
)
def test_lines_equal_those_of_an_open_file(file: Path, text: str, encoding: str) -> None:
    raw = text.encode(encoding, errors="replace")
    if not raw.strip():
        return
    file.write_bytes(raw)
    with file.open(encoding=encoding) as opened:
        expected = [line.removesuffix("\n") for line in opened]
    found = lines(file, encoding)
    assert [line.text for line in found] == expected
    assert [line.where for line in found] == [f"{file}:{number + 1}" for number in range(len(expected))]


def test_byte_order_mark_and_crlf_are_removed(file: Path) -> None:
    file.write_bytes(b"\xef\xbb\xbfone\r\ntwo\x85\r\n\r\nthree")
    assert [line.text for line in lines(file, "latin-1")] == ["one", "two\x85", "", "three"]


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(b"", id="no bytes"),
        pytest.param(b"\xef\xbb\xbf", id="byte order mark"),
        pytest.param(b" \r\n\n", id="blank lines"),
    ],
)
def test_empty_file_is_refused(file: Path, content: bytes) -> None:
    file.write_bytes(content)
    assert place(lambda: lines(file)) == str(file)


def test_wrong_encoding_names_the_line(file: Path) -> None:
    file.write_bytes("\ufeffone\r\ntwo\r\n".encode() + "naïve\n".encode("latin-1"))
    assert place(lambda: lines(file)) == f"{file}:3"


def test_missing_file_is_named(file: Path) -> None:
    assert place(lambda: lines(file)) == str(file)


def test_a_damaged_archive_is_reported(tmp_path: Path) -> None:
    (tmp_path / "x.gz").write_bytes(b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03K")
    with pytest.raises(UserError):
        list(stream(tmp_path / "x.gz"))


def test_columns_are_split_by_tabs_and_counted() -> None:
    line = Line(Path("f"), 7, "a\tb c\t")
    assert line.columns(3, "") == ["a", "b c", ""]
    assert place(lambda: line.columns(4, "four words, by tabs")) == "f:7"


def test_labels_outside_the_classes_are_refused() -> None:
    line = Line(Path("f"), 7, "")
    assert line.label("b", {"a": 0, "b": 1}) == 1
    assert place(lambda: line.label("c", {"a": 0, "b": 1})) == "f:7"


@pytest.mark.parametrize("text", ["", "x", "nan", "inf", "0.99", "5.01"])
def test_scores_that_are_no_numbers_are_refused(text: str) -> None:
    line = Line(Path("f"), 7, "")
    assert [line.score(valid, 1, 5) for valid in ("1", "5.0", "3.25")] == [1, 5, 3.25]
    assert place(lambda: line.score(text, 1, 5)) == "f:7"


@few_examples
@given(positive=st.lists(WORDS, min_size=1), negative=st.lists(WORDS, min_size=1))
def test_binary_tasks_are_read_and_sorted_like_the_toolkit(
    tmp_path: Path, positive: list[str], negative: list[str]
) -> None:
    write(tmp_path, p="x\n" + "\n".join(positive) + "\n", n="y\n" + "\n".join(negative) + "\n")
    found = [(text, 1) for text in ["x", *positive]] + [(text, 0) for text in ["y", *negative]]
    expected = naive_order(found, key=lambda e: (len(e[0].split()), e[1]))
    loaded = loaders.binary(tmp_path, "p", "n")
    assert list(loaded) == ["all"]
    assert rows(loaded["all"]) == [(text or ".", str(label)) for text, label in expected]
    assert loaded["all"].targets.dtype == np.int64


def test_binary_tasks_are_read_as_latin_1(tmp_path: Path) -> None:
    (tmp_path / "p").write_bytes(b"caf\xe9\xa0au  lait\n\nun\x85deux\n")
    (tmp_path / "n").write_bytes(b"x\n")
    assert loaders.binary(tmp_path, "p", "n")["all"].first == [".", "x", "un deux", "café au lait"]


def test_trec_is_read_and_sorted_like_the_toolkit(tmp_path: Path) -> None:
    write(
        tmp_path,
        train_5500__label="NUM:date When was : it ?\nABBR:exp What is it ?\nLOC:city Where ?\nHUM:ind  Who  \n",
        TREC_10__label="DESC:def Why ?\nENTY:other What ?\n",
    )
    loaded = loaders.trec(tmp_path)
    assert rows(loaded["train"]) == [
        ("Who", "3"),
        ("Where ?", "4"),
        ("What is it ?", "0"),
        ("When was : it ?", "5"),
    ]
    assert rows(loaded["test"]) == [("Why ?", "1"), ("What ?", "2")]


def test_sst_is_read_like_the_toolkit(tmp_path: Path) -> None:
    write(
        tmp_path, sentiment___train="a b\t1\nc d\t0\ne\t1\n", sentiment___dev="\t0\n", sentiment___test="a\t1\r\n"
    )
    loaded = loaders.sst2(tmp_path)
    assert rows(loaded["train"]) == [("e", "1"), ("c d", "0"), ("a b", "1")]
    assert rows(loaded["dev"]) == [(".", "0")] and rows(loaded["test"]) == [("a", "1")]
    write(tmp_path, sentiment___train="4 a b\n0 a c\n2 z\n", sentiment___dev="3 a\n", sentiment___test="1 a\n")
    assert rows(loaders.sst5(tmp_path)["train"]) == [("z", "2"), ("a c", "0"), ("a b", "4")]


def test_mrpc_is_read_and_sorted_like_the_toolkit(tmp_path: Path) -> None:
    body = "1\t1\t2\ta b\tc d e\n0\t3\t4\ta b\tc d\n1\t5\t6\ta c\tc d\n"
    write(
        tmp_path,
        msr_paraphrase_train__txt="\ufeffQuality\t#1 ID\t#2 ID\t#1 String\t#2 String\n" + body,
        msr_paraphrase_test__txt="Quality\n1\t1\t2\tx\ty\n",
    )
    loaded = loaders.mrpc(tmp_path)
    assert rows(loaded["train"]) == [("a b", "c d", "0"), ("a c", "c d", "1"), ("a b", "c d e", "1")]
    assert rows(loaded["test"]) == [("x", "y", "1")]


def test_sick_is_read_and_sorted_like_the_toolkit(tmp_path: Path) -> None:
    head = "pair_ID\tsentence_A\tsentence_B\trelatedness_score\tentailment_judgment\r\n"
    body = "1\ta b\tc\t4.5\tNEUTRAL\r\n2\ta\tc d\t3.2\tCONTRADICTION\r\n3\tb\td c\t1\tENTAILMENT\r\n"
    files = ("SICK_train__txt", "SICK_trial__txt", "SICK_test_annotated__txt")
    write(tmp_path, **dict.fromkeys(files, head + body))
    scores, classes = (loaders.sick(tmp_path, entailment=entailment) for entailment in (False, True))
    assert list(scores) == ["train", "dev", "test"]
    assert rows(scores["dev"]) == [("b", "d c", "1.0"), ("a", "c d", "3.2"), ("a b", "c", "4.5")]
    assert rows(classes["test"]) == [("a", "c d", "0"), ("b", "d c", "2"), ("a b", "c", "1")]
    assert scores["train"].targets.dtype == np.float64


def test_sts_benchmark_is_read_like_the_toolkit(tmp_path: Path) -> None:
    body = "genre\tMSRvid\t2012\t1\t5.000\ta b\tc\ngenre\tMSRvid\t2012\t1\t0\t\td\textra\n"
    write(tmp_path, **{f"sts___{split}__csv": body for split in ("train", "dev", "test")})
    assert rows(loaders.sts_benchmark(tmp_path)["dev"]) == [(".", "d", "0.0"), ("a b", "c", "5.0")]


def test_sts_pairs_without_a_score_are_left_out(tmp_path: Path) -> None:
    write(
        tmp_path,
        STS__input__b__txt="a b c\td\textra\ne\tf\u2028g\nh\ti\n",
        STS__gs__b__txt="2.5\n\n0\n",
        STS__input__a__txt="x\ty\r\n",
        STS__gs__a__txt="5\r\n",
    )
    loaded = loaders.sts(tmp_path, ("b", "a"))
    assert list(loaded) == ["b", "a"]
    assert rows(loaded["b"]) == [("h", "i", "0.0"), ("a b c", "d", "2.5")]


PAIRS = st.lists(st.tuples(WORDS, WORDS, st.sampled_from(["entailment", "neutral", "contradiction"])), min_size=1)


@few_examples
@given(pairs=PAIRS)
def test_snli_is_sorted_by_hypothesis_and_name(tmp_path: Path, pairs: list[tuple[str, str, str]]) -> None:
    pairs = [("z", "z", "neutral"), *pairs]
    for split in ("train", "dev", "test"):
        for part, column in zip(("s1", "s2", "labels"), zip(*pairs, strict=True), strict=True):
            (tmp_path / f"{part}.{split}").write_text("".join(f"{text}\n" for text in column))
    numbers = {"entailment": "0", "neutral": "1", "contradiction": "2"}
    ordered = naive_order(pairs, key=lambda e: (len(e[1].split()), len(e[0].split()), e[2]))
    assert rows(loaders.snli(tmp_path)["dev"]) == [(a or ".", b or ".", numbers[label]) for a, b, label in ordered]


def test_snli_splits_only_at_ascii_blanks(tmp_path: Path) -> None:
    """The toolkit splits bytes, where the second half of "à", \\xa0, is no blank, and decodes them as latin-1."""
    for split in ("train", "dev", "test"):
        write(
            tmp_path, **{f"s1__{split}": "voilà  là\n", f"s2__{split}": "Å b\n", f"labels__{split}": "neutral\n"}
        )
    [(first, second, _)] = rows(loaders.snli(tmp_path)["train"])
    assert first == "voilà là".encode().decode("latin-1") and second == "Å b".encode().decode("latin-1")


def test_probing_tasks_are_read_like_the_toolkit(tmp_path: Path) -> None:
    write(
        tmp_path,
        x__txt="te\t10\ta\ntr\t9\ta b\r\ntr\t10\tc d\nva\t10\t a  b \ntr\t10\tignored\te\ntr\t9\ta\n",
    )
    loaded = loaders.probing(tmp_path, "x.txt")
    assert list(loaded) == ["train", "dev", "test"]
    # Labels are strings: "10" comes before "9".
    assert rows(loaded["train"]) == [("e", "0"), ("a", "1"), ("c d", "0"), ("a b", "1")]
    assert rows(loaded["dev"]) == [("a b", "0")] and rows(loaded["test"]) == [("a", "0")]


@pytest.mark.parametrize(
    ("load", "files", "where"),
    [
        (lambda folder: loaders.probing(folder, "x"), {"x": "tr\tA\tx\nva\tA\tx\nte\tB\tx\n"}, "x:3"),
        (lambda folder: loaders.probing(folder, "x"), {"x": "tr\tA\tx\nva\tA\tx\n"}, "x"),
        (lambda folder: loaders.probing(folder, "x"), {"x": "tr\tA\tx\ndev\tA\tx\n"}, "x:2"),
        (lambda folder: loaders.probing(folder, "x"), {"x": "tr\tA\tx\ntr\tA\n"}, "x:2"),
        (loaders.trec, {"train_5500.label": "NUM:a b\nNUM:a\n"}, "train_5500.label:2"),
        (loaders.sst2, {"sentiment-train": "a\t1\nb 1\n"}, "sentiment-train:2"),
        (loaders.sst5, {"sentiment-train": "4 a\n3\n"}, "sentiment-train:2"),
        (loaders.mrpc, {"msr_paraphrase_train.txt": "Quality\n"}, "msr_paraphrase_train.txt"),
        (
            lambda folder: loaders.sick(folder, entailment=False),
            {"SICK_train.txt": "head\n1\ta\tb\t0.5\tNEUTRAL\n"},
            "SICK_train.txt:2",
        ),
        (
            lambda folder: loaders.sick(folder, entailment=True),
            {"SICK_train.txt": "head\n1\ta\tb\t5\tneutral\n"},
            "SICK_train.txt:2",
        ),
        (loaders.sts_benchmark, {"sts-train.csv": "g\tf\ty\t1\t5.1\ta\tb\n"}, "sts-train.csv:1"),
        (
            lambda folder: loaders.sts(folder, ["a"]),
            {"STS.input.a.txt": "a\tb\nc\td\n", "STS.gs.a.txt": "1\n"},
            "STS.gs.a.txt",
        ),
        (
            lambda folder: loaders.sts(folder, ["a"]),
            {"STS.input.a.txt": "a b\n", "STS.gs.a.txt": "1\n"},
            "STS.input.a.txt:1",
        ),
        (loaders.snli, {"s1.train": "a\nb\n", "s2.train": "b\n", "labels.train": "neutral\n"}, "s2.train"),
    ],
)
def test_errors_name_file_and_line(
    tmp_path: Path, load: Callable[[Path], object], files: dict[str, str], where: str
) -> None:
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    assert place(lambda: load(tmp_path)) == f"{tmp_path}/{where}"


def test_the_order_of_real_files_equals_the_toolkits() -> None:
    """CR and STS16 are in the order that the toolkit's own code gives."""
    folder = suite_data("senteval/downstream")
    samples = []
    for name, label in (("pos", 1), ("neg", 0)):
        text = (folder / f"CR/custrev.{name}").read_text("latin-1")
        samples += [(line.split(), label) for line in text.splitlines()]
    samples = naive_order(samples, key=lambda e: (len(e[0]), e[1]))
    loaded = loaders.binary(folder / "CR", "custrev.pos", "custrev.neg")["all"]
    assert rows(loaded) == [(" ".join(tokens) or ".", str(label)) for tokens, label in samples]
    assert loaded.first[:5] == [".", ".", ".", ".", loaded.first[4]] and loaded.first[4] != "."

    sts16 = folder / "STS/STS16-en-test"
    pairs = [line.split("\t") for line in (sts16 / "STS.input.plagiarism.txt").read_text("utf-8").splitlines()]
    scores = (sts16 / "STS.gs.plagiarism.txt").read_text("utf-8").splitlines()
    kept = [(*pair, float(score)) for pair, score in zip(pairs, scores, strict=True) if score]
    kept = naive_order(kept, key=lambda e: (len(e[0].split()), len(e[1].split()), e[2]))
    found = loaders.sts(sts16, ["plagiarism"])["plagiarism"]
    assert rows(found) == [(a, b, str(score)) for a, b, score in kept] and len(found.first) == 230
