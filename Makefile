# Two commands do everything on a machine with Python 3.11 or later: `make demo` and `make test`.
# Each makes .venv if it is not there, and installs what constraints.txt pins. `make docs` has an environment of its own,
# because neither of the two needs what makes the site, and the site needs no torch. So has `make test-frameworks`.

PYTHON ?= $(shell command -v python3.11 || command -v python3)
BIN := .venv/bin
INSTALL := pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable
DEMO := out/demo
POLICIES := baseline-c mdc every-prefix
DURATION ?= 1h
SEED ?= 0

.PHONY: demo test test-slow test-frameworks soak bench docs release-check lint format clean

.venv/ready: EXTRA := dev
.venv-docs/ready: EXTRA := docs
.venv/ready .venv-docs/ready: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "mipset needs Python 3.11 or later: make PYTHON=...")'
	$(PYTHON) -m venv $(@D)
	$(@D)/bin/$(INSTALL) ".[$(EXTRA)]"
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
	$(BIN)/pytest --numprocesses auto --maxprocesses 4 --dist loadgroup

# Every claim of speed against a plain transcription, measured in one run of some minutes on a quiet machine.
bench: .venv/ready
	$(BIN)/python benchmarks/bench.py

test-slow: .venv/ready
	$(BIN)/pytest -m slow

# The adapters for Avalanche, Flower and DD-Ranking, in an environment of their own: the three need some older packages.
# What requires torchvision is installed without its requirements, and the tests have a stand-in for it.
NO_TORCHVISION := avalanche-lib ddranking kornia kornia_rs pytorchcv timm
FRAMEWORKS := "flwr[simulation]" dill gdown gputil hypothesis pandas psutil pytest qpsolvers quadprog scikit-learn \
	tensorboard torchmetrics wandb
.venv-frameworks/ready: pyproject.toml constraints-frameworks.txt
	$(PYTHON) -m venv $(@D)
	$(@D)/bin/$(INSTALL:constraints.txt=constraints-frameworks.txt) ".[condense,optuna]" $(FRAMEWORKS)
	$(@D)/bin/pip install --quiet --disable-pip-version-check --constraint constraints-frameworks.txt --no-deps $(NO_TORCHVISION)
	@touch $@

test-frameworks: .venv-frameworks/ready
	.venv-frameworks/bin/python -m pytest -m frameworks tests/integrations tests/test_framework_examples.py

# Random faults (kills, signals, full disks, damaged files) over small runs: `make soak DURATION=5min SEED=3`.
soak: .venv/ready
	PYTHONPATH=scripts $(BIN)/python -m soak --duration $(DURATION) --seed $(SEED)

# The documentation site, as files that a browser opens from disk: out/site/index.html. A broken link is an error.
docs: .venv-docs/ready
	NO_MKDOCS_2_WARNING=1 .venv-docs/bin/mkdocs build --strict --quiet
	@echo "the site is in out/site: open out/site/index.html"

# What is published, built into dist/ and tried in empty environments (docs/releasing.md).
release-check: .venv-release/ready
	.venv-release/bin/python scripts/release_check.py

.venv-release/ready:
	$(PYTHON) -m venv $(@D)
	$(@D)/bin/pip install --quiet --disable-pip-version-check build twine
	@touch $@

lint: .venv/ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: .venv/ready
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf .venv .venv-docs .venv-frameworks .venv-release out build dist
