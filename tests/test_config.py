"""Configs: what is refused, with which line, and what a sweep resolves to."""

import math
import re
import subprocess
import sys
from pathlib import Path

import pytest

from expograph.config import ConfigError, Run, load

BASE = """
name = "small"
[run]
topology = "ring"
nodes = 4
algorithm = "vanilla_dmsgd"
steps = 10
lr = 0.1
beta = 0.9
[run.problem]
kind = "classification"
dataset = "digits"
model = "linear"
"""
OTHERS = ("claims", "cost_model", "published")  # that are no experiments
CONFIGS = sorted(p for p in Path("configs").glob("*.toml") if p.stem not in OTHERS)


@pytest.fixture
def config(tmp_path):
    def write(text: str = BASE) -> Path:
        path = tmp_path / "small.toml"
        path.write_text(text)
        return path

    return write


@pytest.mark.parametrize(
    ("old", "new", "line"),
    [
        ('topology = "ring"', 'topolgy = "ring"', "run.topolgy: unknown key; did you mean run.topology?"),
        ('topology = "ring"', 'topology = "rnig"', "run.topology: unknown topology 'rnig'; did you mean 'ring'?"),
        ("lr = 0.1", 'lr = "1e-3"', "run.lr: Input should be a valid number, got '1e-3'"),
        ("lr = 0.1", "lr = nan", "run.lr: Input should be a finite number"),
        ("nodes = 4", "nodes = true", "run.nodes: Input should be a valid integer, got True"),
        ("nodes = 4", "nodes = 0", "run.nodes: Input should be greater than or equal to 1, got 0"),
        ("nodes = 4", "nodes = 4\nlocal_size = 0", "run.local_size: Input should be greater than or equal to 1, got 0"),
        ("nodes = 4", "nodes = 4\nlocal_size = 2.0", "run.local_size: Input should be a valid integer"),
        ("nodes = 4", "nodes = 4\nlocalsize = 2", "did you mean run.local_size?"),
        ("nodes = 4", "nodes = 4.5", "run.nodes: Input should be a valid integer"),
        ("nodes = 4", "nodes = 4\nbatch_size = 3", "run.batch_size: unknown key; did you mean run.problem.batch_size?"),
        ('model = "linear"', 'model = "linear"\nmodle = "cnn"', "run.problem.modle: unknown key; did you mean run.problem.model?"),
        ('model = "linear"', 'model = "liner"', "run.problem.model: unknown model 'liner'; did you mean 'linear'?"),
        ('dataset = "digits"', 'dataset = "digit"', "run.problem.dataset: unknown dataset 'digit'"),
        ('model = "linear"', 'model = "linear"\nalpha = 0.1', "alpha goes with partition = 'dirichlet'"),
        ('model = "linear"', 'model = "linear"\npartition = "dirichlet"', "alpha goes with partition"),
        ('"vanilla_dmsgd"', '"psgd"', "run: psgd averages exactly: topology must be fully_connected"),
        ('"vanilla_dmsgd"', '"dsgd_atc"', "run: dsgd_atc has no momentum: beta must be 0"),
        ("steps = 10", "steps = 10\nwarmup_steps = 10", "run: warmup_steps must be smaller than steps"),
        ("steps = 10", 'steps = 10\ndecay = "step"', "needs decay_steps"),
        ("[run]", "colour = 1\n[run]", "colour: unknown key"),
        ("steps = 10", "steps = 10\nsteps = 11", "not valid TOML"),
        ("lr = 0.1", "", "run.lr: Field required"),
        ('kind = "classification"', 'kind = "clasification"', "run.problem"),
        ("[run.problem]", "[[sweep]]\nseed = []\n[run.problem]", "sweep.seed: an empty list"),
        ('kind = "classification"', 'kind = ["x"]', "run.problem"),
        ('name = "small"', 'name = "runs"', "name: 'runs' is taken"),
        ("steps = 10", "steps = 10\nevaluate_every = 3", "evaluate_every must be a multiple of record_every"),
        ("steps = 10", "steps = 10\ndecay_factor = 0.5", "decay_factor goes with decay = 'step'"),
        ("steps = 10", 'steps = 10\ndecay = "step"\ndecay_steps = [5, 5]', "positive and increasing"),
        ("steps = 10", 'steps = 10\ndecay = "step"\ndecay_steps = [50]', "between warmup_steps and steps"),
        ('model = "linear"', 'model = "resnet8_bn"\nbatch_size = 1', "batch norm needs a batch_size"),
        ("[run]", '[table]\ntitle = "t"\nrows = ["topolgy"]\n[run]', "unknown key 'topolgy'; did you mean 'topology'?"),
        ("[run]", '[table]\ntitle = "t"\ncolumn = "nods"\n[run]', "did you mean 'nodes'?"),
        ("[run]", '[table]\ntitle = "t"\nrows = []\n[run]', "table.rows"),
        ("[run]", '[table]\ntitle = "t"\nmetrics = ["accuracy"]\n[run]', "unknown metric 'accuracy'"),
        ("[run]", '[table]\ntitle = "t"\nmetrics = ["map_50"]\n[run]', "not every run's problem gives 'map_50'"),
        ("[run]", '[table]\ntitle = "t"\nkind = "theory"\n[run]', "need problems with a known minimiser"),
        ("[run.problem]", "[[sweep]]\nsede = [1]\n[run.problem]", "run.sede: unknown key; did you mean run.seed?"),
    ],
)  # fmt: skip
def test_bad_config_is_one_line_naming_file_and_key(config, old, new, line):
    path = config(BASE.replace(old, new, 1))
    with pytest.raises(ConfigError, match=re.escape(line)) as caught:
        load(path)
    assert str(caught.value).startswith(str(path)) and "\n" not in str(caught.value)


def test_missing_file_is_one_line():
    with pytest.raises(ConfigError, match=r"^nowhere\.toml: No such file"):
        load("nowhere.toml")


def test_sweep_blocks_are_products_joined_without_repetition(config):
    sweeps = """
    [[sweep]]
    topology = ["ring", "grid"]
    nodes = [4, 8]
    [[sweep]]
    topology = ["ring"]
    nodes = [8, 16]
    "problem.model" = ["linear", "mlp"]
    """
    runs = load(config(BASE + sweeps)).runs
    found = [(r.topology, r.nodes, r.problem.model) for r in runs]
    assert found == [
        ("ring", 4, "linear"), ("ring", 8, "linear"), ("grid", 4, "linear"), ("grid", 8, "linear"),
        ("ring", 8, "mlp"), ("ring", 16, "linear"), ("ring", 16, "mlp"),
    ]  # fmt: skip


def test_overrides_reach_every_key_and_replace_sweeps(config):
    path = config(BASE + "\n[[sweep]]\nnodes = [4, 8]\nseed = [0, 1]\n")
    runs = load(path, ["topology=grid", "nodes=16", "problem.batch_size=7", "lr=1e-2"]).runs
    assert [(r.nodes, r.seed) for r in runs] == [(16, 0), (16, 1)]
    assert {r.topology for r in runs} == {"grid"}
    assert runs[0].problem.batch_size == 7 and runs[0].lr == 0.01
    swept = load(path, ["topology=[ring,grid]", "seed=3"]).runs
    assert [(r.topology, r.nodes) for r in swept] == [
        ("ring", 4), ("grid", 4), ("ring", 8), ("grid", 8),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("word", "line"),
    [
        ("topolgy=ring", "did you mean run.topology?"),
        ("problem.modl=cnn", "did you mean run.problem.model?"),
        ("nodes=four", "run.nodes: Input should be a valid integer, got 'four'"),
        ("nodes", "expected key=value"),
        ("topology.x=1", "topology is not a table"),
    ],
)
def test_bad_overrides_are_refused(config, word, line):
    with pytest.raises(ConfigError, match=re.escape(line)):
        load(config(), [word])


@pytest.mark.parametrize("word", ["run.nodes=4", "nodes=4"])
def test_keys_may_be_written_as_messages_name_them(config, word):
    assert load(config(), [word]).runs[0].nodes == 4


@pytest.mark.parametrize("path", CONFIGS, ids=str)
def test_topology_override_leaves_the_parallel_reference_of_every_table(path):
    runs = load(path, ["topology=hypercube", "nodes=16"]).runs
    found = {(run.algorithm == "psgd", run.topology) for run in runs}
    assert found == {(True, "fully_connected"), (False, "hypercube")}


def test_key_changes_with_every_value_and_not_with_comments(config):
    key = load(config()).runs[0].key
    assert load(config(BASE + "\n# a comment\n")).runs[0].key == key
    assert load(config(), ["seed=1"]).runs[0].key != key
    assert load(config(), ["problem.batch_size=31"]).runs[0].key != key


@pytest.mark.parametrize("path", CONFIGS, ids=str)
def test_committed_configs_load_with_at_least_three_seeds(path):
    experiment = load(path)
    assert experiment.name == path.stem
    assert len({run.seed for run in experiment.runs}) >= 3


def test_epochs_become_steps(config):
    text = BASE.replace('"digits"', '"cifar10"').replace("steps = 10\n", "EPOCHS\n")
    epochs = "epochs = 90\nwarmup_epochs = 5\nevaluate_epochs = 2"
    step = 'decay = "step"\ndecay_epochs = [30, 60.5]'
    (run,) = load(config(text.replace("EPOCHS", f"{epochs}\n{step}"))).runs
    epoch = 50_000 / (4 * 32)  # images over nodes and batch
    assert (run.steps, run.warmup_steps) == (math.ceil(90 * epoch), math.ceil(5 * epoch))
    assert run.decay_steps == [math.ceil(30 * epoch), math.ceil(60.5 * epoch)]
    assert run.evaluate_every == 780 and run.record_every == 10  # 781.25, in tens
    more = ["problem.accumulation=2", "local_size=8"]
    (run,) = load(config(text.replace("EPOCHS", epochs)), more).runs
    assert run.steps == math.ceil(90 * epoch / 16)
    (run,) = load(config(text.replace("EPOCHS", epochs)), ["steps=4000", "evaluate_every=70"]).runs
    assert (run.steps, run.evaluate_every) == (4000, 70)


@pytest.mark.parametrize(
    "old, new, line",
    [
        ("steps = 10", "steps = 10\nepochs = 3", "run.epochs: give it or steps, not both"),
        ("steps = 10", 'epochs = "3"', "run.epochs: expected numbers of epochs, got '3'"),
        ("steps = 10", "epoch = 3", "run.epoch: unknown key; did you mean run.epochs?"),
        ("steps = 10", "steps = 10\nevaluate_epochs = 0", "evaluate_epochs: expected a positive"),
        ("steps = 10", "epochs = inf", "run.epochs: expected numbers of epochs, got inf"),
        ("steps = 10", "steps = 10\nevaluate_epochs = true", "expected numbers of epochs, got True"),
        ("steps = 10", "steps = 9\nevaluate_epochs = 1\nevaluate_every = 10", "or evaluate_every, not"),
        ("steps = 10", "epochs = 1\nevaluate_epochs = 1\nrecord_every = 0", "run.record_every: Input"),
        ("steps = 10", 'epochs = 1\nevaluate_epochs = 1\nrecord_every = "2"', "run.record_every: Input"),
    ],
)  # fmt: skip
def test_bad_epochs_are_one_line(config, old, new, line):
    text = BASE.replace(old, new)
    with pytest.raises(ConfigError, match=re.escape(line)) as error:
        load(config(text))
    assert "\n" not in str(error.value)


def test_a_table_that_quotes_needs_the_file_it_quotes_from(config):
    table = '[table]\ntitle = "t"\npublished = "imagenet_resnet50"\n[run]'
    with pytest.raises(ConfigError, match=r"published\.toml: No such file") as error:
        load(config(BASE.replace("[run]", table, 1)))
    assert "\n" not in str(error.value)


def test_epochs_need_a_data_set_of_known_size(config):
    problem = BASE.partition("[run.problem]")[2]
    text = BASE.replace(problem, '\nkind = "logistic"\n').replace("steps = 10", "epochs = 1")
    with pytest.raises(ConfigError, match=r"run\.epochs: epochs are of fashion_mnist, "):
        load(config(text))
    text = BASE.replace("steps = 10", "epochs = 1").replace('"digits"', '["digits"]')
    with pytest.raises(ConfigError, match=r"run\.epochs: epochs are of"):
        load(config(text))


def test_keys_that_go_together_are_swept_together(config):
    sweep = '[[sweep]]\n"nodes, steps" = [[4, 10], [8, 20]]\nseed = [0, 1]\n'
    text = BASE + sweep
    runs = load(config(text)).runs
    assert [(r.nodes, r.steps, r.seed) for r in runs] == [
        (4, 10, 0),
        (4, 10, 1),
        (8, 20, 0),
        (8, 20, 1),
    ]
    assert {r.nodes for r in load(config(text), ["nodes=6"]).runs} == {6}
    with pytest.raises(ConfigError, match=r"sweep\.nodes, steps: expected 2 values, got"):
        load(config(text.replace("[8, 20]", "[8]")))


def test_the_script_refuses_a_bad_config_without_traceback(config):
    path = config(BASE.replace("ring", "rnig"))
    done = subprocess.run(
        [sys.executable, "scripts/train.py", str(path)], capture_output=True, text=True
    )
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1 and "did you mean 'ring'" in done.stderr


def run_with(**changes) -> Run:
    values = {
        "problem": {"kind": "logistic"},
        "topology": "ring",
        "nodes": 16,
        "algorithm": "dsgd_atc",
        "steps": 110,
        "lr": 0.2,
    }
    return Run.model_validate(values | changes)


def test_ranks_are_nodes_times_local_size():
    run = run_with(local_size=8)
    assert (run.nodes, run.ranks) == (16, 128) and "16 nodes of 8 ranks" in run.label
    assert run.key != run_with().key


@pytest.mark.parametrize("path", sorted(Path("configs").glob("*.toml")))
def test_a_run_survives_being_written_out(path):
    """As in run.json, and where a run is changed by `model_dump` and back."""
    if "[run]" not in path.read_text():
        pytest.skip("no experiment")
    run = load(path).runs[-1]
    assert Run.model_validate(run.model_dump()) == run
