"""Any data set of the Hugging Face hub as a corpus, streamed."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cached_property
from typing import Annotated, Any

from huggingface_hub.errors import HTTPError, RepositoryNotFoundError, RevisionNotFoundError
from pydantic import Field

from data.errors import UserError, reading
from data.network import ASK_SECONDS, LOGIN, refusal, unreachable
from data.sources.base import Document, Part, Source
from data.sources.reading import MOST_BYTES, too_long
from data.sources.text import BOUND, LARGEST_BOUND, pick

INSTEAD = "corpus=pydocs and corpus=text need no network, nor does corpus.revision=<commit> of an earlier run"


class HubRows:
    """The rows of a data set of the Hugging Face hub, streamed; no code of the data set is run.

    Args:
        dataset, subset, split, files, revision: as in Hub.
        setting: section of the configuration that names the data set, for messages.
        instead: alternatives that need no network, for messages.
    """

    def __init__(
        self,
        dataset: str,
        *,
        subset: str | None = None,
        split: str = "train",
        files: str | None = None,
        revision: str | None = None,
        setting: str = "corpus",
        instead: str = INSTEAD,
    ) -> None:
        self.dataset, self.subset, self.split = dataset, subset, split
        self.files = files
        self.revision = revision
        self._key = f"{setting}.dataset"
        self._instead = instead

    @classmethod
    def parts(
        cls, dataset: str | None, split: str, dev_split: str | None, part: Part | None, **options: Any
    ) -> list[tuple[HubRows, Part | None]]:
        """Returns the rows of up to two splits, each with the part that it is assigned to.

        Args:
            dataset: name of the data set; None: there is none, and so no split.
            split, part: a split and its part; None: the split's hash decides.
            dev_split: a split in the dev part; None: there is none.
            options: of the constructor.
        """
        if dataset is None:
            return []
        rows: list[tuple[HubRows, Part | None]] = [(cls(dataset, split=split, **options), part)]
        if dev_split is not None:
            rows.append((cls(dataset, split=dev_split, **options), "dev"))
        return rows

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """Streams the rows.

        Raises:
            UserError: if the hub cannot be reached or has no such data set.
        """
        commit = self.commit
        self._reach()
        import datasets

        try:
            yield from datasets.load_dataset(
                self.dataset,
                self.subset,
                data_files=self.files,
                split=self.split,
                streaming=True,
                revision=commit,
            )
        # RuntimeError: the data set is a program, which is not run
        except (OSError, ValueError, RuntimeError, HTTPError, datasets.exceptions.DatasetsError) as error:
            raise self._refusal(error) from error

    def identity(self) -> str:
        """Returns a text that is equal only for the same rows."""
        files = f" {self.files}" if self.files else ""
        return f"{self.dataset} {self.subset} {self.split} {self.commit}{files}"

    def where(self) -> str:
        """Returns name and revision, for a model card."""
        return f"Hugging Face hub: {self.dataset} {self.subset or ''}".rstrip() + f", revision {self.commit}"

    @cached_property
    def commit(self) -> str:
        """The commit behind ``revision``, whose files are read.

        Raises:
            UserError: if the hub cannot be reached or has no such data set or revision.
        """
        if self.revision and re.fullmatch("[0-9a-f]{40}", self.revision):
            return self.revision
        from huggingface_hub import HfApi

        self._reach()
        try:
            return str(HfApi().dataset_info(self.dataset, revision=self.revision, timeout=ASK_SECONDS).sha)
        except (OSError, ValueError, HTTPError) as error:
            raise self._refusal(error) from error

    def _reach(self) -> None:
        if why := unreachable():
            raise UserError(f"{self.dataset} cannot be read: {why}", key=self._key, hint=f"{self._instead}.")

    def _refusal(self, error: Exception) -> UserError:
        answer = error.__context__  # the hub's own error, where datasets has replaced it
        cause = answer if isinstance(answer, RepositoryNotFoundError | RevisionNotFoundError) else error
        why = refusal(cause, f"datasets/{self.dataset}", self.revision or "main")
        if isinstance(cause, ValueError):  # the second line of datasets' own has the names to choose from
            why = " ".join(str(cause).splitlines()[:2]).rstrip(".") or why
        if "gated dataset" in why:
            why += f"; {LOGIN}"
        return UserError(f"{self.dataset} cannot be read from the hub: {why}", key=self._key)


class Hub(Source):
    """A data set of the Hugging Face hub; no code of the data set is run.

    Args:
        dataset: its name, as "Skylion007/openwebtext".
        subset: name of the configuration, where there are several.
        split: name of the split that is read; a hash, not the data set, divides it into train and dev.
        field, group_field: as in Text.
        files: path or glob of its files that are read, where it has no configurations; they are its "train" split.
        revision: branch, tag or commit; the commit behind it is part of the fingerprint.
        document_start: regular expression of the rows that begin a document, where a row is only a line or
            paragraph of one (wikitext: ``^ = [^=]+ = $``); None: each row is a document.
        max_bytes: characters of a document; a longer one is refused.
        fraction, dev_fraction, lowercase: see Source.

    Raises:
        UserError: if ``document_start`` is not a regular expression, the hub cannot be reached or it has no such
            data set.
    """

    name = "hub"

    def __init__(
        self,
        *,
        dataset: str,
        subset: str | None = None,
        split: str = "train",
        field: str = "text",
        files: str | None = None,
        revision: str | None = None,
        group_field: str | None = None,
        document_start: str | None = None,
        max_bytes: Annotated[int, Field(ge=1, le=LARGEST_BOUND)] = MOST_BYTES,
        **shared: Any,
    ) -> None:
        super().__init__(**shared)
        with reading("regular expression", "corpus.document_start"):
            self._start = None if document_start is None else re.compile(document_start)
        self.rows = HubRows(dataset, subset=subset, split=split, files=files, revision=revision)
        self.field, self.group_field = field, group_field
        self.max_bytes = max_bytes

    def pinned(self) -> dict[str, Any]:
        return {"revision": self.rows.commit}  # a branch may move

    def documents(self) -> Iterator[Document]:
        group: str | None = None
        rows: list[str] = []
        size = 0
        for number, record in enumerate(self.rows, 1):
            where = f"{self.rows.dataset}, row {number}"
            text, own_group = pick(record, self.field, self.group_field, where, self.max_bytes)
            if self._start is None:
                yield Document(text, own_group)
                continue
            if rows and self._start.search(text.strip("\n")):
                yield Document("\n".join(rows), group)
                rows, size = [], 0
            group = group if rows else own_group
            rows.append(text)
            size += len(text)
            if size > self.max_bytes:
                raise too_long(where, self.max_bytes, BOUND, "characters")
        if rows:
            yield Document("\n".join(rows), group)

    def identity(self) -> list[str]:
        start = None if self._start is None else self._start.pattern
        return [f"{self.rows.identity()} {self.field} {self.group_field} {start}"]

    def describe(self) -> dict[str, Any]:
        return {"name": self.rows.dataset, "where": self.rows.where(), "licence": None}
