# Everything a user does with the repository. `make` alone lists the targets.
.DEFAULT_GOAL := help
SHELL := /bin/bash
# Waiting threads sleep: spinning ones cost milliseconds a step as soon as a core is busy.
export OMP_WAIT_POLICY ?= PASSIVE

PYTHON ?= python3.11
VENV ?= .venv
SCALE ?= laptop
TABLE ?= $(if $(filter paper,$(SCALE)),2 3 4,1 2 3)
ENGINE ?= embedded
NP ?= 8
RUN := $(VENV)/bin/python
EXPOGRAPH := $(VENV)/bin/expograph
# FORCE=1 does finished runs again, JOBS=2 sets the processes, TENSORBOARD=1 writes event files,
# KEEP_STALE=1 uses runs that other code made, CONTINUE=1 counts committed records as finished
on = $(filter-out 0 no false,$(1))
SWEEP = $(if $(call on,$(FORCE)),--force) $(if $(JOBS),--jobs $(JOBS)) \
	$(if $(call on,$(TENSORBOARD)),--tensorboard) $(if $(call on,$(KEEP_STALE)),--keep-stale) \
	$(if $(call on,$(CONTINUE)),--continue)
CONFIGS = $(foreach t,$(TABLE),configs/$(if $(filter 1 2 3 4,$(t)),table)$(t)$(if $(filter paper,$(SCALE)),_paper).toml)
EVERYTHING = $(foreach c,table1 table2 table3 table4 transients convex iid momentum,configs/$(c).toml)
READY := $(VENV)/.installed
# what a variable may be is checked before anything is installed or trained
allowed = $(if $(filter-out $(2),$($(1))),$(error $(1)=$($(1)): one of $(2)))
$(call allowed,SCALE,laptop paper)
$(call allowed,ENGINE,embedded bluefog mpi horovod)
$(foreach c,$(CONFIGS),$(if $(wildcard $(c)),,$(error TABLE=$(TABLE): there is no $(c))))
ifneq ($(RATE),)
$(if $(shell echo '$(RATE)' | grep -E '^[0-9]+(\.[0-9]+)?[kmg]bit$$'),,$(error RATE=$(RATE): a number and kbit, mbit or gbit, as in 100mbit))
endif
CLUSTER := $(VENV)/cluster.json
# bfrun and mpirun of the environment come first
IN_CLUSTER := PATH="$(CURDIR)/$(VENV)/bin:$$PATH"

.PHONY: help install data reproduce-table figures test check bench smoke clean clean-runs \
	report watch tune notebook notebooks reproduce reproduce-figure claims cost-model dry-run cluster-env doctor engines-agree bench-comm testbed soak gpu-check predictions

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

# TABLE=1 2 3 4, or another config's name: convex, iid, momentum, transients, cifar10
# SCALE=paper takes the config of the paper's size
# ENGINE=bluefog NP=8 [HOSTFILE=hosts]: the same configs as MPI jobs of up to NP ranks
reproduce-table: data $(if $(filter-out embedded,$(ENGINE)),$(CLUSTER)) ## run Tables 1, 2, 3 (or TABLE=2) and print them; ENGINE=bluefog NP=8 for MPI
ifeq ($(ENGINE),embedded)
	@$(EXPOGRAPH) sweep $(CONFIGS) $(SWEEP)
	@$(EXPOGRAPH) figure
else
	@$(EXPOGRAPH) sweep $(CONFIGS) $(SWEEP) --engine $(ENGINE) --np $(NP) \
		$(if $(HOSTFILE),--hostfile "$(HOSTFILE)")
endif

# FIGURE=headline|spectral_gap|consensus_error|table1_curves|table2_curves|iid_curves|transients
reproduce-figure: $(if $(FIGURE),data) ## train what one figure shows, and draw it: FIGURE=transients
	$(if $(FIGURE),,$(error reproduce-figure: which? FIGURE=transients, headline, table1_curves, ...))
	@config=$$($(EXPOGRAPH) figure --config $(FIGURE)) && \
		{ [ -z "$$config" ] || $(EXPOGRAPH) sweep $$config $(SWEEP); } && \
		$(EXPOGRAPH) figure $(FIGURE)

reproduce: data ## every table, figure and claim at laptop scale: within an hour on 2 cores, resumable
	@$(EXPOGRAPH) sweep $(EVERYTHING) $(SWEEP)
	@$(EXPOGRAPH) figure
	@$(RUN) scripts/cost_model.py
	@$(EXPOGRAPH) claims

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

report: $(READY) ## results/report/index.html: everything that was measured, opens from disk
	@$(EXPOGRAPH) report

test: $(READY) ## run the tests
	@-$(RUN) scripts/fetch_data.py fashion_mnist  # without it the tests that need it are skipped
	@$(RUN) -m pytest -n auto --dist loadfile $(PYTEST)

check: $(READY) ## lint and formatting
	@$(VENV)/bin/ruff check src scripts tests notebooks
	@$(VENV)/bin/ruff format --check src scripts tests notebooks

smoke: data ## every laptop config for 3 steps, results thrown away
	@$(RUN) scripts/smoke.py

engines-agree: $(CLUSTER) ## every algorithm and topology: do BlueFog, mpi4py and Horovod give the embedded numbers?
	@$(IN_CLUSTER) $(RUN) scripts/engines_agree.py

soak: $(CLUSTER) ## 10,000 averaging calls in a row at 8 ranks
	@$(IN_CLUSTER) bfrun -np 8 $(CURDIR)/$(RUN) tests/cluster_worker.py soak 10000

bench-comm: $(CLUSTER) ## time of one averaging step against size and ranks; writes results/bench_comm/
	@$(IN_CLUSTER) $(RUN) scripts/bench_comm.py

testbed: $(CLUSTER) ## the same on virtual hosts joined by RATE=1gbit links (root, iproute2)
	@$(IN_CLUSTER) $(RUN) scripts/bench_comm.py --testbed $(or $(RATE),1gbit)

bench: data ## speed and memory of the engine, as ratios; writes results/bench/ (15 minutes)
	@$(RUN) scripts/bench.py

gpu-check: data ## does a GPU give the numbers of the CPU, and how fast? (needs one)
	@$(RUN) scripts/gpu_check.py

clean-runs: ## forget the finished runs: the next reproduce-table trains again
	@rm -rf results/runs results/custom results/tensorboard results/running
	@[ -z "$$EXPOGRAPH_RUNS" ] || echo "left alone: the runs in $$EXPOGRAPH_RUNS (EXPOGRAPH_RUNS)"

clean: clean-runs ## remove runs, caches and the virtual environment; data/ and tables stay
	@rm -rf $(VENV) .pytest_cache .hypothesis .ruff_cache src/*.egg-info
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
