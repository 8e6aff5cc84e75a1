"""Values checked against annotated types: ranges, choices and shapes, in configurations and in direct calls."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, get_type_hints

import pytest
from pydantic import Field

from data.ranges import MOST, Below1, Positive, Proportion, Share, Size, Weight
from data.schema import dotted, fault, require, validated


@pytest.mark.parametrize(
    ("kind", "valid", "invalid"),
    [
        (Size, [1, MOST], {0: "at least 1. Got 0 instead.", MOST + 1: f"at most {MOST}. Got {MOST + 1} instead."}),
        (
            Size | None,
            [1, None],
            {0: "at least 1. Got 0 instead.", 1.5: "a whole number", "1": "a whole number"},
        ),
        (Positive, [1, 1e-9], {0: "a positive number. Got 0 instead.", float("nan"): "a finite number. Got nan"}),
        (Weight, [0], {-1: "at least 0. Got -1 instead.", float("inf"): "a finite number. Got inf instead."}),
        (Proportion, [0.5], {0: "above 0 and below 1. Got 0 instead.", 1: "above 0 and below 1. Got 1 instead."}),
        (Share, [0, 1], {2: "at least 0 and at most 1. Got 2 instead."}),
        (tuple[Below1, Below1], [[0, 0.9]], {(0, 1): "at least 0 and below 1. Got (0, 1) instead."}),
        (Literal["a", "b"], ["a"], {"c": "'a' or 'b'. Got 'c' instead.", None: "'a' or 'b'. Got null instead."}),
    ],
    ids=["Size", "Size or None", "Positive", "Weight", "Proportion", "Share", "pair of Below1", "Literal"],
)
def test_bounds_of_ranges_are_checked(kind: Any, valid: list[Any], invalid: dict[Any, str]) -> None:
    for value in valid:
        assert fault(kind, value) is None
    for value, message in invalid.items():
        assert str(fault(kind, value)).startswith(f"must be {message}")


def test_lengths_of_lists_are_checked() -> None:
    kind = Annotated[Sequence[Positive], Field(min_length=2, max_length=2)]
    assert fault(kind, [1, 2]) is None
    assert fault(kind, [1]) == "must have at least 2 values. Got [1] instead."
    assert fault(kind, [1, 2, 3]) == "must have at most 2 values. Got [1, 2, 3] instead."


class Base:
    def __init_subclass__(cls) -> None:
        validated(cls, "part")


class Member(Base):
    def __init__(self, *, size: Size = 4, kind: Literal["a", "b"] = "a", other: Any = None) -> None:
        self.size, self.kind, self.other = size, kind, other


class WithoutConstructor(Member):
    """Class without a constructor of its own."""


@pytest.mark.parametrize("cls", [Member, WithoutConstructor])
def test_a_constructor_checks_its_arguments(cls: type[Member]) -> None:
    assert cls(size=2, other=object()).size == 2
    with pytest.raises(ValueError) as error:
        cls(size=0, kind="c")  # type: ignore[arg-type]
    assert str(error.value).split("\n") == [
        "part.kind must be 'a' or 'b'. Got 'c' instead.",
        "part.size must be at least 1. Got 0 instead.",
    ]
    assert [*inspect.signature(cls).parameters] == ["size", "kind", "other"]


def test_a_dataclass_checks_its_fields() -> None:
    @dataclass(kw_only=True)
    class Settings:
        least: Annotated[int, Field(ge=2)] = 2

        def __post_init__(self) -> None:
            require(type(self), vars(self))

    assert Settings().least == 2
    with pytest.raises(ValueError, match=r"^least must be at least 2\. Got 1 instead\.$"):
        Settings(least=1)


def test_parameters_include_those_of_the_base_class_behind_keyword_arguments() -> None:
    class Base:
        def __init__(self, *, size: Size = 2, kind: Literal["a", "b"] = "a") -> None:
            self.size, self.kind = size, kind

    class Child(Base):
        def __init__(self, *, share: Share = 0.5, size: Size = 3, **shared: Any) -> None:
            super().__init__(size=size, **shared)
            self.share = share

    for cls in (Base, Child):
        validated(cls, "part")
    parameters = inspect.signature(Child).parameters
    assert {name: value.default for name, value in parameters.items()} == {"share": 0.5, "size": 3, "kind": "a"}
    assert get_type_hints(Child.__init__, include_extras=True)["kind"] == Literal["a", "b"]
    child = Child(kind="b")
    assert (child.share, child.size, child.kind) == (0.5, 3, "b")
    for values, message in ({"kind": "c"}, "kind must be"), ({"share": 2}, "share must be"):
        with pytest.raises(ValueError, match=rf"part\.{message}"):
            Child(**values)
    with pytest.raises(TypeError, match="other"):
        Child(other=1)


def test_nested_keys_are_joined_by_dots() -> None:
    assert [*dotted({"seed": 1, "objective": {"k": 2, "inner": {"lr": None}, "empty": {}}, "names": ["a"]})] == [
        ("seed", 1),
        ("objective.k", 2),
        ("objective.inner.lr", None),
        ("names", ["a"]),
    ]
