"""Every objective trains every encoder: a few steps, killed and resumed, exported, opened again.

Pairs come from the configuration folders, so a new YAML is tried without touching this file.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import yaml

import encoders
from experiments import compose, experiment
from tests.experiments import tiny

CONFIGS = compose.CONFIGS
OBJECTIVES = sorted(path.stem for path in (CONFIGS / "objective").glob("*.yaml"))
ENCODERS = sorted(path.stem for path in (CONFIGS / "encoder").glob("*.yaml") if path.stem != "transformer")
SMALL = {"num_hidden_layers": 1, "hidden_size": 16, "num_attention_heads": 2, "intermediate_size": 32}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("pairs")


def small(encoder: str) -> list[str]:
    """Overrides that shrink ``encoder`` to a few thousand random weights of its own family."""
    shape = yaml.safe_load((CONFIGS / "encoder" / f"{encoder}.yaml").read_text())["shape"]
    sizes = {name: SMALL.get(name, value) for name, value in shape.items()}
    return [f"encoder={encoder}", "encoder.shape=" + json.dumps(sizes).replace('"', ""), "encoder.vocab_size=320"]


@pytest.mark.parametrize("encoder", ENCODERS)
@pytest.mark.parametrize("objective", OBJECTIVES)
def test_a_pair_trains_resumes_and_exports(
    objective: str, encoder: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(experiment.training, "draw", lambda run: [run / "none.png"])  # costs more than the run
    run = folder / f"{objective}-{encoder}"
    common = [text for text in tiny.overrides(folder) if not text.startswith(("encoder", "budget.steps"))]
    settings = ["budget.steps=3", "checkpoint.every=1", "checkpoint.keep_last=3", f"run_dir={run}"]
    chosen = [f"objective={objective}", *small(encoder), *common, *settings]
    experiment.run(compose.check(chosen))
    whole = (run / "metrics.jsonl").read_bytes()
    vectors = encoders.load(run / "encoder").encode(["bad bif", "ked"])
    assert vectors.shape[0] == 2 and np.isfinite(vectors).all()

    for name in ("checkpoints/step-00000003", "checkpoints/step-00000002", "encoder"):
        shutil.rmtree(run / name)
    experiment.run(compose.check([f"resume={run}"]))
    assert (run / "metrics.jsonl").read_bytes() == whole
    np.testing.assert_array_equal(encoders.load(run / "encoder").encode(["bad bif", "ked"]), vectors)
