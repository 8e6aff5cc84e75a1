"""A small Hugging Face hub on this machine: models and data sets over plain HTTP, with faults on request.

It answers as the hub does to a client without Xet: `api/<kind>/<id>`, `tree`, `paths-info` and `resolve`, with
commits, ETags and ranges; weights and tables are redirected to another origin, as the hub does for large files. It
takes uploads: `repos/create`, `validate-yaml`, `preupload`, Git LFS for large files, and `commit`.
"""

from __future__ import annotations

import base64
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
from functools import cached_property
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Literal, NamedTuple
from urllib.parse import unquote, urlsplit

import yaml
from huggingface_hub.repocard import REGEX_YAML_BLOCK

LARGE = (".safetensors", ".bin", ".parquet")  # files that the hub keeps in Git LFS
VERBS = ("revision", "tree", "paths-info", "preupload", "commit")
TOKEN = "hf_right"
Access = Literal["open", "private", "gated", "disabled"]


class Blob:
    """The content of a file in a repository; a path is read on access."""

    def __init__(self, content: bytes | Path) -> None:
        self.content = content

    @cached_property
    def sha256(self) -> str:
        return hashlib.sha256(self.read()).hexdigest()

    @property
    def size(self) -> int:
        return len(self.content) if isinstance(self.content, bytes) else self.content.stat().st_size

    def read(self) -> bytes:
        return self.content if isinstance(self.content, bytes) else self.content.read_bytes()


@dataclass
class Repository:
    """A model or data set.

    Attributes:
        access: "open"; "private", hidden without a token; "gated", listed but with closed files; or "disabled" by
            the hub. ``TOKEN`` opens private repositories, and gated ones whose terms are ``accepted``.
        commits: files of each commit.
        refs: commits by the names of branches.
    """

    access: Access = "open"
    accepted: bool = False
    commits: dict[str, dict[str, Blob]] = field(default_factory=dict)
    refs: dict[str, str] = field(default_factory=dict)


class Request(NamedTuple):
    """A request to the server; ``range`` and ``token`` are None where the header is absent."""

    method: str
    path: str
    range: str | None
    token: str | None


class Hub:
    """The repositories that the server serves, and the requests that it received.

    Attributes:
        endpoint: its address.
        requests: all requests so far, in their order.
        cuts: for a file name, the cuts of its next downloads: after how many bytes the connection ends, and
            how ("close" or "reset").
        status: HTTP status of every answer, as from a failing proxy; None: requests are served.
    """

    def __init__(self, port: int) -> None:
        self.port = port
        self.endpoint = f"http://127.0.0.1:{port}"
        self.repositories: dict[tuple[str, str], Repository] = {}
        self.blobs: dict[str, tuple[str, Blob]] = {}
        self.requests: list[Request] = []
        self.cuts: dict[str, list[tuple[int, Literal["close", "reset"]]]] = {}
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
            paths = [path for path in sorted(files.rglob("*")) if path.is_file()]
            blobs = {path.relative_to(files).as_posix(): Blob(path) for path in paths}
        else:
            blobs = {path: Blob(content) for path, content in files.items()}
        return self.commit(kind, name, blobs, branch=branch, access=access)

    def commit(
        self, kind: str, name: str, blobs: dict[str, Blob], *, branch: str = "main", access: Access = "open"
    ) -> str:
        """Makes ``blobs`` (by path) the newest commit of a branch; returns the commit."""
        listing = "".join(f"{path} {blob.sha256}\n" for path, blob in blobs.items())
        commit = hashlib.sha1(f"{name}\n{listing}".encode()).hexdigest()
        repository = self.repositories.setdefault((kind, name), Repository())
        repository.access = access
        repository.commits[commit] = blobs
        repository.refs[branch] = commit
        self.blobs |= {blob.sha256: (path, blob) for path, blob in blobs.items()}
        return commit

    def received(self, path: str, method: str = "GET") -> list[Request]:
        """Returns the requests so far by ``method`` whose path contains ``path``."""
        return [request for request in self.requests if request.method == method and path in request.path]


class Refusal(Exception):
    """A refusal of the hub: HTTP status, and the code and message in the headers."""

    def __init__(self, status: int, code: str | None, message: str) -> None:
        self.status, self.code, self.message = status, code, message


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    hub: Hub  # set by ``serve``

    def log_message(self, format: str, *arguments: Any) -> None:
        pass

    def do_HEAD(self) -> None:
        self._answer()

    def do_GET(self) -> None:
        self._answer()

    def do_POST(self) -> None:
        self._answer()

    def do_PUT(self) -> None:
        self._answer()

    def _answer(self) -> None:
        self._body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        token = (self.headers.get("Authorization") or "").removeprefix("Bearer ") or None
        path = urlsplit(self.path).path
        self.hub.requests.append(Request(self.command, path, self.headers.get("Range"), token))
        try:
            if self.hub.status is not None:
                raise Refusal(self.hub.status, None, "")
            self._route([unquote(part) for part in path.strip("/").split("/")], token)
        except Refusal as refusal:
            headers = {"X-Error-Message": refusal.message, "X-Error-Code": refusal.code}
            present = {name: value for name, value in headers.items() if value}
            self._send(refusal.status, json.dumps({"error": refusal.message}).encode(), present)
        except (BrokenPipeError, ConnectionResetError):  # the client closed the connection
            self.close_connection = True

    def _route(self, parts: list[str], token: str | None) -> None:
        if parts[0] == "cdn" and self.command == "PUT":
            blob = Blob(self._body)
            if blob.sha256 != parts[1]:
                raise Refusal(400, None, "The content is not that of its checksum")
            self.hub.blobs[parts[1]] = ("", blob)
            self._send(200, b"", {})
        elif parts[0] == "cdn":
            path, blob = self.hub.blobs[parts[1]]
            self._file(path, blob, {"ETag": f'"{blob.sha256}"'})
        elif parts == ["api", "repos", "create"]:
            self._create(token)
        elif parts == ["api", "validate-yaml"]:
            self._validate()
        elif parts[-3:] == ["lfs", "objects", "batch"]:
            self._writable("models", "/".join(parts[:-4]).removesuffix(".git"), token)
            objects = json.loads(self._body)["objects"]
            for each in objects:
                if each["oid"] not in self.hub.blobs:
                    href = f"http://localhost:{self.hub.port}/cdn/{each['oid']}"
                    each["actions"] = {"upload": {"href": href}}
            self._json({"transfer": "basic", "objects": objects})
        elif parts[0] == "api" and len(parts) > 2:
            at = next((at for at, part in enumerate(parts) if at > 2 and part in VERBS), len(parts))
            self._api(parts[1], "/".join(parts[2:at]), parts[at:], token)
        elif "resolve" in parts:
            at = parts.index("resolve")
            kind = "datasets" if parts[0] == "datasets" else "models"
            name = "/".join(parts[1 if kind == "datasets" else 0 : at])
            self._resolve(kind, name, parts[at + 1], "/".join(parts[at + 2 :]), token)
        else:
            raise Refusal(404, None, "Sorry, we can't find the page you are looking for.")

    def _repository(self, kind: str, name: str, token: str | None) -> Repository:
        if token is not None and token != TOKEN:
            raise Refusal(401, None, "Invalid credentials in Authorization header")
        repository = self.hub.repositories.get((kind, name))
        if repository is None or (repository.access == "private" and token is None):
            if token is None:  # as for a name that does not exist, so that private names stay hidden
                raise Refusal(401, "RepoNotFound", "Invalid username or password.")
            raise Refusal(404, "RepoNotFound", "Repository not found")
        if repository.access == "disabled":
            raise Refusal(403, None, "Access to this resource is disabled.")
        return repository

    def _writable(self, kind: str, name: str, token: str | None) -> Repository:
        repository = self._repository(kind, name, token)
        if token is None:
            raise Refusal(401, None, "Invalid username or password.")
        return repository

    def _create(self, token: str | None) -> None:
        if token != TOKEN:
            raise Refusal(401, None, "Invalid username or password.")
        settings = json.loads(self._body)
        kind, name = f"{settings.get('type', 'model')}s", f"{settings['organization']}/{settings['name']}"
        exists = (kind, name) in self.hub.repositories
        if not exists:
            access: Access = "private" if settings.get("visibility") == "private" else "open"
            self.hub.commit(kind, name, {".gitattributes": Blob(b"")}, access=access)
        self._json({"url": f"{self.hub.endpoint}/{name}", "name": name}, 409 if exists else 200)

    def _validate(self) -> None:
        """Checks that a card's front matter is a mapping; the hub checks more."""
        match = REGEX_YAML_BLOCK.search(json.loads(self._body)["content"])
        value = yaml.safe_load(match.group(2)) if match else None
        errors = [] if isinstance(value, dict) else [{"message": "the front matter is not a mapping"}]
        self._json({"errors": errors, "warnings": []}, 400 if errors else 200)

    def _upload(self, kind: str, name: str, branch: str, files: Mapping[str, Blob]) -> dict[str, Any]:
        """Makes the commit that the client sends, with one line per file."""
        blobs = dict(files)
        for operation in map(json.loads, self._body.splitlines()):
            value = operation["value"]
            if operation["key"] == "file":
                blobs[value["path"]] = Blob(base64.b64decode(value["content"]))
            elif operation["key"] == "lfsFile":
                blobs[value["path"]] = self.hub.blobs[value["oid"]][1]
        access = self.hub.repositories[kind, name].access
        commit = self.hub.commit(kind, name, blobs, branch=branch, access=access)
        return {"commitUrl": f"{self.hub.endpoint}/{name}/commit/{commit}", "commitOid": commit, "success": True}

    @staticmethod
    def _commit(repository: Repository, revision: str) -> str:
        commit = repository.refs.get(revision, revision)
        if commit not in repository.commits:
            raise Refusal(404, "RevisionNotFound", f"Invalid rev id: {revision}")
        return commit

    def _api(self, kind: str, name: str, rest: list[str], token: str | None) -> None:
        repository = self._repository(kind, name, token)
        verb = rest[0] if rest else "revision"
        commit = self._commit(repository, rest[1] if rest else "main")
        files = repository.commits[commit]
        value: Any
        if verb == "revision":
            value = {
                "_id": "0", "id": name, "modelId": name, "sha": commit, "private": repository.access == "private",
                "gated": "auto" if repository.access == "gated" else False, "disabled": False, "downloads": 0,
                "likes": 0, "tags": [], "siblings": [{"rfilename": path} for path in files],
            }  # fmt: skip
        elif verb == "tree":
            prefix = "".join(f"{part}/" for part in rest[2:])
            deep = "recursive=true" in urlsplit(self.path).query.lower()
            value = [_entry(path, files) for path in _listed(files, prefix, deep)]
            if prefix and not value:
                raise Refusal(404, "EntryNotFound", f"{prefix} does not exist on {rest[1]}")
        elif verb == "preupload":
            self._writable(kind, name, token)
            paths = [file["path"] for file in json.loads(self._body)["files"]]
            value = {"files": [_upload_mode(path, files) for path in paths]}
        elif verb == "commit":
            self._writable(kind, name, token)
            value = self._upload(kind, name, rest[1], files)
        else:
            encoded = re.findall(r"paths=([^&]*)", self._body.decode())
            paths = [unquote(path.replace("+", " ")) for path in encoded]
            existing = [path for path in paths if path in files or any(p.startswith(f"{path}/") for p in files)]
            value = [_entry(path, files) for path in existing]
        self._json(value)

    def _json(self, value: Any, status: int = 200) -> None:
        self._send(status, json.dumps(value).encode(), {"Content-Type": "application/json"})

    def _resolve(self, kind: str, name: str, revision: str, path: str, token: str | None) -> None:
        repository = self._repository(kind, name, token)
        if repository.access == "gated" and not (token and repository.accepted):
            reason = "You are not in the authorized list" if token else "You must be authenticated to access it"
            raise Refusal(403 if token else 401, "GatedRepo", f"Access to {name} is restricted. {reason}.")
        commit = self._commit(repository, revision)
        if path not in repository.commits[commit]:
            raise Refusal(404, "EntryNotFound", "Entry not found")
        blob = repository.commits[commit][path]
        headers = {"X-Repo-Commit": commit}
        if not path.endswith(LARGE):
            self._file(path, blob, headers | {"ETag": f'"{_git_id(blob)}"'})
            return
        headers |= {"X-Linked-ETag": f'"{blob.sha256}"', "X-Linked-Size": str(blob.size)}
        # Another host name of this machine is another origin, to which no token must be sent.
        self._send(302, b"", headers | {"Location": f"http://localhost:{self.hub.port}/cdn/{blob.sha256}"})

    def _file(self, path: str, blob: Blob, headers: dict[str, str]) -> None:
        content = blob.read()
        requested = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range") or "")
        if requested is None:
            first, last, status = 0, len(content) - 1, 200
        else:
            first, last = int(requested[1]), min(int(requested[2] or len(content)), len(content) - 1)
            if first >= len(content):
                raise Refusal(416, None, "Range Not Satisfiable")
            status, headers = 206, headers | {"Content-Range": f"bytes {first}-{last}/{len(content)}"}
        headers = headers | {"Accept-Ranges": "bytes", "Content-Type": "application/octet-stream"}
        cut = None
        if self.command == "GET" and self.hub.cuts.get(path):
            cut = self.hub.cuts[path].pop(0)
        self._send(status, content[first : last + 1], headers, cut)

    def _send(
        self, status: int, content: bytes, headers: Mapping[str, str], cut: tuple[int, str] | None = None
    ) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command == "HEAD":
            return
        if cut is None:
            self.wfile.write(content)
            return
        self.wfile.write(content[: cut[0]])
        self.wfile.flush()
        self.close_connection = True
        if cut[1] == "reset":  # closing with a linger time of 0, without a shutdown, sends RST instead of FIN
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            os.close(self.connection.detach())


def _listed(files: Mapping[str, Blob], prefix: str, deep: bool) -> list[str]:
    """Returns the files and folders in the folder ``prefix``: all of them if ``deep``, else the first level."""
    found = set()
    for path in files:
        if path.startswith(prefix):
            parts = path.removeprefix(prefix).split("/")
            found |= {prefix + "/".join(parts[: number + 1]) for number in range(len(parts) if deep else 1)}
    return sorted(found)


def _git_id(blob: Blob) -> str:
    return hashlib.sha1(b"blob %d\0" % blob.size + blob.read()).hexdigest()


def _upload_mode(path: str, files: Mapping[str, Blob]) -> dict[str, Any]:
    mode = "lfs" if path.endswith(LARGE) else "regular"
    existing = files.get(path)
    oid = existing and (existing.sha256 if mode == "lfs" else _git_id(existing))
    return {"path": path, "uploadMode": mode, "shouldIgnore": False, "oid": oid}


def _entry(path: str, files: Mapping[str, Blob]) -> dict[str, Any]:
    """Returns a file or folder as an entry of a listing."""
    if path not in files:
        return {"type": "directory", "oid": hashlib.sha1(path.encode()).hexdigest(), "size": 0, "path": path}
    blob = files[path]
    entry = {"type": "file", "oid": _git_id(blob), "size": blob.size, "path": path}
    if path.endswith(LARGE):
        entry["lfs"] = {"oid": blob.sha256, "size": blob.size, "pointerSize": 130}
    return entry


class _Server(ThreadingHTTPServer):
    daemon_threads = True


@contextmanager
def serve() -> Iterator[Hub]:
    """Serves an empty hub on a free port until the context ends."""
    handler = type("Handler", (_Handler,), {})
    server = _Server(("127.0.0.1", 0), handler)
    hub = handler.hub = Hub(server.server_port)  # type: ignore[attr-defined]
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield hub
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
