# Two commands to know: `make demo` and `make test`. Each installs what it needs.
SHELL := /bin/bash
.DEFAULT_GOAL := help
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
UV := $(BIN)/uv
CLUSTER := $(BIN)/python -m e2e.devcluster
MKDOCS := build/mkdocs
CHECKOV := build/checkov
VERSIONED := tests/component/api tests/component/admission tests/component/charts/test_api_server_accepts.py \
  e2e/tests/test_experiment.py e2e/tests/test_lifecycle.py e2e/tests/disruptions e2e/devcluster/tests
# Where it is set, each of the thousands of processes that the tests start compiles all that it imports.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help
help: ## Say what can be made
	@grep -hE '^[a-z0-9-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

$(VENV)/.installed: requirements/uv.txt requirements/dev.txt requirements/build.txt pyproject.toml
	@command -v $(PYTHON) >/dev/null || { apt-get update -qq && apt-get install -y -qq python3 python3-venv ca-certificates; }
	@$(PYTHON) e2e/prerequisites.py
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/uv.txt
	@$(UV) pip install --quiet --python $(BIN)/python --require-hashes -r requirements/dev.txt -r requirements/build.txt
	@$(UV) pip install --quiet --python $(BIN)/python --no-deps --editable .
	@touch $@

.PHONY: install
install: $(VENV)/.installed ## Make the virtual environment

.PHONY: lint
lint: install ## Check style, types, layers and generated files
	@$(BIN)/mypy & types=$$!; $(MAKE) --no-print-directory lint-all-but-types; rest=$$?; wait $$types && exit $$rest

.PHONY: lint-all-but-types
lint-all-but-types: install
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/lint-imports
	@$(BIN)/python -m podtune.api.crd.generate --check
	@$(BIN)/python docs/generate_reference.py --check
	@$(BIN)/python docs/generate_glossary.py --check
	@$(BIN)/python docs/generate_rights.py --check
	@$(BIN)/python docs/threat_model/generate.py --check
	@$(BIN)/python docs/generate_argo_cd.py --check
	@$(BIN)/python docs/generate_template_fields.py --check
	@$(BIN)/python docs/generate_reliability.py --check
	@$(BIN)/python docs/generate_performance.py --check
	@$(BIN)/python docs/measure_codebase.py --check

.PHONY: pyright
pyright: install ## Check with pyright, too, what programs that use podtune.client see: a download
	@$(UV) pip install --quiet --target build/pyright --require-hashes -r requirements/pyright.txt
	@export PATH="$(CURDIR)/$(BIN):$$PATH" PYTHONPATH="$(CURDIR)/build/pyright"; \
	  python -m basedpyright --level error tests/unit/client/use_python_examples.py && \
	  python -m basedpyright --ignoreexternal --verifytypes podtune.client && \
	  python -m basedpyright --ignoreexternal --verifytypes podtune.trial

$(MKDOCS)/.installed: requirements/docs.txt | $(VENV)/.installed
	@$(UV) venv --quiet --clear --python $(BIN)/python $(MKDOCS)
	@$(UV) pip install --quiet --python $(MKDOCS)/bin/python --require-hashes -r requirements/docs.txt
	@touch $@

.PHONY: docs
docs: $(MKDOCS)/.installed ## Build the site of the documentation, strictly; then open build/site/index.html
	@# With --quiet it would pass over what --strict is for.
	@set -o pipefail; NO_MKDOCS_2_WARNING=true $(MKDOCS)/bin/mkdocs build --strict 2>&1 | { grep -v ^INFO || true; }

$(CHECKOV)/.installed: requirements/checkov.txt | $(VENV)/.installed
	@$(UV) venv --quiet --clear --python $(BIN)/python $(CHECKOV)
	@$(UV) pip install --quiet --python $(CHECKOV)/bin/python --require-hashes -r requirements/checkov.txt
	@touch $@

.PHONY: scan
scan: $(CHECKOV)/.installed ## Have checkov and kube-score look at the rendered chart and the Dockerfile: a download
	@$(BIN)/python -m e2e.scans $(CHECKOV)/bin/checkov

.PHONY: measures
measures: install ## Measure how the code reads: walks, double names, folders, tiny modules, lines
	@$(BIN)/python docs/measure_codebase.py

.PHONY: unit
unit: install ## Run the tests that need nothing but Python
	@$(BIN)/pytest -n auto --dist worksteal tests/unit

.PHONY: cluster
cluster: install ## Have the local cluster up, with the operator of this checkout installed
	@$(BIN)/python -m e2e.prepare
	@$(CLUSTER) up
	@$(BIN)/python -m e2e.install

.PHONY: component
component: cluster ## Run the tests of single parts against a real API server and a real S3 server
	@$(CLUSTER) exec -- $(BIN)/pytest -n 2 --dist loadfile tests/component

.PHONY: e2e
e2e: e2e-together e2e-alone ## Run the tests of the whole product on the local cluster

.PHONY: e2e-together
e2e-together: cluster
	@mkdir -p build && date -u +%FT%TZ > build/e2e-began
	@$(CLUSTER) exec -- $(BIN)/pytest -n 4 --dist worksteal -m "not alone and not long" e2e/tests

.PHONY: e2e-alone
e2e-alone: cluster
	@$(CLUSTER) exec -- $(BIN)/pytest -m "alone and not long" e2e/tests
	@$(BIN)/python -m e2e.scans.rights --since $$(cat build/e2e-began)

.PHONY: browser
browser: install docs ## Open every page of the dashboard and of the site in Chromium, use it, examine it, and leave pictures in build/pictures
	@$(BIN)/python -m e2e.browser.chromium
	@$(BIN)/pytest -n 2 --dist worksteal e2e/browser

.PHONY: pictures
pictures: install ## Make the pictures of the documentation anew, as the dashboard looks now
	@$(BIN)/python -m e2e.browser.pictures

.PHONY: chaos
chaos: cluster ## Inject every fault, one at a time, and hold each run to the undisturbed one
	@$(CLUSTER) exec -- $(BIN)/python -m e2e.chaos --json e2e/chaos/figures.json
	@$(BIN)/python docs/generate_reliability.py --write

.PHONY: chaos-sample
chaos-sample: cluster ## Inject some of the faults, evenly chosen
	@$(CLUSTER) exec -- $(BIN)/python -m e2e.chaos --every 38

.PHONY: soak
soak: cluster ## Keep experiments coming and going under faults for 45 minutes, and see that nothing grows
	@$(CLUSTER) exec -- $(BIN)/python -m e2e.soak --json e2e/soak/figures.json; code=$$?; \
	  $(BIN)/python docs/generate_reliability.py --write && exit $$code

.PHONY: test-long
test-long: cluster ## Run what takes long: faults of full length, all pairs of searchers and schedulers, the local cluster's own tests, other versions of Kubernetes
	@PODTUNE_ALL_EXAMPLES=true $(BIN)/pytest -n auto --dist worksteal -m "long or hypothesis" tests/unit
	@PODTUNE_ALL_EXAMPLES=true $(BIN)/pytest -n auto --dist worksteal tests/unit/runner/scenarios tests/unit/simulation \
	  tests/unit/fuzz tests/unit/api/expressions tests/unit/tuning/searchers/test_whole_spaces.py
	@$(CLUSTER) exec -- $(BIN)/pytest -m long tests/component
	@$(CLUSTER) exec -- $(BIN)/pytest -n 3 --dist worksteal -m "(long or cluster) and not alone" e2e/tests e2e/devcluster/tests
	@$(CLUSTER) exec -- $(BIN)/pytest -m "(long or cluster) and alone" e2e/tests e2e/devcluster/tests
	@# Each right of the chart is used by a test of `make e2e`, which goes before, or by one of these.
	@$(BIN)/python -m e2e.scans.rights --unused --since $$(cat build/e2e-began 2>/dev/null || echo 1970-01-01T00:00:00Z)
	@$(MAKE) --no-print-directory scan
	@$(MAKE) --no-print-directory test-versions

.PHONY: test-versions
test-versions: install ## Run what depends on Kubernetes on the other versions that are tested, each a cluster of its own beside the local one
	@for version in $$($(CLUSTER) versions); do \
	  export PODTUNE_KUBERNETES=$$version; \
	  $(BIN)/python -m e2e.prepare && $(CLUSTER) up && $(BIN)/python -m e2e.install \
	    && $(CLUSTER) exec -- $(BIN)/pytest -n 4 --dist loadfile -m "every_version and not alone" $(VERSIONED) \
	    && $(CLUSTER) exec -- $(BIN)/pytest -m "every_version and alone" $(VERSIONED); \
	  code=$$?; $(CLUSTER) down && test $$code = 0 || exit 1; \
	done

.PHONY: test
test: unit component e2e-together ## Run everything
	@# Tests that have the cluster to themselves wait most of the time: pages and types are looked at meanwhile.
	@mkdir -p build; nice -n 19 $(MAKE) --no-print-directory browser lint > build/beside.log 2>&1 & beside=$$!; \
	  trap "kill $$beside 2>/dev/null" EXIT; \
	  $(MAKE) --no-print-directory e2e-alone chaos-sample; code=$$?; \
	  wait $$beside || code=$$?; cat build/beside.log; exit $$code

.PHONY: demo
demo: install ## Watch an experiment run on a real Kubernetes, from nothing
	@$(BIN)/python -m e2e.demo

.PHONY: shell
shell: install ## Open a shell with kubectl and kubectl podtune, connected to the local cluster
	@PATH="$(CURDIR)/$(BIN):$$PATH" $(CLUSTER) exec -- bash

.PHONY: dashboard
dashboard: install ## Open the dashboard that make demo has installed, until Ctrl+C
	@$(BIN)/python -m e2e.dashboard

.PHONY: bench
bench: cluster ## Measure the operator, the dashboard and the tuner in ten minutes, beside their targets and the committed figures
	@$(BIN)/python -m e2e.bench.compared
	@$(BIN)/python -m e2e.bench local; code=$$?; $(CLUSTER) exec -- $(BIN)/python -m e2e.bench && exit $$code

.PHONY: bench-full
bench-full: cluster ## Measure all of it in an hour, and write the figures and the page on performance
	@$(BIN)/python -m e2e.bench.compared
	@$(BIN)/python -m e2e.bench local --full --json e2e/bench/figures/operator.json; code=$$?; \
	  $(CLUSTER) exec -- $(BIN)/python -m e2e.bench --full --json e2e/bench/figures/operator.json || code=$$?; \
	  $(BIN)/python docs/generate_performance.py --write && exit $$code

.PHONY: bench-tuner
bench-tuner: install ## Measure the tuner beside Optuna, Syne Tune and Ray Tune: ten minutes, no cluster
	@$(BIN)/python -m e2e.bench.tuner

.PHONY: replay
replay: install ## Make the golden files of the schedulers anew from the reference implementations, and compare
	@$(BIN)/python -m tests.golden

.PHONY: generate
generate: install ## Write everything that is generated from the models
	@$(BIN)/python -m podtune.api.crd.generate --write
	@$(BIN)/python docs/generate_reference.py --write
	@$(BIN)/python docs/generate_glossary.py --write
	@$(BIN)/python docs/generate_rights.py --write
	@$(BIN)/python docs/threat_model/generate.py --write
	@$(BIN)/python docs/generate_argo_cd.py --write
	@$(BIN)/python docs/generate_template_fields.py --write
	@$(BIN)/python docs/generate_reliability.py --write
	@$(BIN)/python docs/generate_performance.py --write
	@$(BIN)/python docs/draw_algorithms.py --write

.PHONY: install-manifest
install-manifest: install ## Write build/install.yaml: the charts as one manifest, for kubectl, Kustomize, Argo CD and Flux
	@$(BIN)/python -m integrations.install_manifest

.PHONY: zipapp
zipapp: install ## Build build/krew/kubectl-podtune, one file that needs Python alone, and krew's manifest
	@$(BIN)/python integrations/krew/build.py

.PHONY: headlamp
headlamp: install ## Check and build Headlamp's plugin into build/headlamp/podtune: Node.js, a download
	@$(BIN)/python integrations/headlamp/build.py

.PHONY: lock
lock: install ## Pin all dependencies anew, with hashes
	@$(BIN)/python requirements/lock.py

.PHONY: down
down: install ## Remove the local cluster
	@$(CLUSTER) down

.PHONY: clean
clean: ## Remove what was made in this folder
	@rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
