"""Folders from strangers: none of their code runs, and nothing is half-written (docs/security.md)."""

from __future__ import annotations

import json
import pickle
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

import encoders
from analysis.senteval.captions import captions
from data.errors import UserError
from data.files import lock_folder
from experiments import checkpoint, command, config
from tests.encoders.models import tiny
from tests.experiments import tiny as runs

REMOTE = {f"Auto{name}": f"remote.{name}" for name in ("Config", "Model", "ModelForMaskedLM", "Tokenizer")}


class Attack:
    """Creates the file ``path`` when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.path,)


@pytest.fixture(scope="module")
def saved_encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models") / "tiny"
    tiny().save(folder)
    return folder


@pytest.fixture
def model(saved_encoder: Path, tmp_path: Path) -> Path:
    return shutil.copytree(saved_encoder, tmp_path / "model")


def change(path: Path, **values: Any) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) | values))


@pytest.mark.parametrize("case", ["only pickled", "of another name", "behind an index", "head"])
def test_pickled_weights_are_not_opened(model: Path, tmp_path: Path, case: str) -> None:
    weights, pickled = model / "model.safetensors", model / "pytorch_model.bin"
    names = list(load_file(weights))
    if case in ("only pickled", "behind an index"):
        weights.unlink()
    damaged = {"of another name": weights, "head": model / "mlm_head.safetensors"}.get(case, pickled)
    torch.save({"weight": Attack(tmp_path / "trace")}, damaged)
    if case == "behind an index":
        (model / "empty_model.safetensors").touch()
        places = {"weight_map": dict.fromkeys(names, pickled.name)}
        (model / "model.safetensors.index.json").write_text(json.dumps(places))
    with pytest.raises(UserError):
        encoders.load(model)
    assert not (tmp_path / "trace").exists()


@pytest.mark.parametrize(
    "values",
    [
        {"auto_map": REMOTE},
        {"model_type": "remote", "auto_map": REMOTE},
        {"_attn_implementation": "stranger/kernels", "attn_implementation": "stranger/kernels"},
    ],
    ids=["code beside a known family", "family of its own", "kernels of the hub"],
)
def test_code_beside_a_model_does_not_run(model: Path, values: dict[str, Any]) -> None:
    expected = encoders.load(model).encode(["a dog"])
    (model / "remote.py").write_text(f"open({str(model / 'trace')!r}, 'w')")
    for name in ("config.json", "tokenizer_config.json"):
        change(model / name, **values)
    try:
        assert np.array_equal(encoders.load(model).encode(["a dog"]), expected)
    except UserError:
        assert values.get("model_type") == "remote"
    assert not (model / "trace").exists() and "remote" not in sys.modules


@pytest.mark.parametrize("name", ["subprocess.Popen", "encoders.hub.resolve", "encoders.base.Encoder", "this.s"])
def test_the_class_of_an_encoder_is_one_of_the_suite(model: Path, name: str) -> None:
    change(model / "encoder.json", **{"class": name})
    with pytest.raises(UserError):
        encoders.load(model)
    assert "this" not in sys.modules


@pytest.mark.parametrize(
    "target",
    [
        "subprocess.Popen",  # of another package
        "data.files.write_json",  # a function elsewhere in the suite
        "objectives.functional.choose_first",  # a function of the group's package
        "objectives.projection.ProjectionHead",  # another class of it
        "objectives.base.Objective",  # the base class itself
        "this.Objective",
    ],
)
def test_a_target_is_a_subclass_of_its_groups_base_class(target: str) -> None:
    with pytest.raises(UserError) as error:
        config.build({"_target_": target, "args": ["touch", "x"]}, "objective")
    assert error.value.key.startswith("objective._target_") and "this" not in sys.modules


@pytest.mark.parametrize("name", ["resume", "warm_start"])
def test_tags_in_the_configuration_of_a_run_call_nothing(tmp_path: Path, name: str) -> None:
    (tmp_path / "run" / "encoder").mkdir(parents=True)
    text = f"seed: !!python/object/apply:os.mkdir ['{tmp_path / 'trace'}']\n"
    (tmp_path / "run" / "config.yaml").write_text(text)
    with pytest.raises(UserError):
        config.compose([f"{name}={tmp_path / 'run'}"])
    assert not (tmp_path / "trace").exists()


def test_a_checkpoint_is_not_unpickled(tmp_path: Path) -> None:
    module = torch.nn.Linear(2, 2)
    optimizer = torch.optim.AdamW(module.parameters())
    parts = module, torch.nn.Linear(1, 1), optimizer
    folder = checkpoint.save(tmp_path, checkpoint.State(step=1), *parts)
    for name in (checkpoint.MODEL, checkpoint.OPTIMIZER):
        before = (folder / name).read_bytes()
        torch.save(Attack(tmp_path / "trace"), folder / name)
        with pytest.raises(UserError):
            checkpoint.load(folder, *parts)
        (folder / name).write_bytes(before)
    assert not (tmp_path / "trace").exists()


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_captions_name_no_foreign_class(tmp_path: Path, protocol: int) -> None:
    content: dict[str, Any] = {
        "features": np.eye(2, dtype=np.float32),
        "image_to_caption_ids": {0: range(5), 1: range(5)},
        "captions": [{"cleaned_caption": "a dog"}] * 5,
    }
    for attack in (range(5), np.load, Attack(tmp_path / "trace")):
        content["image_to_caption_ids"] = {0: [*range(5)], 1: attack}
        (tmp_path / "train.pkl").write_bytes(pickle.dumps(content, protocol))
        with pytest.raises(UserError) as error:
            captions({"train": [tmp_path / "train.pkl"]})
        assert "not allowed" in error.value.text
    assert not (tmp_path / "trace").exists()


def test_control_characters_of_an_error_do_not_reach_the_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for error in (UserError("a \x1b[2Jb \u202e", key="\x1b]0;title\x07"), OSError(2, "gone", "\x9b31m")):
        with pytest.raises(SystemExit) as end, command.rendered_errors():
            raise error
        assert end.value.code == 2
    shown = capsys.readouterr().err
    assert not {*"\x1b\x07\x9b\u202e"} & {*shown} and shown.count("\n") == 2


KILLED = """
import os, pathlib, sys
from data.files import atomic_folder
with atomic_folder(pathlib.Path(sys.argv[1])) as folder:
    (folder / "half").touch()
    os._exit(9)
"""


def test_a_killed_process_leaves_no_half_written_folder(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", KILLED, tmp_path / "step-1"], cwd=Path(__file__).parents[1])
    assert done.returncode == 9 and not (tmp_path / "step-1").exists()
    assert checkpoint.list_checkpoints(tmp_path) == []


def test_a_run_folder_is_used_by_one_run(tmp_path: Path) -> None:
    values = config.compose(runs.overrides(tmp_path, f"run_dir={tmp_path / 'run'}"))
    with lock_folder(tmp_path / "run", "run"), pytest.raises(UserError) as error, runs.open_run_folder(values):
        pass
    assert error.value.key == str(tmp_path / "run")
