"""Bundles a finished run's encoder as a checkpoint to ship: half precision, card, recipe, log.

    python scripts/bundle_checkpoint.py runs/<folder> encoders/checkpoints/<name>

Read the card afterwards, and write the licences into it.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pandas as pd
import yaml

ROOT = Path(__file__).resolve().parents[1]
MACHINE = ("cache", "run_dir", "resume", "device")  # keys that differ from machine to machine

sys.path.insert(0, str(ROOT))

import encoders  # noqa: E402

run, folder = map(Path, sys.argv[1:])
config = yaml.safe_load((run / "config.yaml").read_text())
encoder = encoders.load(run / "encoder")
encoder.origin = f"{config['names']['origin']}, then {config['names']['objective']}"
precision = "The file has half precision; as float32 (`dtype` of other libraries) it is quicker on a CPU."
before, use, after = (run / "encoder" / "README.md").read_text().partition("## Use\n")
card = f"{before}## Precision\n\n{precision}\n\n{use}{after}"
encoder.half().save(folder, card=card)
recipe = {key: value for key, value in config.items() if key not in MACHINE}
(folder / "recipe.yaml").write_text(yaml.safe_dump(recipe, sort_keys=False))
pd.read_json(run / "metrics.jsonl", lines=True).to_csv(folder / "training.csv", index=False)
shutil.copyfile(run / "figures" / "training.png", folder / "training.png")
print(f"{sum(path.stat().st_size for path in folder.rglob('*') if path.is_file()):,} bytes in {folder}")
