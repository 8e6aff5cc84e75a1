"""Damaged and hostile text, SentEval files and results: one line, status 2, and nothing is written."""

from __future__ import annotations

import gzip
import io
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from data.sources.reading import MOST_BYTES
from data.sources.text import Text
from tests.analysis.senteval import small_data
from tests.command_runner import run_command, snapshot
from tests.experiments import tiny

pytestmark = pytest.mark.usefixtures("command_lines_composed_once")
Content = bytes | str
DEEP = "[" * 100_000
DIGITS = "1" * 5000
LONG = b"a " * (MOST_BYTES // 2 + 1)
TREE = "(S (NP (DT the) (NN dog)) (VP (VBD ran)))\n"
ESCAPES = "\x1b[31mred\x9b \u202e[red]x[/red]"


def raw(content: Content) -> bytes:
    return content if isinstance(content, bytes) else content.encode()


def table(**columns: pa.Array) -> bytes:
    out = io.BytesIO()
    parquet.write_table(pa.table(columns), out)
    return out.getvalue()


def archive(**arrays: np.ndarray) -> bytes:
    out = io.BytesIO()
    np.savez(out, **arrays)  # type: ignore[arg-type]
    return out.getvalue()


# A file of a few kilobytes that expands to a table of 2 GB.
REPEATED = table(text=pa.DictionaryArray.from_arrays(pa.array([0] * 300), [LONG.decode()]))


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("text")
    small_data.folder(folder / "senteval")
    return folder


def assert_refused(root: Path, module: str, *arguments: str, parts: tuple[str, ...]) -> None:
    """Asserts that a command is refused in one line with all ``parts``, and writes nothing but caches."""
    (root / "cache").mkdir(exist_ok=True)
    before = snapshot(root, without=root / "cache")
    found = run_command(module, *arguments, folder=root)
    assert found.refused(*parts), found
    assert len(found.error) < 2500 and not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]", found.error)
    assert snapshot(root, without=root / "cache") == before


CORPORA: dict[str, tuple[str, Content, tuple[str, ...]]] = {
    "long line": (
        "a.txt",
        b"short\n" + LONG + b"\nshort\n",
        ("a.txt:2: the line is longer", "or raise corpus.max_bytes"),
    ),
    "long line in gzip": (
        "a.txt.gz",
        gzip.compress(b" " * 2**25),
        ("a.txt.gz:1: the line is longer than corpus.max_bytes",),
    ),
    "long JSON line": ("a.jsonl", b'{"text": "' + LONG + b'"}\n', ("a.jsonl:1: the line is longer",)),
    "long JSON line in gzip": (
        "a.jsonl.gz",
        gzip.compress(b'{"text": "' + LONG * 3),
        ("a.jsonl.gz:1: the line is longer",),
    ),
    "NUL": ("a.txt", "a\nb\0\n", ("a.txt:2: a NUL byte",)),
    "not UTF-8": ("a.txt", b"a\n\xff\n", ("a.txt:2: not UTF-8",)),
    "UTF-16": ("a.txt", "text".encode("utf-16"), ("a.txt:1:",)),
    "truncated gzip": (
        "a.txt.gz",
        gzip.compress(b"text\n" * 9999)[:-20],
        ("a.txt.gz: cannot be read after line",),
    ),
    "no gzip": ("a.txt.gz", b"text\n", ("a.txt.gz: cannot be read",)),
    "empty": ("a.txt", b"", ("a.txt is empty",)),
    "blank": ("a.txt", b"\n \n\t\n", ("There is no text",)),
    "deep lists": ("a.jsonl", DEEP + "\n", ("a.jsonl:1: not a line of JSON", "nested too deep")),
    "deep objects": ("a.jsonl", '{"text":' * 100_000 + "\n", ("a.jsonl:1:", "nested too deep")),
    "number of many digits": (
        "a.jsonl",
        '{"text": "a"}\n{"text": ' + DIGITS + "}\n",
        ("a.jsonl:2:", "too many digits"),
    ),
    "unclosed object": ("a.jsonl", '{"text": "a"\n', ("a.jsonl:1: not a line of JSON", "column")),
    "list as a line": ("a.jsonl", '["text"]\n', ("a.jsonl:1: not a JSON object with a field 'text'",)),
    "number as text": ("a.jsonl", '{"text": 3}\n', ("a.jsonl:1: field 'text' is not text but int",)),
    "object as text": ("a.jsonl", '{"text": {"text": "a"}}\n', ("a.jsonl:1: field 'text' is not text but dict",)),
    "escapes as a field": (
        "a.jsonl",
        json.dumps({ESCAPES: "a"}) + "\n",
        ("a.jsonl:1: there is no field 'text'", r"\x1b[31m"),
    ),
    "long field name": (
        "a.jsonl",
        json.dumps({"n" * 10**6: "a"}) + "\n",
        ("a.jsonl:1: there is no field 'text'", " ... "),
    ),
    "no parquet": ("a.parquet", b"PAR1" * 100, ("a.parquet: cannot be read as a parquet file",)),
    "another column": ("a.parquet", table(body=pa.array(["a"])), ("a.parquet, row 1: there is no field 'text'",)),
    "numbers as text": ("a.parquet", table(text=pa.array([1])), ("row 1: field 'text' is not text but int",)),
    "lists as text": (
        "a.parquet",
        table(text=pa.array([[[["a"]]]])),
        ("a.parquet: field 'text' is not text but nested",),
    ),
    "long text": (
        "a.parquet",
        table(text=pa.array(["a", LONG.decode()])),
        ("a.parquet, row 2:", "corpus.max_bytes"),
    ),
    "repeated text": ("a.parquet", REPEATED, ("a.parquet, row 1:", "corpus.max_bytes")),
    "file name extension": ("a.dat", b"text", ("corpus.path", "must end in")),
}


@pytest.mark.parametrize("case", CORPORA)
def test_damaged_corpora_are_refused(root: Path, case: str) -> None:
    name, content, parts = CORPORA[case]
    path = root / "corpora" / name  # few different names, so that few command lines are composed
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(raw(content))
    overrides = [text for text in tiny.overrides(root) if not text.startswith("corpus.path")]
    overrides += [f"corpus.path={path}", f"run_dir={root / 'run'}"]
    try:
        assert_refused(root, "experiments.run", *overrides, parts=parts)
    finally:
        path.unlink()


@pytest.mark.parametrize("pattern", ["corpus", "corpus/*.txt"])
def test_a_link_out_of_a_folder_of_text_is_refused(root: Path, tmp_path: Path, pattern: str) -> None:
    (tmp_path / "corpus").mkdir()
    (tmp_path / "secret.txt").write_text("A secret.\n")
    (tmp_path / "corpus" / "a.txt").write_text("Some text.\n")
    (tmp_path / "corpus" / "notes.txt").symlink_to(tmp_path / "secret.txt")
    overrides = [text for text in tiny.overrides(root) if not text.startswith("corpus.path")]
    overrides += [f"corpus.path={tmp_path / pattern}", f"run_dir={root / 'run'}"]
    assert_refused(root, "experiments.run", *overrides, parts=("corpus/notes.txt is a link out of",))


def test_text_at_the_byte_limit_is_read_and_longer_text_refused(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"1234\n12345\n")
    lines, documents = Text(path=str(tmp_path / "a.txt"), max_bytes=6), Text(path=str(tmp_path), max_bytes=11)
    assert [line.text for line in lines.read()] == ["1234\n", "12345\n"]
    assert [document.text for document in documents.read()] == ["1234\n12345\n"]
    for path, bound, message in (
        (tmp_path / "a.txt", 5, "a.txt:2: the line is longer than corpus.max_bytes=5 bytes"),
        (tmp_path, 10, "a.txt: the document is longer than corpus.max_bytes=10 bytes"),
    ):
        with pytest.raises(Exception, match=re.escape(message)):
            list(Text(path=str(path), max_bytes=bound).read())
    for bound in (0, -1, 10**30):
        with pytest.raises(ValueError, match=r"corpus\.max_bytes must be at"):
            Text(path=str(tmp_path), max_bytes=bound)


def add(content: Content) -> Callable[[bytes], bytes]:
    return lambda old: old + raw(content)


def keep(lines: int) -> Callable[[bytes], bytes]:
    return lambda old: b"".join(old.splitlines(keepends=True)[:lines])


def swap(old: bytes, new: Content) -> Callable[[bytes], bytes]:
    return lambda content: content.replace(old, raw(new))


CR, SST, STSB = "CR/custrev.pos", "SST/binary/sentiment-train", "STS/STSBenchmark/sts-test.csv"
SENTEVAL: list[tuple[str, str, Callable[[bytes], bytes], tuple[str, ...]]] = [
    ("CR", CR, add("good\0\n"), ("custrev.pos:31: a NUL byte",)),
    ("CR", CR, add(LONG), ("custrev.pos:31: the line is longer than",)),
    ("CR", CR, keep(0), ("custrev.pos is empty",)),
    ("SST2", SST, add(b"\xff\t1\n"), ("sentiment-train:25: not UTF-8",)),
    ("SST2", SST, add("no label\n"), ("sentiment-train:25: a line must be sentence, tab, label",)),
    ("SST2", SST, add("a\t7\n"), ("sentiment-train:25: label '7' is none of 0, 1",)),
    ("SST2", SST, add("a\t" + "7" * 10**6 + "\n"), ("sentiment-train:25: label", " ... ")),
    ("SST2", SST, add("a\t\x1b[31m\n"), ("sentiment-train:25: label", r"\x1b[31m")),
    ("SST2", SST, swap(b"\t1", "\t0"), ("SST2", "sentiment-train", "of one class")),
    ("SST2", "SST/binary/sentiment-test", swap(b"\n", "\0\n"), ("sentiment-test:1: a NUL byte",)),
    ("SST5", "SST/fine/sentiment-dev", add("6 a\n"), ("sentiment-dev:61: label '6' is none of 0, 1, 2, 3, 4",)),
    ("TREC", "TREC/train_5500.label", add("LOC city\n"), ("train_5500.label:121: a line must be",)),
    ("TREC", "TREC/train_5500.label", keep(2), ("TREC", "train_5500.label", "folds need as many examples")),
    ("MRPC", "MRPC/msr_paraphrase_train.txt", keep(1), ("nothing below its header",)),
    (
        "MRPC",
        "MRPC/msr_paraphrase_train.txt",
        add("1\ta\n"),
        ("train.txt:42:", "Got 2 of 5 columns"),
    ),
    ("SNLI", "SNLI/labels.dev", keep(2), ("labels.dev must have the 30 lines of s1.dev",)),
    ("SNLI", "SNLI/labels.train", swap(b"neutral", "x"), ("labels.train:2: label 'x' is none of",)),
    ("SNLI", "SNLI/s1.train", swap(b"\n", "\0\n"), ("s1.train:1: a NUL byte",)),
    ("SICKEntailment", "SICK/SICK_train.txt", swap(b"NEUTRAL", "x"), ("SICK_train.txt:3: label 'x'",)),
    ("SICKRelatedness", "SICK/SICK_trial.txt", swap(b"\t1.5\t", "\tnan\t"), ("SICK_trial.txt:2: score 'nan'",)),
    ("STSBenchmark", STSB, swap(b"\t1.000", "\tinf"), ("sts-test.csv:2: score 'inf' is no number from 0 to 5",)),
    ("STSBenchmark", STSB, swap(b"\t1.000", "\t" + DIGITS), ("sts-test.csv:2: score '1111",)),
    ("STSBenchmark", STSB, swap(b"\t1.000", "\t-1"), ("sts-test.csv:2: score '-1' is no number from 0 to 5",)),
    ("STSBenchmark", STSB, swap(b"\t1.000", "\tx"), ("sts-test.csv:2: score 'x' is no number from 0 to 5",)),
    ("STS12", "STS/STS12-en-test/STS.gs.MSRpar.txt", keep(1), ("STS.gs.MSRpar.txt must have the 20 lines",)),
    ("STS12", "STS/STS12-en-test/STS.input.MSRpar.txt", add("a\0\tb\n"), ("STS.input.MSRpar.txt:21: a NUL byte",)),
    ("Length", "../probing/sentence_length.txt", swap(b"va\t", "xx\t"), ("sentence_length.txt:", "part 'xx'")),
    ("Length", "../probing/sentence_length.txt", keep(1), ("there is no line of part va (dev)",)),
    ("ImageCaptionRetrieval", "COCO/train.pkl", keep(0), ("train.pkl is not a complete pickle",)),
]


@pytest.mark.parametrize(
    ("task", "file", "damage", "parts"),
    SENTEVAL,
    ids=[f"{task}: {', '.join(parts)}" for task, *_, parts in SENTEVAL],
)
def test_damaged_senteval_files_are_refused(
    root: Path, task: str, file: str, damage: Callable[[bytes], bytes], parts: tuple[str, ...]
) -> None:
    path = root / "senteval" / "downstream" / file
    intact = path.read_bytes()
    path.write_bytes(damage(intact))
    try:
        overrides = [f"{key}={root / key}" for key in ("out", "cache")]
        overrides += ["model=random_vectors", f"data={root / 'senteval'}", f"tasks=[{task}]"]
        assert_refused(root, "experiments.evaluate", *overrides, parts=parts)
    finally:
        path.write_bytes(intact)


def test_identical_sentences_have_no_correlation(root: Path, tmp_path: Path) -> None:
    path = root / "senteval/downstream/STS/STS12-en-test/STS.input.MSRpar.txt"
    intact = path.read_bytes()
    path.write_text("the dog\tthe dog\n" * 20)
    try:
        overrides = [
            f"cache={root / 'cache'}",
            "model=random_vectors",
            f"data={root / 'senteval'}",
            "tasks=[STS12]",
        ]
        assert run_command("experiments.evaluate", *overrides, f"out={tmp_path / 'out'}", folder=root).status == 0
    finally:
        path.write_bytes(intact)
    text = (tmp_path / "out" / "senteval.json").read_text()
    found = json.loads(text, parse_constant=pytest.fail)  # JSON has no NaN
    assert found["tasks"]["STS12"]["subsets"]["MSRpar"] == {"n": 20, "pearson": None, "spearman": None}
    assert found["tasks"]["STS12"]["test"] is found["tasks"]["STS12"]["spearman"]["mean"] is None
    assert found["tasks"]["STS12"]["subsets"]["MSRvid"]["spearman"] is not None
    assert not any(name.startswith("sts_spearman_mean") for name in found["averages"])
    shown = run_command("experiments.evaluate", "table", f"results={tmp_path / 'out'}", folder=root)
    assert shown.status == 0 and "│ – │" in re.sub(" +", " ", shown.output)
    assert "nan" not in shown.output and "–: no correlation is defined" in shown.output


RECORD = {
    "kind": "split",
    "protocol": "default",
    "dev": 80.0,
    "test": 81.0,
    "files": "f",
    "l2": 0.01,
    "seconds": 1.0,
}
RECORD |= {"n_train": 10, "n_dev": 5, "n_test": 5}


def results(record: Any = None, **changes: Any) -> str:
    """Returns a senteval.json of one task, with ``changes`` to its values."""
    tasks = {"SST2": RECORD if record is None else {**RECORD, **record}}
    return json.dumps({"tasks": tasks, "model": {"name": "m"}, "protocol": "default", "missing": {}} | changes)


RESULTS: dict[str, tuple[Content, str]] = {
    "a list": ("[]", "it is not an object"),
    "nested": (DEEP, "is not JSON"),
    "many digits": (DIGITS, "is not JSON"),
    "empty": ("", "is not JSON"),
    "not UTF-8": (b"\xff", "is not JSON"),
    "truncated": (results()[:60], "is not JSON"),
    "no keys": ("{}", 'it has no "tasks"'),
    "tasks a list": (results(tasks=[]), '"tasks" is not an object'),
    "task null": (results(tasks={"SST2": None}), "SST2 is not an object"),
    "unknown task": (results(tasks={"\x1b[31m": RECORD}), r"\x1b[31m is no task"),
    "model a list": (results(model=["m"]), '"model" is not an object'),
    "protocol a number": (results(protocol=3), '"protocol" is not text'),
    "missing a list": (results(missing=[1]), '"missing" is not an object of texts'),
    "score a text": (results({"test": "81"}), "SST2.test cannot be '81'"),
    "score infinite": (results({"test": 1e308}).replace("1e+308", "1e999"), "SST2.test cannot be inf"),
    "score NaN": (results({"test": float("nan")}), "SST2.test cannot be nan"),
    "l2 a list": (results({"l2": ["x"]}), "SST2.l2 cannot be ['x']"),
    "kind a list": (results({"kind": ["split"]}), "SST2.kind must be one of"),
    "fields of another kind": (results({"kind": "relatedness"}), "SST2.pearson is missing"),
    "count negative": (results({"n_train": -1}), "SST2.n_train cannot be -1"),
}


@pytest.mark.parametrize("name", RESULTS)
@pytest.mark.parametrize("command", ["table", "ranking"])
def test_damaged_results_are_refused(root: Path, command: str, name: str) -> None:
    content, message = RESULTS[name]
    folder = root / name.replace(" ", "-")
    folder.mkdir(exist_ok=True)
    (folder / "senteval.json").write_bytes(raw(content))
    assert_refused(root, "experiments.evaluate", command, f"results={folder}", parts=(str(folder), message))


GOLD = np.arange(3.0)
PREDICTIONS: dict[str, tuple[bytes, str]] = {
    "text file": (b"text", "is no .npz file"),
    "empty": (b"", "is no .npz file"),
    "truncated": (archive(gold=GOLD, predicted=GOLD)[:100], "is no .npz file"),
    "damaged zip": (b"PK\x03\x04" + bytes(60), "is no .npz file"),
    "objects": (archive(gold=np.array([{}]), predicted=GOLD[:1]), "is no .npz file"),
    "array missing": (archive(gold=GOLD), 'has no array "predicted"'),
    "gold a scalar": (archive(gold=np.array(3), predicted=GOLD), "arrays of one length"),
    "subset a matrix": (archive(gold=GOLD, predicted=GOLD, subset=np.zeros((3, 2))), "arrays of one length"),
    "no classes": (archive(gold=GOLD, predicted=np.zeros((3, 0))), "arrays of one length"),
    "predicted NaN": (archive(gold=GOLD, predicted=np.full(3, np.nan)), "predicted must hold finite numbers only"),
    "gold of text": (archive(gold=np.array(["a", "b"]), predicted=GOLD[:2]), "gold must hold finite numbers only"),
    "predicted too large": (
        archive(gold=GOLD, predicted=np.full(3, 1e300)),
        "predicted must hold finite numbers only",
    ),
}


@pytest.mark.parametrize("name", PREDICTIONS)
def test_damaged_predictions_are_refused(root: Path, name: str) -> None:
    content, message = PREDICTIONS[name]
    path = root / f"predicted-{name.replace(' ', '-')}" / "predictions" / "STSBenchmark.npz"
    path.parent.mkdir(parents=True)
    path.write_bytes(content)
    both = f"results=[{path.parents[1]},{path.parents[1]}]"
    assert_refused(root, "experiments.evaluate", "bootstrap", both, parts=(str(path), message))


PAIRS = "1\ta b\ta c\n0\td e\tf g\n" * 10
COMMANDS: list[tuple[str, str, dict[str, Content], tuple[str, ...]]] = [
    ("wordsim", "data", {"EN-x.txt": "a b nan\n"}, ("EN-x.txt:1: score 'nan'",)),
    ("wordsim", "data", {"EN-x.txt": "a b\n"}, ("EN-x.txt:1: a line must be word, word, score",)),
    ("wordsim", "data", {"EN-x.txt": ""}, ("EN-x.txt holds no pair",)),
    ("wordsim", "data", {"EN-x.txt": LONG}, ("EN-x.txt:1: the line is longer than",)),
    ("wordsim", "data", {"EN-x.txt": "a\0b c 1\n"}, ("EN-x.txt:1: a NUL byte",)),
    ("quora", "data", {"train.tsv": "2\ta\tb\n", "test.tsv": PAIRS}, ("train.tsv:1: label '2'",)),
    ("quora", "data", {"train.tsv": "1\ta\n", "test.tsv": PAIRS}, ("train.tsv:1: a line must be a label",)),
    ("quora", "data", {"train.tsv": PAIRS.replace("0\t", "1\t"), "test.tsv": PAIRS}, ("of one class",)),
    ("quora", "data", {"train.tsv": "1\ta\tb\n", "test.tsv": PAIRS}, ("There is no training example",)),
    ("quora", "data", {"train.tsv.gz": b"\x1f\x8bx", "test.tsv": PAIRS}, ("train.tsv.gz: cannot be read",)),
    ("quora", "data", {"train.tsv": PAIRS, "test.tsv": LONG}, ("test.tsv:1: the line is longer than",)),
    ("neighbours", "sentences", {"a.txt": "a\0\n"}, ("a.txt:1: a NUL byte",)),
    ("neighbours", "sentences", {"a.txt": b"\xff\n"}, ("a.txt:1: not UTF-8",)),
    ("neighbours", "sentences", {"a.txt": "\n\n"}, ("a.txt holds no sentence",)),
    ("projection_map", "data", {"a.tsv": "a b\n"}, ("a.tsv:1: a line must be a label and a text",)),
    ("projection_map", "data", {"a.tsv": "a\tb\n"}, ("a.tsv has 1 labels",)),
    ("projection_map", "data", {"a.tsv": b"a\t" + LONG}, ("a.tsv:1: the line is longer than",)),
    ("probes", "data", {"x_train.ptb": "(" * 5000}, ("x_train.ptb:1: the tree", "deeper than 150")),
    ("probes", "data", {"x_train.ptb": "(S (NP"}, ("x_train.ptb:1: the tree", "not closed")),
    ("probes", "data", {"x_train.ptb": "(S (\x1b[31m a) b"}, ("x_train.ptb:1: expected a bracket, found 'b'",)),
    (
        "probes",
        "data",
        {"x_train.ptb": "(S (DT the)\n" + " " * 5_999_990 + "\n" + " " * 999_990},
        ("longer than",),
    ),
    ("probes", "data", {"x_train.ptb": "x" * 10**6}, ("x_train.ptb:1: 'xxx", " ... ")),
    ("probes", "data", {"x_train.ptb": TREE * 9, "x_dev.ptb": ""}, ("There is no training example",)),
]


@pytest.mark.parametrize(
    ("command", "option", "files", "parts"),
    COMMANDS,
    ids=[f"{name}: {', '.join(parts)}" for name, *_, parts in COMMANDS],
)
def test_damaged_files_of_commands_are_refused(
    root: Path, tmp_path: Path, command: str, option: str, files: dict[str, Content], parts: tuple[str, ...]
) -> None:
    defaults = {"x_dev.ptb": TREE, "x_test.ptb": TREE} if command == "probes" else {}
    for name, content in (defaults | files).items():
        (tmp_path / name).write_bytes(raw(content))
    path = tmp_path / next(iter(files)) if option == "sentences" or command == "projection_map" else tmp_path
    required = {"quora": ["sizes=all", "classifiers=logistic"], "neighbours": ["queries=[a]"]}
    arguments = [command, "models=random_vectors", "cache=null", f"{option}={path}", *required.get(command, [])]
    assert_refused(root, "experiments.evaluate", *arguments, parts=parts)


def test_control_characters_and_formulas_in_text_are_shown_escaped(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text(f"=1+1\n{ESCAPES}\n\tindented\n-0.22\n")
    (tmp_path / "q.txt").write_text("=\x1b[2J\n")
    (tmp_path / "r").mkdir()
    name = f"=1+1 {ESCAPES}"
    (tmp_path / "r" / "senteval.json").write_text(
        results(model={"name": name}, protocol=ESCAPES, missing={"a\x1b": ""})
    )
    neighbours = ["neighbours", "models=random_vectors", "cache=null", "sentences=a.txt", "queries_file=q.txt"]
    for form in ("text", "md", "csv"):
        for found in (
            run_command("experiments.evaluate", *neighbours, f"format={form}", folder=tmp_path),
            run_command("experiments.evaluate", "table", "results=r", f"format={form}", folder=tmp_path),
        ):
            assert found.status == 0 and "1+1" in found.output
            assert not re.search("[\0-\x09\x0b-\x1f\x7f-\x9f\u202e]", found.output + found.error)
            assert form != "csv" or not re.search(r"(^|,)=", found.output, re.MULTILINE)
    ranking = run_command("experiments.evaluate", "ranking", "results=r", "by=[]", folder=tmp_path)
    assert ranking.status == 0 and "\x1b" not in ranking.output
