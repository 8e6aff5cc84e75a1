"""Encoders of finished runs side by side, in a folder that is judged as a run's is (rows of GenSen's table 2)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import yaml

from analysis.opening import EXPORT
from data.errors import UserError
from data.files import atomic_write
from encoders.concatenated import Concatenated
from experiments import side_by_side


def join(folder: Path, members: Sequence[Path]) -> None:
    """Writes the encoders of the runs ``members`` into ``folder`` as one, where they are not there yet.

    ``config.yaml``, which is written last, says of which runs it is.

    Raises:
        UserError: if a run is not finished, or its encoder cannot be opened.
    """
    if side_by_side.state(folder) == "finished":
        return
    if unfinished := [member.name for member in members if side_by_side.state(member) != "finished"]:
        raise UserError(f"It joins the encoder of {unfinished[0]}, which is not finished.")
    encoder = Concatenated(paths=[str(member / EXPORT) for member in members])
    encoder.save(folder / EXPORT)
    first = yaml.safe_load((members[0] / "config.yaml").read_text(encoding="utf-8"))
    names = {key: first["names"].get(key) for key in ("objective", "encoder", "corpus", "budget")}
    told = {"names": names | {"origin": encoder.origin}, "seed": first["seed"], "weights": encoder.weights}
    with atomic_write(folder / "config.yaml") as file:
        yaml.safe_dump(told | {"joins": [member.name for member in members]}, file, sort_keys=False)
