"""``compare.py``: its keys, the runs planned from them, and a page of real runs with impossible pairs."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from analysis.senteval.tasks import TASKS
from analysis.settings import EvaluationSettings
from data.errors import UnfitError, UserError
from data.sentences import Sentences
from data.sources.base import Document
from data.store import prepare
from data.token_format import TokenFormat
from data.vocabulary import train_word_level
from experiments import building, compose, evaluation, experiment, planned_runs
from experiments.comparison import command, examples
from experiments.comparison.examples import describe
from experiments.comparison.planning import equality, plan
from experiments.comparison.settings import TOKENS, read
from experiments.jobs import Job
from experiments.overrides import override, typed
from objectives.base import Corpus
from objectives.nsp import NSP
from objectives.sop import SOP
from tests.data.samples import Listed

REFUSALS = {
    "objectivs=[a]": "objectivs: no such key. Did you mean objectives?",
    "tokens": "tokens: not of the form key=value.",
    "tokens=0": "tokens must be at least 1. Got 0 instead.",
    "tokens=many": "tokens must be a whole number. Got 'many' instead.",
    "seeds=[1,1]": "seeds must be one or more, each once. Got [1, 1] instead.",
    "objectives=[]": "objectives must be one or more, each once. Got [] instead.",
    "equal=compute tokens=5": "tokens= requires equal=tokens: if compute is equal, tokens are not.",
    "budget=paper": "budget=paper sets no number of tokens: tokens=<number>, or equal=compute.",
    "budget.steps=3": "budget.steps: the command sets it for each run; tokens=<number>, or equal=compute",
    "budget=tiny": "budget=tiny: no such budget. Available: laptop, paper, teaching.",
    "objectives=nsp,sop": "objectives=nsp,sop: write a list in brackets: objectives=[nsp,sop].",
    "protocol=fast": "protocol=fast: no such protocol. Available: ",
    "data=/no/such": "data=/no/such: there is no such folder.",
    "settings.grru=[encoder.hiden=8]": "settings.grru: grru is not compared here. Did you mean settings.gr",
    "settings.lstm=[encoder.hidden=8]": "settings.lstm: lstm is not compared here. ",
    "seed=3": "seed: the command sets it for each run; seeds=[..] is for all runs.",
    "seeds=3": "seeds=3: seeds=[3] is one run with seed 3, seeds=[1,2,3] are three.",
    "settings.declutr=objective.gap=1": "settings.declutr=objective.gap=1: write a list in brackets: settings.de",
    "encoder.hidden=3": "encoder.hidden: the command sets it for each run; encoders=[..] names them",
}


@pytest.mark.parametrize(("arguments", "line"), REFUSALS.items())
def test_refusals_are_one_line(arguments: str, line: str) -> None:
    with pytest.raises(UserError) as refused:
        read(arguments.split())
    assert str(refused.value).startswith(line) and "\n" not in str(refused.value)


def test_a_value_with_a_comma_needs_brackets_or_quotes() -> None:
    assert [*(read(["queries='Hello, world'"])[0].queries or [])] == ["Hello, world"]
    for argument in ("queries=Hello, world", "tasks=MR, CR"):
        key, _, value = argument.partition("=")
        quoted = typed(key, value)
        with pytest.raises(UserError) as refused:
            read([argument])
        assert str(refused.value) == (
            f"{argument}: write a list in brackets: {key}=[{value}]; "
            f"one text must be quoted, once for Hydra and again for the shell: {quoted}."
        )


def test_all_faults_are_reported_at_once() -> None:
    with pytest.raises(UserError) as refused:
        read(["tokens=many", "jbs=2"])
    assert len(str(refused.value).split("\n")) == 2


def test_keys_of_runs_are_passed_on() -> None:
    settings, passed = read(
        ["seeds=[3]", "corpus=text", "corpus.path=a", "settings.gru=[encoder.hidden=8]", "jobs=2"]
    )
    assert [*settings.seeds] == [3] and settings.jobs == 2 and passed == ["corpus=text", "corpus.path=a"]
    assert [*settings.settings["gru"]] == ["encoder.hidden=8"] and "bilstm_max" in settings.settings
    assert settings.tokens_each == TOKENS["teaching"]


def fake_check(overrides: list[str]) -> dict[str, Any]:
    """Stands in for composing: the overrides as a configuration; the encoder "none" is unknown."""
    values: dict[str, Any] = dict(text.split("=", 1) for text in overrides)
    if values["encoder"] == "none":
        raise UserError("encoder=none: no such encoder.")
    values = {"corpus": "pydocs"} | values
    names = {key: values[key] for key in ("objective", "encoder", "corpus")}
    objective = {"_target_": "objectives.declutr.Declutr"}
    return values | {"names": names, "objective": objective, "encoder": {}, "seed": 1}


def test_every_pair_and_seed_gets_the_same_budget() -> None:
    arguments = (
        "objectives=[a,b]",
        "encoders=[gru,lstm]",
        "seeds=[1,2]",
        "tokens=50",
        "settings.lstm=[]",
        "corpus=text",
    )
    settings, passed = read(arguments)
    planned = plan(settings, passed, fake_check)
    assert [(run.objective, run.encoder, run.seed) for run in planned] == [
        (objective, encoder, seed) for objective in "ab" for encoder in ("gru", "lstm") for seed in (1, 2)
    ]
    assert all("budget.tokens=50" in run.overrides for run in planned)
    assert [("encoder.hidden=256" in run.overrides) for run in planned] == [
        run.encoder == "gru" for run in planned
    ]
    assert "50 each" in equality(settings)
    assert len({run.name for run in planned}) == 8 and planned[0].name.startswith("a-gru-text-1-")
    assert planned[1].command.startswith("python experiments/run.py objective=a encoder=gru ")


def test_names_depend_only_on_what_is_trained() -> None:
    def name(*arguments: str) -> str:
        settings, passed = read(["objectives=[a]", "encoders=[gru]", *arguments])
        return plan(settings, passed, fake_check)[0].name

    assert name() == name("device=cpu", "jobs=2", "cache=elsewhere")
    assert len({name(), name("tokens=7"), name("equal=compute"), name("weights=random")}) == 4


def test_unknown_encoders_are_reported_once() -> None:
    settings, passed = read(["objectives=[a,b]", "encoders=[none]"])
    with pytest.raises(UserError, match=r"^encoder=none: no such encoder\.$"):
        plan(settings, passed, fake_check)


def test_an_objective_is_described_by_its_docstring() -> None:
    from objectives.declutr import Declutr
    from objectives.nsp import NSP

    headline, equation = describe(Declutr)
    assert headline.startswith("DeCLUTR: span-contrastive learning") and headline.endswith("2021).")
    assert equation.splitlines()[0] == "L = contrastive_weight * L_contrastive + mlm_weight * L_MLM"
    assert describe(NSP)[1].startswith("L = -log softmax(")  # from the docstring of its base class


def in_this_process(jobs: Sequence[Job], **options: Any) -> dict[str, str]:
    """Does what ``run_jobs`` does, without subprocesses."""
    failed = {}
    for job in jobs:
        if (arguments := job.command()) is not None:
            script, *overrides = arguments
            try:
                if script == planned_runs.EVALUATE:
                    evaluation.evaluate_model(compose.check(overrides, "evaluate", EvaluationSettings))
                else:
                    experiment.run(compose.check(overrides))
            except UserError as error:
                failed[job.name] = str(error)
    return failed


@pytest.mark.usefixtures("without_plots")
def test_a_page_of_real_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A bag of words fits neither objective: it has no mask token, and it does not read word order."""
    folder = tmp_path / "my runs, (v=2) 'quoted' \"two\" é"
    folder.mkdir()
    words = [f"{a}{b}" for a in ("ba", "ke", "li", "mo") for b in "dfgk"]
    rng = random.Random(0)
    with (folder / "corpus.jsonl").open("w") as file:
        for _ in range(40):
            sentences = [" ".join(rng.choices(words, k=rng.randint(6, 12))).capitalize() + "." for _ in range(12)]
            file.write(json.dumps({"text": " ".join(sentences)}) + "\n")
    (folder / "vectors.txt").write_text("".join(f"{word} {i} 1 {i % 3}\n" for i, word in enumerate(words)))
    monkeypatch.setattr(planned_runs, "run_jobs", in_this_process)
    arguments = [
        "objectives=[declutr,conssent]",
        "encoders=[gru,bag_of_words]",
        "tokens=600",
        "settings.gru=[encoder.hidden=4,encoder.word_size=4,encoder.min_count=1]",
        override("settings.bag_of_words", [override("encoder.vectors", folder / "vectors.txt")]),
        "settings.declutr=[objective.length_groups=2,objective.mlm_probability=0.6]",
        "settings.conssent=[objective.task=P,objective.k=3,objective.classifier_width=4]",
        "corpus=text",
        override("corpus.path", folder / "corpus.jsonl"),
        "corpus.dev_fraction=0.3",
        "budget.min_span=4",
        "budget.max_span=8",
        "budget.documents=4",
        "budget.sentences=8",
        "budget.min_tokens=null",
        "dev_batches=1",
        "device=cpu",
        "threads=1",
        override("cache", folder / "cache"),
        f"runs={folder / 'runs'}",
        f"out={folder / 'out' / 'page.html'}",
    ]
    settings, passed = read(arguments)
    assert command.compare(settings, passed) == 0  # impossible pairs do not count as failures
    page = (folder / "out" / "page.html").read_text(encoding="utf-8")
    output = capsys.readouterr().out
    assert output.count("impossible  ") == 2 and "2 missing, 2 impossible;" in output
    assert "mask" in output and "only in word order" in output
    assert page.count("not possible") == 2 and page.count('class="map"') == 2
    assert "Not shown" not in page and "Maps and neighbours:" not in page
    assert "<b>anchor 1</b>" in page and "moved here" in page and "masked, to be predicted" in page
    assert "Conclusion" in page and page.count("<math") > 2

    # The second time nothing is trained, and the page is the same.
    before = {path: path.stat().st_mtime_ns for path in (folder / "runs").rglob("metrics.jsonl")}
    assert command.compare(settings, passed) == 0
    assert before == {path: path.stat().st_mtime_ns for path in (folder / "runs").rglob("metrics.jsonl")}
    assert (folder / "out" / "page.html").read_text(encoding="utf-8") == page

    # A failed evaluation is reported, and the page shows the rest.
    for path in (folder / "senteval" / "downstream" / file for file in TASKS["TREC"].files):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    capsys.readouterr()

    def fail(*_: Any, **__: Any) -> None:
        raise UserError("No evaluation today.")

    monkeypatch.setattr(evaluation, "evaluate_model", fail)
    assert command.compare(*read([*arguments, f"data={folder / 'senteval'}", "tasks=[TREC]"])) == 1
    output = capsys.readouterr().out
    for name in ("before training", "declutr", "conssent"):
        assert f"not evaluated  {name} · gru, seed 1: No evaluation today." in output
    page = (folder / "out" / "page.html").read_text(encoding="utf-8")
    assert (
        "declutr · gru, seed 1</b>: not evaluated (No evaluation today.)" in page
        and page.count('class="map"') == 2
    )


def test_a_folder_that_is_not_sentevals_is_refused_at_once(tmp_path: Path) -> None:
    (tmp_path / "data" / "senteval" / "downstream").mkdir(parents=True)
    with pytest.raises(UserError, match=r"did you mean data=\S+senteval\?"):
        command.compare(*read([f"data={tmp_path / 'data'}"]))
    (tmp_path / "empty").mkdir()
    with pytest.raises(UserError) as refused:
        command.compare(*read([f"data={tmp_path / 'empty'}"]))
    line = str(refused.value)
    assert "data=<folder> names another" in line and "probing=" not in line  # compare.py has no such key


def test_an_impossible_pair_is_refused_before_the_others_are_trained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is reported once for all its seeds, in a dry run, too."""

    def require_fit(config: dict[str, Any]) -> None:
        if config["encoder_name"] == "lstm":
            raise UnfitError("It gives the reason.")

    def check(overrides: list[str]) -> dict[str, Any]:
        config = fake_check(overrides)
        return config | {"encoder_name": config["names"]["encoder"]}

    def train(jobs: Sequence[Job], **_: Any) -> dict[str, str]:
        assert capsys.readouterr().out.count("impossible  a · lstm: It gives the reason.") == 1
        assert [job.name.split("-")[1] for job in jobs] == ["gru", "gru"]
        return {job.name: "Out of luck." for job in jobs}

    monkeypatch.setattr(command, "plan", lambda settings, passed: plan(settings, passed, check))
    monkeypatch.setattr(building, "require_fit", require_fit)
    monkeypatch.setattr(planned_runs, "run_jobs", train)
    arguments = ["objectives=[a]", "encoders=[gru,lstm]", "seeds=[1,2]", f"runs={tmp_path}"]
    assert command.compare(*read([*arguments, "dry_run=true"])) == 0
    output = capsys.readouterr().out
    assert output.count("impossible  a · lstm: It gives the reason.") == 1
    assert (output.count("impossible "), output.count("missing")) == (
        3,
        3,
    )  # in two rows each, and in the message or the first line
    with pytest.raises(UserError, match="No run is finished"):
        command.compare(*read(arguments))
    output = capsys.readouterr().out
    assert "failed      a · gru, seed 1: Out of luck." in output or "failed      a · gru: Out of luck." in output
    assert "impossible" not in output


def test_missing_encoder_settings_are_refused_before_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All of them are reported together, each once, in a dry run, too."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(planned_runs, "run_jobs", lambda *_, **__: pytest.fail("It began."))
    arguments = [
        "objectives=[contrastive_only,simcse]",
        "encoders=[bag_of_words,concatenated]",
        "settings.bag_of_words=[]",
    ]
    lines = [
        "settings.bag_of_words: encoder.vectors must be a file of word vectors. Got nothing instead.",
        "settings.concatenated: encoder.paths must name two or more encoders. Got [] instead.",
    ]
    for more in ((), ("dry_run=true",)):
        with pytest.raises(UserError) as refused:
            command.compare(*read([*arguments, *more]))
        assert str(refused.value).split("\n") == lines
    assert not (tmp_path / "runs").exists()


def test_a_comparison_without_a_finished_run_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(building, "require_fit", lambda config: None)
    monkeypatch.setattr(command, "plan", lambda settings, passed: plan(settings, passed, fake_check))
    monkeypatch.setattr(
        planned_runs, "run_jobs", lambda jobs, **options: {job.name: "Out of luck." for job in jobs}
    )
    settings, passed = read(
        ["objectives=[a]", "encoders=[gru]", f"runs={tmp_path}", f"out={tmp_path / 'page.html'}"]
    )
    with pytest.raises(UserError, match=r"^No run is finished, so there is nothing to compare\.$"):
        command.compare(settings, passed)
    assert not (tmp_path / "page.html").exists()


@pytest.mark.parametrize(
    "objective", [NSP(max_length=24, short=0.0), SOP(max_length=24, mlm_weight=0.0)], ids=["NSP", "SOP"]
)
def test_segments_of_repetitive_text_are_located_where_they_were_sampled(
    objective: NSP | SOP, tmp_path: Path
) -> None:
    """All documents repeat three phrases, so that the text of a segment does not give its position."""
    rng = random.Random(0)
    phrases = ["it returns none .", "see also the notes of this module .", "changed in version two ."]
    documents = [Document("\n\n".join(rng.choices(phrases, k=30))) for _ in range(12)]
    tokenizer = train_word_level(phrases, vocab_size=99, min_count=1, max_length=64)
    source = Listed(documents, dev_fraction=0.4)
    store = prepare(source, tokenizer, cache=tmp_path, sentences=Sentences(min_words=3, max_words=9))
    [data] = objective.task_data(Corpus(source, store, tokenizer, tmp_path)).values()
    ends = (tokenizer.eos_token_id,)
    special = frozenset(tokenizer.all_special_ids)
    token_ids = tokenizer.pad_token_id, tokenizer.mask_token_id, len(tokenizer), 64, special
    encoder: Any = SimpleNamespace(tokenizer=tokenizer, format=TokenFormat((), ends, *token_ids, middle=ends))
    parts: Any = SimpleNamespace(store=store, objective=objective)
    chosen = examples._chosen(data, parts, examples.Document(), of_corpus=True)
    views = examples._views(objective, chosen, encoder)
    assert len(views) == 2
    document = store.documents[chosen.number]
    position = int(store.lengths[(store.documents == document) & (np.arange(len(store)) < chosen.number)].sum())
    for view in views:
        [row] = view.rows
        first, second = (part for part in row.parts if part.pieces[0].mark != "special")
        marks = {piece.mark for piece in second.pieces}
        assert first.span is not None
        if isinstance(objective, SOP):
            earlier, later = sorted([first, second], key=lambda part: part.span or ())
            assert earlier.span is not None and later.span is not None
            assert earlier.span[0] == position and earlier.span[1] == later.span[0]
            assert view.numbers == {"follows": str(int(earlier is first))}
        elif view.numbers == {"follows": "1"}:  # the first segment ends, and the second begins, at the position
            assert second.span is not None and first.span[1] == position == second.span[0]
        else:
            assert first.span[1] == position and second.span is None and "other" in marks and "kept" not in marks
