"""A small Hugging Face hub on this machine: models and data sets over plain HTTP, with faults on request.

It answers as the hub does to a client without Xet: `api/<kind>/<id>`, `tree` and `resolve`, with
commits, ETags and ranges; weights and tables are redirected to another origin, as the hub does for large files.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import socket
import struct
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Literal, NamedTuple
from urllib.parse import unquote, urlsplit

LARGE = (".safetensors", ".bin", ".parquet")  # files that the hub keeps in Git LFS
VERBS = ("revision", "tree")
TOKEN = "hf_right"
Access = Literal["open", "private", "gated"]


@dataclass
class Repository:
    """A model or data set.

    Attributes:
        access: "open"; "private", hidden without ``TOKEN``; or "gated", listed without it, but with closed files.
        commits: files of each commit.
        refs: commits by the names of branches.
    """

    access: Access = "open"
    commits: dict[str, Mapping[str, bytes]] = field(default_factory=dict)
    refs: dict[str, str] = field(default_factory=dict)


class Request(NamedTuple):
    """A request to the server."""

    method: str
    path: str


class Hub:
    """The repositories that the server serves, and the requests that it received.

    Attributes:
        endpoint: its address.
        requests: all requests so far, in their order.
        cuts: for a file name, after how many bytes the connections of its next downloads are reset.
        status: HTTP status of every answer, as from a failing proxy; None: requests are served.
    """

    def __init__(self, port: int) -> None:
        self.port = port
        self.endpoint = f"http://127.0.0.1:{port}"
        self.repositories: dict[tuple[str, str], Repository] = {}
        self.large: dict[str, tuple[str, bytes]] = {}  # path and content by checksum
        self.requests: list[Request] = []
        self.cuts: dict[str, list[int]] = {}
        self.status: int | None = None

    def publish(
        self,
        name: str,
        files: Path | Mapping[str, bytes],
        *,
        kind: Literal["models", "datasets"] = "models",
        branch: str = "main",
        access: Access = "open",
    ) -> str:
        """Commits ``files`` to a ``branch`` of the repository ``name``; returns the commit."""
        if isinstance(files, Path):
            files = read_files(files)
        commit = _sha256(repr((name, files)).encode())[:40]
        repository = self.repositories.setdefault((kind, name), Repository())
        repository.access = access
        repository.commits[commit] = files
        repository.refs[branch] = commit
        self.large |= {_sha256(content): (path, content) for path, content in files.items()}
        return commit

    def list_requests(self, path: str) -> list[Request]:
        """Returns the GET requests so far whose path contains ``path``."""
        return [request for request in self.requests if request.method == "GET" and path in request.path]


def read_files(folder: Path) -> dict[str, bytes]:
    """Returns the contents of the files in ``folder`` by their relative paths."""
    paths = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}


class Refusal(Exception):
    """A refusal of the hub: HTTP status, and the reason in the headers, as a code or message."""

    def __init__(self, status: int, reason: str = "") -> None:
        self.status, self.reason = status, reason


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    hub: Hub  # set by ``serve``

    def log_message(self, format: str, *arguments: Any) -> None:
        pass

    def do_GET(self) -> None:
        token = (self.headers.get("Authorization") or "").removeprefix("Bearer ") or None
        path = urlsplit(self.path).path
        self.hub.requests.append(Request(self.command, path))
        try:
            if self.hub.status is not None:
                raise Refusal(self.hub.status)
            self._route([unquote(part) for part in path.strip("/").split("/")], token)
        except Refusal as refusal:
            headers = ("X-Error-Message", "X-Error-Code") if refusal.reason else ()
            self._send(refusal.status, b"{}", dict.fromkeys(headers, refusal.reason))
        except (BrokenPipeError, ConnectionResetError):  # the client closed the connection
            self.close_connection = True

    do_HEAD = do_GET

    def _route(self, parts: list[str], token: str | None) -> None:
        if parts[0] == "cdn":
            path, content = self.hub.large[parts[1]]
            self._file(path, content, {"ETag": f'"{parts[1]}"'})
        elif parts[0] == "api" and len(parts) > 2:
            at = next((at for at, part in enumerate(parts) if at > 2 and part in VERBS), len(parts))
            self._api(parts[1], "/".join(parts[2:at]), parts[at:], token)
        elif "resolve" in parts:
            at = parts.index("resolve")
            kind = "datasets" if parts[0] == "datasets" else "models"
            name = "/".join(parts[1 if kind == "datasets" else 0 : at])
            self._resolve(kind, name, parts[at + 1], "/".join(parts[at + 2 :]), token)
        else:
            raise Refusal(404)

    def _repository(self, kind: str, name: str, token: str | None) -> Repository:
        if token is not None and token != TOKEN:
            raise Refusal(401, "Invalid credentials in Authorization header")
        repository = self.hub.repositories.get((kind, name))
        if repository is None or (repository.access == "private" and token is None):
            # Without a token private names and those that do not exist are answered alike.
            raise Refusal(404 if token else 401, "RepoNotFound")
        return repository

    @staticmethod
    def _commit(repository: Repository, revision: str) -> str:
        commit = repository.refs.get(revision, revision)
        if commit not in repository.commits:
            raise Refusal(404, "RevisionNotFound")
        return commit

    def _api(self, kind: str, name: str, rest: list[str], token: str | None) -> None:
        repository = self._repository(kind, name, token)
        verb = rest[0] if rest else "revision"
        commit = self._commit(repository, rest[1] if rest else "main")
        files = repository.commits[commit]
        value: Any
        if verb == "revision":
            value = {
                "_id": "0", "id": name, "tags": [], "sha": commit, "private": repository.access == "private",
                "siblings": [{"rfilename": path} for path in files],
            }  # fmt: skip
        else:
            prefix = "".join(f"{part}/" for part in rest[2:])
            deep = "recursive=true" in urlsplit(self.path).query.lower()
            value = [_entry(path, files) for path in _listed(files, prefix, deep)]
            if prefix and not value:
                raise Refusal(404, "EntryNotFound")
        self._send(200, json.dumps(value).encode(), {"Content-Type": "application/json"})

    def _resolve(self, kind: str, name: str, revision: str, path: str, token: str | None) -> None:
        repository = self._repository(kind, name, token)
        if repository.access == "gated" and token is None:
            raise Refusal(401, "GatedRepo")
        commit = self._commit(repository, revision)
        if path not in repository.commits[commit]:
            raise Refusal(404, "EntryNotFound")
        content = repository.commits[commit][path]
        headers, digest = {"X-Repo-Commit": commit}, _sha256(content)
        if not path.endswith(LARGE):
            self._file(path, content, headers | {"ETag": f'"{digest[:40]}"'})
            return
        headers |= {"X-Linked-ETag": f'"{digest}"', "X-Linked-Size": str(len(content))}
        # Another host name of this machine is another origin, to which no token must be sent.
        self._send(302, b"", headers | {"Location": f"http://localhost:{self.hub.port}/cdn/{digest}"})

    def _file(self, path: str, content: bytes, headers: dict[str, str]) -> None:
        requested = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range") or "")
        if requested is None:
            first, last, status = 0, len(content) - 1, 200
        else:
            first, last = int(requested[1]), min(int(requested[2] or len(content)), len(content) - 1)
            status, headers = 206, headers | {"Content-Range": f"bytes {first}-{last}/{len(content)}"}
        headers = headers | {"Accept-Ranges": "bytes", "Content-Type": "application/octet-stream"}
        cut = None
        if self.command == "GET" and self.hub.cuts.get(path):
            cut = self.hub.cuts[path].pop(0)
        self._send(status, content[first : last + 1], headers, cut)

    def _send(self, status: int, content: bytes, headers: Mapping[str, str], cut: int | None = None) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command == "HEAD":
            return
        self.wfile.write(content[:cut])
        if cut is not None:  # closing with a linger time of 0, without a shutdown, sends RST instead of FIN
            self.wfile.flush()
            self.close_connection = True
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            os.close(self.connection.detach())


def _listed(files: Mapping[str, bytes], prefix: str, deep: bool) -> list[str]:
    """Returns the files and folders in the folder ``prefix``: all of them if ``deep``, else the first level."""
    result = set()
    for path in files:
        if path.startswith(prefix):
            parts = path.removeprefix(prefix).split("/")
            result |= {prefix + "/".join(parts[: number + 1]) for number in range(len(parts) if deep else 1)}
    return sorted(result)


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _entry(path: str, files: Mapping[str, bytes]) -> dict[str, Any]:
    """Returns a file or folder as an entry of a listing."""
    if path not in files:
        return {"type": "directory", "oid": _sha256(path.encode())[:40], "size": 0, "path": path}
    content = files[path]
    digest = _sha256(content)
    entry = {"type": "file", "oid": digest[:40], "size": len(content), "path": path}
    if path.endswith(LARGE):
        entry["lfs"] = {"oid": digest, "size": len(content), "pointerSize": 130}
    return entry


@contextmanager
def serve() -> Iterator[Hub]:
    """Serves an empty hub on a free port until the context ends."""
    handler = type("Handler", (_Handler,), {})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    hub = handler.hub = Hub(server.server_port)  # type: ignore[attr-defined]
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield hub
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
