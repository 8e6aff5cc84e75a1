"""Rows of data sets of the Hugging Face hub, streamed; no code of a data set is run."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from huggingface_hub import HfApi
from huggingface_hub.errors import HfHubHTTPError

from data.errors import UserError
from data.network import ASK_SECONDS, LOGIN, refusal, unreachable


def find_commit(dataset: str, revision: str | None, key: str) -> str:
    """Returns the commit behind a branch, tag or commit.

    Args:
        dataset: name of the data set.
        revision: the branch, tag or commit; None: the default branch.
        key: configuration key of the name, for messages.

    Raises:
        UserError: if the hub cannot be reached or has no such data set or revision.
    """
    if revision and re.fullmatch("[0-9a-f]{40}", revision):
        return revision
    with asking_hub(dataset, revision, key):
        return str(HfApi().dataset_info(dataset, revision=revision, timeout=ASK_SECONDS).sha)


def stream_rows(dataset: str, key: str, **options: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    """Streams the rows of a split, each with its place for messages.

    Args:
        dataset: name of the data set.
        key: configuration key of the name, for messages.
        options: further arguments of ``datasets.load_dataset``, with a ``revision``.

    Raises:
        UserError: if the hub cannot be reached or has no such data set.
    """
    with asking_hub(dataset, options["revision"], key):
        import datasets  # takes seconds to import

        for number, row in enumerate(datasets.load_dataset(dataset, streaming=True, **options), 1):
            yield f"{dataset}, row {number}", row


@contextmanager
def asking_hub(dataset: str, revision: str | None, key: str) -> Iterator[None]:
    """Turns errors of the hub, and of a network that does not reach it, into one line."""
    if why := unreachable():
        raise UserError(f"{dataset} cannot be read: {why}", key=key, hint="Files need no network.")
    try:
        yield
    except Exception as error:
        answer = error.__context__  # the hub's own error, where datasets has replaced it
        cause = answer if isinstance(answer, HfHubHTTPError) else error
        why = refusal(cause, f"datasets/{dataset}", revision or "main")
        if isinstance(cause, ValueError):  # the second line of datasets' own has the names to choose from
            why = " ".join(str(cause).splitlines()[:2])
        login = f"; {LOGIN}" if "gated dataset" in why else ""
        raise UserError(f"{dataset} cannot be read from the hub: {why}{login}", key=key) from error
