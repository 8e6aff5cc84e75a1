"""Documents in text files and tables, or in any data set of the Hugging Face hub."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, groupby, islice
from pathlib import Path
from typing import Any, Literal

from data.errors import reading
from data.ranges import Count
from data.sources.base import Example
from data.sources.reading import as_list, file_kind, lines
from data.sources.table import Row, Table

Cut = Literal["file", "paragraph", "line"] | Count  # a number counts words


class Text(Table):
    """A corpus of documents, each in a field of a row, or in text files.

    A file that a Table does not know by its ending is text.

    Args:
        path: a file, a folder (with all .txt, .jsonl and .parquet files in it), a glob, or a list of these.
        document: what a document is in a text file: the file, a paragraph (blank lines separate them), a line, or
            a number of words (the last one of a file may have fewer); None: a line, or a file if ``path`` has
            folders.
        field: name of the text's field.
        group_field: name of the field whose part before "/" names documents that belong together (with ids like
            "book/0012": the book), so that the split keeps them in one part.
        document_start: regular expression of the rows that begin a document, where a row is only a line or
            paragraph of one (wikitext: ``^ = [^=]+ = $``); None: each row is a document.
        dev_path, dataset, subset, split, dev_split, files, revision: see Table.
        fraction, dev_fraction, lowercase: see Source.

    Raises:
        UserError: as Table, and if ``document_start`` is not a regular expression.
    """

    name, section = "text", "corpus"
    kinds = (".txt", ".jsonl", ".parquet")

    def __init__(
        self,
        *,
        path: str | Sequence[str] | None = None,
        document: Cut | None = None,
        field: str = "text",
        group_field: str | None = None,
        document_start: str | None = None,
        **table: Any,
    ) -> None:
        super().__init__(path=path, **table)
        with reading("regular expression", "corpus.document_start"):
            self._start = re.compile(document_start or "")
        folders = any(Path(name).expanduser().is_dir() for name in as_list(path))
        self.unit: Cut = document or ("file" if folders else "line")
        self.field, self.group_field = field, group_field
        self.fields = (field, group_field) if group_field else (field,)

    def example(self, row: Row) -> Example:
        group = row[self.group_field] if self.group_field else None
        return Example((row[self.field] or "",), group=None if group is None else str(group).split("/", 1)[0])

    def read_place(self, place: Path | str) -> Iterator[Example]:
        document: list[Example] = []
        for example in super().read_place(place):
            if document and self._start.search(example.texts[0].strip("\r\n")):
                yield join_rows(document)
                document = []
            document.append(example)
        if document:
            yield join_rows(document)

    def read_file(self, path: Path) -> Iterable[Row]:
        if file_kind(path) in Table.kinds:
            return super().read_file(path)
        texts = cut(lines(path), self.unit)
        return ({self.field: text, self.group_field or "": None} for text in texts)

    def identity(self) -> Iterator[str]:
        yield f"{self.unit} {self._start.pattern}"
        yield from super().identity()


def join_rows(rows: Sequence[Example]) -> Example:
    """Returns the document whose lines or paragraphs ``rows`` hold."""
    return rows[0]._replace(texts=("\n".join(row.texts[0] for row in rows),))


def cut(lines: Iterable[str], unit: Cut) -> Iterator[str]:
    """Cuts a file, given by its lines, into documents."""
    if unit == "line":
        yield from lines
    elif unit == "file":
        yield "".join(lines)
    else:
        blocks = groupby(lines, str.isspace)
        paragraphs = (f"{''.join(block)}\n\n" for is_blank, block in blocks if not is_blank)
        if unit == "paragraph":
            yield from paragraphs
        else:  # a word, with the white space beside it
            words = chain.from_iterable(map(re.compile(r"\s*\S+\s*").findall, paragraphs))
            while text := "".join(islice(words, unit)):
                yield text
