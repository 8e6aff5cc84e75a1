"""What makes a figure or table of a paper, as its YAML in ``configs/figure`` says: axes, grids, scores."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import yaml

from analysis.figures.reproduction import Figure, figure_from
from data.errors import UserError
from experiments import signatures
from experiments.overrides import CONFIGS

FOLDER = CONFIGS / "figure"
MODEL = "model"  # the axis that encoder= takes the place of
# Figures of a first version that were left out of the final one go by the paper's plain name too.
ALIASES = {"declutr/s1a": "declutr_v1/s1a", "declutr/s1b": "declutr_v1/s1b"}
_OWN = ("figure", "table", "statements", "cannot")  # what no other figure takes over
_KEYS = {"like", *_OWN, "base", "axes", "grids", "point", "scores", "marks", "ensemble"}
_VALUE_KEYS = ("set", "by", "share", "epochs", "most_epochs", "documents", "pooling", "other_encoder", "joins")


@dataclass(frozen=True)
class Value:
    """A value of an axis.

    Attributes:
        label: its name in pictures, tables and lists.
        overrides: of the runs that have it.
        by: axis to label to further overrides, where two axes decide together.
        share: of compute against a run of share 1, so that all runs see as many documents at teaching size.
        epochs, documents: times the number of epochs, or of documents in a batch, of the others (the controls of
            DeCLUTR's section 5.2).
        most_epochs: that its runs have, however many the others have.
        pooling: by which its runs are judged ("" is their encoder's own): one run serves several.
        other_encoder: whether keys encoder.* of the command line are of other runs' encoders, not of its own.
        joins: labels of the same axis, whose encoders are judged side by side, as one; nothing is trained for it.
    """

    label: str
    overrides: tuple[str, ...] = ()
    by: Mapping[str, Mapping[str, tuple[str, ...]]] = field(default_factory=dict)
    share: float = 1.0
    epochs: float = 1.0
    most_epochs: float = math.inf
    documents: float = 1.0
    pooling: str = ""
    other_encoder: bool = False
    joins: tuple[str, ...] = ()

    @property
    def texts(self) -> list[str]:
        """All overrides that a run of it may have."""
        more = (text for part in self.by.values() for texts in part.values() for text in texts)
        return [*self.overrides, *more]


@dataclass(frozen=True)
class Grid:
    """The values of each axis that are run, beside each other.

    Attributes:
        axes: axis to labels; all combinations are run.
        without: combinations that are not, as axis to labels.
        seeds: of each combination.
        base: overrides of all.
        flops: of a run of share 1: at teaching size its budget, where ``base`` names no other length; else an
            estimate.
        epochs, documents: of a run, at the paper's sizes, and in a batch.
        judged: seconds of a core that start and judgement of a run take, for the estimate.
    """

    axes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    without: tuple[Mapping[str, tuple[str, ...]], ...] = ()
    seeds: tuple[int, ...] = (1,)
    base: tuple[str, ...] = ()
    flops: float = 0.0
    epochs: float = 1.0
    documents: int = 16
    judged: float = 90.0


@dataclass(frozen=True)
class Scores:
    """What of a judgement is shown, by panel ("" where there is one).

    Attributes:
        senteval: a rule of analysis.senteval.averages, or <task>.<metric>.
        quick: a score of the quick judgement, where there is no SentEval data.
        tasks: judged at teaching size; None: all.
        protocol: of SentEval.
    """

    senteval: Mapping[str, str] = field(default_factory=dict)
    quick: Mapping[str, str] = field(default_factory=lambda: {"": "recall@1"})
    tasks: tuple[str, ...] | None = None
    protocol: str = "default"


@dataclass(frozen=True)
class Marks:
    """Printed values beside ours: rows of a paper's tables (by their model) to their place in the figure."""

    paper: str
    rows: Mapping[str, Mapping[str, str]]
    split: str = "test"


@dataclass(frozen=True)
class Table:
    """A paper's table.

    Attributes:
        title: of the table.
        paper: whose printed rows stand below ours.
        kind: "senteval"; "command": what ``command`` prints of all models; "sizes" of encoders; "spans" and
            "sequences": examples of what objectives draw; "printed": as printed, with ``note``.
        split: "test" or "dev".
        tasks: SentEval's columns; None: the paper's.
        printed: file of analysis/paper_tables, of kinds "sizes" and "printed".
        command: module and arguments; "{data}" becomes data=.
        needs: what data= must be, of kind "command".
        settings: of the other kinds.
        note: to be read below it.
    """

    title: str
    paper: str
    kind: Literal["senteval", "command", "sizes", "spans", "sequences", "printed"] = "senteval"
    split: Literal["test", "dev"] = "test"
    tasks: tuple[str, ...] | None = None
    printed: str = ""
    command: tuple[str, ...] = ()
    needs: str = ""
    settings: Mapping[str, Any] = field(default_factory=dict)
    note: str = ""


@dataclass(frozen=True)
class Claims:
    """What a paper states of a table: ``described``'s groups are the rows, its panels the ``scores`` by name."""

    described: Figure
    scores: Mapping[str, str]


@dataclass(frozen=True)
class Specification:
    """One figure or table; ``figure`` or ``table`` is None.

    Attributes:
        id: "<paper>/<name>".
        base: overrides of all runs.
        axes: axis to its values by label.
        grids: "teaching" and "paper"; none where nothing is trained.
        point: which axes give panel, group and x of a figure's point, or the row of a table.
        ensemble: {"group": its name, "by": an axis, "of": its values, of each of which the best run is a member}.
        cannot: what is not reproduced, and why.
        claims: of a table.
    """

    id: str
    figure: Figure | None
    table: Table | None
    base: tuple[str, ...]
    axes: Mapping[str, Mapping[str, Value]]
    grids: Mapping[str, Grid]
    point: Mapping[str, str]
    scores: Scores
    marks: Marks | None
    ensemble: Mapping[str, Any] | None
    cannot: tuple[str, ...]
    claims: Claims | None = None

    @property
    def title(self) -> str:
        described = self.figure or self.table
        assert described is not None
        return described.title

    @property
    def name(self) -> str:
        """Of its files: "declutr-2a"."""
        return self.id.replace("/", "-")


def names() -> list[str]:
    """All that can be reproduced."""
    return sorted(path.relative_to(FOLDER).with_suffix("").as_posix() for path in FOLDER.rglob("*.yaml"))


def find(wanted: str) -> str:
    """The name that ``wanted`` means, whatever the case, with or without "fig".

    Raises:
        UserError: if there is none, with the nearest one.
    """
    plain = {_plain(name): name for name in names()} | {_plain(name): target for name, target in ALIASES.items()}
    if (found := plain.get(_plain(wanted))) is not None:
        return found
    near = signatures.nearest(wanted, [*names(), *ALIASES])
    hint = f"Did you mean {near}?" if near else f"There are {', '.join(names())}."
    raise UserError(f"figure={wanted}: no such figure or table. {hint}")


def read(name: str) -> Specification:
    """The specification of this name (one of ``names``).

    Raises:
        UserError: in one line, if its YAML is not as the classes here say.
    """
    given = _load(name)
    where = f"figure/{name}.yaml"
    if unknown := given.keys() - _KEYS:
        raise UserError(f"{where}: no key {sorted(unknown)[0]}; there are {', '.join(sorted(_KEYS))}.")
    if ("figure" in given) == ("table" in given):
        raise UserError(f"{where} must have one of figure and table.")
    axes = {
        str(axis): {str(label): _value(str(label), value, where) for label, value in values.items()}
        for axis, values in (given.get("axes") or {}).items()
    }
    for axis, found in axes.items():
        for value in found.values():
            if wrong := [label for label in value.joins if label not in found or found[label].joins]:
                raise UserError(f"{where}: {value.label} joins {wrong[0]}, which {axis} does not train.")
    grids = {size: _grid(values, axes, f"{where}: {size}") for size, values in (given.get("grids") or {}).items()}
    return Specification(
        id=name,
        figure=figure_from(given["figure"]) if "figure" in given else None,
        table=_made(Table, given["table"], where) if "table" in given else None,
        base=tuple(given.get("base") or ()),
        axes=axes,
        grids=grids,
        point={key: str(axis) for key, axis in (given.get("point") or {}).items()},
        scores=_made(Scores, given.get("scores") or {}, where),
        marks=_made(Marks, given["marks"], where) if given.get("marks") else None,
        ensemble=given.get("ensemble"),
        cannot=tuple(given.get("cannot") or ()),
        claims=_claims(name, given, axes) if given.get("statements") else None,
    )


def _load(name: str) -> dict[str, Any]:
    """A YAML, above what the one that it is ``like`` says of its runs."""
    values: dict[str, Any] = yaml.safe_load((FOLDER / f"{name}.yaml").read_text(encoding="utf-8"))
    if other := values.pop("like", None):
        runs = {key: value for key, value in _load(other).items() if key not in _OWN}
        values = runs | values
    return values


def _claims(name: str, given: Mapping[str, Any], axes: Mapping[str, Mapping[str, Value]]) -> Claims:
    """``statements`` of a YAML: {"scores": as Scores.senteval has them, "of": as a figure's statements}."""
    where, found = f"figure/{name}.yaml: statements", given["statements"]
    if "table" not in given or not isinstance(found, Mapping) or found.keys() != {"scores", "of"}:
        raise UserError(f"{where} must have the keys scores and of, and be a table's: a figure has its own.")
    rows = [*axes[(given.get("point") or {}).get("row", "row")]]
    if given.get("ensemble"):
        rows.append(given["ensemble"]["group"])
    scores = {str(panel): str(metric) for panel, metric in found["scores"].items()}
    described = {"id": name, "title": given["table"]["title"], "kind": "bars", "x": "row", "y": "score"}
    described |= {"panels": [*scores], "groups": rows, "statements": found["of"]}
    return Claims(figure_from(described), scores)


def _value(label: str, given: Any, where: str) -> Value:
    if isinstance(given, Sequence) and not isinstance(given, str):
        return Value(label, tuple(given))
    if not isinstance(given, Mapping) or given.keys() - {*_VALUE_KEYS}:
        raise UserError(
            f"{where}: {label} must be a list of overrides, or have the keys {', '.join(_VALUE_KEYS)}."
        )
    if "joins" in given:
        if len(given) > 1 or len(given["joins"]) < 2:
            raise UserError(f"{where}: {label} must have joins alone, of two or more labels.")
        return Value(label, joins=tuple(map(str, given["joins"])))
    by = {
        str(axis): {str(key): tuple(overrides) for key, overrides in values.items()}
        for axis, values in given.get("by", {}).items()
    }
    kinds: dict[str, Any] = {"pooling": str, "other_encoder": bool}
    kinds |= dict.fromkeys(("share", "epochs", "most_epochs", "documents"), float)
    rest: dict[str, Any] = {key: kind(given[key]) for key, kind in kinds.items() if key in given}
    return Value(label, tuple(given.get("set", ())), by, **rest)


def _grid(given: Mapping[str, Any], axes: Mapping[str, Mapping[str, Value]], where: str) -> Grid:
    def labels(values: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
        return {axis: tuple(map(str, chosen)) for axis, chosen in values.items()}

    chosen = labels(given.get("axes") or {})
    without = tuple(map(labels, given.get("without") or ()))
    for axis, wanted in ((axis, wanted) for part in (chosen, *without) for axis, wanted in part.items()):
        if unknown := [label for label in wanted if label not in axes.get(axis, {})]:
            raise UserError(f"{where}: the axis {axis} has no value {unknown[0]!r}.")
    return _made(Grid, dict(given) | {"axes": chosen, "without": without}, where)


def _made(kind: Any, given: Mapping[str, Any], where: str) -> Any:
    """``kind`` of these keys; numbers become text where names are meant."""
    plain = {key: _plainly(value) for key, value in given.items()}
    if found := list(signatures.faults(kind, plain, where)):
        raise UserError(found[0])
    return kind(**{key: _frozen(value) for key, value in plain.items()})


def _plainly(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _plainly(part) for key, part in value.items()}
    return [_plainly(part) for part in value] if isinstance(value, (list, tuple)) else value


def _frozen(value: Any) -> Any:
    return tuple(map(_frozen, value)) if isinstance(value, list) else value


def _plain(name: str) -> str:
    return re.sub(r"/(fig(ure)?)?[_-]?", "/", name.lower())
