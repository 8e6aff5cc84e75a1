"""The commands, the training loop and all configuration; on Linux and macOS."""

import sys
from importlib.util import find_spec

if sys.platform == "win32":  # signals, process groups and the measure of memory are POSIX's
    print("The commands run on Linux and macOS: on Windows, run them in WSL.", file=sys.stderr)
    sys.exit(2)
if find_spec("hydra") is None:
    print(f"Packages are missing in {sys.executable}. Run: make setup; . .venv/bin/activate", file=sys.stderr)
    sys.exit(2)
