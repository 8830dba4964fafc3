# `make` prints the commands. Each one sets up what it needs in .venv (scripts/setup) and is quick when that was done before.

DATA_DIR ?= data
WORKERS ?= auto
PYTHON ?=

BIN := .venv/bin
PARALLEL := -n $(WORKERS) --maxprocesses 8 --dist worksteal
# Without it pyright asks the network whether there is a newer pyright.
export PYRIGHT_PYTHON_IGNORE_WARNINGS := 1
export PYTHON

.DEFAULT_GOAL := help
.PHONY: help page test test-fast test-pythons bench-smoke coverage test-docker run chat demo crash fuzz needles mutants check bench lock format docs clients site clean setup

help: ## Print this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' Makefile

test: setup ## Run all tests; core/ and wire/ must be covered to the last branch
	$(BIN)/python -m pytest $(PARALLEL) -m "not bench" --cov --cov-report= $(ARGS)
	$(BIN)/python scripts/covered.py

test-fast: setup ## Run the tests that a change is most likely to break, in about 90 seconds on 2 cores
	@# One worker more than cores, because many of these tests wait for a disk or a socket.
	$(BIN)/python -m pytest -n $$(($$(nproc) + 1)) --dist worksteal -m "not slow and not bench" $(ARGS)

test-pythons: setup ## Run the contract, golden and import tests on every Python of 3.11 to 3.14 that is installed
	scripts/test-pythons $(ARGS)

bench-smoke: setup ## Run every benchmark once on small data, to see that it works
	$(BIN)/python -m pytest $(PARALLEL) -m bench $(ARGS)

coverage: setup ## Run all tests and print which lines of the whole package they did not run
	$(BIN)/python -m pytest $(PARALLEL) --cov --cov-config=scripts/coverage.toml --cov-report= $(ARGS)
	$(BIN)/python -m coverage report --rcfile=scripts/coverage.toml --show-missing --skip-covered

test-docker: setup ## Run the sandbox tests in containers, with an engine of its own (installed where none is; needs root)
	scripts/test-docker $(ARGS)

run: ## Serve conversations on http://127.0.0.1:8700, kept in DATA_DIR (data); `make run ARGS="--port 8800"` elsewhere
	@scripts/setup run
	@exec $(BIN)/timeloom serve --data-dir "$(DATA_DIR)" $(ARGS)

chat: ## Talk to an agent in the terminal, kept in DATA_DIR (data)
	@scripts/setup run
	@$(BIN)/timeloom chat --data-dir "$(DATA_DIR)" $(ARGS)

demo: ## Write a small conversation into DATA_DIR/demo and show it
	@scripts/setup run
	@$(BIN)/timeloom demo --data-dir "$(DATA_DIR)/demo" $(ARGS)

crash: setup ## Kill processes in turns 1,000 times and servers under HTTP clients 200 times (`make test`: 100 and 8), and check what is left
	TIMELOOM_CRASH_KILLS=1000 TIMELOOM_HTTP_KILLS=200 $(BIN)/python -m pytest $(PARALLEL) tests/crash $(ARGS)

fuzz: setup ## Send messages, steers, cancellations and decisions at random over restarts, 2,000 times (as `make test` does 200 times)
	TIMELOOM_FUZZ_RUNS=2000 $(BIN)/python -m pytest $(PARALLEL) tests/unit/runtime/hub/test_hub_fuzz.py $(ARGS)

needles: setup ## Hide 100 texts in a long conversation and find each in two reads, with windows of 24,000 and 48,000 tokens (as `make test` does with 9)
	TIMELOOM_NEEDLES=100 $(BIN)/python -m pytest $(PARALLEL) -o faulthandler_timeout=0 tests/unit/runtime/context/test_needle.py tests/unit/runtime/context/test_needles_anywhere.py $(ARGS)

mutants: setup ## Change the code at 40 random places, one at a time, and report the changes that no test finds; ARGS="--seed 7 --count 100 core"
	$(BIN)/python -m scripts.mutants $(ARGS)

check: setup ## Run ruff, pyright strict and the import contracts; where npm is, build the page again
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/pyright
	$(BIN)/lint-imports --no-cache --no-logo
	$(BIN)/python scripts/page.py --check

bench: setup ## Run the benchmarks on the traces in DATA, or on invented ones; writes bench/results/
	$(BIN)/python -m bench $(if $(DATA),--data "$(DATA)") $(ARGS)

lock: setup ## Lock the dependencies again; `make lock ARGS=--upgrade` takes the newest
	scripts/lock $(ARGS)

page: setup ## Build the page (web/) into the package; needs node
	$(BIN)/python scripts/page.py

site: ## Build the documentation as a website into build/site/site and check its links
	@scripts/site

format: setup ## Put the code into its one format and mend what ruff can mend
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

docs: setup clients ## Write the clients and the parts of the documentation that come from the code
	$(BIN)/python scripts/docs.py

clients: setup ## Write the Python and TypeScript clients of the HTTP API from its OpenAPI document
	$(BIN)/python -m scripts.clients

clean: ## Remove .venv, caches and build products, but no data
	rm -rf .venv .venv-bench .venv-pythons .venv-site build dist .coverage .coverage.* .pytest_cache .ruff_cache .hypothesis .import_linter_cache bench/results
	find src tests bench scripts examples -name __pycache__ -type d -prune -exec rm -rf {} +

setup:
	@scripts/setup dev
