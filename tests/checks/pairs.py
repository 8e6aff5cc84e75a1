"""Every objective and every encoder that the YAMLs list, made small; which pairs are impossible."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import yaml
from accelerate import Accelerator

from data.sources.samples import Samples
from encoders.bag_of_words import BagOfWords
from experiments import building
from experiments.building import Parts
from experiments.config import CONFIGS
from experiments.progress import Display
from tests.experiments import tiny

SIZES = {  # values of all keys of encoders and objectives that set a size
    "hidden": 6,
    "word_size": 8,
    "vocab_size": 320,
    "min_count": 1,
    "classifier_width": 8,
    "synthetic_pairs": 120,
}
SHAPE = "num_hidden_layers: 1, hidden_size: 8, num_attention_heads: 2, intermediate_size: 16"
BANK = ["objective.memory_bank=16", "objective.projection={width: 4}", "objective.cache_chunk=24"]


def list_names(group: str) -> list[str]:
    return sorted(path.stem for path in (CONFIGS / group).glob("*.yaml"))


def read_keys(group: str, name: str) -> dict[str, Any]:
    """Returns the keys of a component, those of its base YAMLs included."""
    keys: dict[str, Any] = yaml.safe_load((CONFIGS / group / f"{name}.yaml").read_text())
    for base in keys.pop("defaults", []):
        if isinstance(base, str) and base != "_self_":
            keys = read_keys(group, base) | keys
    return keys


# Overrides by label, which begins with the name of the YAML.
OBJECTIVES: dict[str, list[str]] = {
    **{name: [] for name in list_names("objective") if name != "conssent"},
    **{f"conssent {task}": [f"objective.task={task}", "objective.k=3"] for task in "DPIRCN"},
    "declutr with a bank": BANK,
    **{f"simcse {views}": [f"objective.views={views}"] for views in ("deletion", "sentences", "spans")},
    "nsp alone": ["objective.mlm_weight=0"],
    "pairs with caching": ["objective.cache_chunk=24", "objective.hard_negatives=false"],
    "sop alone": ["objective.mlm_weight=0"],
    "nli of sentence_bert": ["objective.features=sentence_bert"],
}
ENCODERS: dict[str, list[str]] = {
    "bag_of_words sif": ["encoder.weighting=sif"],
    **{name: [] for name in list_names("encoder")},
}


def write_files(folder: Path) -> None:
    """Writes a corpus, word vectors, and two encoders to concatenate."""
    rng = random.Random(0)
    with (folder / "corpus.jsonl").open("w") as file:
        for _ in range(50):
            sentences = [
                " ".join(rng.sample(tiny.WORDS, rng.randint(6, 14))).capitalize() + "." for _ in range(12)
            ]
            file.write(json.dumps({"text": " ".join(sentences)}) + "\n")
    synthetic = Samples(kind="fr", pairs=200).texts()  # GenSen's training data if none are given
    with (folder / "vectors.txt").open("w") as file:
        for word in [*tiny.WORDS, *sorted({word for text in synthetic for word in text.split()})]:
            file.write(f"{word} {' '.join(f'{rng.gauss(0, 1):.3f}' for _ in range(8))}\n")
    for part in ("one", "two"):
        BagOfWords(vectors=str(folder / "vectors.txt")).save(folder / part)


def list_overrides(objective: str, encoder: str, folder: Path) -> list[str]:
    """Returns the overrides of a run of four steps of a pair, on the files in ``folder``."""
    return [
        *_shrink("objective", objective, OBJECTIVES),
        *_encoder_overrides(encoder, folder, dropout=objective == "simcse"),
        "corpus=text", f"corpus.path={folder / 'corpus.jsonl'}", "corpus.dev_fraction=0.2",
        "budget.steps=4", "budget.min_span=4", "budget.max_span=8", "budget.documents=4", "budget.sentences=8",
        "budget.min_tokens=null", "checkpoint.every=2", "dev_every=2", "dev_batches=1", "evaluation=none",
        "device=cpu", "threads=1", f"cache={folder / 'cache'}",
    ]  # fmt: skip


def _shrink(group: str, label: str, variants: dict[str, list[str]]) -> list[str]:
    name = label.split()[0]
    keys = read_keys(group, name)
    sizes = [f"{group}.{key}={value}" for key, value in SIZES.items() if key in keys]
    return [f"{group}={name}", *sizes, *variants[label]]


def _encoder_overrides(label: str, folder: Path, *, dropout: bool) -> list[str]:
    overrides, keys = _shrink("encoder", label, ENCODERS), read_keys("encoder", label.split()[0])
    target = str(keys["_target_"])
    if target.endswith("Transformer"):
        family = (keys["shape"] or {"model_type": "roberta"})["model_type"]
        width = ", embedding_size: 8" if family == "albert" else ""
        overrides += ["weights=random", "encoder.name=tiny"]
        overrides.append(f"encoder.shape={{model_type: {family}, {SHAPE}{width}}}")
    if target.endswith("BagOfWords"):
        overrides += [f"encoder.vectors={folder / 'vectors.txt'}", f"encoder.counts={folder / 'corpus.jsonl'}"]
    if target.endswith("Concatenated"):
        overrides.append(f"encoder.paths=[{folder / 'one'},{folder / 'two'}]")
    if dropout:  # recurrent encoders have it between two layers
        recurrent = [] if target.endswith("Transformer") else ["encoder.layers=2"]
        overrides += ["encoder.dropout=0.1", *recurrent] if "dropout" in keys else []
    return overrides


def is_impossible(objective: str, encoder: str) -> bool:
    """Returns True for pairs that must be refused; all others must work."""
    name, encoder_keys = objective.split()[0], read_keys("encoder", encoder.split()[0])
    target = str(encoder_keys["_target_"])
    masks = bool(read_keys("objective", name).get("mlm_weight", 0)) and not objective.endswith("alone")
    bags = target.endswith(("BagOfWords", "Concatenated"))  # two bags of words are concatenated
    if bags and (masks or objective == "conssent P" or name in ("conssent_mt", "sop")):  # no mask token, no order
        return True
    if name == "language_model":  # impossible where states depend on later words
        return target.endswith(("Transformer", "BiLSTMMax", "GRU"))
    return objective == "simcse" and "dropout" not in encoder_keys


def open_parts(folder: Path, objective: str, encoder: str) -> Parts:
    """Builds a pair with its data, from the files in ``folder``."""
    config = tiny.check(list_overrides(objective, encoder, folder))
    components = building.build_components(config)
    return building.build_parts(config, components, Accelerator(cpu=True), Display(shown=False), None)
