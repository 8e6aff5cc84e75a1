"""One run, from text to an evaluated encoder: build, plan, train, evaluate, export."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from accelerate import Accelerator

from analysis.figures import training
from analysis.held_out import card_scores, quick_table
from analysis.quick import VERSION
from analysis.runs import probes_version, read_lines, special
from data.display import duration
from data.errors import UserError
from data.files import atomic_write, read_yaml, write_json
from encoders.concatenated import Concatenated
from encoders.export import model_card
from encoders.kernels import float32_products
from experiments import budget, building, checkpoint, compose
from experiments.building import Parts
from experiments.continuation import choice_of
from experiments.determinism import deterministic
from experiments.optimizer import STARTS, Optimizer
from experiments.overrides import typed
from experiments.processes import all_threads, precision_of, start_processes
from experiments.progress import Display
from experiments.run_folder import RunFolder, environment, overrides, packing
from experiments.schedules import Schedule
from experiments.settings import Settings
from experiments.trainer import Trainer
from objectives.base import TaskData

Scorer = Callable[[str], dict[str, float | None]]
SAMPLED_BATCHES = 4  # of each task, sampled to estimate the tokens of a batch
SLOWER = 1.2  # ratio of speeds from which a precision is called the slower one
DEV_BATCHES, PLATEAU_BATCHES = 8, 64  # evaluated on; the latter where the learning rate depends on the result
LONGEST_NAME = 60  # characters of a run folder's name, without the time
ON_CARD = ("objective", "encoder", "optimizer", "schedule", "budget", "accumulation", "gradient_norm", "seed")


def run(config: dict[str, Any]) -> Path:
    """Trains, evaluates and exports an encoder; returns the run's folder.

    Args:
        config: checked configuration, as ``compose.check`` returns it.

    Raises:
        UserError: for errors that the user can fix.
        KeyboardInterrupt: if the run was interrupted and can be resumed.
    """
    settings = Settings.of(config)
    accelerator = start_processes(settings)
    if settings.processes not in (None, accelerator.num_processes):  # run.py starts them
        raise UserError(
            f"processes={settings.processes}: {accelerator.num_processes} are running; start the run with "
            "python experiments/run.py."
        )
    path = Path(settings.run_dir) if settings.run_dir else None
    folder = None
    if accelerator.is_main_process:  # only the first process writes
        folder = RunFolder(path, name=_name(config, accelerator), resume=settings.resume is not None)
        path = folder.path
    try:
        # What is not in half precision: torch would use TF32 in cuDNN's recurrent layers.
        with float32_products("fp32"), deterministic(settings.deterministic):
            _run(config, settings, accelerator, path or Path(), folder)
    finally:
        if folder is not None:
            folder.close()
    return path or Path()


def _run(
    config: dict[str, Any], settings: Settings, accelerator: Accelerator, path: Path, folder: RunFolder | None
) -> None:
    display = Display(shown=accelerator.is_main_process, verbose=settings.verbose)
    display.fact("run", str(path))
    schedule: Schedule = compose.build(config["schedule"], "schedule")
    stored = read_yaml(path / "config.yaml")["budget"] if settings.resume else config["budget"]
    steps_changed = config["budget"].get("steps") != stored.get("steps")
    if settings.resume and checkpoint.is_finished(path / "checkpoints") and (path / "encoder").is_dir():
        if steps_changed:
            raise UserError(
                f"resume={path}: the run is finished and its optimizer state was deleted, so budget.steps cannot "
                f"be changed. To train further, start a new run from its encoder: {_warm_start(config, path)}"
            )
        display.say(
            f"The run is finished. To train further, start a new run from its encoder: {_warm_start(config, path)}"
        )
        return

    # Build
    rank, world = accelerator.process_index, accelerator.num_processes
    evaluation = compose.build(config["evaluation"], "evaluation") if config.get("evaluation") else None
    optimizer: Optimizer = compose.build(config["optimizer"], "optimizer")
    _require_a_step(schedule, *map(optimizer.rate, STARTS))
    parts = building.build(config, settings, accelerator, display, path / "tokenizer" if settings.resume else None)
    if accelerator.device.type == "mps" and getattr(parts.objective, "cache_chunk", None):
        # torch's checkpointing keeps no random state of that device: the second pass would use another dropout
        # mask.
        raise UserError("objective.cache_chunk is exact on cpu and cuda only: leave it out on device=mps.")

    # Plan
    plan = _plan(config, settings, parts)
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
        start=parts.start,
        extra_scores=None if dev_scores is None else all_threads(world)(dev_scores),
        extra_scores_every=getattr(evaluation, "every", None),
    )
    _require_a_step(schedule, (trainer.peak_lr, trainer.peak_lr_key))
    _show_plan(display, parts, plan, trainer)
    if folder is not None and settings.resume is None:
        _describe(folder, config, parts, trainer)
    if settings.resume is not None:
        trainer.resume()
        if folder is not None:
            folder.set_steps(config["budget"].get("steps"))
        display.say(f"Resuming after step {trainer.state.step:,} of {plan.steps:,}.")

    # Train
    scorer = _scorer(evaluation, parts, settings.seed, display, world)
    scores: dict[str, Any] = {"weights": parts.encoder.weights, "version": VERSION}
    if accelerator.is_main_process:
        scores |= {"start": _start_scores(path, trainer, scorer)}
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
            found: dict[str, float | None] = evaluation(parts.encoder, texts, seed=seed)
        return found

    return score


def _start_scores(path: Path, trainer: Trainer, scorer: Scorer) -> dict[str, float | None]:
    """Scores of the encoder before training, which a resumed run reads from ``quick.json``."""
    quick = path / "quick.json"
    if trainer.state.step and quick.exists():
        content = json.loads(quick.read_text())
        try:
            same = probes_version(content) == VERSION  # else a run begun with an earlier classifier of the probes
        except ValueError as error:
            raise UserError(f"{path}: {error}.") from None
        return {key: value for key, value in content["start"].items() if same or not key.startswith("probe_")}
    found = scorer("the initial encoder")
    write_json(quick, {"weights": trainer.encoder.weights, "version": VERSION, "start": found})
    return found


def _finish(
    config: dict[str, Any], parts: Parts, trainer: Trainer, evaluation: Any, scorer: Scorer, scores: dict[str, Any]
) -> None:
    """Evaluates and exports the trained encoder, on the first process."""
    path, display, settings = trainer.folder, trainer.display, trainer.settings
    step = _load_exported_weights(trainer)
    scores["start"] |= _logged_dev_metrics(path, 0)
    scores["trained"] = scorer("the trained encoder") | _logged_dev_metrics(path, step)
    scores["chance"] = {f"dev_{part}": value for part, value in parts.objective.chance_levels().items()}
    scores["facts"] = _facts(parts, path, step)
    write_json(path / "quick.json", scores)
    _export(config, parts, scores, precision_of(trainer.accelerator), path)
    if samples := parts.objective.example_predictions(parts.encoder):
        with atomic_write(path / "samples.md") as file:
            file.write(samples)
        display.fact("samples", str(path / "samples.md"))
    _show_scores(display, config, parts, scores, path)
    if hasattr(evaluation, "dev_scores"):
        from experiments import evaluation as senteval  # late: it takes seconds

        with all_threads(trainer.processes.count):
            senteval.evaluate_run(evaluation, path, settings, display)
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


def _name(config: dict[str, Any], accelerator: Accelerator) -> str:
    """Returns the name of a new run folder: what is trained, the seed, and those overrides that are short."""
    name = "-".join(str(config["names"][key]) for key in ("objective", "encoder", "corpus"))
    several = f"-{accelerator.num_processes}p" if accelerator.num_processes > 1 else ""
    name += f"-{config['seed']}{several}"
    for text in special(overrides()):
        key, _, value = text.lstrip("+~").partition("=")
        change = f"-{key.rpartition('.')[2]}-{value}"
        if len(name + change) <= LONGEST_NAME and re.fullmatch(r"[\w.-]+", change, re.ASCII):
            name += change
    return name


def _plan(config: dict[str, Any], settings: Settings, parts: Parts) -> budget.Plan:
    """Computes the run's length from the size of a few batches of all processes together."""
    batches = parts.batches("train", settings.seed)
    epoch = batches.batches_per_epoch  # raises a UserError if there are too few examples
    found: budget.Plan = compose.build(config["budget"], "budget").plan(
        step_flops=parts.objective.step_flops(parts.encoder) * settings.accumulation,
        step_tokens=batches.mean_tokens(SAMPLED_BATCHES) * settings.accumulation,
        steps_per_epoch=epoch / settings.accumulation,
    )
    return found


def _require_a_step(schedule: Schedule, *rates: tuple[float, str]) -> None:
    """Refuses peak learning ``rates`` (with the keys that set them) if training would end before its first step.

    Raises:
        UserError: naming the key to change.
    """
    rate, key = max(rates)
    if rate < schedule.stop:
        raise UserError(
            f"{key}={rate:g} is below schedule.stop={schedule.stop:g}, so that no step would be trained: raise it "
            "or lower schedule.stop."
        )


def _describe(folder: RunFolder, config: dict[str, Any], parts: Parts, trainer: Trainer) -> None:
    """Fills in the learning rate and the corpus' pinned settings; describes a new run in its folder.

    That is configuration, environment and tokenizer.
    """
    accelerator = trainer.accelerator
    precision = precision_of(accelerator)
    about = environment(accelerator.device, precision, accelerator.num_processes)
    about |= packing(parts.encoder, accelerator.device, precision)
    config["optimizer"]["lr"] = trainer.peak_lr
    config["corpus"] |= parts.source.pinned()
    parts.encoder.tokenizer.save_pretrained(folder.path / "tokenizer")
    folder.describe(config | {"names": config["names"] | parts.identity()}, about)


def _show_plan(display: Display, parts: Parts, plan: budget.Plan, trainer: Trainer) -> None:
    """Prints the data, the encoder, the length of the training and the learning rate."""
    accelerator = trainer.accelerator
    own = parts.objective.own_data()
    for name in parts.objective.tasks:
        unit = "pairs" if name in own else f"{parts.objective.requirements.unit}s"
        where = own[name]["name"] if name in own else parts.source.name
        train, dev = parts.task_data[name].train, parts.task_data[name].dev
        display.fact(
            f"corpus {name}".strip(),
            f"{where}: {len(train.indices):,} {unit} to train on, {len(dev.indices):,} held out; "
            f"left out: {_left_out(parts.task_data[name])}",
        )
    display.fact("encoder", f"{parts.encoder.origin}; weights: {parts.encoder.weights}")
    if not accelerator.is_main_process:
        return
    dtype = {"bf16": torch.bfloat16, "fp16": torch.float16}.get(accelerator.mixed_precision, torch.float32)
    count = accelerator.num_processes
    with all_threads(count):  # on a CPU all processes share its cores
        products = budget.flops_per_second(accelerator.device, dtype)
        in_fp32 = (
            budget.flops_per_second(accelerator.device, torch.float32) if dtype != torch.float32 else products
        )
    speed = budget.EFFICIENCY * products
    if accelerator.device.type != "cpu":
        speed *= count
    display.fact(
        "plan",
        f"{plan.steps:,} steps, about {plan.tokens:,.0f} tokens, {plan.epochs:,.2f} epochs, "
        f"{plan.flops:.1e} floating-point operations, about {duration(plan.flops / speed)} of training here",
    )
    if in_fp32 > SLOWER * products:  # a processor without such instructions
        display.warn(
            f"Matrix products take {in_fp32 / products:.1f} times as long in {precision_of(accelerator)} as in "
            "fp32 here: precision=fp32 is faster."
        )
    why = f": {parts.start_reason}" if trainer.peak_lr_key != "optimizer.lr" else ""
    rate = f"peak learning rate {trainer.peak_lr:g} ({trainer.peak_lr_key}{why})"
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


def _logged_dev_metrics(folder: Path, step: int) -> dict[str, float]:
    """Returns the dev metrics that metrics.jsonl has for ``step``."""
    for entry in read_lines(folder / "metrics.jsonl"):
        if entry["step"] == step and any(key.startswith("dev_") for key in entry):
            return {key: value for key, value in entry.items() if key.startswith("dev_")}
    return {}


def _facts(parts: Parts, folder: Path, step: int) -> dict[str, Any]:
    """Facts that the scores of the weights of ``step`` depend on."""
    entries = read_lines(folder / "metrics.jsonl")
    seen = max((entry["tokens"] for entry in entries if "tokens" in entry and entry["step"] <= step), default=0)
    return {
        "weights": parts.encoder.weights,
        "steps": step,
        "tokens seen": seen,
        **parts.objective.facts(),
    }


def _export(config: dict[str, Any], parts: Parts, scores: dict[str, Any], precision: str, folder: Path) -> None:
    """Writes ``encoder/`` with its model card."""
    corpus = parts.source.describe()
    settings = {key: config[key] for key in ON_CARD} | {"precision": precision}
    # A folder's own sizes replace those of the configuration.
    settings["encoder"] = {key: value for key, value in config["encoder"].items() if key != "shape"}
    if config.get("warm_start") or config["encoder"].get("path"):
        settings["encoder"] = "the encoder of the folder that training started from"
    task_data = parts.task_data
    own = {
        name: {**facts, "training pairs": len(task_data[name].train.indices)}
        for name, facts in parts.objective.own_data().items()
    }
    sizes = [len(one.train.indices) for name, one in task_data.items() if name not in own]
    of_corpus = corpus | {f"{parts.objective.requirements.unit}s": max(sizes)} if sizes else {}
    card = model_card(
        title="-".join(str(config["names"][key]) for key in ("objective", "encoder", "corpus")),
        encoder=parts.encoder,
        objective=str(config["names"]["objective"]),
        corpus=of_corpus | dict(own),
        tokens=scores["facts"]["tokens seen"],
        settings=settings,
        scores=card_scores(scores),
        citation=parts.objective.citation or None,
    )
    parts.encoder.save(folder / "encoder", card=card)


def _show_scores(
    display: Display, config: dict[str, Any], parts: Parts, scores: dict[str, Any], folder: Path
) -> None:
    """Prints the scores, and what can be done with the run."""
    names = config["names"]
    # A fallback is another model than the name says, so the title names it; several encoders would not fit.
    one = not isinstance(parts.encoder, Concatenated)
    start = parts.encoder.origin if one and parts.encoder.untrained else parts.encoder.weights
    title = f"{names['objective']} · {names['encoder']} · {names['corpus']} (weights: {start})"
    display.console.print(quick_table(scores, title=title, facts=scores["facts"]))
    figures = training.draw(folder)
    display.fact("figure", str(next((path for path in figures if path.suffix == ".png"), figures[0])))
    display.fact("encoder", f'encoders.load({str(folder / "encoder")!r}).encode(["A sentence."])')
    display.fact(
        "next", f"python experiments/runs.py   (all runs)   {_warm_start(config, folder)}   (train further)"
    )


def _warm_start(config: dict[str, Any], folder: Path) -> str:
    """Returns the command that starts a new run with the encoder of the run in ``folder``."""
    choice = choice_of(config["encoder"]["_target_"], str(config["names"]["encoder"]))
    return f"python experiments/run.py {typed('warm_start', folder)} encoder={choice}"
