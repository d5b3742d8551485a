# Two commands do everything on a machine with Python 3.11 or later: `make demo` and `make test`.
# Each makes .venv if it is not there, and installs what constraints.txt pins.

PYTHON ?= $(shell command -v python3.11 || command -v python3)
BIN := .venv/bin
DEMO := out/demo
POLICIES := baseline-c mdc every-prefix
DURATION ?= 1h
SEED ?= 0

.PHONY: demo test test-slow soak bench lint format clean

.venv/ready: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "mipset needs Python 3.11 or later: make PYTHON=...")'
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable ".[dev]"
	@touch $@

# Condense the embedded dataset with each policy, then train and test networks on every size of every file.
demo: .venv/ready
	@mkdir -p $(DEMO)
	@for policy in $(POLICIES); do \
	    $(BIN)/mipset condense fashion-mini --recipe demo --policy $$policy --out $(DEMO)/$$policy.safetensors --force || exit; \
	done
	@$(BIN)/mipset evaluate $(POLICIES:%=$(DEMO)/%.safetensors) --sizes 1-10 --networks 3 --protocol quick --save
	@$(BIN)/mipset show $(DEMO)/every-prefix.safetensors --sheet $(DEMO)/every-prefix.png --force

test: lint
	$(BIN)/pytest --numprocesses auto --maxprocesses 4

# Every claim of speed against a plain transcription, measured in one run of some minutes on a quiet machine.
bench: .venv/ready
	$(BIN)/python benchmarks/bench.py

test-slow: .venv/ready
	$(BIN)/pytest -m slow

# Random faults (kills, signals, full disks, damaged files) over small runs: `make soak DURATION=5min SEED=3`.
soak: .venv/ready
	PYTHONPATH=scripts $(BIN)/python -m soak --duration $(DURATION) --seed $(SEED)

lint: .venv/ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: .venv/ready
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf .venv out build dist
