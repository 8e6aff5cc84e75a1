"""Bundles a run's encoder as a checkpoint: half precision, with card, recipe and log, small enough to ship.

python -m encoders.tools.bundle runs/<folder> my-encoder --licence "..." --note "..."
"""

from __future__ import annotations

import argparse
import csv
import io
import json
import re
import shutil
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
import yaml

import encoders
from data.batch import Tokens
from data.errors import UserError, reading
from data.files import atomic_folder, read_yaml
from encoders import models
from encoders.base import Encoder
from encoders.export import model_card, section, with_section
from encoders.folder import refuse_other
from encoders.starts import CHECKPOINTS

MOST_BYTES, MOST_BYTES_IN_ALL = 16 * 2**20, 32 * 2**20
RECIPE, LOG = "recipe.yaml", "training.csv"  # the run's configuration, and its losses
PICTURE = "training.png"  # of figures/ of the run
CURVE, LOGGED = 12, 500  # points of the held-out loss on the card, and rows of the log, at most
GUESSES = 5
# All of a path but its last two parts, which differs from machine to machine.
FOLDERS = re.compile(r"\S*/(?=[^\s/]+/[^\s/]+)")
HALF = "The file has half precision; as float32, which these lines ask for, it is quicker on a CPU."
AS_FLOAT32 = {  # of the card's lines for other libraries
    'SentenceTransformer("<folder>")': 'SentenceTransformer("<folder>", model_kwargs={"dtype": "float32"})',
    'AutoModel.from_pretrained("<folder>")': 'AutoModel.from_pretrained("<folder>", dtype="float32")',
}
DROPOUT = 0.1  # in the checkpoint's configuration, for further training; as in the published models
CLOZE = (
    "The king sat on his [MASK].",
    "She opened the [MASK] and looked out of the window.",
    "He was born in the [MASK] of London.",
    "The old man lit his [MASK] and began to tell a story.",
    "It was raining, so they stayed in the [MASK].",
    "The ship sailed across the [MASK].",
    "My mother and my [MASK] live in the country.",
    "The function returns a [MASK] of integers.",
    "I have never [MASK] anything like it before.",
    "They walked [MASK] the street without a word.",
)


def bundle(
    run: Path,
    name: str,
    *,
    licence: str | None = None,
    note: str | None = None,
    force: bool = False,
    into: Path = CHECKPOINTS,
) -> Path:
    """Writes the encoder of the finished ``run`` to ``into/name``; returns that folder.

    Args:
        run: its folder.
        name: of the checkpoint.
        licence: of the weights and of what they were trained on, for the card.
        note: what else the card should say of the training, in Markdown.
        force: replace a checkpoint of this name.
        into: folder of all checkpoints.

    Raises:
        UserError: if the run has no encoder or is damaged, ``name`` is a path or taken, or a file would be too
            large for the repository.
    """
    if not re.fullmatch(r"[A-Za-z0-9][\w.-]*", name):
        raise UserError("not a name of letters, digits and . _ -", key=name)
    if (into / name).exists() and not force:
        raise UserError("exists", key=str(into / name), hint="--force replaces it.")
    refuse_other(into / name)
    encoder = encoders.load(run / "encoder")
    with reading("run", run):
        config = read_yaml(run / "config.yaml")
        lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text("utf-8").splitlines()]
        run_card = (run / "encoder" / "README.md").read_text("utf-8")
        models.with_dropout(encoder.model.config, DROPOUT)  # type: ignore[union-attr, arg-type]
        seen = max(line["tokens"] for line in lines if "tokens" in line)
        names = config["names"]
        encoder.origin = f"{_without_folders(names['origin'])}, then {names['objective']} on {seen:,} tokens"
        card = model_card(
            title=name,
            encoder=encoder,
            objective=names["objective"],
            corpus={"name": ", ".join(_files(config["corpus"]))},
            tokens=seen,
            settings={
                key: config[key] for key in ("objective", "optimizer", "schedule", "budget", "precision", "seed")
            },
            licence=licence,
            citation=section(run_card, "Citation").removeprefix("```bibtex\n").removesuffix("\n```"),
        )
        card = with_section(card, "Scores", section(run_card, "Scores"))
        picture = run / "figures" / PICTURE
        drawn = f"![Losses, learning rate and speed along the steps]({PICTURE})\n\n" if picture.is_file() else ""
        extra = _curve(lines) + drawn + (_cloze(encoder) if encoder.has_mlm_head else "")
        card = card.replace("## Use\n", f"{extra}## Use\n\n{HALF}\n", 1)
        for plain, whole in AS_FLOAT32.items():
            card = card.replace(plain, whole)
        if note:
            card = card.replace("## Scores\n", f"{note}\n\n## Scores\n", 1)
    with atomic_folder(into / name) as unfinished:
        encoder.half().save(unfinished / "encoder", card=card)
        for path in (unfinished / "encoder").iterdir():
            path.rename(unfinished / path.name)
        (unfinished / "encoder").rmdir()
        (unfinished / RECIPE).write_text(_recipe(config), encoding="utf-8")
        (unfinished / LOG).write_text(_log(lines), encoding="utf-8")
        if drawn:
            shutil.copyfile(picture, unfinished / PICTURE)
        sizes = {path: path.stat().st_size for path in unfinished.rglob("*") if path.is_file()}
        large = [path.name for path, size in sizes.items() if size > MOST_BYTES]
        if large or sum(sizes.values()) > MOST_BYTES_IN_ALL:
            raise UserError(f"{sum(sizes.values()):,} bytes are too many", key=name)
    return into / name


def _files(corpus: dict[str, Any]) -> Iterator[str]:
    """Yields the names of the corpus' files, without folders, which differ from machine to machine."""
    for one in corpus.get("corpora", {"": corpus}).values():  # of a mixture
        given = one.get("path") or []
        paths = [given] if isinstance(given, str) else given
        yield from _without_folders(list(paths))
        if one.get("pydocs") or not paths:
            yield "pydocs"


def _recipe(config: dict[str, Any]) -> str:
    """Returns the configuration of the run, without keys of its machine."""
    kept = {key: value for key, value in config.items() if key not in ("cache", "run_dir", "resume", "device")}
    return yaml.safe_dump(_without_folders(kept), sort_keys=False)


def _without_folders(value: Any) -> Any:
    """Returns ``value`` with every path in it, at any depth, cut to its last two parts."""
    if isinstance(value, str):
        return FOLDERS.sub("", value)
    if isinstance(value, dict):
        return {key: _without_folders(inner) for key, inner in value.items()}
    return [_without_folders(inner) for inner in value] if isinstance(value, list) else value


def _log(lines: Sequence[dict[str, Any]]) -> str:
    """Returns losses as CSV: each measurement on held-out text, and means of training steps, in few rows."""
    steps = sum("loss" in line for line in lines)
    names = sorted({key for line in lines for key in line if key.startswith("dev_")})
    text = io.StringIO()
    table = csv.DictWriter(text, ["step", "tokens", "loss", *names], extrasaction="ignore", lineterminator="\n")
    table.writeheader()
    since: list[float] = []
    for line in lines:
        if "loss" in line:
            since.append(line["loss"])
            if len(since) == -(-steps // LOGGED) or line["step"] == steps:
                table.writerow(line | {"loss": round(float(np.mean(since)), 4)})
                since = []
        else:
            table.writerow({key: round(value, 4) for key, value in line.items()})
    return text.getvalue()


def _curve(lines: Sequence[dict[str, Any]]) -> str:
    """Returns a table of the held-out losses, one row for each measurement."""
    measured = [line for line in lines if any(key.startswith("dev_") for key in line)]
    names = [key for key in measured[-1] if key.startswith("dev_")]
    kept = measured[:: -(-len(measured) // CURVE)]
    kept += [] if kept[-1] is measured[-1] else [measured[-1]]
    rows = [f"| {line['step']:,} | " + " | ".join(f"{line[name]:.3f}" for name in names) + " |" for line in kept]
    head = "| step | " + " | ".join(name.removeprefix("dev_") for name in names) + " |"
    return "\n".join(["## Held-out loss", "", head, "| --: |" + " --: |" * len(names), *rows, "", ""])


@torch.inference_mode()
def _cloze(encoder: Encoder) -> str:
    """Returns a table of the MLM head's first guesses for a word, as they are."""
    tokenizer = encoder.tokenizer
    rows = []
    for sentence in CLOZE:
        before, after = sentence.split(" [MASK]")
        ids = [tokenizer.encode(part, add_special_tokens=False) for part in (before, after)]
        content = np.array([*ids[0], encoder.format.mask_id, *ids[1]])
        tokens = Tokens.pad([encoder.format.wrap(content)], encoder.format.pad_id)
        states = encoder(tokens).states[tokens.ids == encoder.format.mask_id]
        best = encoder.token_logits(states)[0].topk(GUESSES).indices.tolist()
        words = ", ".join(tokenizer.decode([one]).strip() for one in best)
        rows.append(f"| {sentence.replace('[MASK]', '___')} | {words} |")
    return "\n".join(["## Cloze", "", "| sentence | first guesses |", "| --- | --- |", *rows, "", ""])


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m encoders.tools.bundle", description=__doc__.split("\n")[0])
    parser.add_argument("run", type=Path, help="a finished run's folder")
    parser.add_argument("name", help="of the checkpoint")
    parser.add_argument("--licence", help="of the weights, and of the text")
    parser.add_argument("--note", help="more about the training, for the card")
    parser.add_argument("--force", action="store_true", help="replace a checkpoint of this name")
    given = parser.parse_args(arguments)
    try:
        print(bundle(given.run, given.name, licence=given.licence, note=given.note, force=given.force))
    except UserError as error:
        print(error, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
