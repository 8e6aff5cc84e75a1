"""Runs that continue from another run's folder: what resume= and warm_start= accept and refuse."""

from __future__ import annotations

from pathlib import Path

import pytest
from omegaconf import OmegaConf

from data.errors import UserError
from data.files import write_json
from encoders import BUNDLED
from experiments import compose


def test_a_warm_start_takes_the_encoders_class_and_name(tmp_path: Path) -> None:
    classes = {BUNDLED: "transformer.Transformer", "gru": "gru.GRU", "both": "concatenated.Concatenated"}
    for name, class_name in classes.items():
        (tmp_path / name / "encoder").mkdir(parents=True)
        marker: dict[str, object] = {"class": f"encoders.{class_name}"}
        if name == "both":
            marker["members"] = ["encoder_1", "encoder_2"]
            for member in ("encoder_1", "encoder_2"):
                (tmp_path / name / "encoder" / member).mkdir()
                write_json(tmp_path / name / "encoder" / member / "encoder.json", {"class": "encoders.gru.GRU"})
        write_json(tmp_path / name / "encoder" / "encoder.json", marker)
        OmegaConf.save({"names": {"encoder": "gru" if name == "both" else name}}, tmp_path / name / "config.yaml")
    mini, gru, both = (f"warm_start={tmp_path / name}" for name in classes)
    assert compose.check([mini])["names"]["encoder"] == BUNDLED  # not the name of the default encoder
    assert compose.check([gru, "encoder=gru"])["names"]["encoder"] == "gru"
    for encoder in ("gru", "concatenated"):  # the objective may train one encoder or two
        assert compose.check([both, f"encoder={encoder}"])["names"]["encoder"] == "gru"
    assert compose.check([mini, "encoder=bundled"])["names"]["encoder"] == BUNDLED
    (tmp_path / "unknown" / "encoder").mkdir(parents=True)
    assert compose.check([f"warm_start={tmp_path / 'unknown'}"])["names"]["encoder"] == "roberta-base"
    for overrides, lines in (
        ([gru], [f"{gru} holds gru: add encoder=gru."]),
        ([mini, "encoder=lstm"], [f"{mini} holds {BUNDLED}: add encoder=bundled."]),
        (
            [mini, "encoder=distilroberta-base"],
            [f"{mini} holds {BUNDLED}, and not distilroberta-base: leave out encoder=distilroberta-base."],
        ),
        ([both], [f"{both} holds 2 encoders side by side, each gru: add encoder=gru."]),
        ([both, "encoder=lstm"], [f"{both} holds 2 encoders side by side, each gru: add encoder=gru."]),
        (
            [mini, "encoder=lstm", "sede=1"],
            ["sede: no such key. Did you mean seed?", f"{mini} holds {BUNDLED}: add"],
        ),
        ([gru, "encoder=gruu"], ["encoder=gruu: no such encoder. Did you mean gru?"]),
    ):
        with pytest.raises(UserError) as error:
            compose.check(overrides)
        messages = str(error.value).split("\n")
        assert len(messages) == len(lines) and all(map(str.startswith, messages, lines))
    OmegaConf.save({"names": {"encoder": "encoder"}}, tmp_path / "gru" / "config.yaml")  # as after encoder.path=
    with pytest.raises(UserError, match=r"holds encoder: add encoder=gru\.$"):
        compose.check([gru])


@pytest.mark.parametrize("text", ["a: [1", pytest.param("", id="empty"), "- seed", "seed: 1"])
def test_a_broken_run_cannot_be_resumed(text: str, tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text(text)
    with pytest.raises(UserError, match=r"^resume=.*: its config.yaml is broken\."):
        compose.check([f"resume={tmp_path}"])


def test_resume_accepts_only_keys_that_do_not_change_the_run(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"not a run folder \(it has no config.yaml\)\.$"):
        compose.check([f"resume={tmp_path}"])
    (tmp_path / "declutr-gru-1").mkdir()
    (tmp_path / "declutr-gru-1" / "config.yaml").write_text("seed: 7\n")
    with pytest.raises(UserError, match=rf"such folder\. Did you mean resume={tmp_path}/declutr-gru-1\?$"):
        compose.check([f"resume={tmp_path}/declutr-gru-2"])
    (tmp_path / "declutr-gru-1" / "encoder").mkdir()
    with pytest.raises(UserError, match=rf"no config.yaml\)\. Did you mean resume={tmp_path}/declutr-gru-1\?$"):
        compose.check([f"resume={tmp_path}/declutr-gru-1/encoder"])
    with pytest.raises(UserError, match=rf"^resume={tmp_path}/nothere: there is no such folder\.$"):
        compose.check([f"resume={tmp_path}/nothere"])
    (tmp_path / "config.yaml").write_text("seed: 7\n")
    with pytest.raises(UserError, match=r"objective.task: a resumed run keeps its settings"):
        compose.check([f"resume={tmp_path}", "objective.task=C"])
    with pytest.raises(UserError, match=r"budget.tokens, seed: a resumed run keeps its settings"):
        compose.check([f"resume={tmp_path}", "seed=3", "budget.tokens=4", "threads=1"])


@pytest.mark.parametrize(
    ("overrides", "line"),
    [
        ("encoder.hidden=8 encoder.min_count=2 encoder.dropout=0.5", ""),
        ("encoder.hidden=9", "keeps its encoder.hidden=8: leave out encoder.hidden=9."),
        ("encoder.vectors=v.txt", "keeps its encoder.vectors=null: leave out encoder.vectors=v.txt."),
        (
            "encoder.layers=2 encoder.hidden=9 encoder.min_count=2",
            "keeps its encoder.layers=1, encoder.hidden=8: leave out encoder.layers=2, encoder.hidden=9.",
        ),
    ],
)
def test_a_warm_start_keeps_the_sizes_of_its_run(
    overrides: str, line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Overrides of sizes must equal those of its run; defaults, and keys such as dropout, may differ."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "v.txt").touch()
    (tmp_path / "run" / "encoder").mkdir(parents=True)
    write_json(tmp_path / "run" / "encoder" / "encoder.json", {"class": "encoders.gru.GRU"})
    encoder = compose.check(["encoder=gru", "encoder.hidden=8"])["encoder"]
    OmegaConf.save({"names": {"encoder": "gru"}, "encoder": encoder}, tmp_path / "run" / "config.yaml")
    arguments = ["encoder=gru", "warm_start=run", *overrides.split()]
    if not line:
        assert compose.check(arguments)["names"]["encoder"] == "gru"
        assert compose.check(arguments[:2])["encoder"]["hidden"] != 8
        return
    with pytest.raises(UserError) as refused:
        compose.check(arguments)
    assert str(refused.value) == f"warm_start=run {line}"


def test_shapes_are_compared_value_by_value(tmp_path: Path) -> None:
    (tmp_path / "encoder").mkdir()
    write_json(tmp_path / "encoder" / "encoder.json", {"class": "encoders.transformer.Transformer"})
    encoder = compose.check(["encoder=bundled", "encoder.shape.hidden_size=32"])["encoder"]
    OmegaConf.save({"names": {"encoder": BUNDLED}, "encoder": encoder}, tmp_path / "config.yaml")
    warm = f"warm_start={tmp_path}"
    assert compose.check([warm, "encoder=bundled", "encoder.shape.hidden_size=32"])["names"]["encoder"] == BUNDLED
    with pytest.raises(UserError, match=r"keeps its encoder.shape.hidden_size=32: leave out .*=64\.$"):
        compose.check([warm, "encoder=bundled", "encoder.shape.hidden_size=64"])
