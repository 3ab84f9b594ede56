# Everything runs in .venv, which these targets make and fill; nothing else is needed but Python >= 3.11 and make.
#   make tour PYTHON=python3.13      chooses the interpreter .venv is made from (make clean first if there is one)

.DEFAULT_GOAL := help
SHELL := /bin/sh
MAKEFLAGS += --no-print-directory

VENV := .venv
BIN := $(VENV)/bin
NEW_ENOUGH := import sys; sys.exit(sys.version_info < (3, 11))

# The first interpreter that runs and is new enough; an interpreter named by the caller is taken as it is.
PYTHON ?= $(shell for name in python3 python python3.14 python3.13 python3.12 python3.11; do \
	"$$name" -c '$(NEW_ENOUGH)' >/dev/null 2>&1 && { echo "$$name"; break; }; done)

# Packages are installed without bytecode, see below. Forbidden to write it when they are imported, every start of
# a kernel would compile them again: 1.7 s instead of 0.4.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help tour lab test test-all frameworks with-frameworks oldest with-oldest newer installed-newer with-newer measured covered collect soak chaos bench gpu lint types docs clean

help:  ## say what there is (this is the default)
	@echo "disco_magic: make TARGET [PYTHON=python3.13]"
	@awk -F ':.*##' '/^[a-z-]+:.*##/ { printf "  %-12s%s\n", $$1, $$2 }' Makefile

tour: $(VENV)/.has-lab  ## run notebooks/01_quickstart.ipynb in a real kernel and print its results
	@$(BIN)/python notebooks/tour.py

lab: $(VENV)/.has-lab  ## open the quickstart in JupyterLab; the launcher has the kernel "Disco (SPMD)"
	@$(BIN)/python -m disco_magic.notebook.kernel install --sys-prefix
	@$(BIN)/jupyter lab notebooks/01_quickstart.ipynb $(if $(filter 0,$(shell id -u)),--allow-root) $(ARGS)

# In their order: what is few and slow comes first (tests/scheduling.py), and no process is left alone with it at the end.
# A process that crashes ends the run: with one in its place xdist waits for ever for the tests that were its own.
ALL_TESTS := --numprocesses=auto --dist=loadfile --no-loadscope-reorder --max-worker-restart=0

# SECOND_TRY=1, in continuous integration: up to two failed tests are tried once more (tests/second_try.py).
RECORD := $(VENV)/second-tries.txt
SECOND_TRIES = $(if $(SECOND_TRY),-p tests.second_try --second-tries=$(RECORD))

# A part of the tests cannot cover everything: the gates are for all of them. To measure takes half as long again.
test: $(VENV)/.has-test  ## run all tests (COVERAGE=1: they have to cover 95 % of the branches, and all of core/)
ifneq ($(strip $(ARGS)),)
	@$(BIN)/python -m pytest $(ARGS)
else ifeq ($(strip $(COVERAGE)),)
	@$(BIN)/python -m pytest $(ALL_TESTS)
else
	@$(MAKE) measured
	@$(MAKE) covered
endif

# Apart, for the report takes ten seconds of one core.
measured: $(VENV)/.has-test
	@$(BIN)/python -m pytest $(ALL_TESTS) --cov --cov-report= $(SECOND_TRIES)

# What is not there to be read is what tests have executed under such names.
covered: $(VENV)/.has-test
	@$(BIN)/coverage report --ignore-errors --fail-under=95
	@$(BIN)/coverage report --ignore-errors --include='disco_magic/core/*' --fail-under=100 >$(VENV)/core-coverage.txt 2>&1 \
		|| { cat $(VENV)/core-coverage.txt; echo "disco_magic/core must be covered completely" >&2; exit 1; }

test-all:  ## run all tests, and whole the matrices that `test` tries in part (tests/sampled.py)
	@DISCO_EVERY_CASE=1 $(MAKE) test

# Real PyTorch and JAX are too large for every machine, and where PyTorch is imported what stands in for it cannot be.
FRAMEWORKS := tests/session/test_process_groups.py tests/session/test_sharded_models.py \
	tests/session/test_torch_process_wide.py tests/session/test_torch_random_compiled.py tests/session/test_jax.py \
	tests/session/test_torch_overlapping.py \
	tests/session/test_torch_random.py tests/session/test_own_operators.py tests/session/test_other_libraries.py \
	tests/session/test_halfway.py tests/session/test_trainers.py tests/session/test_tensors_alike.py tests/test_docs.py

frameworks:  ## run the tests of PyTorch, JAX and trainers with these themselves, in .venv-frameworks (a gigabyte and more)
	@$(MAKE) with-frameworks VENV=.venv-frameworks

with-frameworks: $(VENV)/.has-frameworks
	@$(BIN)/python -m pytest $(or $(ARGS),$(FRAMEWORKS))

oldest:  ## run the tests with the oldest versions that pyproject.toml allows, in .venv-oldest
	@$(MAKE) with-oldest VENV=.venv-oldest

with-oldest: $(VENV)/.has-oldest
	@$(BIN)/python -m pytest $(or $(ARGS),$(ALL_TESTS) --ignore=tests/browser)

# 3.14 is the newest that all extras have packages for.
NEWER_PYTHONS = $(foreach version,3.14 3.13,python$(version) \
	"$${PYENV_ROOT:-$$HOME/.pyenv}"/versions/$(version)*/bin/python$(version) \
	"$${UV_PYTHON_INSTALL_DIR:-$$HOME/.local/share/uv/python}"/cpython-$(version)*/bin/python$(version))
# Pyenv's shim is on the PATH whether it runs or not, and a build without the GIL is another interpreter.
IS_NEWER := import sys; sys.exit(sys.version_info < (3, 13) or not getattr(sys, "_is_gil_enabled", lambda: True)())
NEWER_PYTHON = $(shell for each in $(NEWER_PYTHONS); do \
	"$$each" -c '$(IS_NEWER)' >/dev/null 2>&1 && { echo "$$each"; break; }; done)

newer:  ## run the tests of what depends on the interpreter with Python 3.14 or 3.13, in .venv-newer; skip them without
newer installed-newer:
	@if $(BIN)/python -c '$(IS_NEWER)' 2>/dev/null; then echo "All tests run with a newer Python, that of $(VENV)."; \
	elif [ -z "$(NEWER_PYTHON)" ]; then echo "No Python 3.14 or 3.13 on the PATH, of pyenv or of uv: skipped."; \
	else $(MAKE) $(if $(filter newer,$@),with-newer,.venv-newer/.has-test) VENV=.venv-newer PYTHON="$(NEWER_PYTHON)"; fi

with-newer: $(VENV)/.has-test
	@$(BIN)/python -m pytest $(or $(ARGS),--numprocesses=auto --dist=loadfile --max-worker-restart=0 \
		$(SECOND_TRIES) $$($(BIN)/python -m tests.newer))

# Pytest keeps what it makes of a test file's source. The processes of a run would each make it, all at once, and while
# they are measured that takes a minute. Nothing runs, so nobody looks for what raised when it was collected as garbage:
# ten collections of all tests, a tenth of the time.
collect: $(VENV)/.has-test
	@$(BIN)/python -m pytest --collect-only --quiet -p no:unraisableexception >$(VENV)/collected.txt 2>&1 || { tail -50 $(VENV)/collected.txt; exit 1; }

# Of soak and chaos; ARGS would be those of the tests beside them, too.
MINUTES := 1

soak: $(VENV)/.has-test  ## a minute of random work in one session, nothing may grow (ARGS="--minutes 60")
	@$(BIN)/python -m benchmarks.soak $(or $(ARGS),--minutes $(MINUTES))

chaos: $(VENV)/.has-test  ## a minute of random faults under load: no hang, no lost session (ARGS="--minutes 10")
	@$(BIN)/python -m benchmarks.chaos $(or $(ARGS),--minutes $(MINUTES))

bench: $(VENV)/.has-bench  ## measure disco_magic and the peers side by side
	@$(BIN)/python -m benchmarks $(ARGS)

# cupy belongs to the machine's driver: this uses PYTHON's own cupy and pytest, not .venv.
gpu:  ## check and measure on a GPU, with PYTHON's own cupy (ARGS="--only checks")
	@"$(PYTHON)" -m benchmarks.gpu $(ARGS)

lint: $(VENV)/.has-dev  ## ruff: rules and format
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .

types: $(VENV)/.has-dev  ## mypy, strict
	@$(BIN)/mypy

# Pages that are gone would stay: the build folder is made anew, which takes seconds.
SPHINX := -m sphinx -q -W --keep-going -d docs/_build/doctrees -c docs .

docs: $(VENV)/.has-docs  ## build the site in docs/_build/html without warnings, and run its examples
	@rm -rf docs/_build
	@$(BIN)/python $(SPHINX) -b html docs/_build/html
	@$(BIN)/python $(SPHINX) -b doctest docs/_build/doctest
	@echo "The site: $(CURDIR)/docs/_build/html/index.html"

clean:  ## remove .venv, caches and what a build leaves
	rm -rf $(VENV) .venv-frameworks .venv-oldest .venv-newer docs/_build build dist *.egg-info .coverage .coverage.* htmlcov .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find . -name .git -prune -o \( -name __pycache__ -o -name .ipynb_checkpoints \) -prune -exec rm -rf {} +

# One stamp per extra, also of several that are installed at once (.has-dev,docs): installed again only when
# pyproject.toml changed. 'dev' brings what is in 'test'.
# --no-compile: only what is imported gets compiled, when it is; the tour starts in half the time.
# INSTALLER=uv: in a quarter of pip's time, for which uv has to be installed and reads no pip.conf: where it cannot
# be had, or finds no packages, pip goes on.
PIP_INSTALL := $(BIN)/python -m pip install -qq --no-compile --disable-pip-version-check
UV_INSTALL := $(if $(filter uv,$(INSTALLER)),$(PIP_INSTALL) uv && $(BIN)/uv pip install --quiet --python $(BIN)/python)

, := ,
$(VENV)/.has-%: pyproject.toml | $(BIN)/python
	@echo "Installing disco-magic[$*] into $(VENV) (once; up to a minute or two)"
	@$(if $(UV_INSTALL),$(UV_INSTALL) --editable '.[$*]' ||) $(PIP_INSTALL) --editable '.[$*]'
	@touch $@ $(foreach extra,$(subst $(,), ,$*),$(VENV)/.has-$(extra) $(if $(filter dev,$(extra)),$(VENV)/.has-test))

# pip always takes the newest versions.
$(VENV)/.has-oldest: pyproject.toml | $(BIN)/python
	@echo "Installing the oldest versions into $(VENV) (once; up to a minute or two)"
	@$(BIN)/python -m pip install -qq --disable-pip-version-check uv
	@$(BIN)/uv pip install --quiet --python $(BIN)/python --resolution lowest-direct --editable '.[test]'
	@touch $@

$(BIN)/python:
	@if [ -z "$(PYTHON)" ]; then \
		echo "No Python >= 3.11 found. Install one, or name it: make $(MAKECMDGOALS) PYTHON=/path/to/python3" >&2; exit 1; fi
	@"$(PYTHON)" -c 'import sys' 2>/dev/null || { \
		echo "PYTHON=$(PYTHON) does not run. Name another: make $(MAKECMDGOALS) PYTHON=/path/to/python3" >&2; exit 1; }
	@"$(PYTHON)" -c '$(NEW_ENOUGH)' || { \
		echo "Python >= 3.11 is needed; PYTHON=$(PYTHON) is `"$(PYTHON)" --version 2>&1`." >&2; exit 1; }
	@"$(PYTHON)" -m venv $(VENV) || { rm -rf $(VENV); \
		echo "$(PYTHON) cannot make a virtual environment (Debian, Ubuntu: apt install python3-venv)." >&2; exit 1; }
