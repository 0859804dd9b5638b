# Everything a user does with the repository. `make` alone lists the targets.
.DEFAULT_GOAL := help
SHELL := /bin/bash
# Waiting threads sleep: spinning ones cost milliseconds a step as soon as a core is busy.
export OMP_WAIT_POLICY ?= PASSIVE

PYTHON ?= python3.11
VENV ?= .venv
SCALE ?= laptop
TABLE ?= $(if $(filter paper,$(SCALE)),2 3 4,1 2 3)
# where reproduce-table writes; TABLES=results replaces the committed tables
TABLES ?= results$(if $(filter laptop,$(SCALE)),/mine)
ENGINE ?= embedded
NP ?= 8
RUN := $(VENV)/bin/python
EXPOGRAPH := $(VENV)/bin/expograph
# FORCE=1 does finished runs again, JOBS=2 sets the processes, TENSORBOARD=1 writes event files,
# KEEP_STALE=1 uses runs that other code made, CONTINUE=1 counts committed records as finished
on = $(filter-out 0 no false,$(1))
# FULL=1 does every run of a table, SEEDS=3 of each config three seeds
SWEEP = $(if $(call on,$(FORCE)),--force) $(if $(JOBS),--jobs $(JOBS)) \
	$(if $(call on,$(TENSORBOARD)),--tensorboard) $(if $(call on,$(KEEP_STALE)),--keep-stale) \
	$(if $(call on,$(CONTINUE)),--continue)
# Table 2 at laptop scale is of two kinds of shards; its short version is of the heterogeneous ones
TABLE_2 = $(if $(filter paper,$(SCALE)),table2_paper,$(if $(call on,$(FULL)),table2) table2_dirichlet)
CONFIGS = $(foreach t,$(TABLE),$(patsubst %,configs/%.toml,$(if $(filter 2,$(t)),$(TABLE_2), \
	$(if $(filter 1 3 4,$(t)),table)$(t)$(if $(filter paper,$(SCALE)),_paper))))
PART = $(if $(SEEDS),--seeds $(SEEDS),$(if $(filter embedded,$(ENGINE)),--short,--seeds 1))
PART := $(if $(or $(call on,$(FULL)),$(filter paper,$(SCALE))),,$(PART))
# the committed tables that those of CONFIGS are held against
COMMITTED = $(foreach c,$(notdir $(basename $(CONFIGS))),$(patsubst results/%/table.json,%,$(wildcard \
	results/$(c)$(if $(filter-out embedded,$(ENGINE)),_$(ENGINE))/table.json)))
VERIFY = $(if $(and $(filter-out results,$(TABLES)),$(strip $(COMMITTED))), \
	$(EXPOGRAPH) verify $(strip $(COMMITTED)) --results $(TABLES))
EVERYTHING = $(foreach c,table1 table2 table2_dirichlet table3 table4 transients \
	transients_heterogeneous transient_stage transient_stage_cnn any_n orders heterogeneity \
	placement momentum linear_speedup convex,configs/$(c).toml)
READY := $(VENV)/.installed
# what a variable may be is checked before anything is installed or trained
allowed = $(if $(filter-out $(2),$($(1))),$(error $(1)=$($(1)): one of $(2)))
$(call allowed,SCALE,laptop paper)
$(call allowed,ENGINE,embedded bluefog mpi torch horovod)
$(foreach c,$(CONFIGS),$(if $(wildcard $(c)),,$(error TABLE=$(TABLE): there is no $(c))))
ifneq ($(RATE),)
$(if $(shell echo '$(RATE)' | grep -E '^[0-9]+(\.[0-9]+)?[kmg]bit$$'),,$(error RATE=$(RATE): a number and kbit, mbit or gbit, as in 100mbit))
endif
CLUSTER := $(VENV)/cluster.json
# bfrun and mpirun of the environment come first
IN_CLUSTER := PATH="$(if $(filter /%,$(firstword $(VENV))),,$(CURDIR)/)$(VENV)/bin:$$PATH"

# every target is a command, none a file
.PHONY: help install data reproduce-table verify figures test check bench smoke clean clean-runs \
	report watch tune notebook notebooks reproduce reproduce-figure claims cost-model dry-run \
	cluster-env doctor engines-agree bench-comm testbed bench-step frameworks examples soak chaos \
	gpu-check predictions wall-clock audit docs coverage

help: ## list the targets
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-18s %s\n", $$1, $$2}'

install: $(READY) ## make the virtual environment and install the pinned requirements

$(READY): requirements.txt pyproject.toml
	@command -v $(PYTHON) >/dev/null || { echo "make: $(PYTHON) not found; give another with PYTHON=..." >&2; exit 1; }
	@echo "installing the pinned requirements into $(VENV)/ (torch is large: some minutes)"
	@$(PYTHON) -m venv $(VENV)
	@$(VENV)/bin/pip install --quiet --disable-pip-version-check -r requirements.txt
	@$(VENV)/bin/pip install --quiet --disable-pip-version-check --no-deps --editable .
	@touch $@

data: $(READY) ## fetch Fashion-MNIST into data/ unless the machine has it
	@$(RUN) scripts/fetch_data.py fashion_mnist

cluster-env: $(READY) ## add Open MPI, mpi4py, BlueFog and Horovod (compiles for some minutes)
	@$(RUN) scripts/cluster_env/install.py

$(CLUSTER): $(READY) requirements-cluster.txt scripts/cluster_env/install.py
	@$(RUN) scripts/cluster_env/install.py
	@touch $@

doctor: $(READY) ## what is there for a cluster, what is missing, and its cure
	@$(EXPOGRAPH) doctor

# TABLE=1 2 3 4, or another config's name: convex, momentum, transients, transient_stage, cifar10
# What a config calls its short version is done, 15 minutes in all; FULL=1 does the whole tables.
# SCALE=paper takes the config of the paper's size
# ENGINE=bluefog NP=8 [HOSTFILE=hosts]: the same configs as MPI jobs of up to NP ranks, one seed;
# ENGINE=torch NP=8: as jobs of torch.distributed, without MPI and make cluster-env
# Committed tables are left alone; at the end yours are held against them, and the status says so.
reproduce-table: data $(if $(filter-out embedded torch,$(ENGINE)),$(CLUSTER)) ## run Tables 1, 2, 3 (or TABLE=2) into results/mine/ and verify them; ENGINE=bluefog NP=8 for MPI
ifeq ($(ENGINE),embedded)
	@$(EXPOGRAPH) sweep $(CONFIGS) $(PART) $(SWEEP) --tables $(TABLES)
	@$(EXPOGRAPH) figure --results $(TABLES)
else
	@$(EXPOGRAPH) sweep $(CONFIGS) $(SWEEP) $(PART) --engine $(ENGINE) --np $(NP) --tables $(TABLES) \
		$(if $(HOSTFILE),--hostfile "$(HOSTFILE)")
endif
	$(if $(filter --short,$(PART)),@echo "a part of the tables; make reproduce-table FULL=1 has ten seeds (five of Table 3) and 4 to 32 nodes")
	@$(VERIFY)

# RESULTS=results/mine AGAINST=results: folders of tables
verify: $(READY) ## do your tables, results/mine/, match the committed ones? and which verdicts changed
	@$(EXPOGRAPH) verify $(if $(RESULTS),--results "$(RESULTS)") $(if $(AGAINST),--against "$(AGAINST)")

# FIGURE=headline|spectral_gap|consensus_error|table1_curves|table2_curves|transients|transient_stage ...
reproduce-figure: $(if $(FIGURE),data) ## train what one figure shows, and draw it: FIGURE=transients
	$(if $(FIGURE),,$(error reproduce-figure: which? FIGURE=transients, headline, table1_curves, ...))
	@config=$$($(EXPOGRAPH) figure --config $(FIGURE)) && \
		{ [ -z "$$config" ] || $(EXPOGRAPH) sweep $$config $(SWEEP); } && \
		$(EXPOGRAPH) figure $(FIGURE)

# SEEDS=3: of each config three seeds, at its smallest and largest number of nodes, into results/mine/
reproduce: data ## every table, figure and claim at laptop scale, resumable; says its hours first, SEEDS=3: two
ifeq ($(SEEDS),)
	@$(EXPOGRAPH) sweep $(EVERYTHING) $(SWEEP)
	@$(EXPOGRAPH) figure
	@$(RUN) scripts/cost_model.py
	@$(EXPOGRAPH) claims
else
	@$(EXPOGRAPH) sweep $(EVERYTHING) --seeds $(SEEDS) --extremes $(SWEEP) --tables results/mine
	@$(EXPOGRAPH) figure --results results/mine
	@$(EXPOGRAPH) verify
endif

tune: data ## choose the step sizes on held-out images; writes configs/step_sizes.toml (40 minutes)
	@$(EXPOGRAPH) tune $(or $(CONFIG),$(wildcard configs/tuning_*.toml)) $(SWEEP)

claims: data ## measure the paper's claims; writes results/claims.md
	@$(EXPOGRAPH) sweep $$($(EXPOGRAPH) claims --configs) $(SWEEP)
	@$(RUN) scripts/cost_model.py
	@$(EXPOGRAPH) claims

cost-model: $(READY) ## predict the hours of the paper's ImageNet table, and beyond
	@$(RUN) scripts/cost_model.py

dry-run: $(CLUSTER) ## every paper-scale config for 3 steps under bfrun, on made-up data
	@$(IN_CLUSTER) $(RUN) scripts/dry_run.py $(CONFIG)

predictions: $(READY) ## predict transient iterations; writes results/predictions/, trains nothing
	@$(EXPOGRAPH) predict

figures: $(READY) ## draw the figures from the committed results; trains nothing
	@$(EXPOGRAPH) figure
	@$(RUN) scripts/cost_model.py

watch: $(READY) ## the tables of the running sweep as they fill (from another terminal)
	@$(EXPOGRAPH) table --watch

notebook: $(READY) ## open the notebooks in a browser (adds JupyterLab the first time)
	@$(VENV)/bin/pip install --quiet --disable-pip-version-check -r requirements-notebook.txt
	@$(VENV)/bin/jupyter lab --notebook-dir notebooks

notebooks: $(READY) ## execute the notebooks again and save their outputs
	@$(RUN) notebooks/execute.py

docs: $(READY) ## build/docs/index.html: the documentation as a site, links checked (adds Sphinx the first time)
	@$(VENV)/bin/pip install --quiet --disable-pip-version-check -r requirements-docs.txt
	@rm -rf build/docs
	@$(VENV)/bin/sphinx-build -c docs -b html -d build/.doctrees -E -W --keep-going --quiet . build/docs
	@echo "open build/docs/index.html"

report: $(READY) ## results/report/index.html: everything that was measured, opens from disk
	@$(EXPOGRAPH) report

test: $(READY) ## run the tests
	@-$(RUN) scripts/fetch_data.py fashion_mnist  # without it the tests that need it are skipped
	@$(RUN) -m pytest -n auto --dist loadfile $(PYTEST)

coverage: $(READY) ## run the tests and show which lines no test reaches; build/coverage/index.html
	@$(RUN) -m pytest -n auto --dist loadfile --cov expograph --cov-branch \
		--cov-report term:skip-covered --cov-report html:build/coverage $(PYTEST)

check: $(READY) ## lint, formatting and types
	@$(VENV)/bin/ruff check src scripts tests notebooks docs
	@$(VENV)/bin/ruff format --check src scripts tests notebooks docs
	@$(VENV)/bin/mypy --strict

audit: $(READY) ## do the pinned libraries have known weaknesses? (asks pip-audit's service)
	@[ -x $(VENV)/audit/bin/pip-audit ] || { $(PYTHON) -m venv $(VENV)/audit && \
		$(VENV)/audit/bin/pip install --quiet --disable-pip-version-check pip-audit==2.9.0; }
	@$(VENV)/audit/bin/pip-audit --no-deps --disable-pip --progress-spinner off -r requirements.txt \
		2>$(VENV)/audit/log; status=$$?; \
		if grep -qE 'Connection|ServiceError|Max retries|[Tt]imed? ?out|HTTPError|ProxyError' $(VENV)/audit/log; \
		then echo "audit: pip-audit's service cannot be reached from here: nothing was audited"; \
		else cat $(VENV)/audit/log >&2; exit $$status; fi

smoke: data ## every laptop config for 3 steps, results thrown away
	@$(RUN) scripts/smoke.py

engines-agree: $(CLUSTER) ## every algorithm and topology: do BlueFog, mpi4py and Horovod give the embedded numbers?
	@$(IN_CLUSTER) $(RUN) scripts/engines_agree.py

soak: $(CLUSTER) ## 10,000 averaging calls in a row at 8 ranks; HOURS=1: small runs, too (results/reliability.md)
	@$(IN_CLUSTER) bfrun -np 8 python tests/cluster_worker.py soak 10000
	$(if $(HOURS),@$(RUN) scripts/reliability.py $(if $(RESULTS),--results "$(RESULTS)") soak --hours "$(HOURS)")

# KILLS: of the embedded engine; where make cluster-env was made, of jobs two for five of these
KILLS ?= 50
chaos: data ## kill runs, take them up again, compare with unstopped ones; writes results/reliability.md
	@$(IN_CLUSTER) $(RUN) scripts/reliability.py $(if $(RESULTS),--results "$(RESULTS)") kills --kills "$(KILLS)"

bench-comm: $(CLUSTER) ## time of one averaging step against size and ranks; writes results/bench_comm/
	@$(IN_CLUSTER) $(RUN) scripts/bench_comm.py

# HOSTS="2 4 8 16": how many; default 4
testbed: $(CLUSTER) ## the same on virtual hosts joined by RATE=1gbit links (root, iproute2)
	@$(IN_CLUSTER) $(RUN) scripts/bench_comm.py --testbed $(or $(RATE),1gbit) $(if $(HOSTS),--ranks $(HOSTS))

bench-step: $(CLUSTER) ## a step of one's own training by who averages, DDP, Horovod and Decent-DP beside (root, iproute2)
	@[ -d $(VENV)/peers ] || $(VENV)/bin/pip install --quiet --disable-pip-version-check --no-deps \
		--target $(VENV)/peers -r requirements-peers.txt
	@$(IN_CLUSTER) $(RUN) scripts/bench_step.py --peers $(VENV)/peers $(if $(RATE),--rate $(RATE))

examples: $(READY) ## a CNN and a small transformer in a loop of one's own, 4 processes; writes results/own_training/
	@for task in images text; do $(VENV)/bin/torchrun --nproc-per-node 4 scripts/own_training.py $$task || exit 1; done
	@$(RUN) scripts/own_training.py figure

frameworks: $(READY) ## the averager in Accelerate, Hugging Face's Trainer and Lightning (installs them beside)
	@[ -d $(VENV)/frameworks ] || { $(PYTHON) -m venv $(VENV)/frameworks && \
		echo "$(abspath $(wildcard $(VENV)/lib/python3*/site-packages))" > \
		$$(echo $(VENV)/frameworks/lib/python3*/site-packages)/base.pth && \
		$(VENV)/frameworks/bin/pip install --quiet --disable-pip-version-check -r requirements-frameworks.txt; }
	@$(VENV)/frameworks/bin/python -m pytest -q tests/test_frameworks.py

# PART=steps|real|table RATE=1gbit: one piece of it; without, all, the slower links from step times alone
wall-clock: data $(CLUSTER) ## accuracy against seconds: trainings on 8 virtual hosts (root, iproute2; hours)
ifeq ($(PART),)
	@$(EXPOGRAPH) sweep configs/wall_clock.toml $(SWEEP)
	@$(IN_CLUSTER) $(RUN) scripts/wall_clock.py steps --rate 1gbit
	@$(IN_CLUSTER) $(RUN) scripts/wall_clock.py steps --rate 100mbit
	@$(IN_CLUSTER) $(RUN) scripts/wall_clock.py real --rate 1gbit --seeds 0 1 2
else
	@$(IN_CLUSTER) $(RUN) scripts/wall_clock.py $(PART) --rate $(or $(RATE),1gbit)
endif

bench: data ## speed and memory of the engine, as ratios; writes results/bench/ (15 minutes)
	@$(RUN) scripts/bench.py

gpu-check: data ## does a GPU give the numbers of the CPU, and how fast? (needs one)
	@$(RUN) scripts/gpu_check.py

clean-runs: ## forget the finished runs: the next reproduce-table trains again
	@rm -rf results/runs results/custom results/mine results/tensorboard results/running
	@[ -z "$$EXPOGRAPH_RUNS" ] || echo "left alone: the runs in $$EXPOGRAPH_RUNS (EXPOGRAPH_RUNS)"

clean: clean-runs ## remove runs, caches and the virtual environment; data/ and tables stay
	@rm -rf build $(VENV) .pytest_cache .hypothesis .ruff_cache src/*.egg-info
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
