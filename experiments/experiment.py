"""One run from text to a judged encoder: corpus, encoder, objective, plan, training, export, picture."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from accelerate import Accelerator
from accelerate.state import AcceleratorState
from accelerate.utils import is_tensorboard_available, is_wandb_available

from analysis.figures import training
from analysis.tables import quick_table
from data.errors import UserError
from data.files import write_json
from data.loader import Loader
from data.sources.base import Source
from data.store import Selection, TokenStore, prepare
from encoders.base import Encoder
from encoders.export import model_card
from experiments import budget, checkpoint, signatures
from experiments.progress import Display
from experiments.run_folder import ROOT, RunFolder, environment
from experiments.settings import Settings
from experiments.trainer import Trainer
from objectives.base import Objective

Judge = Callable[..., dict[str, float | None]]
PROBED_BATCHES = 4  # drawn to know how many tokens a batch has
ON_CARD = ("objective", "encoder", "optimizer", "schedule", "budget", "accumulation", "gradient_norm", "seed")


@dataclass
class Parts:
    """What a run is made of, once it is built."""

    source: Source
    encoder: Encoder
    objective: Objective
    store: TokenStore
    train: Selection
    dev: Selection


def run(config: dict[str, Any]) -> Path:
    """Does what ``config`` (checked, as ``compose.check`` returns it) asks for; returns the run's folder.

    Raises:
        UserError: for what the user can mend.
        KeyboardInterrupt: if the run was interrupted and can be resumed.
    """
    settings = Settings.of(config)
    accelerator = _accelerator(settings)
    display = Display(shown=accelerator.is_main_process)
    name = "-".join(str(config["names"][key]) for key in ("objective", "encoder", "corpus")) + f"-{settings.seed}"
    path = Path(settings.run_dir) if settings.run_dir else None
    if not accelerator.is_main_process:  # only the first process writes
        _run(config, settings, accelerator, display, path or Path(), None)
        return path or Path()
    held = RunFolder(path, name=name, resume=settings.resume is not None)
    try:
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
    judge = signatures.build(config["evaluation"]) if config.get("evaluation") else None
    kept_tokenizer = folder / "tokenizer" if settings.resume else None
    parts = _build(config, settings, accelerator, display, kept_tokenizer)
    rank, world = accelerator.process_index, accelerator.num_processes

    def loader(part: Selection, rank: int, world: int) -> Loader:
        return Loader(
            parts.store,
            part.indices,
            parts.objective,
            parts.encoder.format,
            batch_size=parts.objective.batch_size,
            seed=settings.seed,
            rank=rank,
            world=world,
        )

    plan = _plan(config, settings, parts, loader(parts.train, 0, 1))
    trainer = Trainer(
        accelerator=accelerator,
        settings=settings,
        encoder=parts.encoder,
        objective=parts.objective,
        optimizer=signatures.build(config["optimizer"]),
        schedule=signatures.build(config["schedule"]),
        train=loader(parts.train, rank, world),
        dev=loader(parts.dev, rank, world).fixed(settings.dev_batches),
        steps=plan.steps,
        folder=folder,
        display=display,
        probe=getattr(judge, "look", None),
        probe_every=getattr(judge, "every", None),
    )
    _tell(display, parts, plan, accelerator)
    rate = f"peak learning rate {trainer.rate:g} ({trainer.rate_key})"
    display.fact("optimizer", f"{type(trainer.optimizer).__name__}, {rate}")
    if held is not None and settings.resume is None:
        about = environment(accelerator.device, _precision(accelerator), world)
        config["optimizer"]["lr"] = trainer.rate
        if commit := getattr(parts.source, "commit", None):  # of the hub, where a branch may move
            config["corpus"]["revision"] = commit
        parts.encoder.tokenizer.save_pretrained(folder / "tokenizer")
        held.describe(config | {"names": config["names"] | _identity(parts)}, about)
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
            scores |= {"start": _judged(judge, parts.encoder, texts, settings.seed, display, "the start")}
            write_json(quick, scores)
    accelerator.wait_for_everyone()

    trainer.fit()

    if accelerator.is_main_process:
        step = _choose(trainer, settings)
        scores["start"] |= _dev_scores(folder, 0)
        trained = _judged(judge, parts.encoder, texts, settings.seed, display, "the trained encoder")
        scores |= {"trained": trained | _dev_scores(folder, step), "facts": _facts(parts, trainer, step)}
        write_json(quick, scores)
        _export(config, parts, scores, _precision(accelerator), folder)
        _close(display, config, parts, scores, folder)
        if judge is not None and hasattr(judge, "look"):
            from experiments import judging  # late: it takes seconds

            judging.judge_run(judge, folder, settings, display)
    accelerator.end_training()


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
    if settings.threads is not None:
        torch.set_num_threads(settings.threads)
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
    return Accelerator(
        cpu=on_cpu,
        mixed_precision=mixed,
        log_with=list(settings.trackers) or None,
        project_dir="runs",  # some trackers want one now; the trainer sets the run's when they begin
    )


def _precision(accelerator: Accelerator) -> str:
    """By our names; Accelerate says "no" for fp32."""
    return "fp32" if accelerator.mixed_precision == "no" else accelerator.mixed_precision


def _build(
    config: dict[str, Any],
    settings: Settings,
    accelerator: Accelerator,
    display: Display,
    tokenizer: Path | None,
) -> Parts:
    """Corpus, encoder, objective and token store; cheap refusals come before downloads and tokenising."""
    cache = ROOT / settings.cache
    source: Source = signatures.build(config["corpus"])
    objective: Objective = signatures.build(config["objective"])
    if objective.batch_size % accelerator.num_processes:
        raise UserError(
            f"objective.batch_size must divide by the {accelerator.num_processes} processes. "
            f"Got {objective.batch_size} instead."
        )
    needs = objective.needs
    start = {} if settings.warm_start is None else {"path": _warm(settings.warm_start), "weights": "auto"}
    display.say("Preparing corpus and encoder ...", style="dim")
    torch.manual_seed(settings.seed)
    with accelerator.main_process_first():
        try:
            encoder: Encoder = signatures.build(
                config["encoder"] | start,
                texts=source.texts,
                texts_key=source.texts_key,
                cache=cache / "tokenizers",
                tokenizer=tokenizer,
                require_mask_token=needs.mask_token,
            )
        except ValueError as error:
            if not str(error).startswith("encoder."):
                raise
            raise UserError(str(error)) from None
    _require_same(config, "origin", encoder.origin)
    fallback = getattr(encoder, "fallback", None)
    if fallback:
        display.warn(fallback)
    if needs.mask_token and not encoder.has_mlm_head:
        encoder.add_mlm_head()  # type: ignore[operator]
        display.warn(f"{encoder.origin} has no masked-language-model head: it gets a new one.")
    objective.build(encoder)
    if settings.warm_start is not None:
        newest = checkpoint.found(Path(settings.warm_start) / "checkpoints")[-1:]
        taken: list[str] = []
        for one in newest:
            checkpoint.verify(one)
            taken = checkpoint.load_matching(one / checkpoint.OBJECTIVE, objective)
        display.fact("warm start", f"{settings.warm_start}: encoder" + "".join(f", {name}" for name in taken))
    with (
        display.bar("tokenising", source.total) as update,
        accelerator.main_process_first() if accelerator.num_processes > 1 else nullcontext(),
    ):
        store = prepare(
            source,
            encoder.tokenizer,
            cache=cache / "stores",
            progress=lambda done, total: update(done, total, ""),
        )
    _require_same(config, "store", store.fingerprint)
    train = store.select("train", min_tokens=needs.min_tokens)
    dev = store.select("dev", min_tokens=needs.min_tokens)
    return Parts(source, encoder, objective, store, train, dev)


def _identity(parts: Parts) -> dict[str, str]:
    """What a run that goes on must find again: see ``_require_same``."""
    encoder = parts.encoder
    return {"weights": encoder.weights, "origin": encoder.origin, "store": parts.store.fingerprint}


def _require_same(config: dict[str, Any], name: Literal["origin", "store"], now: str) -> None:
    """Refuses to resume a run with other weights, or other text or tokens, than it began with."""
    before = config["names"].get(name, now)
    if before != now:
        what = {"origin": "weights", "store": "text and tokenizer (store)"}[name]
        raise UserError(f"The run began with {what} {before}, and here is {now}: it cannot go on without them.")


def _warm(folder: str) -> str:
    """The encoder of the finished run in ``folder``."""
    if (Path(folder) / "encoder").is_dir():
        return str(Path(folder) / "encoder")
    hint = f": it is not finished, resume={folder} first" if (Path(folder) / "config.yaml").exists() else ""
    raise UserError(f"warm_start={folder}: there is no trained encoder in it{hint}.")


def _plan(config: dict[str, Any], settings: Settings, parts: Parts, whole: Loader) -> budget.Plan:
    """The run's length, from what the first batches of all processes together weigh."""
    drawn = [whole.batch(number).n_tokens for number in range(PROBED_BATCHES)]
    return signatures.build(config["budget"]).plan(
        step_flops=parts.objective.step_flops(parts.encoder) * settings.accumulation,
        step_tokens=sum(drawn) / len(drawn) * settings.accumulation,
        steps_per_epoch=whole.batches_per_epoch / settings.accumulation,
    )


def _tell(display: Display, parts: Parts, plan: budget.Plan, accelerator: Accelerator) -> None:
    """What is going to happen, before it does."""
    train, dev, needed = parts.train, parts.dev, parts.objective.needs.min_tokens
    display.fact(
        "corpus",
        f"{parts.source.name}: {len(train.indices):,} documents to train on, {len(dev.indices):,} held out "
        f"({train.skipped + dev.skipped:,} with fewer than {needed:,} tokens skipped)",
    )
    display.fact("encoder", f"{parts.encoder.origin}; weights: {parts.encoder.weights}")
    if not accelerator.is_main_process:
        return
    dtype = {"bf16": torch.bfloat16, "fp16": torch.float16}.get(accelerator.mixed_precision, torch.float32)
    speed = budget.flops_per_second(accelerator.device, dtype) * budget.EFFICIENCY * accelerator.num_processes
    display.fact(
        "plan",
        f"{plan.steps:,} steps, about {plan.tokens:,.0f} tokens, {plan.epochs:,.2f} epochs, "
        f"{plan.flops:.1e} floating-point operations, about {budget.about(plan.flops / speed)} here",
    )


def _judged(
    judge: Judge | None, encoder: Encoder, texts: list[str], seed: int, display: Display, which: str
) -> dict[str, Any]:
    if judge is None:
        return {}
    display.say(f"Judging {which} ...", style="dim")
    return judge(encoder, texts, seed=seed)


def _choose(trainer: Trainer, settings: Settings) -> int:
    """Puts the weights to export into the encoder; their step."""
    best = trainer.state.best
    if settings.checkpoint.export == "last" or best is None or best["step"] == trainer.state.step:
        return trainer.state.step
    folder = trainer.checkpoints / f"step-{best['step']:08d}"
    checkpoint.verify(folder)
    checkpoint.load_part(folder / checkpoint.MODEL, trainer.encoder)
    return best["step"]


def _dev_scores(folder: Path, step: int) -> dict[str, float]:
    """The held-out losses that the journal has for ``step``."""
    for line in (folder / "metrics.jsonl").read_text().splitlines():
        entry = json.loads(line)
        if entry["step"] == step and any(key.startswith("dev_") for key in entry):
            return {key: value for key, value in entry.items() if key.startswith("dev_")}
    return {}


def _facts(parts: Parts, trainer: Trainer, step: int) -> dict[str, Any]:
    return {
        "weights": parts.encoder.weights,
        "steps": step,
        "tokens seen": trainer.state.tokens,
        **parts.objective.facts(),
    }


def _export(config: dict[str, Any], parts: Parts, scores: dict[str, Any], precision: str, folder: Path) -> None:
    corpus = parts.source.describe()
    settings = {key: config[key] for key in ON_CARD} | {"precision": precision}
    # The card says the shape that the weights have; this one may have given way to another.
    settings["encoder"] = {key: value for key, value in config["encoder"].items() if key != "shape"}
    card = model_card(
        title="-".join(str(config["names"][key]) for key in ("objective", "encoder", "corpus")),
        encoder=parts.encoder,
        corpus=corpus | {"documents": len(parts.train.indices)},
        settings=settings,
        scores={key: scores[key] for key in ("start", "trained")},
        licence=corpus["licence"],
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
    display.fact("encoder", f'encoders.load("{folder / "encoder"}").encode(["A sentence."])')
    warm_start = shlex.quote(f"warm_start={folder}")
    display.fact("next", f"python experiments/runs.py   (all runs)   {warm_start}   (train on)")
