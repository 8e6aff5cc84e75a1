"""Corpora, one kind a file; a new kind is a module with a ``Source`` and a YAML that names it."""
