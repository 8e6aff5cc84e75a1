"""The training loop, on any number of processes; resumed bit for bit on a CPU or with ``deterministic=true``.

Every random number of a step is a function of (seed, step, micro-batch, process), so a checkpoint holds no
random state. Gradients are averaged over processes once a step, after the last backward pass: objectives
guarantee that this mean is the gradient of the global batch (``objectives.base.Loss``).
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import compress
from pathlib import Path
from typing import Any

import torch
from accelerate import Accelerator
from torch import Tensor

from analysis.runs import read_lines
from data.batch import Batch
from data.errors import UserError
from data.loader import Batches
from data.randomness import DROPOUT, generator
from encoders.base import Encoder
from experiments import checkpoint, memory
from experiments.checkpoint import State
from experiments.config import argument
from experiments.interrupts import noted_interrupts
from experiments.optimizer import Optimizer, Start, tables_of
from experiments.processes import Processes
from experiments.progress import Display, summary
from experiments.run_folder import Journal
from experiments.schedules import Schedule
from experiments.settings import Settings
from objectives.base import Objective

PROJECT = "sentence-objectives"  # project name in trackers


@dataclass
class Trainer:
    """Trains ``encoder`` and the objective's parts for ``steps`` steps; logs and checkpoints go to ``folder``.

    Attributes:
        train: micro-batches by number.
        dev: this process' share of the held-out batches.
        start: kind of the initial weights, which chooses the peak learning rate.
        extra_scores: computes further scores of the encoder, before the first step and every
            ``extra_scores_every`` steps.
    """

    accelerator: Accelerator
    settings: Settings
    encoder: Encoder
    objective: Objective
    optimizer_settings: Optimizer
    schedule: Schedule
    train: Batches
    dev: list[Batch]
    steps: int
    folder: Path
    display: Display
    start: Start
    extra_scores: Callable[[Encoder], dict[str, float]] | None = None
    extra_scores_every: int | None = None
    state: State = field(default_factory=State)

    def __post_init__(self) -> None:
        device = self.accelerator.device
        self.encoder.to(device)
        self.objective.to(device)
        self.processes = Processes(self.accelerator.num_processes)
        # All processes build the same weights from one seed; this guarantees it.
        self.parameters = [*self.encoder.parameters(), *self.objective.parameters()]
        # (A state_dict may hold copies, as that of layers in one buffer does.)
        buffers = [*self.encoder.buffers(), *self.objective.buffers()]
        self.processes.broadcast([tensor.detach() for tensor in (*self.parameters, *buffers)])
        self.torch_optimizer = self.accelerator.prepare_optimizer(
            self.optimizer_settings.build(self.parameters, tables_of([self.encoder, self.objective]))
        )
        self.peak_lr, self.peak_lr_key = self.optimizer_settings.rate(self.start)
        self.checkpoints = self.folder / "checkpoints"
        tenth = max(1, round(self.steps / 10))
        self.dev_every = self.settings.dev_every or tenth
        self.checkpoint_every = self.settings.checkpoint.every or tenth
        self.epoch_steps = max(1, self.train.batches_per_epoch // self.settings.accumulation)

    def lr(self, step: int) -> float:
        """Returns the learning rate of a step, counted from 0, after the drops so far."""
        examples, epoch = self.objective.batch_size * self.settings.accumulation, step // self.epoch_steps
        return self.peak_lr * self.schedule.factor(step, self.steps, examples, epoch=epoch, drops=self.state.drops)

    @property
    def done(self) -> bool:
        """Returns whether all steps are done, or the schedule has ended the training."""
        return self.state.step >= self.steps or self.lr(self.state.step) < self.schedule.stop

    @property
    def resume_hint(self) -> str:
        """Returns the command that resumes the run, "" if it has no checkpoint."""
        if not checkpoint.list_checkpoints(self.checkpoints):
            return ""
        cache = f" {argument('cache', self.settings.cache)}" if self.settings.cache != Settings.cache else ""
        return f"Resume with: python experiments/run.py {argument('resume', self.folder)}{cache}"

    def resume(self) -> None:
        """Loads the newest checkpoint in the run folder, if there is one.

        Raises:
            UserError: if it is damaged, or has no optimizer state to resume with.
        """
        checkpoints = checkpoint.list_checkpoints(self.checkpoints)
        if not checkpoints:
            return
        newest = checkpoints[-1]
        saved = checkpoint.load(
            newest, encoder=self.encoder, objective=self.objective, optimizer=self.torch_optimizer.optimizer
        )
        if saved["step"] > self.steps:
            raise UserError(f"must be at least {saved['step']}, as {newest} is trained", key="budget.steps")
        self.state = State(**{name: saved[name] for name in State.__dataclass_fields__ if name in saved})
        if checkpoint.OPTIMIZER not in saved["files"] and not self.done:
            hint = "Delete it to go on from the one before."
            raise UserError("a checkpoint without optimizer state", key=str(newest), hint=hint)
        if self.schedule.extendable:
            self._require_same_rate()
        if self.accelerator.scaler is not None and self.state.scaler is not None:
            self.accelerator.scaler.load_state_dict(self.state.scaler)

    def _require_same_rate(self) -> None:
        """Refuses ``budget.steps`` under which the last trained step would have had another learning rate."""
        step = self.state.step
        lines = read_lines(self.folder / "metrics.jsonl")
        rate = self.lr(step - 1)
        for line in lines:
            if line["step"] == step and not math.isclose(rate, line.get("lr", rate), rel_tol=1e-6):
                raise UserError(
                    f"step {step:,} was trained at a learning rate of {line['lr']:.3g}, which is {rate:.3g} with "
                    f"{self.steps:,} steps",
                    key="budget.steps",
                    hint="The decay of neither length may have begun.",
                )

    def fit(self) -> None:
        """Trains from ``state`` to the end.

        Raises:
            KeyboardInterrupt: after a checkpoint, if the run was interrupted; the message says how to resume it.
            UserError: if the loss, a held-out loss or the weights are not finite; nothing of that step is kept.
        """
        state, settings, accelerator = self.state, self.settings, self.accelerator
        self._start_logging()
        first, last = settings.accumulation * state.step, settings.accumulation * self.steps
        batches = self.train.iterate(first, last, workers=settings.workers_for(accelerator.device.type))
        self.encoder.train()
        self.objective.train()
        with self.display.bar("training", self.steps, state.step) as self._show, noted_interrupts() as interrupted:
            if state.step == 0:
                self._evaluate()
                self._log_extra_scores()
            while not self.done:
                lr = self.lr(state.step)
                # With an fp16 scaler, which may skip steps, the count is read from the optimizer.
                count = None if accelerator.scaler else state.step
                self.optimizer_settings.prepare(self.torch_optimizer, lr, count)
                losses = [self._micro_step(micro, next(batches)) for micro in range(settings.accumulation)]
                used = [parameter.grad is not None for parameter in self.parameters]
                # One call agrees on whether to stop, and on which parameters have a gradient on any process.
                stop, *used = self.processes.any([interrupted.is_set(), *used])
                self.processes.average_gradients(list(compress(self.parameters, used)))
                norm = accelerator.clip_grad_norm_(self.parameters, settings.gradient_norm)
                self.torch_optimizer.step()
                self.torch_optimizer.zero_grad()
                state.step += 1

                self._log(losses, lr, norm)
                improved = self._evaluate_if_due()
                self._log_extra_scores()
                self._checkpoint_if_due(now=improved or stop)
                if stop and not self.done:
                    raise KeyboardInterrupt(
                        f"Stopped after step {state.step:,} of {self.steps:,}. {self.resume_hint}"
                    )

    def _micro_step(self, micro: int, batch: Batch) -> dict[str, Tensor]:
        """Adds the gradients of micro-batch ``micro`` of the step; returns its loss and the parts of it."""
        torch.manual_seed(self._seed(self.state.step, micro))
        with self.accelerator.autocast():
            loss = self.objective.loss(self.encoder, batch.to(self.accelerator.device))
        self.accelerator.backward(loss.total / self.settings.accumulation)
        self._tokens += batch.n_tokens
        return {"loss": loss.total.detach(), **loss.parts}

    def _due(self, every: int) -> bool:
        """Returns whether something due every ``every`` steps, and after the last, is due now."""
        return self.done or self.state.step % every == 0

    # Logs

    def _start_logging(self) -> None:
        until = self.state.step or None
        self._rows: list[tuple[dict[str, Any], Tensor, int]] = []
        self._tokens = 0
        self._parts: dict[str, float] = {}
        self._clock = time.perf_counter()
        if self.accelerator.is_main_process:
            self._metrics = Journal(self.folder / "metrics.jsonl", until)
            self._timings = Journal(self.folder / "timings.jsonl", until)
        if self.accelerator.log_with:
            place = self.folder / "trackers"
            if self.accelerator.is_main_process:
                place.mkdir(exist_ok=True)
            self.accelerator.project_configuration.logging_dir = str(place)
            options = {
                # Hides the steps that a resumed run trains again, which the journals drop.
                "tensorboard": {"purge_step": 0 if until is None else until + 1},
                # A failed job of a sweep leaves its W&B run open, and the next one would log into it.
                "wandb": {"name": self.folder.name, "dir": str(place), "reinit": "finish_previous"},
            }
            self.accelerator.init_trackers(PROJECT, init_kwargs=options)

    def _record(self, journal: Journal, *entries: dict[str, Any]) -> None:
        """Writes entries to a journal and, under the same names, to the trackers."""
        journal.write(entries)
        for entry in entries:
            self.accelerator.log({name: entry[name] for name in entry if name != "step"}, step=entry["step"])

    def _log(self, losses: list[dict[str, Tensor]], lr: float, norm: Tensor) -> None:
        """Adds the step to the log, whose numbers stay on the device until ``_write_log``."""
        # Micro-batches of different tasks have different parts.
        names = list(dict.fromkeys(name for parts in losses for name in parts))
        means = [torch.stack([parts[name].float() for parts in losses if name in parts]).mean() for name in names]
        values = torch.stack([*means, norm.detach().float().to(means[0].device)])
        # None: filled in by _write_log.
        row = {"step": self.state.step, **dict.fromkeys(names), "lr": lr, "gradient_norm": None, "tokens": None}
        self._rows.append((row, values, self._tokens))
        self._tokens = 0
        if self._due(self.settings.log_every_for(self.accelerator.device.type)):
            self._write_log()
        elif not self._parts:  # nothing was shown yet
            self._show(self.state.step, self.steps)

    def _write_log(self) -> None:
        """Writes the steps logged since the last call; waits for the device once."""
        if not self._rows:
            return
        sizes = [len(values) for _, values, _ in self._rows]
        all_values = torch.cat([values for _, values, _ in self._rows])
        tokens = torch.tensor([tokens for *_, tokens in self._rows], device=all_values.device)
        processes = self.accelerator.num_processes
        if processes > 1:
            torch.distributed.all_reduce(tokens)
            # Parts are global already; the mean of the loss over processes is that of the global batch.
            torch.distributed.all_reduce(all_values)
            all_values /= processes
        values_of_rows = all_values.cpu().split(sizes)
        memory.release()
        for (row, *_), values, seen in zip(self._rows, values_of_rows, tokens.tolist(), strict=True):
            self.state.tokens += seen
            open_names = [name for name, value in row.items() if value is None and name != "tokens"]
            row.update(zip(open_names, values.tolist(), strict=True), tokens=self.state.tokens)
            if not math.isfinite(row["loss"]):
                raise self._diverged(f"The loss is {row['loss']}", row["step"], row["step"] - 1)
        self._write_rows([row for row, *_ in self._rows], sum(tokens.tolist()))
        self._rows = []

    def _write_rows(self, rows: list[dict[str, Any]], tokens: int) -> None:
        now = time.perf_counter()
        elapsed, self._clock = now - self._clock, now
        self.state.seconds += elapsed
        if not self.accelerator.is_main_process:
            return
        speed = tokens / elapsed
        self._record(self._metrics, *rows)
        timing = {
            "step": self.state.step,
            "steps": self.steps,
            "seconds": round(self.state.seconds, 3),
            "tokens_per_second": round(speed, 1),
            "memory_gib": round(memory.peak_gib(self.accelerator.device), 3),
        }
        self._record(self._timings, timing)
        # With several tasks a step has the parts of one of them; the latest value of each part is shown.
        others = ("step", "lr", "gradient_norm", "tokens")
        self._parts |= {name: row[name] for row in rows for name in row if name not in others}
        self._show(self.state.step, self.steps, summary(self._parts, speed), logged=True)

    def _require_finite_weights(self) -> None:
        """Raises a UserError if the weights must not be saved.

        The norm in float32 is infinite even for finite weights above about 1e19, whose products overflow.
        """
        norms = torch.nn.utils.get_total_norm([parameter.detach().float() for parameter in self.parameters])
        if not torch.isfinite(norms):
            raise self._diverged("The weights are not finite", self.state.step, self.state.step)

    def _diverged(self, what: str, step: int, updates: int) -> UserError:
        """Returns the error that ``what`` is not finite at ``step``, after so many updates of the weights."""
        if not updates:
            return UserError(f"{what} before any update: the cause is the loss, its input or the first weights.")
        good = [f"The last good checkpoint is {path}." for path in checkpoint.list_checkpoints(self.checkpoints)]
        rate = f"a learning rate below {self.peak_lr_key}={self.peak_lr:g}"
        return UserError(f"{what} at step {step}: {rate} or precision=fp32 may help", hint="".join(good[-1:]))

    # Evaluation and checkpoints

    def _evaluate_if_due(self) -> bool:
        """Evaluates after every ``dev_every`` steps and, where the schedule uses the result, after every epoch.

        Returns whether the metric is the best of this training so far.
        """
        epoch_ends = self.schedule.uses_dev_metric and self.state.step % self.epoch_steps == 0
        if not (epoch_ends or self._due(self.dev_every)):
            return False
        improved = self._evaluate()
        if epoch_ends:
            self._update_plateau()
        return improved

    def _evaluate(self) -> bool:
        """Logs the dev metrics; returns whether ``checkpoint.metric`` is the best so far."""
        self._write_log()
        self._require_finite_weights()
        with self.accelerator.autocast():
            self.dev_metrics = self.objective.dev_metrics(self.encoder, self._on_device(self.dev))
        for name, loss in self.dev_metrics.items():
            if not math.isfinite(loss):
                raise self._diverged(f"{name} is {loss}", self.state.step, self.state.step)
        self._log_scores(self.dev_metrics)
        settings, best = self.settings.checkpoint, self.state.best
        value = self.dev_metrics[settings.metric or f"dev_{self.objective.part_names[0]}"]
        improved = best is None or (value < best["value"] if settings.mode == "min" else value > best["value"])
        if improved and self.state.step:  # step 0 has no checkpoint
            self.state.best = {"step": self.state.step, "value": value}
        self._clock = time.perf_counter()  # evaluation is not training time
        return improved

    def _update_plateau(self) -> None:
        """Counts an epoch without improvement of the tasks' mean dev accuracy (of the loss if there is none)."""
        accuracies = [value for name, value in self.dev_metrics.items() if name.endswith("_accuracy")]
        accuracies = accuracies or [-self.dev_metrics[f"dev_{self.objective.part_names[0]}"]]
        accuracy = sum(accuracies) / len(accuracies)
        if self.state.accuracy is None or accuracy > self.state.accuracy:
            self.state.accuracy = accuracy
        else:
            self.state.drops += 1

    def _log_extra_scores(self) -> None:
        """Logs the scores of ``extra_scores`` if they are due."""
        if self.extra_scores is None or not self.extra_scores_every or not self._due(self.extra_scores_every):
            return
        self._write_log()
        if self.accelerator.is_main_process:
            self._log_scores(self.extra_scores(self.encoder))
        self.accelerator.wait_for_everyone()
        self._clock = time.perf_counter()

    def _log_scores(self, scores: dict[str, float]) -> None:
        if self.accelerator.is_main_process:
            self._record(self._metrics, {"step": self.state.step, **scores})

    def _checkpoint_if_due(self, now: bool) -> None:
        """Writes a checkpoint ``now``, or after every ``checkpoint_every`` steps."""
        if not (now or self._due(self.checkpoint_every)):
            return
        self._write_log()
        self._require_finite_weights()
        scaler = self.accelerator.scaler
        self.state.scaler = None if scaler is None else scaler.state_dict()
        if self.accelerator.is_main_process:
            checkpoint.save(
                self.checkpoints,
                self.state.step,
                encoder=self.encoder,
                objective=self.objective,
                optimizer=self.torch_optimizer.optimizer,
                state=vars(self.state),
            )
            best = self.state.best["step"] if self.state.best else None
            checkpoint.prune(self.checkpoints, self.settings.checkpoint.keep_last, best)
        self.accelerator.wait_for_everyone()
        self._clock = time.perf_counter()

    # Processes and devices

    def _seed(self, step: int, micro: int) -> int:
        key = (self.settings.seed, step, micro, self.accelerator.process_index)
        return int(generator(DROPOUT, *key).integers(2**62))

    def _on_device(self, batches: Iterable[Batch]) -> Iterator[Batch]:
        return (batch.to(self.accelerator.device) for batch in batches)
