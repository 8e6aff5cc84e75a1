"""Documents in text files and tables, or in any data set of the Hugging Face hub."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby, islice
from pathlib import Path
from typing import Any, Literal

from data.errors import reading
from data.ranges import Count
from data.sources.base import Example
from data.sources.reading import as_list, file_kind
from data.sources.table import Row, Rows, Table

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
        self.document_start = document_start
        with reading("regular expression", "corpus.document_start"):
            self._start = None if document_start is None else re.compile(document_start)
        folders = [name for name in as_list(path) if Path(name).expanduser().is_dir()]
        self.unit: Cut = document or ("file" if folders else "line")
        self.field, self.group_field = field, group_field
        self.fields = (field,) if group_field is None else (field, group_field)

    def example(self, row: Row) -> Example:
        text = "" if row[self.field] is None else row[self.field]
        group = None if self.group_field is None else row[self.group_field]
        return Example((text,), group=None if group is None else str(group).split("/", 1)[0])

    def read_rows(self, rows: Rows) -> Iterator[Example]:
        first: Example | None = None
        texts: list[str] = []
        for example in super().read_rows(rows):
            [text] = example.texts
            if first and (self._start is None or self._start.search(text.strip("\n"))):
                yield first._replace(texts=("\n".join(texts),))
                first, texts = None, []
            first = first or example
            texts.append(text)
        if first:
            yield first._replace(texts=("\n".join(texts),))

    def read_file(self, path: Path) -> Rows:
        if file_kind(path) in Table.kinds:
            return super().read_file(path)
        texts = cut((line for _, line in self.lines(path)), self.unit)
        return ((str(path), {self.field: text, self.group_field or "": None}) for text in texts)

    def identity(self) -> Iterator[str]:
        yield f"{self.unit} {self.document_start}"
        yield from super().identity()


def cut(lines: Iterable[str], unit: Cut) -> Iterator[str]:
    """Cuts a file, given by its lines, into documents."""
    if unit == "line":
        yield from lines
    elif unit == "file":
        yield "".join(lines)
    elif unit == "paragraph":
        yield from ("".join(block) for blank, block in groupby(lines, str.isspace) if not blank)
    else:
        words = split_words(lines)
        while text := "".join(islice(words, unit)):
            yield text


def split_words(lines: Iterable[str]) -> Iterator[str]:
    """Yields the words with the white space around them, as blank lines separate paragraphs."""
    blank = ""
    for line in lines:
        for piece in re.findall(r"\s*\S+\s*|\s+", line):
            blank += piece
            if not piece.isspace():
                yield blank
                blank = ""
