# Every target works on a bare checkout: it builds .venv on first use, and says in a line what it does.

PYTHON ?= $(shell command -v python3.11 || command -v python3)
BIN := .venv/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check

# The versions that the tests are measured against. Those beside torch come
# without their dependencies, which would bring another torch.
TORCH := torch==2.13.0
BESIDE_TORCH := torchvision==0.28.0 timm==1.0.31 torch-pruning==1.6.1 facenet-pytorch==2.6.0 scikit-image==0.26.0
THEY_NEED := pillow huggingface_hub pyyaml tqdm

.DEFAULT_GOAL := help
.PHONY: help demo test soak check format docs zoo bench clean

help:  ## Show this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "make %-8s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: .venv/.demo  ## The whole flow on scanned digits: train, analyse, plan, cut, train on, export
	@echo "demo: a small network on scanned digits is trained, analysed, cut, trained on and exported"
	@$(BIN)/prunus demo

test: check  ## All checks, then all tests
	@echo "test: running the tests"
	@$(BIN)/python -m pytest -n 2

soak: .venv/.dev  ## Kill analyses 100 times, or as often as PRUNUS_KILLS says (takes minutes)
	@echo "soak: killing analyses $${PRUNUS_KILLS:-100} times, half of them within a write"
	@PRUNUS_KILLS=$${PRUNUS_KILLS:-100} $(BIN)/python -m pytest -q -k killed \
		tests/e2e/torch/test_durability.py tests/unit/core/study/test_database.py

check: .venv/.dev  ## Style, types and import contracts
	@echo "check: style, types, import contracts"
	@$(BIN)/ruff check --quiet src tests bench examples
	@$(BIN)/ruff format --check --quiet src tests bench examples
	@$(BIN)/mypy --no-error-summary
	@$(BIN)/lint-imports --no-logo

format: .venv/.dev  ## Lay the code out as `make check` wants it
	@$(BIN)/ruff check --quiet --fix src tests bench examples
	@$(BIN)/ruff format --quiet src tests bench examples

docs: .venv/.dev  ## Write the pages of the commands again
	@echo "docs: writing docs/commands"
	@$(BIN)/python -m prunus.cli.pages docs/commands

zoo: .venv/.dev  ## Cut and judge every model of torchvision and timm's families (takes long)
	@echo "zoo: cutting every model of torchvision and of timm's families, and judging the result"
	@$(BIN)/python bench/zoo.py

bench: .venv/.dev  ## Measure beside the naive loop, beside exact mode and beside Torch-Pruning
	@echo "bench: how long a cut takes, beside Torch-Pruning"
	@$(BIN)/python bench/speed.py
	@echo "bench: an exact analysis, beside the naive loop"
	@$(BIN)/python bench/sensitivity.py densenet
	@echo "bench: how much less adaptive mode reads, beside exact mode"
	@$(BIN)/python bench/adaptive.py --seeds 20

clean:  ## Remove the environment and what the tools left
	rm -rf .venv build dist prunus-demo .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache

# A stamp is newer than pyproject.toml when its packages are in place.

.venv/bin/python:
	@echo "setup: making a virtual environment in .venv"
	@$(PYTHON) -m venv .venv

.venv/.demo: pyproject.toml | .venv/bin/python
	@echo "setup: installing prunus with PyTorch and scikit-learn (once, takes minutes)"
	@$(PIP) $(TORCH)
	@$(PIP) -e '.[demo]'
	@touch $@

.venv/.dev: pyproject.toml Makefile | .venv/bin/python
	@echo "setup: installing prunus, PyTorch, and what the tests need (once, takes minutes)"
	@$(PIP) $(TORCH)
	@$(PIP) --no-deps $(BESIDE_TORCH)
	@$(PIP) $(THEY_NEED)
	@$(PIP) -e '.[dev]'
	@touch $@ .venv/.demo
