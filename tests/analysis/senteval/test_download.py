"""Downloads of local files: kept ones, broken answers, and every origin once."""

from __future__ import annotations

import io
import re
import socket
import tarfile
import threading
import zipfile
from pathlib import Path

import pytest

from analysis.senteval import download as module
from analysis.senteval.download import ORIGINS, Origin, download
from analysis.senteval.tasks import TASKS, absent
from data.errors import UserError

BODY = bytes(range(256)) * 40
FILE = "downstream/X/x.txt"


class Host:
    """Folder whose files stand for what addresses send."""

    def __init__(self, served: Path, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.served, self.root, self.monkeypatch = served, root, monkeypatch

    def serve(self, url: str, body: bytes) -> None:
        path = self.served / url.split("://")[1]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(body)

    def fetch(self, *origins: Origin) -> list[UserError]:
        """Returns the errors of a download; only addresses that begin with a number are asked themselves."""
        served = f"{self.served.as_uri()}/"
        local = [origin._replace(url=re.sub("https?://(?=[a-z])", served, origin.url)) for origin in origins]
        self.monkeypatch.setattr(module, "ORIGINS", local)
        try:
            download(folder=str(self.root))
        except UserError as error:
            return list(error.errors)
        return []


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Host:
    return Host(tmp_path / "served", tmp_path / "data", monkeypatch)


@pytest.fixture
def plain(host: Host) -> Origin:
    """An origin of one file, which is served."""
    origin = Origin("https://host.example/a/x.txt", {FILE: ("", iter)}, "Ask at the desk.")
    host.serve(origin.url, BODY)
    return origin


def test_a_file_is_fetched_once_and_never_changed(host: Host, plain: Origin) -> None:
    assert host.fetch(plain) == [] and (host.root / FILE).read_bytes() == BODY
    (host.root / FILE).write_bytes(b"mine")
    assert host.fetch(plain) == [] and (host.root / FILE).read_bytes() == b"mine"


def test_a_broken_answer_is_reported_with_advice_and_the_others_are_fetched(
    host: Host, plain: Origin, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("no_proxy", "*")
    with socket.create_server(("127.0.0.1", 0)) as server:

        def send() -> None:
            with server.accept()[0] as connection:
                connection.recv(1 << 16)
                connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nonly this")

        threading.Thread(target=send, daemon=True).start()
        bad = Origin(f"http://127.0.0.1:{server.getsockname()[1]}/y", {"probing/y": ("", iter)}, "Ask.")
        [error] = host.fetch(bad, plain)
    assert error.key == "probing" and "Ask." in error.hint
    assert not (host.root / "probing").exists() and (host.root / FILE).read_bytes() == BODY


def pack(url: str, members: dict[str, bytes]) -> bytes:
    """Returns an archive of the kind that the address names."""
    buffer = io.BytesIO()
    if url.endswith(".zip"):
        with zipfile.ZipFile(buffer, "w") as archive:
            for name, body in members.items():
                archive.writestr(name, body)
    else:
        with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
            for name, body in members.items():
                info = tarfile.TarInfo(name)
                info.size = len(body)
                tar.addfile(info, io.BytesIO(body))
    return buffer.getvalue()


@pytest.mark.parametrize("ending", [".zip", ".tar.gz"])
def test_only_members_in_use_are_written(host: Host, ending: str) -> None:
    origin = Origin(f"https://host.example/x{ending}", {"in/x.txt": ("d/x.txt", module._edit(bytes.upper))}, "")
    host.serve(origin.url, b"<html>moved</html>")
    assert [error.key for error in host.fetch(origin)] == ["in"] and not (host.root / "in/x.txt").exists()
    host.serve(origin.url, pack(origin.url, {"d/x.txt": b"one\ntwo", "../evil": b"", "/etc/evil": b""}))
    assert host.fetch(origin) == []
    assert (host.root / "in/x.txt").read_bytes() == b"ONE\nTWO\n"
    assert sorted(path.name for path in host.root.rglob("*")) == ["in", "x.txt"]


SNLI = (
    b"gold_label\tx\tx\tx\tx\tsentence1\tsentence2\textra\n"
    b"neutral\t(\t(\t(\t(\tIt's a.\tB, b\t1\n-\t(\t(\t(\t(\tno\tno\t1\n"
)
SICK = b"".join(
    b"%s\tDon't A.\tIt's (b)\tNEUTRAL\t3.5\t-\t-\t-\t-\t-\t-\t%s\r\n" % row
    for row in ((b"id", b"set"), (b"0", b"TRAIN"), (b"1", b"TEST"), (b"2", b"TRIAL"), (b"3", b"TRAIN"))
)
# Lines in the original format, by a part of the address or of the archive's member.
RAW = {
    "SIF/master": b"a\t1\n",
    "stsa.fine": b"4 a\n",
    ".label": b"NUM:x What 's `` \xf0 ''\n",
    "msr_paraphrase": b"Quality\n1\t1\t2\ta\tb\n",
    "SICK.txt": SICK,
    "stsbenchmark/": "g\tf\ty\t1\t4.5\tAn É, don't.\tB\textra\n".encode(),
    ".input.": b"A b.\tIt's\thttp://x\r\nC\tD\n",
    ".gs.": b"5\n\n",
    "snli_1.0/": SNLI,
    "data/probing": b"tr\tA\ta\nva\tA\tb\nte\tA\tc\n",
    "coco": BODY[:-1],
    "data/": b'a "good" clich\xe9, isn\'t it.\n',
}


def test_every_origin_gives_all_files_of_its_tasks(host: Host) -> None:
    """The files of all tasks are written in the format that the loaders read."""
    assert len({origin.url for origin in ORIGINS}) == 32
    for origin in ORIGINS:
        names = [name or origin.url for name, _ in origin.files.values()]
        members = {name: next(body for part, body in RAW.items() if part in name) for name in names}
        packed = origin.url.endswith((".zip", ".tar.gz"))
        host.serve(origin.url, pack(origin.url, members) if packed else members[origin.url])
    assert host.fetch(*ORIGINS) == []
    for task in TASKS.values():
        assert absent(task, host.root / task.group) is None
        if task.kind != "retrieval":
            task.load(host.root / task.group)
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
        "COCO/valid.pkl": BODY[:-1],
    }
    for name, body in expected.items():
        assert (host.root / "downstream" / name).read_bytes() == body, name
