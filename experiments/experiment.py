"""One run, from text to an evaluated encoder: build, plan, train, evaluate, export."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

from accelerate import Accelerator
from accelerate.utils import broadcast_object_list

from analysis import run_figure
from analysis.held_out import quick_table, tabulate_scores
from analysis.quick import VERSION
from analysis.runs import read_lines
from data.errors import UserError
from data.files import read_json, read_yaml, write_json
from encoders.card import model_card
from encoders.kernels import float32_products
from experiments import building, checkpoint
from experiments.budget import Plan
from experiments.building import Components, Parts
from experiments.config import CONFIGS, argument
from experiments.determinism import deterministic
from experiments.optimizer import start_of
from experiments.processes import all_threads, precision_of, start_processes
from experiments.progress import Display
from experiments.run_folder import environment, write_config
from experiments.settings import Settings
from experiments.trainer import Trainer
from objectives.base import TaskData
from objectives.flops import measure_flops

Scorer = Callable[[str], dict[str, float | None]]
SAMPLED_BATCHES = 4  # of each task, sampled to estimate the tokens of a batch
DEV_BATCHES, PLATEAU_BATCHES = 8, 64  # evaluated on; the latter where the learning rate depends on the result
ON_CARD = ("objective", "encoder", "optimizer", "schedule", "budget", "accumulation", "gradient_norm", "seed")


def run(config: dict[str, Any], path: Path, components: Components) -> None:
    """Trains, evaluates and exports an encoder.

    Args:
        config: checked configuration.
        path: the run's folder.
        components: the components that ``config`` describes.

    Raises:
        UserError: for errors that the user can fix.
        KeyboardInterrupt: if the run was interrupted and can be resumed.
    """
    settings = Settings.of(config)
    accelerator = start_processes(settings)
    [path] = broadcast_object_list([path])
    # Outside half precision, torch would use TF32 in cuDNN's recurrent layers.
    with float32_products("fp32"), deterministic(settings.deterministic):
        run_stages(config, settings, components, accelerator, path)


def run_stages(
    config: dict[str, Any], settings: Settings, components: Components, accelerator: Accelerator, path: Path
) -> None:
    display = Display(shown=accelerator.is_main_process, verbose=settings.verbose)
    schedule, optimizer, evaluation = components.schedule, components.optimizer, components.evaluation
    stored = read_yaml(path / "config.yaml") if settings.resume else config
    steps_changed = config["budget"] != stored["budget"]
    hint = f"{argument('warm_start', path)} starts a new run from its encoder."
    if steps_changed and not schedule.extendable:
        paths = sorted(CONFIGS.glob("schedule/*.yaml"))
        names = [each.stem for each in paths if resolve_name(read_yaml(each)["_target_"]).extendable]
        hint = f"Those of schedule={' and '.join(names)} do not. {hint}"
        raise UserError("the learning rate of this run depends on its length", key="budget.steps", hint=hint)
    if settings.resume and checkpoint.is_finished(path / "checkpoints") and (path / "encoder").is_dir():
        if steps_changed:
            raise UserError("the run is finished and has no optimizer state", key="budget.steps", hint=hint)
        display.say(f"The run is finished. {hint}")
        return

    # Build
    rank, world = accelerator.process_index, accelerator.num_processes
    tokenizer = path / "tokenizer" if settings.resume else None
    parts = building.build_parts(config, components, settings, accelerator, display, tokenizer)
    if accelerator.device.type == "mps" and getattr(parts.objective, "cache_chunk", None):
        # torch's checkpointing keeps no random state of that device: the second pass would use another dropout
        # mask.
        raise UserError("exact on cpu and cuda only", key="objective.cache_chunk")

    # Plan
    batches = parts.batches("train", settings.seed)  # of all processes together
    plan = components.budget.plan(
        step_flops=lambda: measure_flops(parts.objective, parts.encoder, batches) * settings.accumulation,
        step_tokens=batches.mean_tokens(SAMPLED_BATCHES) * settings.accumulation,
        steps_per_epoch=batches.batches_per_epoch / settings.accumulation,
    )
    dev_batches = settings.dev_batches or (PLATEAU_BATCHES if schedule.uses_dev_metric else DEV_BATCHES)
    dev_scores = getattr(evaluation, "dev_scores", None)
    trainer = Trainer(
        accelerator=accelerator,
        settings=settings,
        encoder=parts.encoder,
        objective=parts.objective,
        optimizer_settings=optimizer,
        schedule=schedule,
        train=parts.batches("train", settings.seed, rank, world),
        dev=parts.batches("dev", settings.seed, rank, world).fixed(dev_batches),
        steps=plan.steps,
        folder=path,
        display=display,
        start=start_of(parts.encoder),
        extra_scores=None if dev_scores is None else all_threads(world)(dev_scores),
        extra_scores_every=getattr(evaluation, "every", None),
    )
    if trainer.peak_lr < schedule.stop:  # training would end before its first step
        raise UserError(f"must be at least schedule.stop={schedule.stop:g}", key=trainer.peak_lr_key)
    _show_plan(display, parts, plan, trainer)
    if settings.resume:
        trainer.resume()
        display.say(f"Resuming after step {trainer.state.step:,} of {plan.steps:,}.")

    # Train
    scorer = _scorer(evaluation, parts, settings.seed, display, world)
    scores: dict[str, Any] = {"weights": parts.encoder.weights, "version": VERSION}
    if accelerator.is_main_process:
        if not settings.resume:
            config["optimizer"]["lr"] = trainer.peak_lr
            config["corpus"] |= parts.source.pinned()
            parts.encoder.tokenizer.save_pretrained(path / "tokenizer")
            write_json(path / "environment.json", environment(accelerator, parts.encoder))
            write_config(path, config | {"names": config["names"] | parts.identity()})
        else:
            write_config(path, stored | {"budget": config["budget"]})
        quick = path / "quick.json"
        resumed = trainer.state.step and quick.exists()
        scores["start"] = read_json(quick)["start"] if resumed else scorer("the initial encoder")
        write_json(quick, scores)
    accelerator.wait_for_everyone()
    with _with_resume_hint(trainer):
        trainer.fit()
        if trainer.state.step < plan.steps:
            display.say(
                f"Training ended after step {trainer.state.step:,} of {plan.steps:,}: the learning rate fell "
                f"below schedule.stop={schedule.stop:g}."
            )

        # Evaluate and export
        if accelerator.is_main_process:
            _finish(config, parts, trainer, evaluation, scorer, scores)
        accelerator.wait_for_everyone()  # the group is torn down when the first process has exported and evaluated
    accelerator.end_training()


def _scorer(evaluation: Any, parts: Parts, seed: int, display: Display, processes: int) -> Scorer:
    """Returns a function that scores the encoder on held-out text; its argument names the encoder in messages."""
    if evaluation is None:
        return lambda name: {}
    texts = parts.store.held_out_texts()

    def score(name: str) -> dict[str, float | None]:
        display.say(f"Evaluating {name} ...", style="dim")
        with all_threads(processes):
            scores: dict[str, float | None] = evaluation(parts.encoder, texts, seed=seed)
        return scores

    return score


def _finish(
    config: dict[str, Any], parts: Parts, trainer: Trainer, evaluation: Any, scorer: Scorer, scores: dict[str, Any]
) -> None:
    """Evaluates and exports the trained encoder, on the first process."""
    path, display, settings = trainer.folder, trainer.display, trainer.settings
    step = _load_exported_weights(trainer)
    journal = read_lines(path / "metrics.jsonl")
    scores["start"] |= _dev_metrics(journal, 0)
    scores["trained"] = scorer("the trained encoder") | _dev_metrics(journal, step)
    size = min(parts.objective.batch_size, *(len(data.dev.indices) for data in parts.task_data.values()))
    scores["chance"] = {f"dev_{part}": value for part, value in parts.objective.chance_levels(size).items()}
    tokens = [line["tokens"] for line in journal if "tokens" in line and line["step"] <= step]
    facts = {"weights": parts.encoder.weights, "steps": step, "tokens seen": max(tokens, default=0)}
    scores["facts"] = facts | parts.objective.facts()
    write_json(path / "quick.json", scores)
    _export(config, parts, scores, precision_of(trainer.accelerator), path)
    _show_scores(display, config, parts, scores, path)
    if hasattr(evaluation, "dev_scores"):
        from experiments import evaluation as senteval  # late: it takes seconds

        with all_threads(trainer.processes.count):
            senteval.evaluate_run(evaluation, path, settings)
    checkpoint.finish(trainer.checkpoints)


@contextmanager
def _with_resume_hint(trainer: Trainer) -> Iterator[None]:
    """Adds the command that resumes the run to an interrupt or error."""
    try:
        yield
    except KeyboardInterrupt as error:
        raise KeyboardInterrupt(str(error) or f"Interrupted. {trainer.resume_hint}".strip()) from None
    except RuntimeError as error:
        error.add_note(trainer.resume_hint)
        raise


def _show_plan(display: Display, parts: Parts, plan: Plan, trainer: Trainer) -> None:
    """Prints the data, the encoder, the length of the training and the learning rate."""
    pairs = parts.objective.own_data()
    for name, data in parts.task_data.items():
        unit = "pairs" if name in pairs else f"{parts.objective.requirements.unit}s"
        source = pairs[name]["name"] if name in pairs else parts.source.name
        display.fact(
            f"corpus {name}".strip(),
            f"{source}: {len(data.train.indices):,} {unit} to train on, {len(data.dev.indices):,} held out; "
            f"left out: {_left_out(data)}",
        )
    display.fact("encoder", f"{parts.encoder.origin}; weights: {parts.encoder.weights}")
    display.fact(
        "plan",
        f"{plan.steps:,} steps, about {plan.tokens:,.0f} tokens, {plan.epochs:,.2f} epochs"
        + (f", {plan.flops:.1e} floating-point operations" if plan.flops else ""),
    )
    source = trainer.peak_lr_key if trainer.settings.resume is None else "of this run"
    rate = f"peak learning rate {trainer.peak_lr:g} ({source})"
    display.fact("optimizer", f"{type(trainer.optimizer_settings).__name__}, {rate}")


def _left_out(data: TaskData) -> str:
    """Counts the units that are not used, by reason, over all parts."""
    reasons = Counter[str](getattr(data.units, "skipped", {}))  # pairs that could not be read
    for selection in (data.train, data.dev):
        reasons.update(selection.left_out)
    return ", ".join(f"{count:,} {reason}" for reason, count in reasons.items() if count) or "none"


def _load_exported_weights(trainer: Trainer) -> int:
    """Loads the weights to export, and the objective's of the same step; returns that step."""
    best = trainer.state.best
    if trainer.settings.checkpoint.export == "last" or best is None or best["step"] == trainer.state.step:
        return trainer.state.step
    folder = trainer.checkpoints / f"step-{best['step']:08d}"
    checkpoint.verify(folder)
    checkpoint.load_part(folder / checkpoint.MODEL, trainer.encoder)
    checkpoint.load_part(folder / checkpoint.OBJECTIVE, trainer.objective)
    return int(best["step"])


def _dev_metrics(journal: list[dict[str, Any]], step: int) -> dict[str, float]:
    """Returns the dev metrics in the journal of ``step``."""
    entries = (line.items() for line in journal if line["step"] == step)
    return {key: value for items in entries for key, value in items if key.startswith("dev_")}


def _export(config: dict[str, Any], parts: Parts, scores: dict[str, Any], precision: str, folder: Path) -> None:
    """Writes ``encoder/`` with its model card."""
    settings = {key: config[key] for key in ON_CARD} | {"precision": precision}
    # A folder's own sizes replace those of the configuration.
    settings["encoder"] = {key: value for key, value in config["encoder"].items() if key != "shape"}
    if config.get("warm_start") or config["encoder"].get("path"):
        settings["encoder"] = "the encoder of the folder that training started from"
    sizes = {name: len(data.train.indices) for name, data in parts.task_data.items()}
    pairs = {
        name: {**facts, "training pairs": sizes.pop(name)} for name, facts in parts.objective.own_data().items()
    }
    units = (
        parts.source.describe() | {f"{parts.objective.requirements.unit}s": max(sizes.values())} if sizes else {}
    )
    card = model_card(
        title="-".join(str(config["names"][key]) for key in ("objective", "encoder", "corpus")),
        encoder=parts.encoder,
        objective=str(config["names"]["objective"]),
        corpus=units | pairs,
        tokens=scores["facts"]["tokens seen"],
        settings=settings,
        scores=tabulate_scores(scores)[["start", "trained"]].to_dict(),
        citation=parts.objective.citation or None,
    )
    parts.encoder.save(folder / "encoder", card=card)


def _show_scores(
    display: Display, config: dict[str, Any], parts: Parts, scores: dict[str, Any], folder: Path
) -> None:
    """Prints the scores, and what can be done with the run."""
    names = config["names"]
    title = f"{names['objective']} · {names['encoder']} · {names['corpus']} (weights: {parts.encoder.weights})"
    display.console.print(quick_table(scores, title=title, facts=scores["facts"]))
    if scores["facts"]["steps"]:
        display.fact("figure", str(run_figure.draw(folder)[0]))
    display.fact("encoder", f'encoders.load({str(folder / "encoder")!r}).encode(["A sentence."])')
    display.fact("next", f"python experiments/runs.py {folder.parent}   (lists all runs)")
