PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt

.PHONY: help setup reproduce evidence test browser redis check docs dist release bench real-logs soak serve demo shop search clean

help:
	@echo "make setup      an environment in $(VENV), once; every other target does it by itself"
	@echo "make reproduce  re-run the paper's evaluation, write the report and the scorecard"
	@echo "make evidence   measure anew what README and docs say, and write the pages; ONLY=headline for a part, ON=ray"
	@echo "make test       the tests"
	@echo "make browser    install Chromium for the tests of pages, where that is possible"
	@echo "make redis      install a Redis server for the tests of streams, where that is possible"
	@echo "make check      lint, format, types, layers"
	@echo "make docs       the documentation as a site, in build/site"
	@echo "make dist       sdist and wheel in dist, tried in an empty environment"
	@echo "make release    sdist, wheel, SBOM and checksums in dist, tried on each Python there is; TRIAL=1 before the version is ready"
	@echo "make bench      measure speed, with tables and figures in build/bench"
	@echo "make real-logs  audit real click logs, with attacks planted in them; DATA=FOLDER where they lie"
	@echo "make soak       kill the service 50 times under load; check bounds in compiled code; ten minutes of attacks"
	@echo "make serve      the ranking service"
	@echo "make demo       the service with simulated users and attacks"
	@echo "make shop       a web shop with steadyrank in shadow beside its own ranker, and bots at a button"
	@echo "make search     a search over Debian's packages, its engine's order re-ranked, and bots at a button"
	@echo "make clean      remove everything that was made"

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
	@$(PIP) --upgrade pip
	@$(PIP) --no-compile -e '.[dev]'
	@touch $@

reproduce: setup
	@$(BIN)/steadyrank reproduce

evidence: setup
	@$(BIN)/python docs/write_numbers.py renew $(ONLY) --on $(or $(ON),local) $(addprefix --seeds ,$(SEEDS))

test: setup browser redis
	@PYTHONDONTWRITEBYTECODE= $(BIN)/pytest -n auto --dist worksteal

browser:
	@{ command -v chromium && command -v chromium-headless-shell; } >/dev/null || \
	    { [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && echo "Installing Chromium for the tests of pages" && \
	      apt-get update -qq && \
	      DEBIAN_FRONTEND=noninteractive apt-get install -qq --no-install-recommends \
	          chromium chromium-headless-shell >/dev/null; } || \
	    command -v chromium >/dev/null || command -v chromium-browser >/dev/null || \
	    echo "No Chromium on this machine: the tests of pages are skipped. On Debian: apt-get install chromium"

redis:
	@{ command -v redis-server || command -v redis-check-rdb; } >/dev/null || \
	    { [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && echo "Installing Redis for the tests of streams" && \
	      apt-get update -qq && \
	      DEBIAN_FRONTEND=noninteractive apt-get install -qq --no-install-recommends redis-tools >/dev/null; } || \
	    echo "No Redis on this machine: the tests of Redis streams are skipped. On Debian: apt-get install redis-tools"

check: setup
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check --quiet .
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-cache --no-logo
	@$(BIN)/python tests/real_tables.py

docs: setup
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --clean
	@echo "The site: $(CURDIR)/build/site/index.html"
	@echo "With its search: $(BIN)/python -m http.server -d build/site"

dist: setup
	@rm -rf dist
	@$(BIN)/python -m hatchling build
	@$(BIN)/python tests/try_wheel.py dist/*.whl

release: setup
	@$(PIP) -e '.[dev,release]'
	@$(BIN)/python deploy/release.py $(if $(TRIAL),--trial)

bench: setup
	@$(BIN)/python bench/speed.py
	@$(BIN)/python bench/draws.py
	@$(BIN)/python bench/peers.py
	@$(BIN)/python bench/scaling.py
	@$(BIN)/python bench/readers.py
	@$(BIN)/python bench/live.py
	@$(BIN)/python bench/service.py
	@$(BIN)/python bench/audit.py
	@$(BIN)/python bench/audit_counts.py

real-logs: setup
	@$(BIN)/python bench/real_logs.py $(if $(DATA),--folder $(DATA))

soak: setup
	@$(BIN)/pytest -n auto -m slow
	@STEADYRANK_KILLS=50 $(BIN)/pytest -n auto -m "(interpreted or pure) and not slow"
	@STEADYRANK_KILLS=50 $(BIN)/pytest -n auto tests/test_contract.py
	@STEADYRANK_KILLS=50 STEADYRANK_EXAMPLES=300 $(BIN)/pytest -n 2 -m "" tests/test_stores.py tests/test_service_model.py
	@STEADYRANK_KILLS=50 $(BIN)/pytest tests/test_jit.py -k out_of_bounds -m slow
	@$(BIN)/python bench/soak.py

serve: setup
	@$(BIN)/steadyrank serve

demo: setup
	@$(BIN)/steadyrank serve --demo

shop: setup
	@$(BIN)/python examples/shop/run.py

search: setup
	@$(BIN)/python examples/search/run.py

clean:
	rm -rf $(VENV) build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis
