# make help lists the targets.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV ?= .venv
PROFILE ?= smoke
FIGURES := fig01 fig09 fig10 fig13
ARGS ?=
SOURCES := bench methods datasets tests docs requirements  # not a user's own files beside them
BIN := $(VENV)/bin
KIND := $(shell nvidia-smi -L >/dev/null 2>&1 && echo gpu || echo cpu)
PIP := $(BIN)/python -m pip --disable-pip-version-check
export OMP_WAIT_POLICY ?= PASSIVE
export GOMP_SPINCOUNT ?= 20000

.PHONY: help setup fetch $(FIGURES:%=reproduce-%) test test-fast lint bench bench-compare check-speed check-gpu compare clean
.DEFAULT_GOAL := help

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "%-16s  %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
	@echo 'PROFILE=, RUN= (the run folder) and ARGS= (options of qcbench run) apply to the reproduce targets'

setup: $(VENV)/.ready-$(KIND) ## make the environment in .venv (CPU or GPU, whichever is here)

$(VENV)/.ready-cpu: requirements/cpu.txt $(wildcard requirements/cpu_shim/*) pyproject.toml
	@echo "No NVIDIA driver answers here: installing the CPU environment into $(VENV)"
	$(PYTHON) -m venv $(VENV)
	$(PIP) install -q --no-warn-conflicts $$(grep '^torch==' requirements/cpu.txt) -c requirements/cpu.txt
	$(PIP) install -q --no-warn-conflicts --no-deps -r requirements/cpu.txt
	$(PIP) install -q --no-warn-conflicts --no-deps ./requirements/cpu_shim
	$(PIP) install -q --no-warn-conflicts --no-deps -e .
	@touch $@

$(VENV)/.ready-gpu: requirements/gpu.txt pyproject.toml
	@echo "An NVIDIA driver answers here: installing the GPU environment into $(VENV)"
	$(PYTHON) -m venv $(VENV)
	$(PIP) install -q --no-warn-conflicts -r requirements/gpu.txt
	$(PIP) install -q --no-warn-conflicts --no-deps -e .
	@touch $@

fetch: setup ## get the default models and RULER's essays into the cache
	$(BIN)/qcbench fetch

reproduce-fig10: ## Fig. 10 and 11 - install, fetch, run, plot (PROFILE=tiny|smoke|cpu|lite|paper)
reproduce-fig01: ## Fig. 1 - where the time to first token goes
reproduce-fig09: ## Fig. 9 - the pipeline as measured, a request's timeline
reproduce-fig13: ## Fig. 13 - time to first token against storage bandwidth
$(FIGURES:%=reproduce-%): reproduce-%: fetch
	$(BIN)/qcbench run $* --profile $(PROFILE) --out $(or $(RUN),results/$*-$(PROFILE)) $(ARGS)

test: fetch lint ## everything - linters, types, all tests
	$(BIN)/python -m pytest $(ARGS)

test-fast: setup lint ## without the tests that load the default models
	$(BIN)/python -m pytest -m "not models" $(ARGS)

lint: setup
	$(BIN)/ruff check $(SOURCES)
	$(BIN)/ruff format --check $(SOURCES)
	$(BIN)/mypy

bench: fetch ## benchmarks, saved as a baseline (nothing else should run meanwhile)
	$(BIN)/python -m pytest tests/benchmarks --benchmark-only --benchmark-autosave $(ARGS)

bench-compare: fetch ## benchmarks beside the last saved baseline, or BASELINE=0003
	$(BIN)/python -m pytest tests/benchmarks --benchmark-only --benchmark-compare$(BASELINE:%==%) $(ARGS)

check-speed: fetch ## is recomputing as cheap as its arithmetic, is loading hidden (ten minutes on two cores)
	$(BIN)/qcbench check speed $(ARGS)

check-gpu: fetch ## on a GPU - equivalence, kernels and their ceilings, one Fig. 10 cell
	$(BIN)/qcbench check gpu $(ARGS)

compare: setup ## your method beside all others, METHOD=./mine.py (after reproduce-fig10)
	$(BIN)/qcbench compare $(METHOD) --profile $(PROFILE) $(ARGS)

clean: ## remove the environment (results, reports and the cache stay)
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache build *.egg-info
