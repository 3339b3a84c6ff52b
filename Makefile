# Fresh machine, Python 3.11+ and make: `make run` serves the app, `make test` passes every test.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PORT ?= 8501
# `make run HOST=0.0.0.0` shares it; names beside the machine's own: INFERSCAPE_HOSTS
HOST = 127.0.0.1
LOCK := $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-annotate
export PYTHONPATH := $(CURDIR)

.PHONY: run test soak check bench lint lock clean

$(VENV)/.runtime: requirements.lock
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed: make PYTHON=python3.11")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	@touch $@

$(VENV)/.dev: $(VENV)/.runtime requirements-dev.lock
	$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes -r requirements-dev.lock
	@touch $@

$(VENV)/.bench: $(VENV)/.dev
	$(BIN)/pip install --quiet --disable-pip-version-check torch==2.13.0
	@touch $@

# one thread for BLAS: the app has its own pool, and two of BLAS's spin beside it (66 s of wall for 11 s of work)
# it is served again where it dies of a signal; what other pages would compile is compiled meanwhile, where nobody waits
run: $(VENV)/.runtime
	@export OPENBLAS_NUM_THREADS=1; nice -n 19 $(BIN)/python -m engine.cli.warm & trap "kill $$! 2>/dev/null" EXIT INT TERM; \
	$(BIN)/python -m app.server.supervise --server.port $(PORT) --server.address $(HOST)

test: $(VENV)/.dev
	@test -d tests/app/node_modules || npm ci --silent --prefix tests/app || echo "no axe-core: the scan of the pages is skipped"
	$(BIN)/python -m engine.cli.warm
	$(BIN)/python -m pytest -n auto

# nightly: ten times the random examples, whole grids, every walk in a browser
soak: $(VENV)/.dev
	INFERSCAPE_EFFORT=10 INFERSCAPE_TESTS=all $(BIN)/python -m pytest -n auto

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports
	$(BIN)/ty check --exit-zero-on-warning --python $(VENV) app engine entries hardware_specs model_zoo

check: lint
	$(BIN)/python -m pytest -n auto --changed -m "not slow and not browser" tests/architecture tests/catalog tests/laws

bench: $(VENV)/.bench
	env -u OPENBLAS_CORETYPE $(BIN)/python -m engine bench --markdown BENCHMARKS.md

lock: $(VENV)/.dev # after an edit of a requirements*.txt: every file of every pin, for all platforms and Pythons
	$(BIN)/pip install --quiet --disable-pip-version-check uv==0.13.8
	$(LOCK) requirements.txt -o requirements.lock
	$(LOCK) requirements-dev.txt -c requirements.lock -o requirements-dev.lock

clean:
	rm -rf $(VENV) .pytest_cache .hypothesis .ruff_cache .import_linter_cache
