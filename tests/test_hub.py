"""Models of the hub, from a server on this machine: downloads, refusals, cut connections, the cache."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from huggingface_hub import constants
from sentence_transformers import SentenceTransformer

import encoders
from data.errors import UserError
from encoders import BUNDLED
from encoders.card import model_card
from encoders.transformer import Transformer
from experiments import reproduce, sweep
from experiments.command import call_command
from tests import hub_server
from tests.analysis.senteval import small_data
from tests.command_runner import run_command, run_main
from tests.encoders import models
from tests.hub_client import NOWHERE, hub, run

__all__ = ["hub"]
ROOT = Path(__file__).resolve().parents[1]
SENTENCES = ["the cat sat on the mat", "", "a dog"]
WEIGHTS = "model.safetensors"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns a model folder as published for sentence-transformers, with files that need not be downloaded."""
    folder = tmp_path_factory.mktemp("published") / "tiny"
    encoder = models.tiny(shape=models.shape(num_hidden_layers=1, hidden_size=16), pooling="max")
    encoder.save(folder)
    encoder.model.save_pretrained(folder)  # in one file, as models with an MLM head are usually published
    for name in ("encoder.json", "mlm_head.safetensors", "model.safetensors.index.mlm.json"):
        (folder / name).unlink()
    (folder / ".gitattributes").write_text("*.safetensors filter=lfs\n")
    (folder / "onnx").mkdir()
    (folder / "onnx" / "model.onnx").write_bytes(b"another format")
    return folder


def test_a_published_encoder_gives_the_same_vectors(folder: Path, hub: hub_server.Hub) -> None:
    commit = hub.publish("org/tiny", folder)
    encoder = encoders.load("org/tiny")
    assert (encoder.weights, encoder.origin) == ("pretrained", f"org/tiny, revision {commit[:12]}")
    published = SentenceTransformer(str(folder), device="cpu")
    expected = published.encode(SENTENCES[::2])  # pooled by the maximum, as 1_Pooling sets
    assert encoder.encode(SENTENCES[::2]) == pytest.approx(expected, abs=1e-6)
    assert not hub.list_requests("onnx") and not hub.list_requests("README.md")
    fetched = [request.path.rsplit("/", 1)[-1] for request in hub.list_requests("org/tiny")]
    assert fetched.count("tokenizer.json") == 1 and len(hub.list_requests("/cdn/")) == 1


def test_training_and_evaluating_by_name(folder: Path, hub: hub_server.Hub, tmp_path: Path) -> None:
    commit = hub.publish("org/tiny-roberta", folder)
    named = ("encoder=transformer", "encoder.name=org/tiny-roberta", "weights=pretrained")
    trained = run(tmp_path, *named)
    assert trained.status == 0, trained.error
    card = (tmp_path / "run" / "encoder" / "README.md").read_text()
    assert f"org/tiny-roberta, revision {commit[:12]}" in card
    assert json.loads((tmp_path / "run" / "quick.json").read_text())["weights"] == "pretrained"
    data = small_data.folder(tmp_path / "senteval")
    options = [f"data={data}", "tasks=[STS12]", "protocol=prototyping", f"cache={tmp_path / 'cache'}"]
    result = run_command("experiments.evaluate", "model=org/tiny-roberta", *options, folder=tmp_path)
    assert result.status == 0, result.error
    results = json.loads(next((tmp_path / "evaluations").rglob("senteval.json")).read_text())
    assert [*results["tasks"]] == ["STS12"] and results["model"]["name"] == "org/tiny-roberta"


def test_a_shared_encoder_opens_by_name(hub: hub_server.Hub, tmp_path: Path) -> None:
    exported = tmp_path / "encoder"
    encoder = models.tiny(pooling="mean")
    encoder.save(exported, model_card(title="tiny", encoder=encoder))
    hub.publish("org/shared", exported)
    expected = encoder.encode(["A sentence."])
    assert np.array_equal(encoders.load("org/shared").encode(["A sentence."]), expected)


def test_published_models_are_rows_beside_the_printed_ones(
    folder: Path, hub: hub_server.Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run_here(title: str, jobs: dict[str, list[str]], **settings: Any) -> dict[str, str]:
        calls = {
            name: run_command("experiments.evaluate", *job[1:], folder=tmp_path) for name, job in jobs.items()
        }
        return {name: call.error.strip() for name, call in calls.items() if call.status}

    monkeypatch.setattr(sweep, "_run_scripts", run_here)
    hub.publish("johngiorgi/declutr-base", folder)
    hub.publish("sentence-transformers/all-MiniLM-L6-v2", models.minilm())
    options = [f"data={small_data.folder(tmp_path / 'senteval')}", "tasks=[STS12]", f"models=[{folder}]"]
    command = partial(call_command, reproduce.reproduce, "reproduce")
    made = run_main(command, "figure=declutr/published", *options, folder=tmp_path)
    assert made.status == 1, made.error
    page = (tmp_path / "outputs" / "declutr-published.md").read_text()
    rows = [line.split(" | ")[0].strip("| ") for line in page.splitlines() if line.startswith("|")][2:]
    assert {"DeCLUTR-base", "all-MiniLM-L6-v2", str(folder)} <= {*rows}
    assert "Transformer-base" not in rows and page.count("Missing: ") == 4


@pytest.mark.parametrize("weights", ["auto", "pretrained"])
@pytest.mark.parametrize(
    ("name", "token", "access", "part"),
    [
        ("org/tinny", None, "open", "org/tinny"),
        ("org/tiny", None, "private", "org/tiny"),
        ("org/tiny", None, "gated", "org/tiny"),
        ("org/tiny", "hf_expired", "open", "org/tiny"),
        ("org/empty", None, "open", "config.json"),
        ("no name/at all", None, "open", ""),
    ],
)  # fmt: skip
def test_refusals_of_the_hub_are_one_line_without_a_fallback(
    name: str, token: str | None, access: hub_server.Access, part: str, weights: str, folder: Path,
    hub: hub_server.Hub, monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    hub.publish("org/tiny", folder, access=access)
    hub.publish("org/empty", {"README.md": b"nothing yet"})
    if token is not None:
        monkeypatch.setenv("HF_TOKEN", token)
    options: dict[str, Any] = {"weights": weights, "shape": {"model_type": "roberta"}}
    with pytest.raises(UserError) as refusal:
        Transformer(name=name, **options)
    assert refusal.value.key == name and part in str(refusal.value) and "\n" not in str(refusal.value)


def test_a_failing_hub_counts_as_no_network(folder: Path, hub: hub_server.Hub) -> None:
    hub.publish("org/tiny-roberta", folder)
    for hub.status in (403, 429, 503):
        with pytest.raises(UserError, match=str(hub.status)):
            encoders.load("org/tiny-roberta")
    encoder = Transformer(name="org/tiny-roberta", shape={"model_type": "roberta"})
    assert (encoder.weights, encoder.origin) == ("bundled", f"{BUNDLED}, bundled")
    assert encoder.fallback is not None and "503" in encoder.fallback and BUNDLED in encoder.fallback
    for arguments in ({"weights": "pretrained", "shape": {"model_type": "roberta"}}, {}):
        with pytest.raises(UserError):
            Transformer(name="org/tiny-roberta", **arguments)  # type: ignore[arg-type]


def test_a_second_call_makes_no_request(
    folder: Path, hub: hub_server.Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = hub_server.read_files(folder)
    first = hub.publish("org/tiny", files)
    expected = encoders.load("org/tiny").encode(SENTENCES)
    hub.publish("org/tiny", files | {"README.md": b"changed"})
    hub.requests.clear()
    again = encoders.load("org/tiny")
    assert again.origin.endswith(first[:12]) and np.array_equal(again.encode(SENTENCES), expected)
    assert hub.requests == []
    monkeypatch.setattr(constants, "ENDPOINT", NOWHERE)
    assert np.array_equal(encoders.load("org/tiny").encode(SENTENCES), expected)
    (next((tmp_path / "cache").rglob(f"snapshots/*/{WEIGHTS}"))).unlink()
    with pytest.raises(UserError, match="org/tiny"):
        encoders.load("org/tiny")


@pytest.mark.parametrize("changed", [False, True])
def test_after_a_reset_connection_the_next_call_fetches_the_newest_commit(
    changed: bool, folder: Path, hub: hub_server.Hub, tmp_path: Path
) -> None:
    files = hub_server.read_files(folder)
    commit = hub.publish("org/tiny", files)
    hub.cuts[WEIGHTS] = [3000]
    with pytest.raises(UserError, match="org/tiny"):
        encoders.load("org/tiny")
    assert not list((tmp_path / "cache").rglob(f"snapshots/*/{WEIGHTS}"))
    if changed:
        commit = hub.publish("org/tiny", files | {"vocab.txt": b"new"})
    hub.requests.clear()
    assert encoders.load("org/tiny").origin.endswith(commit[:12]) and len(hub.list_requests("/cdn/")) == 1
