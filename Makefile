# Two commands do everything on a machine that has Python 3.11, pip, make and git: `make demo` and `make test`.
# Each builds .venv from the versions in constraints.txt if it is not there, or is older than they are.

FITS := -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 14))'
PYTHON ?= $(shell for p in python3.11 python3 python; do $$p $(FITS) 2>/dev/null && echo $$p && break; done)
BIN := .venv/bin
READY := .venv/.ready
PEERS := .venv/.peers
DOCS := .venv/.docs

# One thread a process: the tests run in two processes, and the benchmarks compare one thread with one thread.
export OMP_NUM_THREADS := 1
# The type checker runs at its pinned version: no question to the package index for a newer one.
export PYRIGHT_PYTHON_IGNORE_WARNINGS := 1

BENCHMARKS := $(sort $(wildcard benchmarks/[a-z]*.py))
HOURS := $(patsubst %, benchmarks/%.py, accuracy budget coverage information verdicts)

.DEFAULT_GOAL := help
.PHONY: help demo test lint docs bench format clean $(BENCHMARKS)

help: ## list the targets
	@awk -F ': .*## ' '/^[a-z]+:.*## / { printf "make %-8s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

demo: $(READY) ## the main job, end to end
	@$(BIN)/flowratio demo

test: lint ## lint, types, layers, all tests, README and docstring examples; warnings are errors
	@$(BIN)/python -m pytest -q -n 2

lint: $(READY) ## ruff, pyright and import-linter
	@$(BIN)/ruff check --quiet
	@$(BIN)/ruff format --check --quiet
	@$(BIN)/pyright
	@$(BIN)/lint-imports --no-cache --no-logo

docs: $(DOCS) ## the site, in build/site; warnings are errors
	@NO_MKDOCS_2_WARNING=1 MPLBACKEND=Agg $(BIN)/mkdocs build --quiet --strict

bench: $(filter-out $(HOURS), $(BENCHMARKS)) ## every script in benchmarks/ but those that take hours, one thread

$(BENCHMARKS): $(READY)
	@echo "== $@"
	@$(BIN)/python $@

benchmarks/applications.py benchmarks/ratios.py benchmarks/ratio_errors.py benchmarks/accuracy.py: $(PEERS)

format: $(READY) ## put the code in the house format
	@$(BIN)/ruff check --fix --quiet
	@$(BIN)/ruff format --quiet

clean: ## remove .venv and every cache
	@rm -rf .venv .pytest_cache .ruff_cache .import_linter_cache build dist
	@find src tests benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +

# -qq: errors only. The constraints reach the build of each source package too, by both of the names that pip knows.
INSTALL := PIP_CONSTRAINT=constraints.txt PIP_BUILD_CONSTRAINT=constraints.txt PIP_DISABLE_PIP_VERSION_CHECK=1 \
  $(BIN)/python -m pip install -qq

$(READY): pyproject.toml constraints.txt
	@$(or $(PYTHON),false) $(FITS) 2>/dev/null || { echo "make: $(or $(PYTHON),no Python found): constraints.txt" \
	  "holds for Python 3.11 to 3.13. Install Python 3.11, or name one: make PYTHON=/path/to/python3.11" >&2; exit 2; }
	@echo "Building .venv with the versions of constraints.txt: a few minutes, once."
	@$(BIN)/python -m pip --version >/dev/null 2>&1 || $(PYTHON) -m venv --clear .venv
	@$(INSTALL) -e '.[dev]'
	@touch $@

$(PEERS): $(READY)
	@echo "Adding the libraries that the ratios are measured against to .venv: a few minutes, once."
	@$(INSTALL) -e '.[peers]'
	@touch $@

$(DOCS): $(READY)
	@echo "Adding what builds the pages to .venv: a minute, once."
	@$(INSTALL) -e '.[docs]'
	@touch $@
