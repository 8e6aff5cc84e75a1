"""The training loop, on any number of processes; resumed bit for bit on a CPU or with ``deterministic=true``.

Every random number of a step is a function of (seed, step, micro-batch, process), so a checkpoint holds no
random state. Gradients are averaged over processes once a step, after the last backward pass: objectives
guarantee that this mean is the gradient of the global batch (``objectives.base.Loss``).
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

import torch
from accelerate import Accelerator
from joblib import cpu_count
from torch import Tensor, nn

from analysis.runs import read_lines
from data.batch import Batch
from data.errors import UserError
from data.randomness import DROPOUT, generator
from experiments import checkpoint
from experiments.building import Components, Parts
from experiments.checkpoint import State
from experiments.interrupts import noted_interrupts
from experiments.log import TrainingLog
from experiments.processes import Processes
from experiments.progress import Display
from objectives.base import PARTS

DEV_SHARE = 0.1  # of the compute of training, for evaluation on held-out text
FORWARD_SHARE = 1 / 3  # of the compute of a training batch, as a backward pass costs two forward passes
DEV_BATCHES = 8  # of each task in an evaluation
PLATEAU_BATCHES = 64  # at most, where the learning rate depends on the result and epochs are long
GPU_WORKERS = 4  # processes that prepare batches for each GPU; on a CPU they would take the cores of training


@dataclass
class Trainer:
    """Trains the encoder and the objective's heads for ``steps`` steps; logs and checkpoints go to ``folder``."""

    accelerator: Accelerator
    components: Components
    parts: Parts
    steps: int
    folder: Path
    display: Display

    def __post_init__(self) -> None:
        device, world = self.accelerator.device, self.accelerator.num_processes
        self.settings = settings = self.components.settings
        self.state = State()
        self.encoder, self.objective = self.parts.encoder, self.parts.objective
        self.model = nn.ModuleList([self.encoder, self.objective]).to(device)
        self.schedule, self.optimizer_settings = self.components.schedule, self.components.optimizer
        self.processes, self.checkpoints = Processes(world), self.folder / "checkpoints"
        self.train, dev = (
            self.parts.batches(part, settings.seed, self.accelerator.process_index, world) for part in PARTS
        )
        plateau = self.schedule.uses_dev_metric
        batches = min(self.train.batches_per_epoch, self.steps * settings.accumulation)
        affordable = int(DEV_SHARE / FORWARD_SHARE * batches / len(self.objective.tasks))
        dev_batches = max(DEV_BATCHES, min(PLATEAU_BATCHES, affordable)) if plateau else DEV_BATCHES
        self.dev = dev.fixed_batches(settings.dev_batches or dev_batches)
        self.dev_cost = len(self.dev) * FORWARD_SHARE / settings.accumulation  # of an evaluation, in steps
        self.epoch_steps = max(1, self.train.batches_per_epoch // settings.accumulation)
        tenth = max(1, round(self.steps / 10))
        self.checkpoint_every = settings.checkpoint.every or tenth
        interval = self.epoch_steps if plateau else max(tenth, math.ceil(self.dev_cost / DEV_SHARE))
        epochs = range(self.epoch_steps, self.steps, self.epoch_steps) if plateau else ()
        evaluations = range(0, self.steps, settings.dev_every or interval)
        self.dev_steps = sorted({*evaluations, *epochs, self.steps})  # followed by an evaluation
        self.parameters = [*self.model.parameters()]  # equal in all processes, which begin with one seed
        self.torch_optimizer = self.accelerator.prepare_optimizer(self.optimizer_settings.build(self.model))
        self.peak_lr, self.peak_lr_key = self.optimizer_settings.rate(self.encoder)

    def lr(self, step: int, steps: int | None = None) -> float:
        """Returns the learning rate of a step, counted from 0, of ``steps`` (None: of this run's)."""
        epoch, drops = step // self.epoch_steps, self.state.drops
        return self.peak_lr * self.schedule.factor(step, steps or self.steps, epoch=epoch, drops=drops)

    @property
    def done(self) -> bool:
        """Returns whether all steps are done, or the schedule has ended the training."""
        return self.state.step >= self.steps or self.lr(self.state.step) < self.schedule.stop

    def resume(self) -> None:
        """Loads the newest checkpoint in the run folder, if there is one.

        Raises:
            UserError: if it cannot be read, is finished, or its last step would have another learning rate.
        """
        for newest in checkpoint.list_checkpoints(self.checkpoints)[-1:]:
            finished = not (newest / checkpoint.OPTIMIZER).exists()
            optimizer = None if finished else self.torch_optimizer.optimizer
            self.state = checkpoint.load(newest, self.encoder, self.objective, optimizer)
            step, before = self.state.step, read_lines(self.folder / "timings.jsonl")[-1]["steps"]
            if step > self.steps or self.lr(step - 1, before) != self.lr(step - 1) or (finished and not self.done):
                text = f"training to step {self.steps:,} cannot continue {newest}, planned with {before:,} steps"
                raise UserError(text, key="budget.steps")
            if self.state.scaler is not None:
                self.accelerator.scaler.load_state_dict(self.state.scaler)

    def fit(self) -> None:
        """Trains from ``state`` to the end.

        Raises:
            KeyboardInterrupt: after a checkpoint, if the run was interrupted.
            UserError: if a loss, a dev metric or the weights are not finite; no checkpoint has that step.
        """
        state, settings, accelerator = self.state, self.settings, self.accelerator
        first, last = settings.accumulation * state.step, settings.accumulation * self.steps
        gpu = accelerator.device.type == "cuda"
        workers = min(GPU_WORKERS, cpu_count()) * gpu if settings.workers is None else settings.workers
        batches = self.train.iterate(first, last, workers=workers)
        self.model.train()
        done = self._share if state.step else 0.0
        with self.display.bar("training", done) as self._show, noted_interrupts() as interrupted:
            self.log = TrainingLog(self.folder, accelerator, state, self.steps, self._require_finite)
            if state.step == 0:
                self._evaluate()
            while not self.done:
                lr = self.lr(state.step)
                # With an fp16 scaler, which may skip steps, the count is read from the optimizer.
                count = None if accelerator.scaler else state.step
                self.optimizer_settings.prepare(self.torch_optimizer, lr, count)
                self._tokens = 0
                losses = [self._micro_step(micro, next(batches)) for micro in range(settings.accumulation)]
                stop = self.processes.average_gradients(self.parameters, interrupted.is_set())
                norm = accelerator.clip_grad_norm_(self.parameters, settings.gradient_norm)
                self.torch_optimizer.step()
                self.torch_optimizer.zero_grad()
                state.step += 1

                self.log.add(losses, lr, norm, self._tokens)
                if self.done or state.step % settings.log_every == 0:
                    self._write_log()
                improved = (self.done or state.step in self.dev_steps) and self._evaluate()
                if self.schedule.uses_dev_metric and state.step % self.epoch_steps == 0:
                    self._update_plateau()
                if improved or stop or self.done or state.step % self.checkpoint_every == 0:
                    self._save_checkpoint()
                if stop and not self.done:
                    raise KeyboardInterrupt(f"Stopped after step {state.step:,} of {self.steps:,}.")

    def _micro_step(self, micro: int, batch: Batch) -> dict[str, Tensor]:
        """Adds the gradients of micro-batch ``micro`` of the step; returns its loss and the parts of it."""
        key = (self.settings.seed, self.state.step, micro, self.accelerator.process_index)
        torch.manual_seed(int(generator(DROPOUT, *key).integers(2**62)))
        with self.accelerator.autocast():
            loss = self.objective.loss(self.encoder, batch.to(self.accelerator.device))
        self.accelerator.backward(loss.total / self.settings.accumulation)
        self._tokens += batch.n_tokens
        return {"loss": loss.total.detach(), **loss.parts}

    @property
    def _share(self) -> float:
        """Share of the run's compute so far, evaluations included."""
        done, total = (
            step + self.dev_cost * bisect_right(self.dev_steps, step) for step in (self.state.step, self.steps)
        )
        return done / total

    # Evaluation and checkpoints

    def _evaluate(self) -> bool:
        """Logs the dev metrics; returns whether ``checkpoint.metric`` is the best so far."""
        self._write_log()
        with self.accelerator.autocast():
            dev = (batch.to(self.accelerator.device) for batch in self.dev)
            self.dev_metrics = self.objective.dev_metrics(self.encoder, dev)
        self._require_finite(self.dev_metrics)
        self.log.record("metrics", {"step": self.state.step, **self.dev_metrics})
        settings, best = self.settings.checkpoint, self.state.best
        value = self.dev_metrics[settings.metric or f"dev_{self.objective.part_names[0]}"]
        improved = best is None or (value < best["value"] if settings.mode == "min" else value > best["value"])
        if improved and self.state.step:  # step 0 has no checkpoint
            self.state.best = {"step": self.state.step, "value": value}
        self.log.restart_clock()
        return improved

    def _update_plateau(self) -> None:
        """Counts an epoch without improvement of the tasks' mean dev accuracy (of the loss if there is none)."""
        accuracies = [value for name, value in self.dev_metrics.items() if name.endswith("_accuracy")]
        accuracy = fmean(accuracies or [-self.dev_metrics[f"dev_{self.objective.part_names[0]}"]])
        if self.state.accuracy is None or accuracy > self.state.accuracy:
            self.state.accuracy = accuracy
        else:
            self.state.drops += 1

    def _save_checkpoint(self) -> None:
        self._write_log()
        scaler, optimizer = self.accelerator.scaler, self.torch_optimizer.optimizer
        self.state.scaler = None if scaler is None else scaler.state_dict()
        if self.accelerator.is_main_process:
            keep = self.settings.checkpoint.keep_last
            checkpoint.save(self.checkpoints, self.state, self.encoder, self.objective, optimizer, keep)
        self.accelerator.wait_for_everyone()
        self.log.restart_clock()

    def _write_log(self) -> None:
        """Writes the log; raises UserError if a loss (nothing is written then) or the weights are not finite.

        The norm in float32 is infinite even for finite weights above about 1e19, whose products overflow.
        """
        if losses := self.log.write():
            self._show(self._share, f"step {self.state.step:,} of {self.steps:,}  {losses}")
        norm = torch.nn.utils.get_total_norm([parameter.detach().float() for parameter in self.parameters])
        self._require_finite({"the norm of the weights": float(norm)})

    def _require_finite(self, numbers: Mapping[str, float]) -> None:
        """Raises a UserError with advice if one of the named ``numbers`` is not finite."""
        for name, number in numbers.items():
            if not math.isfinite(number):
                limit = f"{self.peak_lr_key}={self.peak_lr:g}"
                hint = f"A learning rate below {limit} or precision=fp32 may help." if self.state.step else ""
                raise UserError(f"{name} is {number} (step {self.state.step:,})", key="training", hint=hint)
