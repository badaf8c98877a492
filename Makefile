# Every target sets up what it needs on first use: only python3 (3.11 or newer) and make are required.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check install --quiet --constraint constraints.txt

# Tests of one file share their models, so a file stays in one process; tests/conftest.py orders the files.
SPREAD := --numprocesses auto --maxprocesses 8 --dist loadfile --no-loadscope-reorder

.PHONY: help demo test test-fast fuzz chaos check format bench clean

help:
	@echo "make demo       learn, classify and draw on drawn scenes (pictures in demo/)"
	@echo "make test       all tests          make test-fast  without the slow ones"
	@echo "make fuzz       hostile images, model files, archives, lists, settings and command lines"
	@echo "make chaos      trainings and runs of shards that are killed, damaged, starved and disturbed:"
	@echo "                always the same model and the same parts"
	@echo "make check      format, lint, types, imports     make format  fix format and lint"
	@echo "make bench      speed relative to other libraries and bare matrix products"

# One stamp per set of packages; a change of pyproject.toml or the constraints installs again.
# torch comes first and by itself: only pip's direct look-up finds the CPU build.
$(VENV)/.base: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(PIP) torch==2.13.0
	$(PIP) --editable .
	@touch $@

$(VENV)/.%: $(VENV)/.base
	$(PIP) --editable '.[$*]'
	@touch $@

demo: $(VENV)/.base
	$(BIN)/ddsfl demo --out demo

test: $(VENV)/.test
	$(BIN)/python -m pytest $(SPREAD)

test-fast: $(VENV)/.test
	$(BIN)/python -m pytest $(SPREAD) -m "not slow and not data"

fuzz: $(VENV)/.test
	$(BIN)/python -m attacks.fuzz

chaos: $(VENV)/.test $(VENV)/.ray
	OMP_NUM_THREADS=1 $(BIN)/python -m attacks.chaos
	$(BIN)/python -m attacks.shards

check: $(VENV)/.test $(VENV)/.check
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(VENV)/.check
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(VENV)/.bench
	$(BIN)/python -m benchmarks

clean:
	rm -rf $(VENV) build demo .mypy_cache .pytest_cache .ruff_cache .import_linter_cache
