"""Models of the hub, from a server on this machine: downloads, refusals, cut connections, the cache."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import huggingface_hub
import numpy as np
import pytest
from huggingface_hub import ModelCard, constants
from huggingface_hub.errors import HfHubHTTPError
from sentence_transformers import SentenceTransformer

import encoders
from analysis.model_card import add_scores
from data.errors import UserError
from encoders.card import model_card
from encoders.transformer import Transformer
from tests import hub_server
from tests.analysis.senteval import example_results, small_data
from tests.command_runner import run_command, snapshot
from tests.encoders import models
from tests.experiments import tiny
from tests.hub_client import NOWHERE, environment, hub, run

__all__ = ["hub"]
ROOT = Path(__file__).resolve().parents[1]
SENTENCES = ["the cat sat on the mat", "", "a dog"]
WEIGHTS = "model.safetensors"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns a model folder as published for sentence-transformers, with files that need not be downloaded."""
    folder = tmp_path_factory.mktemp("published") / "tiny"
    sizes: dict[str, Any] = {
        "num_hidden_layers": 1,
        "hidden_size": 16,
        "num_attention_heads": 2,
        "intermediate_size": 32,
    }
    encoder = models.tiny(shape=models.shape(**sizes), pooling="max")
    encoder.save(folder)
    encoder.model.save_pretrained(folder)  # in one file, as models with an MLM head are usually published
    for name in ("encoder.json", "mlm_head.safetensors", "model.safetensors.index.mlm.json"):
        (folder / name).unlink()
    (folder / ".gitattributes").write_text("*.safetensors filter=lfs\n")
    (folder / "onnx").mkdir()
    (folder / "onnx" / "model.onnx").write_bytes(b"another format")
    return folder


def _files(folder: Path) -> dict[str, bytes]:
    paths = [path for path in folder.rglob("*") if path.is_file()]
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}


# -- models


def test_a_published_encoder_gives_the_same_vectors(folder: Path, hub: hub_server.Hub) -> None:
    commit = hub.publish("org/tiny", folder)
    encoder = encoders.load("org/tiny")
    assert (encoder.weights, encoder.origin) == ("pretrained", f"org/tiny, revision {commit[:12]}")
    published = SentenceTransformer(str(folder), device="cpu")
    expected = published.encode(SENTENCES[::2])  # pooled by the maximum, as 1_Pooling sets
    assert encoder.encode(SENTENCES[::2]) == pytest.approx(expected, abs=1e-6)
    assert not hub.received("onnx") and not hub.received("README.md")
    fetched = [request.path.rsplit("/", 1)[-1] for request in hub.received("org/tiny", "GET")]
    assert fetched.count("tokenizer.json") == 1 and len(hub.received("/cdn/")) == 1


def test_training_and_evaluating_by_name(folder: Path, hub: hub_server.Hub, tmp_path: Path) -> None:
    commit = hub.publish("org/tiny-roberta", folder)
    named = ("encoder=transformer", "encoder.name=org/tiny-roberta", "weights=pretrained")
    trained = run(tmp_path, *named)
    assert trained.status == 0, trained.error
    card = (tmp_path / "run" / "encoder" / "README.md").read_text()
    assert f"org/tiny-roberta, revision {commit[:12]}" in card
    assert json.loads((tmp_path / "run" / "quick.json").read_text())["weights"] == "pretrained"
    data = small_data.folder(tmp_path / "senteval")
    options = [f"data={data}", "tasks=[CR,STS12]", "protocol=prototyping", f"cache={tmp_path / 'cache'}"]
    found = run_command("experiments.evaluate", "model=org/tiny-roberta", *options, folder=tmp_path)
    assert found.status == 0, found.error
    results = json.loads(next((tmp_path / "evaluations").rglob("senteval.json")).read_text())
    assert [*results["tasks"]] == ["CR", "STS12"] and results["model"]["name"] == "org/tiny-roberta"


@pytest.mark.parametrize("way", ["hf upload", "push_to_hub"])
def test_an_encoder_is_shared_as_the_page_says_and_opens_by_name(
    way: str, hub: hub_server.Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    exported = tmp_path / "encoder"
    encoder = models.tiny(pooling="mean")
    encoder.save(exported, model_card(title="tiny", encoder=encoder))
    add_scores(exported / "README.md", example_results.results(tasks={"CR": example_results.record("CR", 70)}))
    monkeypatch.setenv("HF_TOKEN", hub_server.TOKEN)
    names = {"runs/<folder>/encoder": str(exported), "<you>/<name>": "org/shared"}
    page = (ROOT / "docs" / "sharing.md").read_text(encoding="utf-8")
    for placeholder, name in names.items():
        page = page.replace(placeholder, name)
    if way == "hf upload":
        (line,) = re.findall(r"^    hf (upload .+?)  +# --private:", page, re.MULTILINE)
        command = [sys.executable, "-m", "huggingface_hub.cli.hf", *line.split(), "--private"]
        home = environment(hub, tmp_path / "home") | {"HF_TOKEN": hub_server.TOKEN}
        done = subprocess.run(command, capture_output=True, text=True, env=home, timeout=300)
        assert done.returncode == 0, done.stderr
    else:
        (snippet,) = re.findall(r"^```python\n(.*?push_to_hub.*?)```$", page, re.MULTILINE | re.DOTALL)
        exec(snippet.replace(")  # private=True", ", private=True)"), {})
    repository = hub.repositories["models", "org/shared"]
    files = repository.commits[repository.refs["main"]]
    assert {path: files[path].read() for path in files if path != ".gitattributes"} == _files(exported)
    assert repository.access == "private"

    expected = encoders.load(exported).encode(["A sentence."])
    (index,) = ModelCard.load("org/shared").data.eval_results or []
    assert (index.dataset_name, index.metric_value) == ("SentEval CR", 70)
    assert np.array_equal(encoders.load("org/shared").encode(["A sentence."]), expected)
    snippets = (exported / "README.md").read_text().split("```python\n")[1:]
    assert len(snippets) == 3 and "AutoModel.from_pretrained" in snippets[2]
    for snippet in snippets:
        scope: dict[str, Any] = {}
        exec(snippet.split("```")[0].replace("<folder>", "org/shared"), scope)
        np.testing.assert_allclose(np.asarray(scope["vectors"]), expected, atol=1e-6)


def test_an_upload_without_a_token_is_refused(hub: hub_server.Hub, tmp_path: Path) -> None:
    models.tiny().save(tmp_path / "encoder")
    with pytest.raises(HfHubHTTPError, match="401"):
        SentenceTransformer(str(tmp_path / "encoder")).push_to_hub("org/shared")
    assert not hub.repositories


@pytest.mark.parametrize("weights", ["auto", "pretrained"])
@pytest.mark.parametrize(
    ("name", "token", "access", "part"),
    [
        ("org/tinny", None, "open", "HF_TOKEN"),
        ("org/tiny", None, "private", "HF_TOKEN"),
        ("org/tiny", None, "gated", "HF_TOKEN"),
        ("org/tiny", hub_server.TOKEN, "gated", "http://127.0.0.1:"),
        ("org/tiny", "hf_expired", "open", "HF_TOKEN"),
        ("org/tiny", None, "disabled", "127.0.0.1:"),
        ("org/empty", None, "open", "config.json"),
        ("no name/at all", None, "open", ""),
    ],
    ids=["misspelt", "private", "gated, logged out", "gated, terms not accepted",
         "expired token", "disabled", "no model", "invalid name"],
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


def test_a_misspelt_name_ends_the_command_before_anything_is_written(hub: hub_server.Hub, tmp_path: Path) -> None:
    tiny.corpus(tmp_path)
    before = snapshot(tmp_path)
    found = run(tmp_path, "encoder=distilroberta-base", "encoder.name=org/distilroberta-bse", "weights=auto")
    assert found.refused("org/distilroberta-bse"), found.error
    assert snapshot(tmp_path) == before
    data = small_data.folder(tmp_path / "senteval")
    found = run_command("experiments.evaluate", "model=org/tinny", f"data={data}", "tasks=[CR]", folder=tmp_path)
    assert found.refused("org/tinny"), found.error
    assert not (tmp_path / "evaluations").exists()


def test_a_private_and_a_gated_model_with_a_login(
    folder: Path, hub: hub_server.Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_TOKEN", hub_server.TOKEN)
    accesses: tuple[hub_server.Access, ...] = ("private", "gated")
    for access in accesses:
        hub.publish(f"org/{access}", folder, access=access)
        hub.repositories["models", f"org/{access}"].accepted = True
        assert encoders.load(f"org/{access}").encode(["a cat"]).shape == (1, 16)
    assert {request.token for request in hub.received("org/")} == {hub_server.TOKEN}
    assert {request.token for request in hub.received("/cdn/")} == {None}  # on another host: the token is not sent


def test_a_failing_hub_counts_as_no_network(folder: Path, hub: hub_server.Hub) -> None:
    hub.publish("org/tiny-roberta", folder)
    for hub.status in (403, 429, 503):
        with pytest.raises(UserError, match=str(hub.status)):
            encoders.load("org/tiny-roberta")
    encoder = Transformer(name="org/tiny-roberta", shape={"model_type": "roberta"})
    assert encoder.fallback is not None and "503" in encoder.fallback


def test_pickled_weights_are_not_downloaded(folder: Path, hub: hub_server.Hub, tmp_path: Path) -> None:
    files = _files(folder)
    files["pytorch_model.bin"] = files.pop(WEIGHTS)
    hub.publish("org/pickled", files)
    found = run(tmp_path, "encoder=transformer", "encoder.name=org/pickled", "weights=pretrained")
    assert found.refused("org/pickled", "model.safetensors"), found.error
    assert not hub.received("pytorch_model.bin", "HEAD") and not hub.received("/cdn/")


@pytest.mark.slow
def test_a_model_of_real_size_trains_and_evaluates(hub: hub_server.Hub, tmp_path: Path) -> None:
    """Commands download, train and evaluate a RoBERTa-base with random weights."""
    from transformers import RobertaConfig, RobertaForMaskedLM

    published = tmp_path / "published"
    config = RobertaConfig(vocab_size=50265, max_position_embeddings=514, type_vocab_size=1)
    RobertaForMaskedLM(config).bfloat16().save_pretrained(published)
    small = models.tiny().tokenizer
    small.save_pretrained(published)
    _widen(published / "tokenizer.json", 50265)
    commit = hub.publish("FacebookAI/roberta-base", published)
    hub.cuts[WEIGHTS] = [(100_000_000, "close")]

    def command(name: str, *arguments: str) -> str:
        program = [sys.executable, str(ROOT / "experiments" / f"{name}.py"), *arguments]
        home = environment(hub, tmp_path / "home")
        done = subprocess.run(program, capture_output=True, text=True, cwd=tmp_path, env=home, timeout=600)
        assert done.returncode == 0, done.stderr
        return done.stdout

    left_out = ("encoder", "weights", "budget.steps", "optimizer.lr")
    overrides = [text for text in tiny.overrides(tmp_path) if not text.startswith(left_out)]
    named = ("objective=declutr", "encoder=roberta-base", "weights=pretrained")
    command("run", *named, *overrides, "budget.steps=2", "checkpoint.every=2", f"run_dir={tmp_path / 'run'}")
    (cached,) = (tmp_path / "home").rglob(f"snapshots/{commit}/{WEIGHTS}")
    assert cached.read_bytes() == (published / WEIGHTS).read_bytes()
    ranges = [request.range for request in hub.received("/cdn/")]
    assert ranges == [None, "bytes=94371840-"]  # after nine chunks of 10 MiB
    assert f"FacebookAI/roberta-base, revision {commit[:12]}" in (tmp_path / "run/encoder/README.md").read_text()
    losses = [line["loss"] for line in tiny.metrics(tmp_path / "run") if "loss" in line]
    assert len(losses) == 2 and all(0 < loss < 30 for loss in losses)
    hub.requests.clear()
    data = small_data.folder(tmp_path / "senteval")
    options = [f"data={data}", "tasks=[CR,STS12]", "protocol=prototyping", f"cache={tmp_path / 'cache'}"]
    shown = command("evaluate", "model=FacebookAI/roberta-base", *options)
    assert "FacebookAI/roberta-base" in shown and not hub.received("FacebookAI", "HEAD")  # from the cache


def _widen(tokenizer: Path, size: int) -> None:
    """Extends the vocabulary of a byte-level BPE to ``size`` by unused tokens."""
    content = json.loads(tokenizer.read_text())
    words = content["model"]["vocab"]
    for number in range(len(words), size):
        words[f"<unused {number}>"] = number
    tokenizer.write_text(json.dumps(content))


# -- the cache


def test_a_second_call_makes_no_request(
    folder: Path, hub: hub_server.Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = _files(folder)
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


# -- connections that are cut


def test_a_download_continues_after_the_connection_closed(
    folder: Path, hub: hub_server.Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(constants, "DOWNLOAD_CHUNK_SIZE", 512)  # the library keeps complete chunks only
    hub.publish("org/tiny", folder)
    hub.cuts[WEIGHTS] = [(3000, "close")]
    if int(huggingface_hub.__version__.split(".")[0]) < 2:  # older versions do not retry
        with pytest.raises(UserError, match="org/tiny"):
            encoders.load("org/tiny")
    encoders.load("org/tiny")
    assert [request.range for request in hub.received("/cdn/")] == [None, "bytes=2560-"]
    (cached,) = (tmp_path / "cache").rglob(f"snapshots/*/{WEIGHTS}")
    assert cached.read_bytes() == (folder / WEIGHTS).read_bytes()


def test_a_reset_connection_is_one_line_and_the_next_call_fetches_the_rest(
    folder: Path, hub: hub_server.Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = hub.publish("org/tiny", folder)
    hub.cuts[WEIGHTS] = [(3000, "reset")]
    found = run(tmp_path, "encoder=transformer", "encoder.name=org/tiny", "weights=auto")
    assert found.refused("org/tiny"), found.error
    assert not list((tmp_path / "cache").rglob(f"snapshots/*/{WEIGHTS}"))
    with monkeypatch.context() as patch:
        patch.setattr(constants, "ENDPOINT", NOWHERE)
        with pytest.raises(UserError, match="org/tiny"):
            encoders.load("org/tiny")  # the cache has the settings, but not the weights
    hub.requests.clear()
    assert encoders.load("org/tiny").weights == "pretrained"
    fetched = [request.path for request in hub.received("/resolve/", "HEAD")]
    assert fetched == ["/org/tiny/resolve/main/config.json", f"/org/tiny/resolve/{first}/{WEIGHTS}"]
    assert len(hub.received("/cdn/")) == 1 and not hub.received("/resolve/")


def test_a_cut_download_notices_a_new_commit(folder: Path, hub: hub_server.Hub) -> None:
    files = _files(folder)
    hub.publish("org/tiny", files)
    hub.cuts[WEIGHTS] = [(3000, "reset")]
    with pytest.raises(UserError, match="org/tiny"):
        encoders.load("org/tiny")
    second = hub.publish("org/tiny", files | {"vocab.txt": b"new"})
    assert encoders.load("org/tiny").origin.endswith(second[:12])
