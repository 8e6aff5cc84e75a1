"""Downloads SentEval's public data.

The first download is trusted: sizes and SHA-256 go to ``manifest.json`` in the folder, and every later call checks
the files and new transfers against it. Interrupted transfers resume where they stopped.
"""

from __future__ import annotations

import hashlib
import http.client
import tarfile
import urllib.error
import urllib.request
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any
from urllib.parse import urlsplit

from rich.progress import Progress

from analysis.senteval.files.sources import SOURCES, Make, Open, Source
from data.errors import UserError, UserErrors, reading, reason
from data.files import atomic_write, lock_folder, read_json, write_json

MANIFEST = "manifest.json"
SECONDS = 30  # without a byte, after which a transfer is cut
TRIES = 3  # in a row without progress
CHUNK = 1 << 20
OFFLINE = "No host can be reached: are you offline?"


class _Fault(Exception):
    """Reason why a source failed."""


class _Unreachable(_Fault):
    """The host does not answer."""


def download(
    folder: Path,
    sources: Sequence[Source] = SOURCES,
    *,
    mirror: str = "",
    say: Callable[[str], None] = print,
    progress: Callable[[str, int, int], None] = lambda url, done, total: None,
) -> list[str]:
    """Downloads all files missing in ``folder`` and checks those that exist.

    Args:
        folder: SentEval's data folder; gets ``downstream`` and ``probing``.
        sources: sources to download.
        mirror: address that serves every source under the source's host and path.
        say: called with one line for each file.
        progress: called during a transfer with its address, bytes so far and total bytes (0: unknown).

    Returns:
        A line for each source that failed, with advice; the others are complete. Only one if no host is reached.

    Raises:
        UserError: if the manifest is damaged, another process downloads into ``folder``, or it cannot be written.
    """
    with lock_folder(folder, "download"):
        return _download(_Run(folder, mirror, say, progress), sources)


def _download(run: _Run, sources: Sequence[Source]) -> list[str]:
    faults, silent, unreached = [], set[str](), 0
    for source in sources:
        host = urlsplit(source.url).netloc
        try:
            run.download(source, contact=host not in silent)
        except _Fault as fault:
            if isinstance(fault, _Unreachable):  # each try may last until the time limit
                silent.add(host)
                unreached += 1
            places = sorted({Path(name).parent.as_posix() for name in source.files})
            faults.append(f"{', '.join(places)}: {fault}. {source.otherwise}")
        if any(run.manifest.values()):
            write_json(run.folder / MANIFEST, run.manifest)
    return [OFFLINE] if 0 < unreached == len(sources) else faults


class _Run:
    """Folder, manifest and callbacks of one call."""

    def __init__(
        self, folder: Path, mirror: str, say: Callable[[str], None], progress: Callable[[str, int, int], None]
    ) -> None:
        self.folder, self.mirror, self.say, self.progress = folder, mirror, say, progress
        self.manifest = _manifest(folder / MANIFEST)

    def download(self, source: Source, *, contact: bool) -> None:
        """Makes the missing files of ``source``, if any; without ``contact`` its host is not contacted."""
        missing = {}
        for name, make in source.files.items():
            path = self.folder / name
            if not path.is_file():
                missing[name] = make
                continue
            found = _measured(path)
            if self.manifest["files"].setdefault(name, found) != found:
                raise _Fault(f"{path} differs from {MANIFEST} (size or SHA-256): delete it to fetch it again")
            self.say(f"{name}: there")
        if not missing:
            return
        if not contact:
            raise _Unreachable(f"{source.url} was not tried, as its host does not answer")
        raw = self.fetch(source.url)
        for name, make in missing.items():
            (self.folder / name).parent.mkdir(parents=True, exist_ok=True)
            try:
                _write(self.folder / name, raw, make)
            except (LookupError, ValueError, EOFError, zipfile.BadZipFile, tarfile.TarError, zlib.error) as error:
                raw.unlink()
                raise _Fault(f"{source.url} holds something else than it did ({reason(error)})") from error
            self.manifest["files"][name] = _measured(self.folder / name)
            self.say(f"{name}: fetched")
        raw.unlink(missing_ok=True)

    def fetch(self, url: str) -> Path:
        """Downloads ``url`` completely and checks that it is unchanged."""
        part = self.folder / f".{hashlib.sha256(url.encode()).hexdigest()[:16]}.part"
        _fetch(f"{self.mirror}/{url.split('://', 1)[1]}" if self.mirror else url, part, self.progress)
        found = _measured(part)
        if self.manifest["transfers"].setdefault(url, found) != found:
            part.unlink()
            raise _Fault(
                f"{url} no longer sends what it sent first (size or SHA-256): "
                f"if that is right, delete its entry in {self.folder / MANIFEST}"
            )
        return part


def _manifest(path: Path) -> dict[str, dict[str, Any]]:
    if not path.exists():
        return {"transfers": {}, "files": {}}
    with reading("manifest", path):
        manifest = read_json(path)
        return {"transfers": manifest["transfers"], "files": manifest["files"]}


def _measured(path: Path) -> dict[str, Any]:
    with path.open("rb") as file:
        return {"bytes": path.stat().st_size, "sha256": hashlib.file_digest(file, "sha256").hexdigest()}


def _fetch(url: str, part: Path, progress: Callable[[str, int, int], None]) -> None:
    """Downloads ``url`` to the file ``part``, resuming at its end."""
    tries = TRIES
    while tries:
        before = _size(part)
        try:
            if _transfer(url, part, progress):
                return
            problem = "the connection was cut"
        except urllib.error.HTTPError as error:
            if error.code == 416:  # nothing follows: the file was complete, or of a version unknown to the server
                part.unlink(missing_ok=True)
                problem, tries = "the server refuses the range", tries - 1
                continue
            raise _Fault(f"{url} answers {error.code} {error.reason}") from error
        except urllib.error.URLError as error:
            problem = reason(error.reason) if isinstance(error.reason, BaseException) else str(error.reason)
            raise _Unreachable(f"{url} cannot be reached ({problem})") from error
        except (OSError, http.client.HTTPException) as error:
            problem = reason(error)
        tries = TRIES if _size(part) > before else tries - 1
    raise _Fault(f"{url} sent only {_size(part)} bytes ({problem}): call again to continue")


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _transfer(url: str, part: Path, progress: Callable[[str, int, int], None]) -> bool:
    """Makes one connection; returns True if the file is then complete."""
    have, mark = _size(part), part.with_suffix(".version")
    headers = {"User-Agent": "sentence-objectives", "Accept-Encoding": "identity"}
    if have and mark.exists():  # only the same version may be resumed
        headers |= {"Range": f"bytes={have}-", "If-Range": mark.read_text("utf-8")}
    with urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=SECONDS) as answer:
        goes_on = answer.status == 206
        have = have if goes_on else 0
        length = answer.headers.get("Content-Length")
        total = have + int(length) if length else 0
        version = answer.headers.get("ETag") or answer.headers.get("Last-Modified")
        with part.open("ab" if goes_on else "wb") as file:
            if version:
                mark.write_text(version, "utf-8")
            else:
                mark.unlink(missing_ok=True)
            while chunk := answer.read(CHUNK):
                file.write(chunk)
                have += len(chunk)
                progress(url, have, total)
    if have < total:
        return False
    mark.unlink(missing_ok=True)
    return True


def _write(path: Path, raw: Path, make: Make | None) -> None:
    if make is None:
        raw.replace(path)
        return
    with _opener(raw) as open_member, atomic_write(path, "wb") as file:
        for line in make(open_member):
            file.write(line + b"\n")


@contextmanager
def _opener(raw: Path) -> Iterator[Open]:
    """Yields a function that opens a member of the archive, or the file itself by the name "".

    Nothing is unpacked, so no member's name becomes a path.
    """
    if zipfile.is_zipfile(raw):
        with zipfile.ZipFile(raw) as archive:
            yield archive.open
    elif tarfile.is_tarfile(raw):
        with tarfile.open(raw) as tar:

            def member(name: str) -> IO[bytes]:
                found = tar.getmember(name)
                file = tar.extractfile(found) if found.isfile() else None  # a link may point anywhere
                if file is None:
                    raise KeyError(f"{name} is no file")
                return file

            yield member
    else:
        with raw.open("rb") as file:

            def whole(name: str) -> IO[bytes]:
                if name:
                    raise ValueError(f"no archive with {name}")
                file.seek(0)
                return file

            yield whole


def download_data(*, folder: str = "senteval") -> None:
    """Downloads all files to ``folder``, with a bar for each transfer.

    Raises:
        UserErrors: for each source that failed.
    """
    with Progress(transient=True) as bars:
        bar = bars.add_task("", start=False, visible=False)

        def show(url: str, done: int, total: int) -> None:
            bars.update(bar, description=url.rsplit("/", 1)[1], completed=done, total=total or None, visible=True)

        faults = download(Path(folder).expanduser(), say=bars.console.print, progress=show)
    if faults:
        raise UserErrors([UserError(fault) for fault in faults])
