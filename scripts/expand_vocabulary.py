"""Adds words that a recurrent encoder was not trained on, from a file of word vectors (``encoders.expansion``).

    python scripts/expand_vocabulary.py <encoder's folder> <file of word vectors> <new folder>

Encoders that are to be concatenated (``encoder=concatenated``) are expanded one by one.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import encoders
from data.errors import UserError
from data.vectors import WordVectors
from encoders.expansion import expand

folder, file, new = map(Path, sys.argv[1:])
try:
    expanded = expand(encoders.load(folder), WordVectors(file), file.name)
    expanded.save(new)
except UserError as error:
    print(error, file=sys.stderr)
    sys.exit(2)
print(expanded.origin)
