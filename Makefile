# Towpath. `make` alone prints this help; `make test` is what continuous integration checks.
.DEFAULT_GOAL := help
.PHONY: audit chaos bench-faust bench-handover bench-edges bench-peers bench-queries bench-scaling help setup demo up scale down logs test test-compose test-kubernetes test-quick simulate lint format bench-load verify-nexmark clean

PYTHON ?= python3
VENV := .venv
UV := $(shell command -v uv 2>/dev/null || echo $(VENV)-uv/bin/uv)
RUN := $(VENV)/bin
COMPOSE := docker compose $(if $(MONITORING),--profile observability)

help: ## Print this help
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(VENV)/.complete ## Virtual environment with the locked versions, and the jars of Kafka and Spark
	@$(RUN)/python -m demo.setup

demo: setup ## Main job: broker, load, key_count on 2 replicas, latency; compares with a batch job (3 minutes)
	@$(RUN)/python -m demo $(ARGS)

up: ## Pipeline in containers, images built: QUERY=queries.q5 RATE=5000 …; MONITORING=1: Prometheus and Grafana, too
	@$(COMPOSE) up -d --build --wait --wait-timeout 180 $(ARGS)

scale: ## Containers of a stage, while it runs: STAGE=count N=3
	@test -n "$(STAGE)" -a -n "$(N)" || { echo "error: say which stage and how many containers: make scale STAGE=count N=3" >&2; exit 2; }
	@$(COMPOSE) up -d --no-deps --no-recreate --wait --scale $(STAGE)=$(N) $(STAGE)

down: ## Stop and remove the containers; what is in Kafka stays. ARGS=-v: nothing stays
	@docker compose --profile '*' down --remove-orphans $(ARGS)

logs: ## Follow the containers' logs; STAGE=count: of one stage
	@docker compose logs --follow --tail 100 $(STAGE)

test: setup ## All tests: static checks, unit, contract, broker, Spark, kill -9, Compose and Kubernetes where they run
	@$(MAKE) --no-print-directory lint
	@$(RUN)/python -m tests $(ARGS)

test-quick: $(VENV)/.complete ## Unit and fake-contract tests only: seconds, no Java
	@$(RUN)/pytest -n logical tests/unit tests/contract -m "not broker and not spark and not compose and not kubernetes and not slow" $(ARGS)

test-kubernetes: setup ## Manifests and scaling on the cluster that KUBECONFIG names; says why where there is none
	@$(RUN)/pytest -rs tests/kubernetes tests/unit/deploy $(ARGS)

test-compose: setup ## docker-compose.yml for real: images, load, rescales, kills, broker restart, full disk; and the quick start (12 minutes)
	@$(RUN)/pytest -rs tests/compose tests/spark/test_quickstart.py -m "compose or long" $(ARGS)

simulate: $(VENV)/.complete ## Whole cluster on simulated Kafka, network, clocks, disks: RUNS=1000 SEED=0 (TRACE=1: every event)
	@$(RUN)/python -m tests.simulation --runs $(or $(RUNS),1000) --seed $(or $(SEED),0) $(if $(TRACE),--trace)

lint: $(VENV)/.complete ## Style and types
	@$(RUN)/ruff check -q . && $(RUN)/ruff format -q --check . && $(RUN)/mypy

audit: $(VENV)/.complete ## Known faults of the locked dependencies, and secrets in the tree
	@$(UV) run --quiet --isolated --locked --only-group audit --python "$$(command -v $(PYTHON))" python -m tests.audit

format: $(VENV)/.complete ## Format the code
	@$(RUN)/ruff check -q --fix . ; $(RUN)/ruff format -q .

chaos: setup ## Rescaling while processes are killed and paused, on real processes: RUNS schedules from SEED on (1 minute each)
	@$(RUN)/python -m tests.chaos --runs $(or $(RUNS),10) --seed $(or $(SEED),1) --program $(or $(PROGRAM),counts)

verify-nexmark: setup ## NEXMark queries with a rescale and a kill -9, against Spark SQL over the same topic (15 minutes)
	@$(RUN)/python -m tests.verify $(ARGS)

bench-handover: setup ## What 1 → 2 replicas cost with a million keys: hybrid, replay, restart (10 minutes)
	@$(RUN)/python -m bench.handover $(ARGS)

bench-peers: setup ## Same jobs on Kafka Streams, Flink and others: hours; QUICK=1: 10 minutes; ARGS=--help
	@$(RUN)/python -m bench.peers $(if $(QUICK),--quick,--write-docs) $(ARGS)

bench-scaling: setup ## Cost of an event by number of keys and partitions, on one replica (30 minutes)
	@$(RUN)/python -m bench.peers --keep --write-docs --systems towpath --jobs scaling --rates "" --rounds 3 $(ARGS)

bench-edges: setup ## Rows per processor second through two stages joined by inner edges (2 minutes)
	@$(RUN)/python -m bench.edges $(ARGS)

bench-queries: setup ## Events per processor second of every NEXMark query (40 minutes); ARGS=--help
	@$(RUN)/python -m bench.queries --write-docs $(ARGS)

bench-faust: setup ## What a rebalance costs a Faust application: rocksdb:// and statemgr:// (15 minutes); ARGS=--help
	@$(RUN)/python -m bench.faust_tables $(ARGS)

bench-load: setup ## Generator and load job: events per second, and the load's own delay (2 minutes)
	@$(RUN)/python bench/nexmark_generator.py --json
	@$(RUN)/python bench/load.py

clean: ## Remove what was built, data of the demo included
	@rm -rf build dist $(VENV) $(VENV)-uv

$(VENV)/.complete: pyproject.toml uv.lock $(wildcard libs/*/pyproject.toml */pyproject.toml)
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || \
	  { echo "error: Python 3.11 or newer is needed; install it, or name one: make PYTHON=python3.12 …" >&2; exit 2; }
	@command -v $(UV) >/dev/null 2>&1 || { echo "setup: installing uv into $(VENV)-uv" >&2; \
	  $(PYTHON) -m venv $(VENV)-uv && $(VENV)-uv/bin/pip install --quiet "uv>=0.13,<0.14"; } || \
	  { echo "error: no virtual environment could be made; on Debian and Ubuntu: apt-get install python3-venv" >&2; exit 2; }
	@echo "setup: locked dependencies into $(VENV)" >&2
	@$(UV) sync --locked --quiet --python "$$(command -v $(PYTHON))"
	@touch $@
