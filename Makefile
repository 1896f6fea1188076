# `make demo` and `make test` need nothing but Python 3.11 or newer and pip.

PYTHON ?= python3
JOBS ?= 2
VENV := .venv
BIN := $(VENV)/bin

CORPUS := tests/corpus/paddle

.DEFAULT_GOAL := help
.PHONY: help demo dev check check-all lint format imports types coverage test levels array-api docs
.PHONY: bench campaign soak sbom audit clean

help: ## list the targets
	@sed -nE 's/^([a-z-]+):.*## /  make \1\t/p' $(MAKEFILE_LIST) | expand -t 17

$(VENV)/.core: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install -q -e .
	@touch $@

$(VENV)/.dev: $(VENV)/.core
	$(BIN)/python -m pip install -q -e '.[dev]'
	@touch $@

demo: $(VENV)/.core ## run captured Paddle programs and compare the numbers
	@echo; echo '== A loop that Paddle recorded, after the default passes =='; echo
	$(BIN)/pirkit-opt $(CORPUS)/while_tanh/program.txt -p @default --stats
	@echo; echo '== 37 recorded programs, trained for two steps with our gradients, against the numbers of Paddle =='; echo
	$(BIN)/pirkit-run --check $(CORPUS)/*/ --from main
	@echo; echo '== The same with the forward and backward programs that Paddle made =='; echo
	$(BIN)/pirkit-run --check $(CORPUS)/*/ --from split
	@echo; echo '== The same networks as Paddle exported them for inference =='; echo
	$(BIN)/pirkit-run --check $(CORPUS)/*/ --from json

dev: $(VENV)/.dev ## make the environment for developers

test: lint imports types check levels ## everything that CI runs

lint: $(VENV)/.dev ## style
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

format: $(VENV)/.dev ## put the files into house style
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

imports: $(VENV)/.dev ## the rooms and who may import whom
	$(BIN)/lint-imports

types: $(VENV)/.dev ## types, strictly
	$(BIN)/pyright

check: $(VENV)/.dev ## the tests alone; of those with many cases a fifth
	PIRKIT_TEST_SHARE=5 $(BIN)/python -m pytest -n $(JOBS)

check-all: $(VENV)/.dev ## the tests with all cases
	$(BIN)/python -m pytest -n $(JOBS)

levels: $(VENV)/.dev ## the tests of native code, for older levels of x86-64 than this CPU's
	PIRKIT_TEST_SHARE=6 $(BIN)/python tools/test_levels.py -n $(JOBS)

array-api: $(VENV)/.dev ## the official suite of the array API (SUITE=a checkout, else it is fetched)
	$(BIN)/python -m pip install -q -e '.[array-api]'
	$(BIN)/python tools/array_api.py $(SUITE)

coverage: $(VENV)/.dev ## the tests, and which lines and branches they miss
	$(BIN)/coverage run -m pytest
	$(BIN)/coverage combine -q
	$(BIN)/coverage report

docs: $(VENV)/.core ## the documentation as a site, in build/site
	$(BIN)/python -m pip install -q -e '.[docs]'
	$(BIN)/mkdocs build --strict

bench: $(VENV)/.dev ## pirkit beside what is installed of numpy, torch, jax and Paddle; a few minutes
	$(BIN)/python benchmarks/compare.py --short

NAME ?= programs
HOURS ?= 1

campaign: $(VENV)/.dev ## look for defects (NAME=programs, op_table, files, processes, transforms or torch_ops; HOURS=...)
	$(BIN)/python -m tools.campaigns $(NAME) --seed $$(date +%j) --count 1000000 --hours $(HOURS) --out $(NAME).jsonl

CALLS ?= 1000000
COMPILATIONS ?= 2000

soak: $(VENV)/.dev ## memory, open files and threads stay flat (CALLS=..., COMPILATIONS=...)
	$(BIN)/python tools/soak.py --calls $(CALLS) --compilations $(COMPILATIONS)

$(VENV)/.supply: $(VENV)/.core
	$(BIN)/python -m pip install -q -e '.[supply]'
	@touch $@

sbom: $(VENV)/.supply ## the installed packages as build/sbom.json, in CycloneDX
	@mkdir -p build
	$(BIN)/cyclonedx-py environment --output-format JSON --output-file build/sbom.json $(BIN)/python

audit: $(VENV)/.supply ## known vulnerabilities of what CI installs; skipped without a network
	$(BIN)/python tools/audit.py

clean: ## remove what the other targets made
	rm -rf $(VENV) build dist *.egg-info
	rm -rf .pytest_cache .ruff_cache .hypothesis .import_linter_cache .coverage .coverage.*
