"""Any data set of the Hugging Face hub as a corpus, streamed."""

from __future__ import annotations

import re
import socket
import threading
from collections.abc import Iterator
from functools import cached_property
from typing import Any
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from data.errors import UserError
from data.sources.base import Document, Source, fingerprint
from data.sources.text import pick

LIMIT = 5.0  # seconds


class Hub(Source):
    """A data set of the Hugging Face hub; no code of the data set is run.

    Args:
        dataset: its name, "Skylion007/openwebtext" say.
        subset: name of the configuration, where there are several.
        split: name of the split; the division into train and dev is ours.
        field, group_field: as in Text.
        revision: branch, tag or commit; the commit behind it is part of the fingerprint.
        document_start: regular expression of the rows that begin a document, where a row is only a line or
            paragraph of one (wikitext: ``^ = [^=]+ = $``); None: each row is a document.
        fraction, dev_fraction, lowercase: see Source.

    Raises:
        UserError: if the hub cannot be reached or has no such data set.
        ValueError: if ``document_start`` is not a regular expression.
    """

    name = "hub"

    def __init__(
        self,
        *,
        dataset: str,
        subset: str | None = None,
        split: str = "train",
        field: str = "text",
        revision: str | None = None,
        group_field: str | None = None,
        document_start: str | None = None,
        fraction: float = 1.0,
        dev_fraction: float = 0.05,
        lowercase: bool = False,
    ) -> None:
        super().__init__(fraction=fraction, dev_fraction=dev_fraction, lowercase=lowercase)
        try:
            self._start = None if document_start is None else re.compile(document_start)
        except re.error as error:
            raise ValueError(
                f"corpus.document_start must be a regular expression. Got {document_start!r} instead ({error})."
            ) from error
        self.dataset, self.subset, self.split = dataset, subset, split
        self.field, self.group_field = field, group_field
        self.revision = revision

    def documents(self) -> Iterator[Document]:
        group: str | None = None
        rows: list[str] = []
        for number, record in enumerate(self._records(), 1):
            text, own_group = pick(record, self.field, self.group_field, f"{self.dataset}, row {number}")
            if self._start is None:
                yield Document(text, own_group)
                continue
            if rows and self._start.search(text.strip("\n")):
                yield Document("\n".join(rows), group)
                rows = []
            group = group if rows else own_group
            rows.append(text)
        if rows:
            yield Document("\n".join(rows), group)

    def fingerprint(self) -> str:
        start = None if self._start is None else self._start.pattern
        return fingerprint(
            f"{self.dataset} {self.subset} {self.split} {self._commit} {self.field} {self.group_field} {start}"
        )

    def describe(self) -> dict[str, Any]:
        where = f"Hugging Face hub: {self.dataset} {self.subset or ''}".rstrip()
        return {"name": self.dataset, "where": f"{where}, revision {self._commit}", "licence": None}

    @cached_property
    def _commit(self) -> str:
        if self.revision and re.fullmatch("[0-9a-f]{40}", self.revision):
            return self.revision
        from huggingface_hub import HfApi

        check_reachable(f"corpus.dataset={self.dataset}")
        try:
            return str(HfApi().dataset_info(self.dataset, revision=self.revision, timeout=LIMIT).sha)
        except (OSError, ValueError) as error:
            raise self._refusal(error) from error

    def _records(self) -> Iterator[dict[str, Any]]:
        commit = self._commit
        check_reachable(f"corpus.dataset={self.dataset}")
        import datasets

        try:
            yield from datasets.load_dataset(
                self.dataset, self.subset, split=self.split, streaming=True, revision=commit
            )
        except (OSError, ValueError, datasets.exceptions.DatasetsError) as error:
            raise self._refusal(error) from error

    def _refusal(self, error: Exception) -> UserError:
        reason = str(error).strip().splitlines()[0].rstrip(".") if str(error).strip() else type(error).__name__
        return UserError(f"corpus.dataset={self.dataset} cannot be read from the hub: {reason}.")


def check_reachable(what: str) -> None:
    """Asks for a plain connection to the hub (or the proxy before it), for 5 s at most.

    The hub library's own retries take many times as long to say that there is none.

    Raises:
        UserError: if there is none; ``what`` says what it was for.
    """
    from huggingface_hub import constants

    hub = urlsplit(constants.ENDPOINT)
    host = hub.hostname or ""
    proxy = None if proxy_bypass(host) else getproxies().get(hub.scheme)
    door = urlsplit(proxy) if proxy else hub
    address = (door.hostname or host, door.port or (443 if door.scheme == "https" else 80))
    answers: list[str] = []

    def connect() -> None:
        try:
            socket.create_connection(address, timeout=LIMIT).close()
            answers.append("")
        except OSError as error:
            answers.append(error.strerror or str(error))

    thread = threading.Thread(target=connect, daemon=True)  # name resolution obeys no time limit
    thread.start()
    thread.join(LIMIT)
    reason = answers[0] if answers else f"no answer in {LIMIT:.0f} s"
    if reason:
        raise UserError(
            f"{what}: the hub at {hub.netloc} cannot be reached ({reason}); "
            "corpus=pydocs and corpus=text need no network."
        )
