"""Checks plain values, as JSON and YAML have them, against annotated types."""

from __future__ import annotations

import json
from typing import Any

from pydantic import TypeAdapter, ValidationError
from pydantic.errors import PydanticUserError

NAMED = {"a valid array": "a list, as [a,b]", "an object": "a mapping, as {key: value}"}  # kinds of JSON, in YAML


def mismatch(kind: Any, value: Any) -> tuple[str, str] | None:
    """Returns where below ``value`` it first differs from type ``kind``, dotted, and how; None where it fits.

    As JSON, a list is fit for a tuple and a string for a path, but nothing else is bent ("1" is no number). A
    mapping is fit for a dataclass, whatever further keys it has.
    """
    try:
        TypeAdapter(kind).validate_json(json.dumps(value), strict=True)
    except PydanticUserError:  # an object, which nothing plain can stand for
        return "", "cannot be set in a configuration"
    except ValidationError as error:
        first = error.errors()[0]
        how = first["msg"].replace("Input should", "must")
        if first["type"] == "missing":
            return ".".join(map(str, first["loc"])), "is missing"
        for pydantics, ours in NAMED.items():
            how = how.replace(pydantics, ours)
        return ".".join(map(str, first["loc"])), how
    return None
