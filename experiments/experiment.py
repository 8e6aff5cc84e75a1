"""One run from text to a judged encoder: corpus, encoder, objective, plan, training, export, picture."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
from accelerate import Accelerator
from accelerate.state import AcceleratorState
from accelerate.utils import InitProcessGroupKwargs, is_tensorboard_available, is_wandb_available

from analysis.figures import training
from analysis.runs import read_lines
from analysis.tables import card_scores, quick_table
from data.errors import UserError
from data.files import atomic_write, write_json
from data.loader import Batches
from encoders.base import Encoder
from encoders.export import model_card
from experiments import budget, building, checkpoint, signatures
from experiments.building import Parts
from experiments.determinism import deterministic
from experiments.optimizer import STARTS, Optimizer
from experiments.overrides import choice_of, typed
from experiments.processes import all_threads
from experiments.progress import Display
from experiments.run_folder import RunFolder, environment, packing
from experiments.schedules import Schedule
from experiments.settings import Settings
from experiments.trainer import Trainer
from objectives.base import Material

Judge = Callable[..., dict[str, float | None]]
PROBED_BATCHES = 4  # of each task, drawn to know how many tokens a batch has
DEV_BATCHES, PLATEAU_BATCHES = 8, 64  # measured on; the latter where the learning rate hangs on it
ON_CARD = ("objective", "encoder", "optimizer", "schedule", "budget", "accumulation", "gradient_norm", "seed")


def run(config: dict[str, Any]) -> Path:
    """Does what ``config`` (checked, as ``compose.check`` returns it) asks for; returns the run's folder.

    Raises:
        UserError: for what the user can mend.
        KeyboardInterrupt: if the run was interrupted and can be resumed.
    """
    settings = Settings.of(config)
    accelerator = _accelerator(settings)
    if settings.processes not in (None, accelerator.num_processes):  # run.py starts them
        raise UserError(f"processes={settings.processes}: here is {accelerator.num_processes}.")
    display = Display(shown=accelerator.is_main_process)
    name = "-".join(str(config["names"][key]) for key in ("objective", "encoder", "corpus")) + f"-{settings.seed}"
    if accelerator.num_processes > 1:
        name += f"-{accelerator.num_processes}p"
    path = Path(settings.run_dir) if settings.run_dir else None
    if not accelerator.is_main_process:  # only the first process writes
        with deterministic(settings.deterministic):
            _run(config, settings, accelerator, display, path or Path(), None)
        return path or Path()
    held = RunFolder(path, name=name, resume=settings.resume is not None)
    try:
        with deterministic(settings.deterministic):
            _run(config, settings, accelerator, display, held.path, held)
    finally:
        held.close()
    return held.path


def _run(
    config: dict[str, Any],
    settings: Settings,
    accelerator: Accelerator,
    display: Display,
    folder: Path,
    held: RunFolder | None,
) -> None:
    display.fact("run", str(folder))
    judge = signatures.build(config["evaluation"], "evaluation") if config.get("evaluation") else None
    optimizer: Optimizer = signatures.build(config["optimizer"], "optimizer")
    schedule: Schedule = signatures.build(config["schedule"], "schedule")
    _require_a_step(schedule, *map(optimizer.rate, STARTS))
    kept_tokenizer = folder / "tokenizer" if settings.resume else None
    parts = building.build(config, settings, accelerator, display, kept_tokenizer)
    if accelerator.device.type == "mps" and getattr(parts.objective, "cache_chunk", None):
        # torch's checkpointing keeps no random state of that device: the second pass would have another dropout.
        raise UserError("objective.cache_chunk is exact on cpu and cuda alone: leave it out on device=mps.")
    rank, world = accelerator.process_index, accelerator.num_processes

    look = getattr(judge, "look", None)
    plan = _plan(config, settings, parts, parts.batches("train", settings.seed))
    trainer = Trainer(
        accelerator=accelerator,
        settings=settings,
        encoder=parts.encoder,
        objective=parts.objective,
        optimizer=optimizer,
        schedule=schedule,
        train=parts.batches("train", settings.seed, rank, world),
        dev=parts.batches("dev", settings.seed, rank, world).fixed(
            settings.dev_batches or (PLATEAU_BATCHES if schedule.uses_dev_metric else DEV_BATCHES)
        ),
        steps=plan.steps,
        folder=folder,
        display=display,
        probe=None if look is None else all_threads(world)(look),
        probe_every=getattr(judge, "every", None),
    )
    _require_a_step(schedule, (trainer.rate, trainer.rate_key))
    _tell(display, parts, plan, accelerator)
    rate = f"peak learning rate {trainer.rate:g} ({trainer.rate_key})"
    display.fact("optimizer", f"{type(trainer.optimizer).__name__}, {rate}")
    if held is not None and settings.resume is None:
        about = environment(accelerator.device, _precision(accelerator), world)
        about |= packing(parts.encoder, accelerator.device, _precision(accelerator))
        config["optimizer"]["lr"] = trainer.rate
        if commit := getattr(parts.source, "commit", None):  # of the hub, where a branch may move
            config["corpus"]["revision"] = commit
        parts.encoder.tokenizer.save_pretrained(folder / "tokenizer")
        held.describe(config | {"names": config["names"] | parts.identity()}, about)
    if settings.resume is not None:
        trainer.resume()
        display.say(f"Going on after step {trainer.state.step:,} of {plan.steps:,}.")

    texts = parts.store.held_out_texts() if judge else []
    quick = folder / "quick.json"
    scores: dict[str, Any] = {"weights": parts.encoder.weights}
    if accelerator.is_main_process:
        if trainer.state.step and quick.exists():
            scores |= {"start": json.loads(quick.read_text())["start"]}
        else:
            with all_threads(world):
                scores |= {"start": _judged(judge, parts.encoder, texts, settings.seed, display, "the start")}
            write_json(quick, scores)
    accelerator.wait_for_everyone()

    with _resume_hint_added(trainer):
        trainer.fit()
        if trainer.state.step < plan.steps:
            display.say(
                f"Training ended after step {trainer.state.step:,} of {plan.steps:,}: the learning rate fell "
                f"below schedule.stop={schedule.stop:g}."
            )
        if accelerator.is_main_process:
            _finish(config, settings, parts, trainer, judge, scores, texts)
        accelerator.wait_for_everyone()  # the group is torn down when the first process has exported and evaluated
    accelerator.end_training()


def _finish(
    config: dict[str, Any],
    settings: Settings,
    parts: Parts,
    trainer: Trainer,
    judge: Any,
    scores: dict[str, Any],
    texts: list[str],
) -> None:
    """Judges and exports the trained encoder: what the first process alone does."""
    folder, display, world = trainer.folder, trainer.display, trainer.processes.count
    step = _choose(trainer, settings)
    scores["start"] |= _dev_scores(folder, 0)
    with all_threads(world):
        trained = _judged(judge, parts.encoder, texts, settings.seed, display, "the trained encoder")
    chances = {f"dev_{part}": value for part, value in parts.objective.chances().items()}
    scores |= {"trained": trained | _dev_scores(folder, step), "chance": chances}
    scores["facts"] = _facts(parts, folder, step)
    write_json(folder / "quick.json", scores)
    _export(config, parts, scores, _precision(trainer.accelerator), folder)
    if samples := parts.objective.samples(parts.encoder):
        with atomic_write(folder / "samples.md") as file:
            file.write(samples)
        display.fact("samples", str(folder / "samples.md"))
    _close(display, config, parts, scores, folder)
    if judge is not None and hasattr(judge, "look"):
        from experiments import judging  # late: it takes seconds

        with all_threads(world):
            judging.judge_run(judge, folder, settings, display)


@contextmanager
def _resume_hint_added(trainer: Trainer) -> Iterator[None]:
    """Adds to what breaks a run off how to go on with it."""
    try:
        yield
    except KeyboardInterrupt as error:
        raise KeyboardInterrupt(str(error) or f"Interrupted. {trainer.resume_hint}".strip()) from None
    except RuntimeError as error:
        error.add_note(trainer.resume_hint)
        raise


def _accelerator(settings: Settings) -> Accelerator:
    """Device, processes, precision and trackers.

    Raises:
        UserError: if the machine has not what is asked for.
    """
    there: dict[str, Callable[[], bool]] = {
        "cuda": torch.cuda.is_available,
        "mps": torch.backends.mps.is_available,
    }
    if settings.device in there and not there[settings.device]():
        raise UserError(f"device={settings.device}: there is none here. device=auto takes what there is.")
    known = {"tensorboard": is_tensorboard_available, "wandb": is_wandb_available}
    for tracker in settings.trackers:
        if not known[tracker]():
            raise UserError(f"trackers: {tracker} is not installed: pip install {tracker}.")
    # A sweep runs in one process, and Accelerate keeps the first run's precision otherwise.
    AcceleratorState._reset_state(reset_partial_state=not torch.distributed.is_initialized())
    on_cpu = settings.device == "cpu" or not (torch.cuda.is_available() or torch.backends.mps.is_available())
    precision = settings.precision
    if precision == "auto":
        has_bf16 = (
            not on_cpu and torch.cuda.is_available() and torch.cuda.is_bf16_supported(including_emulation=False)
        )
        precision = "bf16" if has_bf16 else "fp32"
    if precision == "fp16" and on_cpu:
        raise UserError("precision=fp16 needs a GPU: bf16 and fp32 work on a CPU.")
    mixed = "no" if precision == "fp32" else precision
    accelerator = Accelerator(
        cpu=on_cpu,
        mixed_precision=mixed,
        log_with=list(settings.trackers) or None,
        project_dir="runs",  # some trackers want one now; the trainer sets the run's when they begin
        # The others wait while the first process tokenises the corpus; if it ends, the launcher ends them.
        kwargs_handlers=[InitProcessGroupKwargs(timeout=timedelta(days=7))],
    )
    if settings.threads is not None:  # after Accelerate, which chooses a number for several processes
        torch.set_num_threads(settings.threads)
    return accelerator


def _precision(accelerator: Accelerator) -> str:
    """By our names; Accelerate says "no" for fp32."""
    return "fp32" if accelerator.mixed_precision == "no" else accelerator.mixed_precision


def _plan(config: dict[str, Any], settings: Settings, parts: Parts, whole: Batches) -> budget.Plan:
    """The run's length, from what a few batches of all processes together weigh."""
    epoch = whole.batches_per_epoch  # refuses where there are too few examples
    return signatures.build(config["budget"], "budget").plan(
        step_flops=parts.objective.step_flops(parts.encoder) * settings.accumulation,
        step_tokens=whole.mean_tokens(PROBED_BATCHES) * settings.accumulation,
        steps_per_epoch=epoch / settings.accumulation,
    )


def _require_a_step(schedule: Schedule, *rates: tuple[float, str]) -> None:
    """Refuses where training would end before its first step with each of ``rates`` (and the keys that set them).

    Raises:
        UserError: saying which key to change.
    """
    rate, key = max(rates)
    if rate < schedule.stop:
        raise UserError(
            f"{key}={rate:g} is below schedule.stop={schedule.stop:g}, so that no step would be trained: raise it "
            "or lower schedule.stop."
        )


def _tell(display: Display, parts: Parts, plan: budget.Plan, accelerator: Accelerator) -> None:
    """What is going to happen, before it does."""
    own = parts.objective.own_data()
    for name in parts.objective.tasks:
        unit = "pairs" if name in own else f"{parts.objective.needs.unit}s"
        where = own[name]["name"] if name in own else parts.source.name
        train, dev = parts.materials[name].train, parts.materials[name].dev
        display.fact(
            f"corpus {name}".strip(),
            f"{where}: {len(train.indices):,} {unit} to train on, {len(dev.indices):,} held out; "
            f"left out: {_left_out(parts.materials[name])}",
        )
    display.fact("encoder", f"{parts.encoder.origin}; weights: {parts.encoder.weights}")
    if not accelerator.is_main_process:
        return
    dtype = {"bf16": torch.bfloat16, "fp16": torch.float16}.get(accelerator.mixed_precision, torch.float32)
    count = accelerator.num_processes
    with all_threads(count):  # on a CPU they share its cores
        speed = budget.EFFICIENCY * budget.flops_per_second(accelerator.device, dtype)
    if accelerator.device.type != "cpu":
        speed *= count
    display.fact(
        "plan",
        f"{plan.steps:,} steps, about {plan.tokens:,.0f} tokens, {plan.epochs:,.2f} epochs, "
        f"{plan.flops:.1e} floating-point operations, at least {budget.about(plan.flops / speed)} here",
    )


def _left_out(material: Material) -> str:
    """Why how many units are not used, of all parts together."""
    reasons = Counter[str](getattr(material.units, "skipped", {}))  # pairs that could not be read as such
    for selection in (material.train, material.dev):
        reasons.update(selection.left_out)
    told = [f"{count:,} {reason}" for reason, count in reasons.items() if count]
    return ", ".join(told) or "none"


def _judged(
    judge: Judge | None, encoder: Encoder, texts: list[str], seed: int, display: Display, which: str
) -> dict[str, Any]:
    if judge is None:
        return {}
    display.say(f"Judging {which} ...", style="dim")
    return judge(encoder, texts, seed=seed)


def _choose(trainer: Trainer, settings: Settings) -> int:
    """Puts the weights to export into the encoder, and the objective's of the same step; that step."""
    best = trainer.state.best
    if settings.checkpoint.export == "last" or best is None or best["step"] == trainer.state.step:
        return trainer.state.step
    folder = trainer.checkpoints / f"step-{best['step']:08d}"
    checkpoint.verify(folder)
    checkpoint.load_part(folder / checkpoint.MODEL, trainer.encoder)
    checkpoint.load_part(folder / checkpoint.OBJECTIVE, trainer.objective)
    return best["step"]


def _dev_scores(folder: Path, step: int) -> dict[str, float]:
    """The held-out losses that the journal has for ``step``."""
    for entry in read_lines(folder / "metrics.jsonl"):
        if entry["step"] == step and any(key.startswith("dev_") for key in entry):
            return {key: value for key, value in entry.items() if key.startswith("dev_")}
    return {}


def _tokens_seen(folder: Path, step: int) -> int:
    """Until ``step``, which need not be the last."""
    entries = read_lines(folder / "metrics.jsonl")
    return max((entry["tokens"] for entry in entries if "tokens" in entry and entry["step"] <= step), default=0)


def _facts(parts: Parts, folder: Path, step: int) -> dict[str, Any]:
    return {
        "weights": parts.encoder.weights,
        "steps": step,
        "tokens seen": _tokens_seen(folder, step),
        **parts.objective.facts(),
    }


def _export(config: dict[str, Any], parts: Parts, scores: dict[str, Any], precision: str, folder: Path) -> None:
    corpus = parts.source.describe()
    settings = {key: config[key] for key in ON_CARD} | {"precision": precision}
    # The card says what the weights are; a shape may have given way to another, and sizes to those of a folder.
    settings["encoder"] = {key: value for key, value in config["encoder"].items() if key != "shape"}
    if config.get("warm_start") or config["encoder"].get("path"):
        settings["encoder"] = "that of the folder it continues from"
    materials = parts.materials
    own = {
        name: {**facts, "training pairs": len(materials[name].train.indices)}
        for name, facts in parts.objective.own_data().items()
    }
    drawn_from = [len(one.train.indices) for name, one in materials.items() if name not in own]
    of_corpus = corpus | {f"{parts.objective.needs.unit}s": max(drawn_from)} if drawn_from else {}
    card = model_card(
        title="-".join(str(config["names"][key]) for key in ("objective", "encoder", "corpus")),
        encoder=parts.encoder,
        corpus=of_corpus | dict(own),
        settings=settings,
        scores=card_scores(scores),
        licence=None if own else corpus["licence"],  # several data sets: each has its own, said with it
        citation=parts.objective.citation or None,
    )
    parts.encoder.save(folder / "encoder", card=card)


def _close(display: Display, config: dict[str, Any], parts: Parts, scores: dict[str, Any], folder: Path) -> None:
    names = config["names"]
    # A fallback is another model than the name says, so the title says which.
    start = parts.encoder.origin if parts.encoder.untrained else parts.encoder.weights
    title = f"{names['objective']} · {names['encoder']} · {names['corpus']} (weights: {start})"
    display.console.print(quick_table(scores, title=title, facts=scores["facts"]))
    figures = training.draw(folder)
    display.fact("figure", str(next((path for path in figures if path.suffix == ".png"), figures[0])))
    display.fact("encoder", f'encoders.load({str(folder / "encoder")!r}).encode(["A sentence."])')
    choice = choice_of(config["encoder"]["_target_"], str(names["encoder"]))
    warm_start = f"{typed('warm_start', folder)} encoder={choice}"
    display.fact("next", f"python experiments/runs.py   (all runs)   {warm_start}   (train on)")
