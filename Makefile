# Everything a developer does. `make` alone lists the targets. uv is fetched if it is not there.

UV := $(shell command -v uv 2>/dev/null || echo .uv/bin/uv)
RUN := $(UV) run --frozen
# Processes that run tests. With one more than cores nothing is idle while Spark starts or a browser draws.
JOBS ?= 3

.DEFAULT_GOAL := help
.PHONY: help setup demo test test-all lint types imports docs unit wheel browser jre r format reproduce fuzz bench-solvers bench-publish bench-analysis bench-peers bench-attacks bench-strata bench-coverage bench-figures bench-groups bench-people bench-chain bench-studio bench-startup bench-spark lock clean

help: ## List the targets
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-15s %s\n", $$1, $$2}'

.uv/bin/uv:
	@sh tools/get-uv.sh

setup: $(filter .uv/bin/uv,$(UV)) ## Install Dalenius and all that its tests need into .venv
	@$(UV) sync --frozen --quiet --compile-bytecode

demo: setup ## Run the main job on data made on the spot
	@$(RUN) python tools/demo.py

test: lint types imports docs unit ## Everything that has to pass: lint, types, import rules, docs, tests

test-all: export HYPOTHESIS_PROFILE = thorough
test-all: test ## The same with many more generated examples, for a night

browser:
	@sh tools/get-chromium.sh

jre:
	@sh tools/get-jre.sh

r:
	@sh tools/get-r.sh

lint: setup
	@$(RUN) ruff check .
	@$(RUN) ruff format --check .

types: setup
	@$(RUN) mypy

imports: setup
	@$(RUN) lint-imports --config pyproject.toml --no-cache

docs: setup ## Build the documentation into site/, warnings being errors
	@NO_MKDOCS_2_WARNING=1 $(RUN) mkdocs build --strict

unit: setup browser jre r
	@$(RUN) pytest -q -n $(JOBS)

wheel: $(filter .uv/bin/uv,$(UV)) ## Build the wheel and try it in a fresh environment, without the checkout
	@sh tools/wheel_check.sh

format: setup ## Format the code, and bring generated documentation up to date
	@$(RUN) ruff check --fix --quiet .
	@$(RUN) ruff format --quiet .
	@$(RUN) python tools/generated_docs.py

reproduce: setup ## Run the paper's experiments; ARGS="--out figures --quick", or ARGS=--help
	@$(RUN) python -m paper $(or $(ARGS),--out figures --quick)

fuzz: setup ## Random input for whatever reads files; ARGS="--cases 20000 --seconds 3600", or ARGS=--help
	@$(RUN) python -m fuzz $(ARGS)

bench-solvers: setup ## Measure the solvers against the paper's searches and a direct MILP; writes bench/results/
	@$(RUN) --group bench python -m bench.solvers $(ARGS)

bench-publish: setup ## Measure publishing against a plain copy; ARGS=--no-100m leaves the largest table out
	@$(RUN) --group bench python -m bench.publish $(ARGS)

bench-analysis: setup ## Models, intervals and cross-tabs from releases; DATA=folder of ACSIncome, census, Adult and Diabetes-130
	@$(RUN) --group bench python -m bench.analysis $(DATA) $(ARGS)

bench-peers: setup ## The same tables through MST, ANJANA and Anatomy; DATA=folder of ACSIncome and Adult
	@$(RUN) --group bench python -m bench.peers $(DATA) $(ARGS)

bench-attacks: setup ## What attackers find in releases of a census table; TABLE=census.parquet
	@$(RUN) --group bench python -m bench.attacks $(TABLE) $(ARGS)

bench-strata: setup ## Ways of cutting a census table into strata; TABLE=census.parquet
	@$(RUN) --group bench python -m bench.strata $(TABLE) $(ARGS)

bench-coverage: setup ## How often the intervals of counts hold the truth; DATA=folder of census, Adult and Diabetes-130
	@$(RUN) --group bench python -m bench.coverage $(DATA) $(ARGS)

bench-groups: setup ## Limits on groups of diagnoses and on bands of numbers; DATA=folder of Diabetes-130
	@$(RUN) --group bench python -m bench.groups $(DATA) $(ARGS)

bench-people: setup ## Rows taken for people, and releases by people; DATA=folder of Diabetes-130, ARGS=--no-scale for less
	@$(RUN) --group bench python -m bench.people $(DATA) $(ARGS)

bench-chain: setup ## Twenty releases of the same people, anew and as a chain; DATA=folder of census and Adult, ARGS=--no-costs
	@$(RUN) --group bench python -m bench.chain $(DATA) $(ARGS)

bench-figures: setup ## How far off means and quantiles of made-up incomes are; writes bench/results/
	@$(RUN) --group bench python -m bench.figures $(ARGS)

bench-studio: setup browser ## Time from moving a slider to the redrawn result, in Chromium; writes bench/results/
	@$(RUN) --group bench python -m bench.studio $(ARGS)

bench-startup: setup ## Processor seconds of a tiny plan, verify and query; writes bench/results/
	@$(RUN) python -m bench.startup $(ARGS)

bench-spark: setup jre ## Publish 10 million rows on Spark against Spark's own copy in random order; writes bench/results/
	@$(RUN) --group bench python -m bench.spark $(ARGS)

lock: ## Bring uv.lock up to date with pyproject.toml
	@$(UV) lock

clean: ## Remove what was installed and built
	rm -rf .venv .uv site demo figures dist build .mypy_cache .ruff_cache .pytest_cache .hypothesis
