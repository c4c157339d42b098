# make lab        open the notebooks in JupyterLab; your own have a place in notebooks/mine
# make test       run every test that a change needs, the notebooks included
# make weekly     run the tests of rare things, which take long
# make mutants    spoil the package in a thousand places, and count how often the tests notice
# make bench      print how long things take, part by part
# make notebooks  run the notebooks again and save what they show; make figures does that for figures/
# make site       write the book as pages, which need no Python, to site/
# make bundle     put the explorer's modules into one file again
#
# make lab LAB_FLAGS=--port=8890 hands flags to JupyterLab; make test TESTS=tests/test_task.py runs a part, TESTS=notebooks
# the notebooks alone, without a browser; make notebooks NOTEBOOKS=notebooks/02-self-attention-block.ipynb runs one;
# make mutants MINUTES=30 stops after half an hour.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
LAB_FLAGS ?=
TESTS ?=
NOTEBOOKS ?= $(wildcard notebooks/*.ipynb)
MINUTES ?= 240
MODULES := node_modules/installed
NPM := $(BIN)/python tests/npm.py
# By name, for make ends an argument at a comma.
EVERYTHING := '.[test,site]'
PIP := $(BIN)/python -m pip install --no-compile
# All plugins that are found would be compiled anew, Hypothesis among them, which takes a second in each process.
PYTEST := $(BIN)/python -m pytest --disable-plugin-autoload -p xdist -p nbval \
	--numprocesses=2 --dist=loadscope --no-loadscope-reorder

# Python keeps no compiled files beside the sources.
export PYTHONDONTWRITEBYTECODE := 1

# Jupyter refuses to run as root unless told; without a display it prints its address and opens no browser.
ifeq ($(shell id -u),0)
AS_ROOT := --allow-root
endif
ifeq ($(shell uname)$(DISPLAY)$(WAYLAND_DISPLAY),Linux)
WITHOUT_DISPLAY := --no-browser
endif

# The newest pip takes half the time to resolve.
define install
	$(PYTHON) -m venv $(VENV)
	$(PIP) --upgrade pip
	$(PIP) --requirement requirements.txt $(1)
endef

# With all cores, which pip does not. Tests are not compiled, nor SymPy, which torch loads for its compiler only; a few
# files are for other versions of Python, and cannot be. To make the site once takes less time without.
COMPILE := $(BIN)/python -m compileall -q -j 0 -x '/(tests?|sympy)/' $(VENV)/lib > $(VENV)/compiled.log || true

.PHONY: lab test weekly mutants bench notebooks figures site bundle

lab: $(VENV)/installed
	$(BIN)/python -m jupyterlab --ip=127.0.0.1 --LabApp.default_url=/lab/tree/01-high-level-walkthrough.ipynb \
		--FileCheckpoints.checkpoint_dir=$(abspath $(VENV))/checkpoints --notebook-dir=notebooks $(AS_ROOT) $(WITHOUT_DISPLAY) $(LAB_FLAGS)

test: $(VENV)/test-installed $(if $(filter notebooks%,$(TESTS)),,$(VENV)/browser-installed $(MODULES))
	$(BIN)/ruff check --no-cache
	$(BIN)/ruff format --no-cache --check
	$(BIN)/lint-imports --no-cache
	$(BIN)/mypy
	$(if $(filter notebooks%,$(TESTS)),,$(NPM) run check)
	$(PYTEST) $(TESTS)

weekly: $(VENV)/browser-installed $(MODULES)
	$(PYTEST) -m weekly

mutants: $(VENV)/test-installed
	$(BIN)/python tests/mutants.py --minutes=$(MINUTES)

bench: $(VENV)/browser-installed
	$(BIN)/python tests/bench.py
	$(BIN)/python tests/bench_explorer.py

notebooks: $(VENV)/test-installed
	$(BIN)/python tests/execute_notebooks.py $(NOTEBOOKS)

figures: $(VENV)/browser-installed
	MPLBACKEND=agg $(BIN)/python tests/figures.py figures
	$(BIN)/python tests/photograph.py

site: $(VENV)/site-installed
	$(BIN)/python src/site/build.py site

bundle: $(MODULES)
	$(NPM) run build

$(VENV)/installed: requirements.txt pyproject.toml
	$(call install)
	$(COMPILE)
	touch $@

$(VENV)/test-installed: requirements.txt pyproject.toml
	$(call install,--editable $(EVERYTHING))
	$(COMPILE)
	touch $(VENV)/installed $(VENV)/site-installed $@

$(VENV)/site-installed: requirements.txt pyproject.toml
	$(call install,--editable '.[site]')
	touch $@

$(VENV)/browser-installed: $(VENV)/test-installed
	$(BIN)/python tests/chromium.py
	touch $@

$(MODULES): package.json package-lock.json $(VENV)/test-installed
	$(NPM) ci --ignore-scripts --no-audit --no-fund
	touch $@
