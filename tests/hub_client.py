"""Connects this process, or a command, to a local Hugging Face hub."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from huggingface_hub import close_session, constants, hf_api
from transformers.utils import hub as transformers_hub

from experiments import report
from tests import hub_server
from tests.command_runner import Outcome, run_command
from tests.experiments import tiny

NOWHERE = "http://127.0.0.1:9"


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[hub_server.Hub]:
    """Serves an empty local hub to this process, with a cache of its own, during a test.

    The libraries have read their environment at import, so their constants are patched. Runs draw no figures.
    """
    from datasets import config  # imported here because it takes a second

    cache, patch = tmp_path / "cache", monkeypatch
    with hub_server.serve() as hub:
        for name in ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"):
            patch.delenv(name, raising=False)
        patch.setenv("no_proxy", "127.0.0.1,localhost")
        patch.setattr(constants, "ENDPOINT", hub.endpoint)
        address = hub.endpoint + "/{repo_id}/resolve/{revision}/{filename}"
        patch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", address)
        patch.setattr(hf_api.api, "endpoint", hub.endpoint)
        patch.setattr(transformers_hub, "_hf_api", None, raising=False)  # it knows an earlier server
        patch.setattr(constants, "HF_HUB_OFFLINE", False)
        patch.setattr(constants, "HF_HUB_DISABLE_XET", True)  # the server does not support it
        patch.setattr(constants, "HF_HUB_CACHE", str(cache / "hub"))
        patch.setattr(constants, "HF_TOKEN_PATH", str(cache / "token"))
        patch.setattr(config, "HF_ENDPOINT", hub.endpoint)
        patch.setattr(config, "HF_DATASETS_CACHE", cache / "datasets")
        patch.setattr(config, "USE_PARQUET_EXPORT", False)  # it is on another server
        patch.setattr(report.run_figure, "draw", lambda folder: [folder / "none.png"])
        close_session()  # an open session may have read a proxy
        yield hub


def run(folder: Path, *more: str) -> Outcome:
    """Trains for two steps, on the tiny corpus unless ``more`` names another."""
    left_out = ("encoder", "weights", "budget.steps")
    overrides = [text for text in tiny.overrides(folder) if not text.startswith(left_out)]
    if any(text.startswith("corpus=") for text in more):
        overrides = [text for text in overrides if not text.startswith(("corpus=", "corpus.path="))]
    options = ["budget.steps=2", f"run_dir={folder / 'run'}", "threads=1", *more]
    return run_command("experiments.run", *overrides, *options, folder=folder)
