# `make run` and `make test` do their own set-up: an environment in .venv with the exact versions of
# requirements/constraints.txt.
# PYTHON=<path> chooses the Python. Arguments pass through: make run ARGS="corpus=text corpus.path=books.jsonl.gz seed=2"

SHELL := /bin/bash
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
CONSTRAINTS := requirements/constraints.txt
TORCH := $(shell grep '^torch==' $(CONSTRAINTS))
PYTHONS := $(or $(PYTHON),python3.11 python3.12 python3.13 python3.14 python3 python)
IS_NEW := import sys; sys.exit(sys.version_info < (3, 11))
ARGS ?=

export PIP_DISABLE_PIP_VERSION_CHECK := 1

.PHONY: setup same-python run test test-all lint docs bench senteval-data clean
.DEFAULT_GOAL := run

setup: $(STAMP)

# Refuses a PYTHON that is not the environment's.
same-python:
	@if [ -n "$(PYTHON)" ] && there=$$($(BIN)/python --version 2>/dev/null) \
	        && [ "$$there" != "$$($(PYTHON) --version 2>/dev/null)" ]; then \
	    echo "$(VENV) has $$there, not PYTHON=$(PYTHON): run make clean first." >&2; \
	    exit 2; \
	fi

# torch comes first and alone, so that no resolver ever exchanges the build that this machine gets. Python compiles
# what it imports: compiling everything would take half of the time of the set-up.
$(STAMP): setup.cfg pyproject.toml $(CONSTRAINTS) | same-python
	@if ! $(BIN)/python -c '$(IS_NEW)' 2>/dev/null; then \
	    for python in $(PYTHONS); do \
	        $$python -c '$(IS_NEW)' 2>/dev/null && break; \
	        python=; \
	    done; \
	    if [ -z "$$python" ]; then \
	        echo "Python 3.11 or later is needed, and none was found as: $(PYTHONS). Install it or use make PYTHON=<path>." >&2; \
	        exit 2; \
	    fi; \
	    echo "setup: environment $(VENV) with $$($$python --version) (PYTHON=<path> chooses another)"; \
	    $$python -m venv --clear $(VENV); \
	fi
	@echo "setup: $(TORCH) (once; the largest download)"
	@$(BIN)/python -m pip install --quiet --no-compile --constraint $(CONSTRAINTS) $(TORCH)
	@echo "setup: everything else, at the versions of $(CONSTRAINTS)"
	@$(BIN)/python -m pip install --quiet --no-compile --constraint $(CONSTRAINTS) --editable '.[test,lint]'
	@touch $@

run: $(STAMP)
	$(BIN)/python experiments/run.py objective=declutr encoder=bundled budget=short $(ARGS)
	@echo "RoBERTa-base, from the Hugging Face hub: $(BIN)/python experiments/run.py objective=declutr encoder=roberta-base"

test: $(STAMP)
	$(BIN)/python -m pytest -m "not slow" -n 2 --dist loadfile $(ARGS)

test-all: $(STAMP)
	$(BIN)/python -m pytest $(ARGS)

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# The documentation as a site with search and the Python API.
docs: $(STAMP)
	@$(BIN)/python -m pip install --quiet --constraint $(CONSTRAINTS) --editable '.[docs]'
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet
	@echo "docs: site/index.html; with search: $(BIN)/python -m http.server --directory site"

# All but same_bits.py and senteval.py, which compare two checkouts, and whole_senteval.py, which writes 11 GB.
bench: $(STAMP)
	@status=0; for script in busy corpus_memory gpu training; do \
		echo "== $$script"; $(BIN)/python benchmarks/$$script.py || status=1; \
	done; exit $$status

# SentEval's data, from where its authors and hosts publish it; a call fetches only files that are missing.
senteval-data: $(STAMP)
	$(BIN)/python experiments/evaluate.py download $(ARGS)

clean:
	rm -rf $(VENV) site .pytest_cache .mypy_cache .ruff_cache .hypothesis *.egg-info
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
