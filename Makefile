# Each target sets up what it needs in .venv by itself; a second run finds it there.

BIN := .venv/bin
SERVICE := .venv/.installed-service
DEV := .venv/.installed-dev
LOCAL_LLM := .venv/.installed-local-llm
LOCKED := pyproject.toml requirements/build.txt

.DEFAULT_GOAL := help
.PHONY: help setup run run-local-llm test fuzz packaging lint contracts types bench ci lock clean

help: ## Show this help
	@awk -F ':.*## ' '/^[a-z.-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(DEV) $(LOCAL_LLM) ## Install everything that the other targets need

run: $(SERVICE) ## Start everything here and send labelled tasks through the hook (MEESEEKS_MODEL=... for a model)
	@$(BIN)/meeseeks demo

run-local-llm: $(SERVICE) $(LOCAL_LLM) ## The same with a tiny local model: shows that the parts fit, not quality
	@$(BIN)/python .ci/local_llm_demo.py

test: $(DEV) ## Run the tests, two files at a time (the packaging tests have a target of their own)
	@$(BIN)/pytest -q -n 2 --dist loadfile --ignore=tests/packaging $(ARGS)

packaging: $(DEV) ## Build both distributions, install them into empty environments and use them
	@$(BIN)/pytest -q tests/packaging $(ARGS)

fuzz: $(DEV) ## Send the HTTP service everything for a quarter of an hour (FUZZ_SECONDS=... FUZZ_SEED=...)
	@FUZZ_SECONDS=$${FUZZ_SECONDS:-900} $(BIN)/pytest -q tests/e2e/test_http_fuzz.py $(ARGS)

lint: $(DEV) ## Check style and formatting
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .

contracts: $(DEV) ## Check which module may import which
	@$(BIN)/lint-imports

types: $(DEV) ## Check types
	@$(BIN)/mypy

bench: $(DEV) ## Run the benchmarks
	@$(BIN)/python -m bench $(ARGS)

ci: ## Everything that has to pass before a change lands
	@bash .ci/run

lock: ## Write requirements/*.txt anew (UPGRADE=1 takes the newest versions)
	@bash .ci/lock.sh

meeseeks.toml: worker/settings/injection.py .ci/example_config.py $(SERVICE) ## Write the example settings anew
	@$(BIN)/python .ci/example_config.py $@

clean: ## Remove the environment and what builds and tools leave behind
	rm -rf .venv build dist hooks/build hooks/*.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache

$(DEV): requirements/dev.txt $(LOCKED)
	@bash .ci/install.sh dev
	@touch $(SERVICE)

$(SERVICE): requirements/service.txt $(LOCKED)
	@bash .ci/install.sh service

$(LOCAL_LLM): requirements/local-llm.txt $(SERVICE)
	@bash .ci/install.sh local-llm
