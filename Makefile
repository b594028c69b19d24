PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.PHONY: setup reproduce test browser check bench soak serve demo clean

setup: $(READY)

$(READY): pyproject.toml constraints.txt
	@command -v $(PYTHON) >/dev/null || \
	    { echo "Python is missing. On Debian or Ubuntu: apt-get install python3 python3-venv"; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	    { echo "steadyrank needs Python 3.11 or newer; choose one with: make PYTHON=python3.11"; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || \
	    { echo "Python's venv module is missing. On Debian or Ubuntu: apt-get install python3-venv"; exit 1; }
	@echo "Setting up $(VENV) (once; a minute or two)"
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $@

reproduce: setup
	@$(BIN)/steadyrank reproduce

test: setup browser
	@$(BIN)/pytest -n auto

browser:
	@command -v chromium >/dev/null || command -v chromium-browser >/dev/null || \
	    { [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && echo "Installing Chromium for the tests of pages" && \
	      apt-get update -qq && \
	      DEBIAN_FRONTEND=noninteractive apt-get install -qq --no-install-recommends chromium >/dev/null; } || \
	    echo "No Chromium on this machine: the tests of pages are skipped. On Debian: apt-get install chromium"

check: setup
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check --quiet .
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-cache --no-logo
	@$(BIN)/python tests/real_tables.py

bench: setup
	@$(BIN)/python bench/speed.py
	@$(BIN)/python bench/peers.py
	@$(BIN)/python bench/scaling.py
	@$(BIN)/python bench/readers.py
	@$(BIN)/python bench/live.py
	@$(BIN)/python bench/service.py
	@$(BIN)/python bench/audit.py

soak: setup
	@STEADYRANK_KILLS=50 STEADYRANK_EXAMPLES=300 $(BIN)/pytest -n 2 tests/test_stores.py tests/test_service_model.py

serve: setup
	@$(BIN)/steadyrank serve

demo: setup
	@$(BIN)/steadyrank serve --demo

clean:
	rm -rf $(VENV) build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis
