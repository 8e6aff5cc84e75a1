"""Errors that a user can fix: one line each, with the key or file that they are about."""

from __future__ import annotations

import pytest

from data.errors import UserError, UserErrors, reading, rename_keys


def test_an_error_is_one_line_of_key_text_and_hint() -> None:
    error = UserError("too large.", key="a.b", hint="Lower it.")
    assert str(error) == "a.b: too large. Lower it."
    assert str(UserError("too large")) == "too large."
    assert error.status == 2 and error.errors == (error,)


def test_several_errors_are_a_line_each_without_repetition() -> None:
    errors = [UserError("one", key="a"), UserError("two"), UserError("one", key="a")]
    assert str(UserErrors(errors)) == "a: one.\ntwo." and UserErrors(errors).errors == tuple(errors)


def test_any_error_of_a_parser_names_the_file() -> None:
    class PanicException(BaseException):  # as those of Rust libraries
        pass

    for cause in (KeyError("b"), OSError("gone"), RecursionError(), PanicException("index")):
        with pytest.raises(UserError) as error, reading("table", "a.csv"):
            raise cause
        assert error.value.key == "a.csv" and error.value.__cause__ is cause
    for precise in (UserError("line 2 is bad", key="a.csv:2"), KeyboardInterrupt()):
        with pytest.raises(type(precise)) as unchanged, reading("table", "a.csv"):
            raise precise
        assert unchanged.value is precise


def test_keys_get_the_names_of_a_larger_configuration() -> None:
    errors = UserErrors(
        [UserError("x", key="parallel.source"), UserError("x", key="a/parallel.tsv"), UserError("x")]
    )
    with pytest.raises(UserErrors) as error, rename_keys(parallel="objective.fr"):
        raise errors
    assert [single.key for single in error.value.errors] == ["objective.fr.source", "a/parallel.tsv", ""]
