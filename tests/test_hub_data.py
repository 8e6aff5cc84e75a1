"""Data sets of the hub, from a server on this machine: every configuration, refusals, the cache."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from huggingface_hub import constants
from pyarrow import parquet

from data.errors import UserError
from data.files import read_yaml
from data.sources.text import Text
from experiments import config as configuration
from tests import hub_server
from tests.experiments import tiny
from tests.hub_client import NOWHERE, hub, run

__all__ = ["hub"]
CARD = """---
configs:
- config_name: wikitext-103-raw-v1
  data_files: [{split: train, path: wikitext-103-raw-v1/train-*}]
- config_name: wikitext-2-raw-v1
  data_files: [{split: train, path: wikitext-2-raw-v1/train-*}]
---
"""
PARQUET = "refs/convert/parquet"


def _table(rows: list[str]) -> bytes:
    file = io.BytesIO()
    parquet.write_table(pa.table({"text": rows}), file, row_group_size=16)
    return file.getvalue()


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    path = tiny.corpus(tmp_path_factory.mktemp("rows"))
    return [json.loads(line)["text"] for line in path.read_text().splitlines()]


def _publish_data(hub: hub_server.Hub, rows: list[str]) -> dict[str, str]:
    """Publishes the data sets of the suite's configurations in the hub's layout; returns their commits."""
    table, half = _table(rows), len(rows) // 2
    articles = [line for row in rows for line in (" = Title = \n", "", f" {row} \n")]
    wikitext = {f"wikitext-{size}-raw-v1/train-00000-of-00001.parquet": _table(articles) for size in (103, 2)}
    openwebtext = {
        f"plain_text/train-0000{part}-of-00002.parquet": _table(rows[part * half :][:half]) for part in (0, 1)
    }
    lm1b = {"plain_text/train/0000.parquet": table, "plain_text/test/0000.parquet": _table(["not for training"])}
    script = {"lm1b.py": b"raise SystemExit", "README.md": CARD.encode()}
    hub.publish("billion-word-benchmark/lm1b", script, kind="datasets")
    return {
        "hub": hub.publish("org/texts", {"train.parquet": table}, kind="datasets"),
        "wikitext103": hub.publish(
            "Salesforce/wikitext", wikitext | {"README.md": CARD.encode()}, kind="datasets"
        ),
        "openwebtext": hub.publish("Skylion007/openwebtext", openwebtext, kind="datasets"),
        "lm1b": hub.publish("billion-word-benchmark/lm1b", lm1b, kind="datasets", branch=PARQUET),
    }


SMALL = (
    "encoder=bundled",
    "weights=random",
    "encoder.vocab_size=320",
    "corpus.dev_fraction=0.2",
    "encoder.shape={num_hidden_layers: 1, hidden_size: 16, num_attention_heads: 2, intermediate_size: 32}",
)


@pytest.mark.parametrize(
    ("corpus", "override"),
    [("hub", "corpus.dataset=org/texts"), ("wikitext103", None), ("openwebtext", None), ("lm1b", None)],
)
def test_the_configured_data_sets_are_read(
    corpus: str, override: str | None, rows: list[str], hub: hub_server.Hub, tmp_path: Path
) -> None:
    commits = _publish_data(hub, rows)
    config = tiny.check([f"corpus={corpus}", *([override] if override else [])])
    source = configuration.build(config["corpus"], "corpus")
    result = [example.texts[0] for example in source.read()]
    assert result == ([f"= Title = {row}" for row in rows] if corpus == "wikitext103" else rows)
    assert source.commit == commits[corpus]
    assert not hub.list_requests("plain_text/test") and not hub.list_requests("wikitext-2")


def test_a_second_run_makes_no_request(
    rows: list[str], hub: hub_server.Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit = _publish_data(hub, rows)["lm1b"]
    assert run(tmp_path, *SMALL, "corpus=lm1b").status == 0
    assert read_yaml(tmp_path / "run" / "config.yaml")["corpus"]["revision"] == commit
    monkeypatch.setattr(constants, "ENDPOINT", NOWHERE)
    again = [*SMALL, "corpus=lm1b", f"run_dir={tmp_path / 'again'}"]
    assert run(tmp_path, *again).refused("corpus.dataset")
    assert run(tmp_path, *again, f"corpus.revision={commit}").status == 0
    weights = [tmp_path / name / "encoder" / "model.safetensors" for name in ("run", "again")]
    assert weights[0].read_bytes() == weights[1].read_bytes()


def test_a_new_commit_changes_the_fingerprint(rows: list[str], hub: hub_server.Hub) -> None:
    hub.publish("org/texts", {"train.parquet": _table(rows)}, kind="datasets")
    first = Text(dataset="org/texts")
    assert len(list(first.examples())) == len(rows)
    hub.publish("org/texts", {"train.parquet": _table(rows[:20])}, kind="datasets")
    second = Text(dataset="org/texts")
    assert len(list(second.examples())) == 20 and second.fingerprint != first.fingerprint
    assert len(list(first.examples())) == len(rows)


@pytest.mark.parametrize(
    ("arguments", "access", "part"),
    [
        (dict(dataset="org/txts"), "open", "org/txts"),
        (dict(dataset="org/texts"), "private", "org/texts"),
        (dict(dataset="org/texts"), "gated", "org/texts"),
        (dict(dataset="org/texts", revision="v1"), "open", "v1"),
        (dict(dataset="org/texts", files="test/*.parquet"), "open", "org/texts"),
        (dict(dataset="org/texts", split="tran"), "open", "tran"),
        (dict(dataset="Salesforce/wikitext"), "open", "wikitext-2-raw-v1"),
        (dict(dataset="billion-word-benchmark/lm1b"), "open", "lm1b"),
    ],
)
def test_refusals_of_a_data_set_are_one_line(
    arguments: dict[str, Any], access: hub_server.Access, part: str, rows: list[str], hub: hub_server.Hub
) -> None:
    _publish_data(hub, rows)
    hub.repositories["datasets", "org/texts"].access = access
    with pytest.raises(UserError) as refusal:
        list(Text(**arguments).examples())
    assert refusal.value.key == "corpus.dataset"
    assert part in str(refusal.value) and "\n" not in str(refusal.value)
