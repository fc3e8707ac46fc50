# make demo   a first look: own venv, install, then calibrate, compile, run and profile two real models
# make test   install, lint, types, all tests (below 15 minutes on 2 cores)
# make conformance   all of onnx's own tests; writes docs/conformance.md and docs/supported-ops.md (some minutes)
# make fuzz   damaged files of every kind, a minute each (FUZZ='--seconds 600' for longer)
# make bench  slow measurements; writes docs/BENCHMARKS.md
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: demo test conformance fuzz bench lint types clean install

install: $(STAMP)

$(STAMP): pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	touch $(STAMP)

demo: $(STAMP)
	$(BIN)/python -m models.demo

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/codespell
	$(BIN)/lint-imports

types: $(STAMP)
	$(BIN)/mypy

test: lint types
	$(BIN)/python -m pytest -n 2 --dist loadgroup

conformance: $(STAMP)
	$(BIN)/python -m tests.conformance.record

fuzz: $(STAMP)
	$(BIN)/python -m tests.fuzz.run $(FUZZ)

bench: $(STAMP)
	$(BIN)/python -m pytest tests/bench -s -o python_files="bench_*.py"

clean:
	rm -rf build dist .pytest_cache .mypy_cache .ruff_cache
