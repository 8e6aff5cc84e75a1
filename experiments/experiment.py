"""One run, from text to an evaluated encoder: build, plan, train, evaluate, export."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from accelerate import Accelerator

from analysis import run_figure
from analysis.held_out import card_scores, quick_table
from analysis.quick import VERSION
from analysis.runs import read_lines
from data.display import duration
from data.errors import UserError
from data.files import atomic_write, read_json, read_yaml, write_json
from encoders.export import model_card
from encoders.kernels import float32_products
from experiments import budget, building, checkpoint
from experiments.building import Components, Parts
from experiments.config import argument
from experiments.determinism import deterministic
from experiments.optimizer import start_of
from experiments.processes import DTYPES, all_threads, precision_of, start_processes
from experiments.progress import Display
from experiments.run_folder import environment, set_steps, write_config
from experiments.settings import Settings
from experiments.trainer import Trainer
from objectives.base import TaskData

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
    # Outside half precision, torch would use TF32 in cuDNN's recurrent layers.
    with float32_products("fp32"), deterministic(settings.deterministic):
        run_stages(config, settings, components, accelerator, path)


def run_stages(
    config: dict[str, Any], settings: Settings, components: Components, accelerator: Accelerator, path: Path
) -> None:
    display = Display(shown=accelerator.is_main_process, verbose=settings.verbose)
    schedule, optimizer, evaluation = components.schedule, components.optimizer, components.evaluation
    steps = config["budget"]["steps"]
    steps_changed = settings.resume and steps != read_yaml(path / "config.yaml")["budget"]["steps"]
    if steps_changed and not schedule.extendable:
        hint = "schedule=wsd and constant have rates that do not."
        raise UserError("the learning rate of this run depends on its length", key="budget.steps", hint=hint)
    if settings.resume and checkpoint.is_finished(path / "checkpoints") and (path / "encoder").is_dir():
        if steps_changed:
            raise UserError("the run is finished and has no optimizer state", key="budget.steps")
        display.say(f"The run is finished. {argument('warm_start', path)} starts a new run from its encoder.")
        return

    # Build
    rank, world = accelerator.process_index, accelerator.num_processes
    tokenizer = path / "tokenizer" if settings.resume else None
    parts = building.build(config, components, settings, accelerator, display, tokenizer)
    if accelerator.device.type == "mps" and getattr(parts.objective, "cache_chunk", None):
        # torch's checkpointing keeps no random state of that device: the second pass would use another dropout
        # mask.
        raise UserError("exact on cpu and cuda only", key="objective.cache_chunk")

    # Plan
    plan = make_plan(components.budget, settings, parts)
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
    if accelerator.is_main_process and settings.resume is None:
        describe_run(config, parts, trainer)
    if settings.resume is not None:
        trainer.resume()
        if accelerator.is_main_process:
            set_steps(path, steps)
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
            scores: dict[str, float | None] = evaluation(parts.encoder, texts, seed=seed)
        return scores

    return score


def _start_scores(path: Path, trainer: Trainer, scorer: Scorer) -> dict[str, float | None]:
    """Scores of the encoder before training, which a resumed run reads from ``quick.json``."""
    quick = path / "quick.json"
    if trainer.state.step and quick.exists():
        return dict(read_json(quick)["start"])
    scores = scorer("the initial encoder")
    write_json(quick, {"weights": trainer.encoder.weights, "version": VERSION, "start": scores})
    return scores


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


def make_plan(amount: budget.Budget, settings: Settings, parts: Parts) -> budget.Plan:
    """Computes the run's length from the size of a few batches of all processes together."""
    batches = parts.batches("train", settings.seed)
    return amount.plan(
        step_flops=parts.objective.step_flops(parts.encoder) * settings.accumulation,
        step_tokens=batches.mean_tokens(SAMPLED_BATCHES) * settings.accumulation,
        steps_per_epoch=batches.batches_per_epoch / settings.accumulation,
    )


def describe_run(config: dict[str, Any], parts: Parts, trainer: Trainer) -> None:
    """Writes configuration, environment and tokenizer of a new run.

    The configuration gets the learning rate and the corpus' pinned settings.
    """
    config["optimizer"]["lr"] = trainer.peak_lr
    config["corpus"] |= parts.source.pinned()
    parts.encoder.tokenizer.save_pretrained(trainer.folder / "tokenizer")
    write_json(trainer.folder / "environment.json", environment(trainer.accelerator, parts.encoder))
    write_config(trainer.folder, config | {"names": config["names"] | parts.identity()})


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
    count = accelerator.num_processes
    with all_threads(count):  # on a CPU all processes share its cores
        products = budget.flops_per_second(accelerator.device, DTYPES[precision_of(accelerator)])
    speed = budget.EFFICIENCY * products * (1 if accelerator.device.type == "cpu" else count)
    display.fact(
        "plan",
        f"{plan.steps:,} steps, about {plan.tokens:,.0f} tokens, {plan.epochs:,.2f} epochs, "
        f"{plan.flops:.1e} floating-point operations, about {duration(plan.flops / speed)} of training here",
    )
    rate = f"peak learning rate {trainer.peak_lr:g} ({trainer.peak_lr_key})"
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
    title = f"{names['objective']} · {names['encoder']} · {names['corpus']} (weights: {parts.encoder.weights})"
    display.console.print(quick_table(scores, title=title, facts=scores["facts"]))
    if scores["facts"]["steps"]:
        display.fact("figure", str(run_figure.draw(folder)[0]))
    display.fact("encoder", f'encoders.load({str(folder / "encoder")!r}).encode(["A sentence."])')
    display.fact("next", f"python experiments/runs.py {folder.parent}   (lists all runs)")
