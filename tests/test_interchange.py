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
from data.errors import UserError
from experiments import compose, experiment
from tests.experiments import tiny

CONFIGS = compose.CONFIGS
OBJECTIVES = sorted(path.stem for path in (CONFIGS / "objective").glob("*.yaml"))
ENCODERS = sorted(path.stem for path in (CONFIGS / "encoder").glob("*.yaml") if path.stem != "transformer")
SMALL = {"num_hidden_layers": 1, "hidden_size": 16, "num_attention_heads": 2, "intermediate_size": 32}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("pairs")


def small(encoder: str, folder: Path) -> list[str]:
    """Overrides that make ``encoder`` a few thousand weights: random ones of its own family, or word vectors."""
    if encoder == "bag_of_words":
        words = [a + b for a in ("ba", "ke", "li", "mo", "nu", "ra") for b in "dfgklmnrst"]
        vectors = folder / "vectors.txt"
        vectors.write_text("".join(f"{word} {i % 7} {i % 5} {-i % 3}.5\n" for i, word in enumerate(words)))
        return [f"encoder={encoder}", f"encoder.vectors={vectors}"]
    shape = yaml.safe_load((CONFIGS / "encoder" / f"{encoder}.yaml").read_text())["shape"]
    sizes = {name: SMALL.get(name, value) for name, value in shape.items()}
    return [
        f"encoder={encoder}",
        "encoder.shape=" + json.dumps(sizes).replace('"', ""),
        "encoder.vocab_size=320",
        "weights=random",
    ]


@pytest.mark.parametrize("encoder", ENCODERS)
@pytest.mark.parametrize("objective", OBJECTIVES)
def test_a_pair_trains_resumes_and_exports(
    objective: str, encoder: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(experiment.training, "draw", lambda run: [run / "none.png"])  # costs more than the run
    run = folder / f"{objective}-{encoder}"
    chosen_here = ("encoder", "budget.steps", "weights")
    common = [text for text in tiny.overrides(folder) if not text.startswith(chosen_here)]
    settings = ["budget.steps=3", "checkpoint.every=1", "checkpoint.keep_last=3", f"run_dir={run}"]
    chosen = [f"objective={objective}", *small(encoder, folder), *common, *settings]
    if encoder == "bag_of_words" and objective != "contrastive_only":
        with pytest.raises(UserError, match="needs a mask token"):
            experiment.run(compose.check(chosen))
        return
    experiment.run(compose.check(chosen))
    whole = (run / "metrics.jsonl").read_bytes()
    vectors = encoders.load(run / "encoder").encode(["bad bif", "ked"])
    assert vectors.shape[0] == 2 and np.isfinite(vectors).all()

    for name in ("checkpoints/step-00000003", "checkpoints/step-00000002", "encoder"):
        shutil.rmtree(run / name)
    experiment.run(compose.check([f"resume={run}"]))
    assert (run / "metrics.jsonl").read_bytes() == whole
    np.testing.assert_array_equal(encoders.load(run / "encoder").encode(["bad bif", "ked"]), vectors)
