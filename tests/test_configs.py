"""Every YAML composes, and its keys are the parameters of the constructors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from encoders import BUNDLED
from encoders.hub import list_bundled
from experiments import config as configuration
from experiments.config import CONFIGS
from tests.experiments import tiny

pytestmark = pytest.mark.usefixtures("in_a_small_folder")

FILES = sorted(path for path in CONFIGS.rglob("*.yaml") if path.parent.name != "commands")
OPTIONS = [path.relative_to(CONFIGS).with_suffix("").as_posix() for path in FILES]
# Values of keys that have no default.
REQUIRED = {
    "encoder/bag_of_words": ["encoder.vectors=a.txt"],
    "evaluation/senteval": ["evaluation.data=."],
    "corpus/text": ["corpus.path=."],
    "experiment/conssent/small": ["corpus.path=."],
    "experiment/conssent/small_mt": ["corpus.path=."],
    "experiment/infersent/allnli": ["encoder.vectors=a.txt", "objective.nli.path=."],
    "experiment/sentence_bert/allnli": ["objective.nli.path=."],
    "experiment/quick_thoughts/books": ["corpus.path=."],
    "experiment/simcse/bert_base": ["corpus.path=."],
    "experiment/simcse/supervised": ["objective.nli.path=."],
    "experiment/tsdae/bert_base": ["corpus.path=."],
    "experiment/gensen/table2": ["corpus.path=.", "objective.parse.gold=.", "objective.nli.path=."],
    "corpus/mixture": ["+corpus.corpora.docs={kind: pydocs}"],
    "corpus/nltk": ["corpus.corpus=brown"],
    "corpus/hub": ["corpus.dataset=some/texts"],
}
ADDED = ("experiment", "clipping")  # groups that are not among a run's defaults
# Parameters of an encoder that the program sets, not the user.
RUN_TIME = {"members", "tokenizer"}


@pytest.fixture
def check(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Returns a function that composes the option "<group>/<name>"."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.txt").write_text("one document\n")

    def compose_option(option: str) -> dict[str, Any]:
        group, name = option.split("/", 1)
        added = "+" * (group in ADDED)
        return tiny.check([f"{added}{group}={name}", *REQUIRED.get(option, [])])

    return compose_option


@pytest.mark.parametrize(
    "option",
    [option for option in OPTIONS if "help" not in option and "/" in option and not option.startswith("figure/")],
)
def test_a_yaml_composes_and_names_every_parameter(option: str, check: Any) -> None:
    """Every parameter is named, so that ``--cfg job`` shows all that can be set."""
    config = check(option)
    group, name = option.split("/", 1)
    if group in ("objective", "corpus", "budget"):
        assert config["names"][group] == name
    for component in configuration.BASES:
        if node := config.get(component):
            parameters = configuration.schema(configuration.locate(node["_target_"], component)).model_fields
            assert {*parameters} - RUN_TIME == {*node} - {"_target_"}


def test_the_bundled_encoder_has_one_name() -> None:
    assert tiny.check(["encoder=bundled"])["encoder"]["name"] == BUNDLED in list_bundled()


@pytest.mark.parametrize("path", FILES, ids=OPTIONS)
def test_every_yaml_begins_with_a_comment(path: Path) -> None:
    assert path.read_text(encoding="utf-8").startswith("# ")


PUBLISHED = {
    "quick_thoughts/books": [
        "budget.sentences=400", "encoder.hidden=1200", "encoder.word_size=620",
        "encoder._target_=encoders.gru.GRU", "optimizer._target_=experiments.optimizer.Adam",
        "optimizer.lr=5.0e-4", "gradient_norm=5.0",
    ],
    "simcse/bert_base": [
        "budget.sentences=64", "optimizer.lr=3.0e-5", "objective.max_length=32", "objective.temperature=0.05",
        "encoder.pooling=cls", "budget.epochs=1",
    ],
    "simcse/supervised": [
        "budget.sentences=512", "optimizer.lr=5.0e-5", "objective.max_length=32", "objective.temperature=0.05",
        "objective.hard_negatives=true", "encoder.pooling=cls", "budget.epochs=3",
    ],
    "tsdae/bert_base": [
        "objective.deleted=0.6", "encoder.pooling=cls", "optimizer.lr=3.0e-5", "budget.sentences=8",
    ],
    "infersent/allnli": [
        "budget.sentences=64", "optimizer._target_=experiments.optimizer.SGD", "optimizer.lr=0.1",
        "schedule.decay=0.99", "schedule.drop=0.2", "schedule.stop=1.0e-5", "gradient_norm=5.0",
        "objective.classifier_width=512", "objective.features=infersent",
    ],
}  # fmt: skip


@pytest.mark.parametrize("preset", PUBLISHED)
def test_a_preset_has_the_published_values(preset: str, check: Any) -> None:
    config = check(f"experiment/{preset}")
    for setting in PUBLISHED[preset]:
        key, _, value = setting.partition("=")
        result = config
        for name in key.split("."):
            result = result[name]
        assert result == yaml.safe_load(value), key
