# `make demo` and `make test` need Python 3.11+ and make, nothing else.
PYTHON ?= python3
BIN := .venv/bin
SOURCES := $(shell find src -name '*.py' -o -name '*.j2')
INSTALL := -m pip install --quiet --disable-pip-version-check --constraint constraints.txt
PYTEST := -m pytest -n 2 --dist worksteal -q
# threads of two test processes on two cores would wait for each other: OpenMP's, which torch uses, by spinning
ONE_THREAD := OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1

# which lines the tests reach, in both environments together; tests/covering.py counts and prints them
REACHED := .venv/reached
COVERED := PHASECAST_TEST_COVERAGE=$(REACHED) PYTHONPATH=$(CURDIR)/tests
# what one of the two compiles the other reads
COMPILED := $(CURDIR)/.venv/compiled

# Python compiles what it imports when it first does: pip would compile fourteen thousand modules, we import a quarter
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help demo test one-process tests test-slow test-bare test-browser lint types contract bench docs clean

help:
	@echo "make demo          install into .venv, run the demo, print the path of its report"
	@echo "make test          everything a change must pass"
	@echo "make test-slow     longer checks, in random order"
	@echo "make test-browser  the studio in this machine's Chromium"
	@echo "make bench         print the figures we claim; those that take minutes are the other scripts in benchmarks/"
	@echo "make docs          the documentation site, with its tutorials executed: docs/_build/html/index.html"
	@echo "make clean         remove what the above installed"

demo: .venv/installed
	@$(BIN)/phasecast demo

# two at a time: the installations; then what has one process, one after the other, beside the tests, which wait at times
test:
	@$(MAKE) --no-print-directory -j 2 .venv/installed-dev .venv-bare/installed
	@rm -rf $(REACHED) $(COMPILED)
	@PHASECAST_TEST_COMPILED=$(COMPILED) $(MAKE) --no-print-directory -j 2 one-process tests

one-process:
	@$(MAKE) --no-print-directory lint contract types test-bare

tests: .venv/installed-dev
	$(COVERED) $(ONE_THREAD) $(BIN)/python $(PYTEST) -p covering -m "not slow and not bare"

# in random order; PHASECAST_TEST_SEED repeats one, PHASECAST_TEST_MINUTES ends it in time; then the types of the tests,
# which take as long to check as those of the library
test-slow: .venv/installed-dev
	PHASECAST_TEST_OPTIMISED=1 $(ONE_THREAD) $(BIN)/python $(PYTEST) -m slow --shuffle
	$(BIN)/pyright --threads 2 --project tests

# the wheel in a fresh environment with no extra: what a user gets from `pip install phasecast`. Tests that pass there
# are not run a second time where the extras are
test-bare: .venv-bare/installed
	$(COVERED) $(ONE_THREAD) .venv-bare/bin/python -m pytest -q -p covering -m "bare and not slow" -p no:cacheprovider -o addopts="" tests

# Debian's Chromium is `apt-get install chromium`; playwright downloads none
test-browser: .venv/installed-browser
	@command -v chromium >/dev/null || command -v chromium-browser >/dev/null || command -v google-chrome >/dev/null || { echo "the browser tests need Chromium: apt-get install chromium"; exit 1; }
	$(ONE_THREAD) $(BIN)/python -m pytest -q tests/browser

lint: .venv/installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: .venv/installed-dev
	$(BIN)/pyright

contract: .venv/installed-dev
	$(BIN)/lint-imports --no-cache

bench: .venv/installed-dev
	@for script in benchmarks/bench_*.py; do $(BIN)/python $$script || exit 1; done

# warnings are errors; then no page may load anything from elsewhere
docs: .venv/installed-docs
	$(BIN)/python -m sphinx -W --keep-going -n -q -b html docs docs/_build/html
	$(BIN)/python docs/check_offline.py docs/_build/html

.venv/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "phasecast needs Python 3.11 or newer; set PYTHON=python3.11 (this is $$($(PYTHON) --version 2>&1))"; exit 1; }
	$(PYTHON) -m venv .venv

.venv/installed: pyproject.toml constraints.txt | .venv/bin/python
	$(BIN)/python $(INSTALL) --editable .
	@touch $@

.venv/installed-dev: pyproject.toml constraints.txt | .venv/bin/python
	$(BIN)/python $(INSTALL) --no-compile --editable '.[dev]'
	@touch $@ .venv/installed

.venv/installed-docs: pyproject.toml constraints.txt | .venv/bin/python
	$(BIN)/python $(INSTALL) --no-compile --editable '.[docs]'
	@touch $@ .venv/installed

.venv/installed-browser: .venv/installed-dev
	$(BIN)/python $(INSTALL) --no-compile --editable '.[browser]'
	@touch $@

.venv-bare/requirements: pyproject.toml constraints.txt | .venv/bin/python
	$(BIN)/python -m venv .venv-bare
	.venv-bare/bin/python $(INSTALL) --no-compile . pytest pytest-timeout hypothesis slipcover
	@touch $@

.venv-bare/installed: .venv-bare/requirements $(SOURCES)
	.venv-bare/bin/python $(INSTALL) --no-compile --no-deps --force-reinstall .
	@touch $@

clean:
	rm -rf .venv .venv-bare build dist docs/_build docs/_generated
