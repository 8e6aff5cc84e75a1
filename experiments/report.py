"""Prints a run's plan and scores, and writes the card of its encoder."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from analysis import run_figure
from analysis.held_out import tabulate_scores
from analysis.tables import render
from encoders import BUNDLED, Encoder
from encoders.card import model_card
from experiments.budget import Plan
from experiments.building import Parts
from experiments.processes import precision_name
from experiments.progress import Display
from experiments.trainer import Trainer

ON_CARD = ("objective", "encoder", "optimizer", "schedule", "budget", "accumulation", "gradient_norm", "seed")


def show_plan(display: Display, parts: Parts, plan: Plan, trainer: Trainer) -> None:
    """Prints the data, the encoder, the length of the training and the learning rate."""
    pairs = parts.objective.own_data()
    for name, data in parts.task_data.items():
        unit, source = ("pairs", pairs[name]["name"]) if name in pairs else (parts.units, parts.source.name)
        reasons = Counter(data.train.left_out) + Counter(data.dev.left_out)
        left_out = ", ".join(f"{count:,} {reason}" for reason, count in reasons.items()) or "none"
        display.fact(
            f"corpus {name}".strip(),
            f"{source}: {len(data.train.indices):,} {unit} to train on, {len(data.dev.indices):,} held out; "
            f"left out: {left_out}",
        )
    display.fact("encoder", f"{parts.encoder.origin}; weights: {parts.encoder.weights}")
    display.fact(
        "plan",
        f"{plan.steps:,} steps, about {plan.tokens:,.0f} tokens, {plan.epochs:,.2f} epochs; "
        f"{len(trainer.dev_steps):,} evaluations on held-out text",
    )
    rate = f"peak learning rate {trainer.peak_lr:g} ({trainer.peak_lr_key})"
    display.fact("optimizer", f"{type(trainer.optimizer_settings).__name__}, {rate}")


def write_card(config: Mapping[str, Any], parts: Parts, scores: Mapping[str, Any], trainer: Trainer) -> str:
    """Returns the model card of the trained encoder."""
    settings = {key: config[key] for key in ON_CARD} | {"precision": precision_name(trainer.accelerator)}
    settings["encoder"] = {key: value for key, value in config["encoder"].items() if key != "shape"}
    if config.get("warm_start") or config["encoder"].get("path"):  # whose sizes replace those of the configuration
        settings["encoder"] = "the encoder of the folder that training started from"
    sizes = {name: len(data.train.indices) for name, data in parts.task_data.items()}
    corpus: dict[str, Any] = {
        name: {**facts, "training pairs": sizes.pop(name)} for name, facts in parts.objective.own_data().items()
    }
    if sizes:
        corpus = parts.source.describe() | {parts.units: max(sizes.values())} | corpus
    return model_card(
        title="-".join(str(config["names"][key]) for key in ("objective", "encoder", "corpus")),
        encoder=parts.encoder,
        objective=str(config["names"]["objective"]),
        corpus=corpus,
        tokens=scores["facts"]["tokens seen"],
        settings=settings,
        scores=tabulate_scores(scores)[["start", "trained"]].to_dict(),
        citation=parts.objective.citation,
    )


def show_scores(
    display: Display, names: Mapping[str, str], encoder: Encoder, scores: Mapping[str, Any], folder: Path
) -> None:
    """Prints the scores, headed with the encoder that was trained, and what can be done with the run."""
    title = f"{names['objective']} · {BUNDLED if encoder.fallback else names['encoder']} · {names['corpus']}"
    notes = " · ".join(f"{name}: {value}" for name, value in scores["facts"].items())
    print(render(tabulate_scores(scores), title=title, notes=[notes]))
    if scores["facts"]["steps"]:
        display.fact("figure", str(run_figure.draw(folder)[0]))
    display.fact("encoder", f'encoders.load({str(folder / "encoder")!r}).encode(["A sentence."])')
