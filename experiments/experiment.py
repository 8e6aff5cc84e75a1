"""One run, from text to an evaluated encoder: build, plan, resume, train, evaluate, export."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from accelerate.utils import broadcast_object_list

from analysis.runs import read_lines
from analysis.training_evaluation import SentEval
from data.files import read_json, read_yaml, write_json
from encoders.kernels import float32_products
from experiments import building, checkpoint, report
from experiments.building import Components
from experiments.determinism import deterministic
from experiments.processes import all_threads, start_processes
from experiments.progress import Display
from experiments.run_folder import describe_environment, write_config
from experiments.trainer import Trainer
from objectives.flops import measure_flops

SAMPLED_BATCHES = 4  # of each task, sampled to estimate the tokens of a batch


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
    settings, evaluation = components.settings, components.evaluation
    accelerator = start_processes(settings)
    is_main, world = accelerator.is_main_process, accelerator.num_processes
    display = Display(is_main)
    [path] = broadcast_object_list([path])
    # Outside half precision, torch would use TF32 in cuDNN's recurrent layers.
    with float32_products("fp32"), deterministic(settings.deterministic):
        # Build
        tokenizer = path / "tokenizer" if settings.resume else None
        parts = building.build_parts(config, components, accelerator, display, tokenizer)
        encoder, objective, quick = parts.encoder, parts.objective, path / "quick.json"

        def score(name: str) -> dict[str, float | None]:
            if evaluation is None:
                return {}
            display.say(f"Evaluating {name} ...")
            with all_threads(world):
                return dict(evaluation(encoder, parts.store.held_out_texts(), parts.source, settings.seed))

        # Plan
        batches = parts.batches("train", settings.seed)  # of all processes together
        plan = components.budget.plan(
            step_flops=lambda: measure_flops(objective, encoder, batches) * settings.accumulation,
            step_tokens=batches.mean_tokens(SAMPLED_BATCHES) * settings.accumulation,
            steps_per_epoch=batches.batches_per_epoch / settings.accumulation,
        )
        trainer = Trainer(accelerator, components, parts, plan.steps, path, display)
        report.show_plan(display, parts, plan, trainer)

        # Resume
        if settings.resume:
            trainer.resume()
            display.say(f"Resuming after step {trainer.state.step:,}.")
        scores: dict[str, Any] = {"weights": encoder.weights}
        if is_main:
            if settings.resume:
                write_config(path, read_yaml(path / "config.yaml") | {"budget": config["budget"]})
            else:
                config["optimizer"]["lr"] = trainer.peak_lr
                config["corpus"] |= parts.source.pinned_settings()
                encoder.tokenizer.save_pretrained(path / "tokenizer")
                write_json(path / "environment.json", describe_environment(accelerator, encoder))
                write_config(path, config | {"names": config["names"] | parts.identity()})
            begun = trainer.state.step and quick.exists()
            scores["start"] = read_json(quick)["start"] if begun else score("the initial encoder")
            write_json(quick, scores)
        accelerator.wait_for_everyone()

        # Train
        trainer.fit()

        # Evaluate and export
        if is_main:
            step, best = trainer.state.step, trainer.state.best
            if settings.checkpoint.export == "best" and best and best["step"] != step:
                step = best["step"]
                checkpoint.load(checkpoint.checkpoint_path(trainer.checkpoints, step), encoder, objective)
            journal = read_lines(path / "metrics.jsonl")
            tokens = [line["tokens"] for line in journal if "tokens" in line and line["step"] <= step]
            scores["start"] |= _dev_metrics(journal, 0)
            scores["trained"] = score("the trained encoder") | _dev_metrics(journal, step)
            size = min(objective.batch_size, *(len(data.dev.indices) for data in parts.task_data.values()))
            scores["chance"] = {f"dev_{part}": value for part, value in objective.chance_levels(size).items()}
            scores["facts"] = {"weights": encoder.weights, "steps": step, "tokens seen": max(tokens, default=0)}
            scores["facts"] |= objective.facts()
            if evaluation and evaluation.postprocess != "none":
                scores["facts"]["postprocess"] = evaluation.postprocess
            write_json(quick, scores)
            encoder.save(path / "encoder", card=report.write_card(config, parts, scores, trainer))
            report.show_scores(display, config["names"], encoder, scores, path)
            if isinstance(evaluation, SentEval):
                from experiments.evaluation import evaluate  # late: it takes seconds

                chosen = {"device": settings.device, "cache": settings.cache, **vars(evaluation)}
                with all_threads(world):
                    evaluate(model=str(path), out=str(path), **chosen)
            checkpoint.finish(trainer.checkpoints)
        accelerator.wait_for_everyone()  # the group is torn down when the first process has exported and evaluated
        accelerator.end_training()


def _dev_metrics(journal: list[dict[str, Any]], step: int) -> dict[str, float]:
    """Returns the dev metrics of ``step`` in the journal."""
    lines = (line for line in journal if line["step"] == step)
    return {name: line[name] for line in lines for name in line if name.startswith("dev_")}
