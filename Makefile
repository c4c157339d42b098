# make lab    open the notebooks in JupyterLab
# make test   run every test, notebooks included
# make bench  print how long things take, part by part
# make notebooks, make figures    run them again and write what they show
# make lab LAB_FLAGS=--port=8890 hands flags to JupyterLab; make test TESTS=tests/test_task.py runs a part.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
LAB_FLAGS ?=
TESTS ?=

# Python keeps no compiled files beside the sources.
export PYTHONDONTWRITEBYTECODE := 1

# Jupyter refuses to run as root unless told; without a display it prints its address and opens no browser.
ifeq ($(shell id -u),0)
AS_ROOT := --allow-root
endif
ifeq ($(shell uname)$(DISPLAY)$(WAYLAND_DISPLAY),Linux)
WITHOUT_DISPLAY := --no-browser
endif

.PHONY: lab test bench notebooks figures

lab: $(VENV)/installed
	$(BIN)/python -m jupyterlab --ip=127.0.0.1 --FileCheckpoints.checkpoint_dir=$(abspath $(VENV))/checkpoints \
		--notebook-dir=notebooks $(AS_ROOT) $(WITHOUT_DISPLAY) $(LAB_FLAGS)

test: $(VENV)/test-installed
	$(BIN)/ruff check --no-cache
	$(BIN)/ruff format --no-cache --check
	$(BIN)/python -m pytest $(TESTS)

bench: $(VENV)/test-installed
	$(BIN)/python tests/bench.py
	$(BIN)/python tests/bench_explorer.py

notebooks: $(VENV)/test-installed
	$(BIN)/python tests/execute_notebooks.py notebooks/*.ipynb

figures: $(VENV)/test-installed
	MPLBACKEND=agg $(BIN)/python -m toy_transformer.figures figures
	$(BIN)/python tests/photograph.py

$(VENV)/installed: requirements.txt pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --requirement requirements.txt
	touch $@

$(VENV)/test-installed: $(VENV)/installed
	$(BIN)/python -m pip install --requirement requirements.txt --editable '.[test]'
	$(BIN)/python tests/chromium.py
	touch $@
