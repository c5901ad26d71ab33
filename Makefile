# Each target installs what it needs into .venv on its first run.

BIN := .venv/bin
SERVICE := .venv/.installed-service
DEV := .venv/.installed-dev
LOCAL_LLM := .venv/.installed-local-llm
PEERS := build/peers/.installed-peers
LOCKED := pyproject.toml requirements/build.txt

# onnxruntime reports to its maker otherwise
export ORT_DISABLE_TELEMETRY := 1

# processes that start one after the other would each compile every module
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: screenshots parallel fuzz-import help setup run run-local-llm local-llm test fuzz chaos packaging lint contracts types docs bench peers ci lock audit clean

help: ## Show this help
	@awk -F ':.*## ' '/^[a-z.-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(DEV) $(LOCAL_LLM) ## Install everything for the other targets

run: $(SERVICE) ## Start a service and send ten example tasks through the hook (MEESEEKS_MODEL=... for a model)
	@$(BIN)/meeseeks demo

run-local-llm: $(SERVICE) $(LOCAL_LLM) ## Do the same with a tiny local model (shows that everything works, not quality)
	@$(BIN)/python .ci/local_llm_demo.py

local-llm: $(DEV) $(LOCAL_LLM) ## Serve the tiny local model on port 8008 until Ctrl-C (PORT=... for another)
	@$(BIN)/python -m tests.support.local_llm_server $${PORT:-8008}

test: $(DEV) ## Run the tests except the packaging tests (ARGS=... for pytest options)
	@$(BIN)/pytest -q -n 4 --no-loadscope-reorder --ignore=tests/packaging $(ARGS)

chaos: $(DEV) ## Break one part after the other under load for 10 minutes (ARGS="--seconds 60 --rate 50 --json")
	@$(BIN)/python -m tests.chaos $(ARGS)

packaging: $(DEV) ## Build both packages, install them into empty environments and test them
	@$(BIN)/pytest -q tests/packaging $(ARGS)

fuzz: $(DEV) ## Fuzz the HTTP API for 15 minutes (FUZZ_SECONDS=... FUZZ_SEED=...)
	@FUZZ_SECONDS=$${FUZZ_SECONDS:-900} $(BIN)/pytest -q tests/e2e/test_http_fuzz.py $(ARGS)

fuzz-import: $(DEV) ## Fuzz the readers of files, and the round trip of exports (5,000 examples of each)
	@$(BIN)/pytest -q --hypothesis-profile=fuzz --timeout=3600 tests/unit/transfer/test_round_trip.py $(ARGS)

parallel: $(DEV) ## Change memories from parallel clients in 1,200 trials on each store (PARALLEL_ROUNDS=200)
	@PARALLEL_ROUNDS=$${PARALLEL_ROUNDS:-200} $(BIN)/pytest -q tests/integration/store/test_parallel_writers.py $(ARGS)

screenshots: $(DEV) ## Take the pictures of the console for the documentation
	@PYTHONPATH=. $(BIN)/python .ci/console_screenshots.py

lint: $(DEV) ## Check style and formatting
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .

contracts: $(DEV) ## Check the import order of modules
	@$(BIN)/lint-imports

types: $(DEV) ## Check types
	@$(BIN)/mypy

docs: $(DEV) ## Build the documentation site in build/site; fails at broken links and pages missing from the index
	@rm -rf build/site build/doctrees
	@$(BIN)/sphinx-build --quiet --fail-on-warning --conf-dir docs --doctree-dir build/doctrees . build/site
	@echo "open build/site/index.html"

bench: $(DEV) ## Run the benchmarks
	@$(BIN)/python -m bench $(ARGS)

peers: $(DEV) $(PEERS) ## Compare with mem0, LangGraph and Chroma (ARGS="--quick", "--full", "--json")
	@$(BIN)/python -m bench peers $(ARGS)

ci: ## Run all checks that a change must pass
	@bash .ci/run

audit: ## Look for known vulnerabilities in the locked packages, and list them in build/sbom.json
	@bash .ci/audit.sh

lock: ## Update requirements/*.txt (UPGRADE=1 for the newest versions)
	@bash .ci/lock.sh

meeseeks.toml: worker/settings/injection.py .ci/example_config.py $(SERVICE) ## Update the example settings
	@$(BIN)/python .ci/example_config.py $@

clean: ## Remove .venv, builds and caches
	rm -rf .venv build dist hooks/build hooks/*.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache

$(DEV): requirements/dev.txt $(LOCKED)
	@bash .ci/install.sh dev
	@touch $(SERVICE)

$(SERVICE): requirements/service.txt $(LOCKED)
	@bash .ci/install.sh service

$(LOCAL_LLM): requirements/local-llm.txt $(SERVICE)
	@bash .ci/install.sh local-llm

$(PEERS): requirements/peers.txt
	@bash .ci/install.sh peers
