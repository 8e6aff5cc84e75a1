"""Downloads from a local server: resumed, interrupted, missing and changed transfers, and every source once."""

from __future__ import annotations

import gzip
import hashlib
import http.server
import io
import re
import tarfile
import threading
import zipfile
from collections.abc import Callable, Iterator
from email.message import Message
from pathlib import Path
from urllib.error import HTTPError

import pytest
from filelock import FileLock

from analysis.senteval.files import download as module
from analysis.senteval.files.download import MANIFEST, download
from analysis.senteval.files.sources import SOURCES, Source, edited
from analysis.senteval.records import PROBING
from analysis.senteval.tasks import TASKS, absent
from data.errors import UserError
from data.files import read_json
from tests.analysis.senteval.example_results import SENTEVAL

URL = "https://host.example/a/x.txt"
UNEDITED = Source(URL, {"downstream/X/x.txt": None}, "Ask at the desk.")


def test_a_folder_that_another_process_fills_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    with FileLock(folder / ".download.lock"), pytest.raises(UserError):
        download(folder, [UNEDITED])


class Server:
    """Serves ``files`` by path, with ranges; ends the next ``cuts`` responses after ``cut`` bytes."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.requests: list[tuple[str, str | None]] = []  # path, range
        self.cut, self.cuts, self.version, self.ranges = 0, 0, '"1"', True
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                wanted = self.headers.get("Range")
                outer.requests.append((self.path, wanted))
                if self.path not in outer.files:
                    self.send_error(404)
                    return
                body, start = outer.files[self.path], 0
                if wanted and outer.ranges and self.headers.get("If-Range") == outer.version:
                    start = int(wanted.removeprefix("bytes=").removesuffix("-"))
                    if start >= len(body):
                        self.send_error(416)
                        return
                self.send_response(206 if start else 200)
                self.send_header("Content-Length", str(len(body) - start))
                self.send_header("ETag", outer.version)
                self.end_headers()
                sent = body[start:]
                if outer.cuts:
                    outer.cuts -= 1
                    sent = sent[: outer.cut]
                self.wfile.write(sent)

            def log_message(self, *_: object) -> None:
                pass

        self.http = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self.http.server_port}"

    def serve(self, url: str, body: bytes) -> None:
        self.files["/" + url.split("://", 1)[1]] = body


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setenv("no_proxy", "*")
    monkeypatch.setattr(module, "CHUNK", 1000)
    local_server = Server()
    thread = threading.Thread(target=local_server.http.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    yield local_server
    local_server.http.shutdown()
    local_server.http.server_close()
    thread.join()


@pytest.fixture
def fetch(server: Server, tmp_path: Path) -> Callable[..., list[str]]:
    def fetched(*sources: Source) -> list[str]:
        return download(tmp_path, sources or [UNEDITED], mirror=server.address, say=lambda _: None)

    return fetched


BODY = bytes(range(256)) * 40
Fetch = Callable[..., list[str]]


def test_a_file_is_fetched_once_and_recorded(server: Server, tmp_path: Path) -> None:
    server.serve(URL, BODY)
    messages: list[str] = []
    steps: list[tuple[str, int, int]] = []
    for _ in range(2):
        assert (
            download(
                tmp_path,
                [UNEDITED],
                mirror=server.address,
                say=messages.append,
                progress=lambda *step: steps.append(step),
            )
            == []
        )
    assert (tmp_path / "downstream/X/x.txt").read_bytes() == BODY
    assert messages == ["downstream/X/x.txt: fetched", "downstream/X/x.txt: there"] and len(server.requests) == 1
    assert steps[-1][1:] == (len(BODY), len(BODY)) and len(steps) > 5
    known = {"bytes": len(BODY), "sha256": hashlib.sha256(BODY).hexdigest()}
    assert read_json(tmp_path / MANIFEST) == {"transfers": {URL: known}, "files": {"downstream/X/x.txt": known}}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["downstream", MANIFEST]


def test_a_cut_transfer_is_continued(server: Server, tmp_path: Path, fetch: Fetch) -> None:
    server.serve(URL, BODY)
    server.cut, server.cuts = 3000, 2
    assert fetch() == []
    assert (tmp_path / "downstream/X/x.txt").read_bytes() == BODY
    assert [span for _, span in server.requests] == [None, "bytes=3000-", "bytes=6000-"]


def test_a_later_call_continues_a_cut_transfer(server: Server, tmp_path: Path, fetch: Fetch) -> None:
    server.serve(URL, BODY)
    server.cut, server.cuts = 3000, 1
    assert (
        module._transfer(f"{server.address}/host.example/a/x.txt", partial_file(tmp_path), lambda *_: None)
        is False
    )
    assert fetch() == [] and server.requests[-1][1] == "bytes=3000-"
    assert (tmp_path / "downstream/X/x.txt").read_bytes() == BODY


def partial_file(folder: Path) -> Path:
    return folder / f".{hashlib.sha256(URL.encode()).hexdigest()[:16]}.part"


@pytest.mark.parametrize("change", ["version", "ranges"])
def test_a_transfer_of_another_version_starts_again(
    server: Server, tmp_path: Path, fetch: Fetch, change: str
) -> None:
    """Bytes of a changed file, or from a server without ranges, are not appended to the partial file."""
    server.serve(URL, b"old" * 1000)
    server.cut, server.cuts = 500, 1
    module._transfer(f"{server.address}/host.example/a/x.txt", partial_file(tmp_path), lambda *_: None)
    server.serve(URL, BODY)
    if change == "version":
        server.version = '"2"'
    else:
        server.ranges = False
    assert fetch() == []
    assert (tmp_path / "downstream/X/x.txt").read_bytes() == BODY


def test_a_server_that_refuses_every_range_is_named(fetch: Fetch, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(url: str, *_: object) -> bool:
        raise HTTPError(url, 416, "Range Not Satisfiable", Message(), None)

    monkeypatch.setattr(module, "_transfer", refuse)
    [fault] = fetch()
    assert "sent only 0 bytes (the server refuses the range)" in fault


def test_a_partial_file_that_is_complete_is_accepted(server: Server, tmp_path: Path, fetch: Fetch) -> None:
    server.serve(URL, BODY)
    partial_file(tmp_path).write_bytes(BODY)
    partial_file(tmp_path).with_suffix(".version").write_text(server.version)
    assert fetch() == [] and (tmp_path / "downstream/X/x.txt").read_bytes() == BODY


def test_transfers_without_progress_are_given_up(server: Server, tmp_path: Path, fetch: Fetch) -> None:
    server.serve(URL, BODY)
    server.cut, server.cuts = 0, 99
    [fault] = fetch()
    assert "sent only 0 bytes (the connection was cut): call again to continue. Ask at the desk." in fault
    assert len(server.requests) == module.TRIES


def test_a_dead_source_is_named_and_the_others_are_fetched(server: Server, tmp_path: Path, fetch: Fetch) -> None:
    server.serve("https://host.example/y", b"y")
    faults = fetch(UNEDITED, Source("https://host.example/y", {"probing/y": None}, ""))
    assert faults == [
        f"downstream/X: {server.address}/host.example/a/x.txt answers 404 Not Found. Ask at the desk."
    ]
    assert (tmp_path / "probing/y").read_bytes() == b"y"


def test_a_silent_host_is_asked_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "*")
    second = Source("https://host.example/z", {"z/z": None}, "Wait.")
    there = Source("https://host.example/there", {"there": None}, "")
    (tmp_path / "there").touch()

    def faults(*sources: Source) -> list[str]:
        return download(tmp_path, sources, mirror="http://127.0.0.1:1", say=lambda _: None)

    assert faults(UNEDITED, second) == ["No host can be reached: are you offline?"]
    assert not (tmp_path / MANIFEST).exists()
    assert faults(there) == [] == faults()
    assert faults(UNEDITED, second, there) == [
        "downstream/X: http://127.0.0.1:1/host.example/a/x.txt cannot be reached (Connection refused). "
        "Ask at the desk.",
        "z: https://host.example/z was not tried, as its host does not answer. Wait.",
    ]


def test_a_changed_file_is_reported_and_not_replaced(server: Server, tmp_path: Path, fetch: Fetch) -> None:
    server.serve(URL, BODY)
    fetch()
    path = tmp_path / "downstream/X/x.txt"
    path.write_bytes(b"changed")
    [fault] = fetch()
    assert f"{path} differs from manifest.json (size or SHA-256): delete it to fetch it again" in fault
    assert path.read_bytes() == b"changed"
    path.unlink()
    assert fetch() == [] and path.read_bytes() == BODY


def test_a_changed_source_is_refused(server: Server, tmp_path: Path, fetch: Fetch) -> None:
    server.serve(URL, BODY)
    fetch()
    path = tmp_path / "downstream/X/x.txt"
    path.unlink()
    server.serve(URL, BODY[:-1] + b"x")
    [fault] = fetch()
    assert f"{URL} no longer sends what it sent first (size or SHA-256)" in fault and not path.exists()
    assert [path.name for path in tmp_path.glob(".*")] == []


def test_files_of_the_user_are_kept(server: Server, tmp_path: Path, fetch: Fetch) -> None:
    path = tmp_path / "downstream/X/x.txt"
    path.parent.mkdir(parents=True)
    path.write_bytes(b"mine")
    assert fetch() == [] and server.requests == [] and path.read_bytes() == b"mine"


def test_a_damaged_manifest_is_refused(tmp_path: Path, fetch: Fetch) -> None:
    (tmp_path / MANIFEST).write_text("{")
    with pytest.raises(UserError):
        fetch()


def zipped(**members: bytes) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, body in members.items():
            archive.writestr(name.replace("__", "/"), body)
    return buffer.getvalue()


def tarred(members: dict[str, bytes | str]) -> bytes:
    """Returns a tar.gz; a string is the target of a symbolic link."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for name, body in members.items():
            info = tarfile.TarInfo(name)
            if isinstance(body, str):
                info.type, info.linkname = tarfile.SYMTYPE, body
                archive.addfile(info)
            else:
                info.size = len(body)
                archive.addfile(info, io.BytesIO(body))
    return buffer.getvalue()


MEMBER = Source("https://host.example/x", {"in/x.txt": edited("d/x.txt", bytes.upper)}, "Ask.")


@pytest.mark.parametrize(
    "archive",
    [
        pytest.param(zipped(**{"d/x.txt": b"one\ntwo", "../evil": b"e", "/etc/evil": b"e"}), id="zip"),
        pytest.param(
            tarred({"../evil": b"e", "/evil": b"e", "d/link": "/etc/passwd", "d/x.txt": b"one\ntwo"}), id="tar"
        ),
    ],
)
def test_only_wanted_archive_members_are_written(
    server: Server, tmp_path: Path, fetch: Fetch, archive: bytes
) -> None:
    server.serve(MEMBER.url, archive)
    assert fetch(MEMBER) == []
    assert (tmp_path / "in/x.txt").read_bytes() == b"ONE\nTWO\n"
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["in", MANIFEST, "x.txt"]
    assert not (tmp_path.parent / "evil").exists()


@pytest.mark.parametrize(
    ("archive", "why"),
    [
        pytest.param(zipped(other=b""), "no item named 'd/x.txt' in the archive", id="zip without the member"),
        pytest.param(tarred({"other": b""}), "filename 'd/x.txt' not found", id="tar without the member"),
        pytest.param(tarred({"d/x.txt": "/etc/passwd"}), "d/x.txt is no file", id="symbolic link"),
        pytest.param(b"<html>moved</html>", "no archive with d/x.txt", id="HTML page"),
        pytest.param(zipped(**{"d/x.txt": b"a" * 5000})[:-30], "no archive", id="truncated zip"),
        pytest.param(
            zipped(**{"d/x.txt": b"a" * 500}).replace(b"aaaa", b"aaab", 1),
            "Bad CRC-32",
            id="zip with a wrong checksum",
        ),
        pytest.param(
            gzip.compress(gzip.decompress(tarred({"d/x.txt": b"a" * 5000}))[:2000]),
            "unexpected end of data",
            id="truncated tar",
        ),
    ],
)
def test_unexpected_archives_are_refused(
    server: Server, tmp_path: Path, fetch: Fetch, archive: bytes, why: str
) -> None:
    server.serve(MEMBER.url, archive)
    [fault] = fetch(MEMBER)
    assert fault.startswith("in: https://host.example/x holds something else than it did (") and why in fault
    assert "\n" not in fault and not (tmp_path / "in/x.txt").exists() and not list(tmp_path.rglob("*.part"))


def serve_all_sources(server: Server) -> None:
    """Serves a small file in the original format at the address of each source."""
    meta = "https://dl.fbaipublicfiles.com/senteval"
    folders = {"rt10662/rt-polarity": 0, "customerr/custrev": 0, "mpqa/mpqa": 0}
    raw = {f"data/{name}.{end}": b'a "good" clich\xe9, isn\'t it.\n' for name in folders for end in ("pos", "neg")}
    raw |= {f"data/subj/subj.{end}": b"so\n" for end in ("objective", "subjective")}
    server.serve(f"{meta}/senteval_data/datasmall_NB_ACL12.zip", zipped(**raw))
    for split in ("train", "dev", "test"):
        server.serve(f"https://raw.githubusercontent.com/PrincetonML/SIF/master/data/sentiment-{split}", b"a\t1\n")
        server.serve(
            "https://raw.githubusercontent.com/AcademiaSinicaNLPLab/sentiment_dataset/master/data/"
            f"stsa.fine.{split}",
            b"4 a\n",
        )
    for name in ("train_5500", "TREC_10"):
        server.serve(f"https://cogcomp.seas.upenn.edu/Data/QA/QC/{name}.label", b"NUM:x What 's `` \xf0 ''\n")
    for name in ("train", "test"):
        server.serve(f"{meta}/senteval_data/msr_paraphrase_{name}.txt", b"Quality\n1\t1\t2\ta\tb\n")
    rows = [f"{n}\tDon't A.\tIt's (b)\tNEUTRAL\t3.5\t-\t-\t-\t-\t-\t-\t{part}\r\n" for n, part in
            enumerate(("TRAIN", "TEST", "TRIAL", "TRAIN"))]  # fmt: skip
    sick = "pair_ID\tsentence_A\t\t\t\t\t\t\t\t\t\tSemEval_set\r\n" + "".join(rows)
    server.serve("https://zenodo.org/record/2787612/files/SICK.zip", zipped(**{"SICK.txt": sick.encode()}))
    sts = "http://ixa2.si.ehu.eus/stswiki/images"
    row = "g\tf\ty\t1\t4.5\tAn É, don't.\tB\textra\n".encode()
    server.serve(
        f"{sts}/4/48/Stsbenchmark.tar.gz",
        tarred({f"stsbenchmark/sts-{split}.csv": row for split in ("train", "dev", "test")}),
    )
    for year, place, inside in (
        (12, "4/40", "test-gold/STS"),
        (13, "2/2f", "test-gs/STS"),
        (14, "8/8c", "sts-en-test-gs-2014/STS"),
        (15, "d/da", "test_evaluation_task2a/STS"),
        (16, "9/98", "sts2016-english-with-gs-v1.0/STS2016"),
    ):
        subsets = re.findall(r"STS\.gs\.(.+?)\.txt", " ".join(TASKS[f"STS{year}"].files))
        members = {f"{inside}.input.{subset}.txt": b"A b.\tIt's\thttp://x\r\nC\tD\n" for subset in subsets}
        members |= {f"{inside}.gs.{subset}.txt": b"5\n\n" for subset in subsets}
        server.serve(f"{sts}/{place}/STS20{year}-en-test.zip", zipped(**members))
    snli = b"gold_label\tx\tx\tx\tx\tsentence1\tsentence2\textra\n"
    snli += b"neutral\t(\t(\t(\t(\tIt's a.\tB, b\t1\n-\t(\t(\t(\t(\tno\tno\t1\n"
    members = {f"snli_1.0/snli_1.0_{split}.txt": snli for split in ("train", "dev", "test")}
    server.serve("https://nlp.stanford.edu/projects/snli/snli_1.0.zip", zipped(**members))
    for task in PROBING:
        url = (
            f"https://raw.githubusercontent.com/facebookresearch/SentEval/main/data/probing/{TASKS[task].files[0]}"
        )
        server.serve(url, b"tr\tA\ta\nva\tA\tb\nte\tA\tc\n")
    for name in ("train", "valid", "test"):
        server.serve(f"{meta}/coco_r101_feat/{name}.pkl", b"N.")


def test_every_source_gives_all_files_of_its_tasks(server: Server, tmp_path: Path) -> None:
    """The files of all tasks are written in the format that the loaders read."""
    serve_all_sources(server)
    assert download(tmp_path, mirror=server.address, say=lambda _: None) == []
    assert len(server.requests) == len(SOURCES) == len(set(server.requests))
    for task in (TASKS[name] for name in SENTEVAL):
        assert absent(task, tmp_path / task.group) is None
        if task.name != "ImageCaptionRetrieval":
            task.load(tmp_path / task.group)
    expected = {
        "MR/rt-polarity.pos": b"a `` good '' clichM-i , is n't it . \n",
        "TREC/TREC_10.label": b"NUM:x What s  \xf0 \n",
        "SICK/SICK_train.txt": (
            b"pair_ID\tsentence_A\tsentence_B\trelatedness_score\tentailment_judgment\n"
            b"0\tDon 't A .\tIt 's ( b )\t3.5\tNEUTRAL\n3\tDon 't A .\tIt 's ( b )\t3.5\tNEUTRAL\n"
        ),
        "SNLI/s1.dev": b"It 's a . \n",
        "SNLI/s2.dev": b"B , b \n",
        "SNLI/labels.dev": b"neutral\n",
        "STS/STSBenchmark/sts-dev.csv": "g\tf\ty\t1\t4.5\tan é , don 't .\tb\n".encode(),
        "STS/STS16-en-test/STS.input.headlines.txt": b"a b .\tit 's\nc\td\n",
        "STS/STS16-en-test/STS.gs.headlines.txt": b"5\n\n",
    }
    for name, body in expected.items():
        assert (tmp_path / "downstream" / name).read_bytes() == body, name


def test_the_command_reports_sources_that_failed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    outcomes = [[], ["downstream/X: it is gone. Ask."]]
    monkeypatch.setattr(module, "download", lambda folder, **_: outcomes.pop(0))
    module.download_data(folder=str(tmp_path / "data"))
    with pytest.raises(UserError, match="downstream/X"):
        module.download_data(folder=str(tmp_path / "data"))
