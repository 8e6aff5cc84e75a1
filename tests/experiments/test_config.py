"""Composing, checking and building configurations, without commands."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, TypedDict, Unpack

import pytest
from pydantic import Field

from data.errors import UserError
from experiments import config
from experiments.config import check, compose, parse, schema
from tests.experiments import tiny


def keys(*overrides: str) -> list[str]:
    """Returns the keys of the errors of a run's overrides."""
    with pytest.raises(UserError) as error:
        check(compose(overrides))
    return [each.key for each in error.value.errors]


class Inner:
    def __init__(self, *, size: Annotated[int, Field(ge=1)], name: str = "a") -> None: ...


class Base:
    def __init__(self, *, rate: float = 1.0, inner: Annotated[Mapping[str, Any], Inner] | None = None) -> None: ...


class Outer(Base):
    def __init__(self, *, names: list[str] | None = None, path: Path | None = None, **options: Any) -> None: ...


class Options(TypedDict, total=False):
    limit: Annotated[int, Field(le=9)]


def function(*, out: Path, **options: Unpack[Options]) -> None: ...


def test_arguments_are_those_of_base_classes_and_typed_dictionaries() -> None:
    assert [*schema(Outer).model_fields] == ["names", "path", "rate", "inner"]
    assert [*schema(function).model_fields] == ["out", "limit"]
    assert parse(function, {"out": "a/b", "limit": 3}) == {"out": Path("a/b"), "limit": 3}


@pytest.mark.parametrize(
    ("values", "wrong"),
    [
        ({"rate": "2"}, ["x.rate"]),
        ({"rate": float("nan")}, ["x.rate"]),
        ({"rate": True}, ["x.rate"]),
        ({"names": {}}, ["x.names"]),
        ({"names": 1}, ["x.names"]),
        ({"names": [1], "rat": 1}, ["x.names", "x.rat"]),
        ({"inner": {}}, ["x.inner.size"]),
        ({"inner": {"size": 0, "nam": 1}}, ["x.inner.nam", "x.inner.size"]),
        ({"inner": 3}, ["x.inner"]),
    ],
)
def test_values_are_checked_against_a_constructor(values: Mapping[str, Any], wrong: list[str]) -> None:
    assert parse(Outer, {"rate": 2, "inner": {"size": 3}}) == {"rate": 2, "inner": {"size": 3}}
    with pytest.raises(UserError) as error:
        parse(Outer, values, "x")
    assert sorted(each.key for each in error.value.errors) == wrong


def test_all_mistakes_are_reported_together_and_name_the_nearest_key() -> None:
    wrong = ["sede=1", "objective.temprature=1", "objective.gap=-1", "budget.steps=1.5", "checkpoint.evry=2"]
    assert {*keys(*wrong, "corpus=nltk")} == {
        "sede", "objective.temprature", "objective.gap", "budget.steps", "checkpoint.evry", "corpus.corpus"
    }  # fmt: skip
    assert keys("objective=simsce", "encoder=grru", "seed") == ["objective=simsce", "encoder=grru", "seed"]
    wrong = ["corpus=text", "objective=nli", "objective.nli.path=???"]
    assert sorted(keys(*wrong)) == ["corpus.path", "objective.nli.path"]
    with pytest.raises(UserError, match=r"objective\.temperature"):
        check(compose(["objective.temprature=1"]))


@pytest.mark.parametrize("overrides", [[], ["encoder=bundled"]])
def test_components_as_in_run_yaml_are_right(overrides: list[str]) -> None:
    """``check`` leaves them out."""
    values = compose(overrides)
    for group in config.BASES:
        parse(config.locate(values[group]["_target_"], group), values[group], group)


def test_a_choice_brings_its_keys_and_the_command_line_wins() -> None:
    values = compose(["objective=nli", "optimizer=adam", "optimizer.lr=2"])
    assert values["optimizer"]["_target_"] == "experiments.optimizer.Adam"
    assert values["optimizer"]["lr"] == 2
    assert values["gradient_norm"] == 5.0
    assert values["names"]["objective"] == "nli"


def test_a_dollar_sign_in_a_value_is_no_reference() -> None:
    values = compose(["corpus=text", r"corpus.path='a\${b}'"])
    check(values)
    assert values["corpus"]["path"] == "a${b}"


@pytest.mark.parametrize("name", ["plain", "my runs, (v=2) 'quoted' \"two\" é"])
def test_quoted_paths_arrive_as_they_are(name: str, tmp_path: Path) -> None:
    assert compose([f"run_dir={config.quote(tmp_path / name)}"])["run_dir"] == str(tmp_path / name)


def test_a_folder_of_an_encoder_is_opened_by_its_class(tmp_path: Path) -> None:
    export = config.CONFIGS.parents[1] / "encoders" / "checkpoints" / "declutr-mini"
    values = compose([f"encoder={export}", "encoder.pooling=cls"])
    assert values["encoder"]["_target_"] == "encoders.transformer.Transformer"
    assert (values["encoder"]["path"], values["encoder"]["pooling"]) == (str(export), "cls")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "encoder.json").write_text('{"class": "encoders.gru.GRU"}')
    values = compose([f"encoder={tmp_path / 'mine'}"])
    assert values["encoder"]["_target_"] == "encoders.gru.GRU"
    assert values["names"]["encoder"] == "mine"


def test_a_resumed_run_keeps_its_settings(tmp_path: Path) -> None:
    values = tiny.compose(tmp_path) | {"run_dir": str(tmp_path)}
    from experiments.run_folder import write_config

    write_config(tmp_path, values)
    again = compose([f"resume={tmp_path}", "device=cpu", "cache=elsewhere", "budget.steps=9"])
    check(again)
    assert (again["cache"], again["budget"]["steps"], again["objective"]) == ("elsewhere", 9, values["objective"])
    assert keys(f"resume={tmp_path}", "seed=2", "objective.temperature=1") == ["objective.temperature", "seed"]
    for key in ("resume", "warm_start"):
        assert keys(f"{key}={tmp_path / 'nothing'}") == [str(tmp_path / "nothing" / "config.yaml")]
