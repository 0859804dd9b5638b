"""Configs: what is refused, with which line, and what a sweep resolves to."""

import math
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from expograph.config import ConfigError, Run, experiments, load
from expograph.config.experiments import paths
from expograph.config.facts import ALGORITHMS, AlgorithmFacts, over_exact

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
CONVEX = """
name = "small"
[run]
topology = "ring"
nodes = 4
algorithm = "dsgd_atc"
steps = 20
lr = 0.1
[run.problem]
kind = "logistic"
"""
CONFIGS = paths(Path("configs"))


@pytest.fixture
def config(tmp_path):
    def write(text: str | bytes = BASE) -> Path:
        path = tmp_path / "small.toml"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
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
        # hints
        ('"ring"', '"RING"', "run.topology: unknown topology 'RING'; did you mean 'ring'?"),
        ('"ring"', '"ring(k=2)"', "run.topology: topology 'ring' has no parameters, got 'k'"),
        ('"vanilla_dmsgd"', '"dmsgd(k=2)"', "run.algorithm: algorithm 'dmsgd' has no parameters, got 'k'"),
        ('model = "linear"', 'model = "linear"\nnoise = 1.0', "run.problem.noise: a classification problem has no such key, it is of logistic and least_squares"),
        ('model = "linear"', 'model = "linear"\nseed = 1', "run.problem.seed: unknown key; did you mean run.seed?"),
        # one line of text
        ("[run]", '[table]\ntitle = """Two\nlines"""\n[run]', "table.title: expected one line of text"),
        ("[run]", '[table]\ntitle = " "\n[run]', "table.title: expected one line of text"),
        ("[run]", '[table]\ntitle = "t"\nnotes = ["a", "b\\u2028c"]\n[run]', "table.notes.1: expected one line of text"),
        ('name = "small"', 'name = "small"\ncommand = """make\nx"""', "command: expected one line of text"),
        ('name = "small"', 'name = "a\\nb"', "name: String should match pattern"),
        ('name = "small"', f'name = "{"a" * 300}"', "name: String should have at most 100 characters, got 'aaa"),
        ('name = "small"', 'name = "custom"', "name: 'custom' is taken"),
        ('[run]', '"a\\nb" = 1\n[run]', r"a\nb: unknown key; known: kind, name, scale"),
        ('"ring"', r'"ri\u001b[31mng"', r"unknown topology 'ri\x1b[31mng'"),
        # larger than anything
        ("nodes = 4", f"nodes = 1{'0' * 30}", "run.nodes: Input should be less than or equal to 1048576, got 1000"),
        ("nodes = 4", "nodes = 1048576\nlocal_size = 2", "run: nodes x local_size must be at most 1048576, got 2097152"),
        ("steps = 10", "steps = 1_000_000_001", "run.steps: Input should be less than or equal to 1000000000"),
        ("nodes = 4", f"nodes = {'9' * 5000}", "not valid TOML: an integer of thousands of digits"),
        ("nodes = 4", f"nodes = 0x{'f' * 9000}", "run.nodes: Input should be less than or equal to 1048576, got a value too large to show"),
        ("lr = 0.1", f"lr = {'9' * 400}", "run.lr: Input should be a valid number, got 9999"),
        ("nodes = 4", f"nodes = {'[' * 3000}{']' * 3000}", "not valid TOML: brackets nested too deeply"),
        ("nodes = 4", f"nodes = {'[' * 300}{']' * 300}", "run.nodes: Input should be a valid integer, got [[["),
        ("nodes = 4", f"nodes.{'a.' * 1500}b = 1", "run.nodes: Input should be a valid integer"),
        ("steps = 10", f"steps = 10\ndecay = 'step'\ndecay_steps = {[*range(1, 3000)]}", "run.decay_steps: List should have at most 1000 items"),
        ("[run.problem]", f"[[sweep]]\nseed = {[*range(1001)]}\nnodes = {[*range(1, 1002)]}\n[run.problem]", "sweep: 1002001 runs are more than 100000"),
        ('"ring"', f'"ring(k={"-" * 30_000}1)"', "run.topology: topology 'ring' has no parameters"),
        ("[run]", f"# {'x' * 2**20}\n[run]", "is larger than 1048576 bytes"),
        # a sweep that gives a value twice
        ("[run.problem]", '[[sweep]]\nnodes = [4, 5]\n"nodes, steps" = [[8, 20]]\n[run.problem]', "sweep.nodes, steps: nodes is given twice"),
        ("[run.problem]", '[[sweep]]\n"nodes, nodes" = [[4, 8]]\n[run.problem]', "sweep.nodes, nodes: nodes is given twice"),
        ("[run.problem]", '[[sweep]]\n"problem.noise" = [1.0]\nproblem = [{kind = "logistic"}]\n[run.problem]', "sweep.problem: problem.noise is given, and problem as a whole: give one"),
        ("[run.problem]", '[[sweep]]\nproblem = [{kind = "logistic"}]\n"problem.noise" = [1.0]\n[run.problem]', "sweep.problem.noise: problem.noise is given, and problem as a whole: give one"),
        ("[run.problem]", '[[sweep]]\n"nodes," = [[4, 8]]\n[run.problem]', "sweep.nodes,: expected a key, or keys separated by commas"),
        # what a file is
        ('name = "small"', 'name = "small"\nkind = "claims"', "kind: expected 'experiment', got 'claims'"),
        ('name = "small"', 'name = "small"\nscale = "large"', "scale: Input should be 'laptop' or 'paper', got 'large'"),
    ],
)  # fmt: skip
def test_bad_config_is_one_line_naming_file_and_key(config, old, new, line):
    path = config(BASE.replace(old, new, 1))
    with pytest.raises(ConfigError, match=re.escape(line)) as caught:
        load(path)
    assert str(caught.value).startswith(str(path)) and len(str(caught.value)) <= 2000
    assert str(caught.value).isprintable()


def test_a_byte_order_mark_is_read_over_and_files_are_utf8(config):
    text = BASE.replace("[run]", '[table]\ntitle = "Ünïcode \u221e"\n[run]', 1)
    assert load(config("\ufeff".encode() + text.encode())).title == "Ünïcode \u221e"
    with pytest.raises(ConfigError, match=r"not valid TOML: 'utf-8' codec can't decode"):
        load(config(text.encode("latin-1", "replace")))
    code = f"from expograph.config import load; print(ascii(load({str(config(text))!r}).title))"
    there = {**os.environ, "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    said = subprocess.check_output([sys.executable, "-c", code], env=there, text=True)
    assert said == ascii("Ünïcode \u221e") + "\n"


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
        ("topology=RING", "did you mean 'ring'?"),
        ("nodes=10**30", "run.nodes: Input should be a valid integer, got '10**30'"),
        (f"nodes={'9' * 5000}", "run.nodes: Input should be a valid integer, got '999"),
        (f"nodes={'[' * 3000}{']' * 3000}", "run.nodes: Input should be a valid integer, got '[[["),
        (f"problem.{'a.' * 3000}b=1", "nested too deeply"),
        ("seed=1\nlr=2", r"run.seed: Input should be a valid integer, got '1\nlr=2'"),
        ("nodes=[]", "override nodes: an empty list sweeps nothing"),
        ("problem.noise=2", "a classification problem has no such key, it is of logistic"),
        ("topology=\udc80", r"unknown topology '\udc80'"),
    ],
)
def test_bad_overrides_are_refused(config, word, line):
    with pytest.raises(ConfigError, match=re.escape(line)) as caught:
        load(config(), [word])
    assert str(caught.value).isprintable() and len(str(caught.value)) <= 2000


def test_a_key_of_another_problem_is_said_to_be_that(config):
    with pytest.raises(
        ConfigError, match=r"a logistic problem has no such key, it is of class"
    ) as e:
        load(config(CONVEX), ["problem.model=cnn2"])
    assert "nodes" not in str(e.value)


def test_two_overrides_of_one_value_are_refused(config):
    with pytest.raises(ConfigError, match=r"override 'nodes=5': nodes is given twice"):
        load(config(), ["nodes=4", "nodes=5"])
    with pytest.raises(ConfigError, match=r"problem\.noise is given, and problem as a whole"):
        load(config(CONVEX), ['problem={kind="logistic"}', "problem.noise=2.0"])
    assert load(config(), ["nodes=8", "nodes=8"]).runs[0].nodes == 8


def test_an_override_inside_a_swept_problem_is_set_in_each(config):
    sweep = (
        '[[sweep]]\nproblem = [{kind = "logistic"}, {kind = "least_squares", noise = 3.0}]\n'
        "seed = [0, 1]\n"
    )
    path = config(CONVEX + sweep)
    runs = load(path, ["problem.noise=2.0"]).runs
    assert [(r.problem.kind, r.problem.noise, r.seed) for r in runs] == [
        ("logistic", 2.0, 0), ("logistic", 2.0, 1), ("least_squares", 2.0, 0), ("least_squares", 2.0, 1),
    ]  # fmt: skip
    swept = load(path, ["problem.noise=[1.0,2.0]", "seed=0"]).runs
    assert [(r.problem.kind, r.problem.noise) for r in swept] == [
        ("logistic", 1.0), ("logistic", 2.0), ("least_squares", 1.0), ("least_squares", 2.0),
    ]  # fmt: skip
    (one,) = load(path, ['problem={kind="logistic"}', "seed=0"]).runs
    assert one.problem.noise == 1.0


def test_names_with_parameters_are_lists_items(config, monkeypatch):
    monkeypatch.setitem(ALGORITHMS, "new", AlgorithmFacts("new", parameters={"k": 1, "c": 0.5}))
    words = ["algorithm=[new( c = 0.25 , k=2), new(k = 1), dmsgd]"]
    assert [r.algorithm for r in load(config(), words).runs] == ["new(k=2, c=0.25)", "new", "dmsgd"]
    with pytest.raises(ConfigError, match=r"unknown parameter of new 'K'; did you mean 'k'\?"):
        load(config(), ["algorithm=new(K=2)"])
    spelled = [
        load(config(), [word]).runs[0].key for word in ("algorithm=new", "algorithm=new(k=1)")
    ]
    assert spelled[0] == spelled[1]


@pytest.mark.parametrize("word", ["run.nodes=4", "nodes=4"])
def test_keys_may_be_written_as_messages_name_them(config, word):
    assert load(config(), [word]).runs[0].nodes == 4


@pytest.mark.parametrize("path", CONFIGS, ids=str)
def test_topology_override_leaves_the_parallel_reference_of_every_table(path):
    words = ["topology=hypercube", "nodes=16", "lr=0.1"]  # nobody has tuned a hypercube
    exact = [run for run in load(path).runs if run.topology == "fully_connected"]
    found = load(path, words).runs
    assert {run.topology for run in found} == {"hypercube", *(run.topology for run in exact)}
    kept = {run.algorithm for run in found if run.topology == "fully_connected"}
    assert kept == {run.algorithm for run in exact}


def test_a_new_option_with_a_default_orphans_no_run():
    class Longer(Run):
        averages_every: int = 1
        name_of_it: str | None = None

    values = run_with().model_dump()
    longer = Longer.model_validate(values)
    assert longer.key == run_with().key and longer.canonical() == run_with().canonical()
    assert Longer.model_validate({**values, "averages_every": 2}).key != longer.key
    assert set(longer.model_dump()) > set(values)  # what run.json holds is the whole


def test_keys_are_what_they_were():
    """Committed records are found by these: a change of the text is a change of KEY_SCHEMA."""
    assert run_with().canonical() == (
        '{"algorithm": "dsgd_atc", "lr": 0.2, "nodes": 16, "problem": {"kind": "logistic"}, '
        '"schema": 1, "steps": 110, "topology": "ring"}'
    )
    assert run_with().key == "fd51b078bf53d0be"
    images = {"kind": "classification", "dataset": "digits", "model": "cnn", "partition": "label"}
    labelled = run_with(problem=images, beta=0.9, algorithm="vanilla_dmsgd", seed=3)
    assert '"schema": 2' in labelled.canonical()  # shards are dealt by the seed since then
    contiguous = run_with(problem=images | {"partition": "label_contiguous"}, seed=3)
    assert '"schema": 1' in contiguous.canonical()
    assert '"schema": 2' in run_with(beta=0.9, algorithm="dmsgd").canonical()


def test_key_changes_with_every_value_and_not_with_comments(config):
    key = load(config()).runs[0].key
    assert load(config(BASE + "\n# a comment\n")).runs[0].key == key
    assert load(config(), ["seed=1"]).runs[0].key != key
    assert load(config(), ["problem.batch_size=31"]).runs[0].key != key


@pytest.mark.parametrize("path", CONFIGS, ids=str)
def test_committed_configs_load_with_at_least_three_seeds(path):
    experiment = load(path)
    assert experiment.name == path.stem
    seeds = {run.seed for run in experiment.runs}
    if experiment.tunes:  # seeds of its own: what is chosen by some is shown by others
        assert min(seeds) >= 1000 and all(run.problem.held_out for run in experiment.runs)
    else:
        assert len(seeds) >= 3 and max(seeds) < 1000


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
        ("steps = 10", "epochs = -1", "run.epochs: expected a positive number of epochs, got -1"),
        ("steps = 10", "epochs = 0", "run.epochs: expected a positive number of epochs, got 0"),
        ("steps = 10", "epochs = 1e308", "run.epochs: 1e+308 epochs are more than 1000000000 steps"),
        ("steps = 10", f"epochs = {'9' * 400}", "run.epochs: 9999"),
        ("steps = 10", "epochs = [1, 2]", "run.epochs: expected a number of epochs, got [1, 2]"),
        ("steps = 10", "epochs = 1\ndecay_epochs = 3", "run.decay_epochs: expected a list of numbers of epochs"),
        ("steps = 10", "epochs = 1\nwarmup_epochs = -1", "run.warmup_epochs: expected 0 or a positive number"),
        ("steps = 10", "steps = 10\nevaluate_epochs = 1e308", "run.evaluate_epochs: 1e+308 epochs are more"),
        ("nodes = 4\n", "nodes = 0\nwarmup_epochs = 1\n", "run.nodes: Input should be greater than or equal to 1"),
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


@pytest.mark.parametrize("path", CONFIGS, ids=str)
def test_a_run_survives_being_written_out(path):
    """As in run.json, and where a run is changed by `model_dump` and back."""
    run = load(path).runs[-1]
    assert Run.model_validate(run.model_dump()) == run


# ---- a table that compares ----

TRANSIENTS = """
[[sweep]]
topology = ["ring"]
"nodes, steps, evaluate_every" = [[4, 100, 20]]
[[sweep]]
algorithm = ["psgd"]
topology = ["fully_connected"]
"nodes, steps, evaluate_every" = [[4, STEPS, EVERY]]
[table]
kind = "transients"
title = "t"
metrics = ["error_workers"]
"""


@pytest.mark.parametrize(
    "steps, every, line",
    [
        (99, 10, "has 100 steps and the other only 99"),
        (100, 50, "is measured every 20 steps and the other every 50"),
        (130, 30, "is measured every 20 steps and the other every 30"),
        (100, 20, None),
        (100, 10, None),
        (200, 20, None),
    ],
)
def test_a_transient_needs_its_reference_at_every_step(config, steps, every, line):
    text = CONVEX + TRANSIENTS.replace("STEPS", str(steps)).replace("EVERY", str(every))
    path = config(text.replace("steps = 20", "record_every = 10"))
    if line is None:
        assert len(load(path).runs) == 2
        return
    with pytest.raises(ConfigError, match=re.escape(line)) as caught:
        load(path)
    said = str(caught.value)
    assert "table.kind: dsgd_atc on ring, 4 nodes, logistic, seed 0" in said
    assert "is compared with psgd on fully_connected" in said


def test_the_reference_of_an_algorithm_is_itself_over_exact_averaging():
    parallel = ("dsgd_atc", "vanilla_dmsgd", "dmsgd", "psgd")
    assert {over_exact(name) for name in parallel} == {"psgd"}
    assert all(over_exact(name) == name for name in ("dmsgd_delayed", "qg_dmsgd", "dsgd_cta"))


# ---- which files are experiments ----


def test_the_experiments_of_a_folder_are_tables_first_laptop_before_paper():
    found = experiments("configs")
    assert [e.path.stem for e in found] == [
        "table1", "table2", "table2_paper", "table2_dirichlet", "table3", "table3_paper", "table4",
        "table4_paper", "any_n", "cifar10", "convex", "heterogeneity", "linear_speedup",
        "momentum", "orders",
        "placement", "transient_stage", "transient_stage_cnn", "transients",
        "transients_heterogeneous", "tuning_mlp", "tuning_momentum", "tuning_table2",
        "tuning_table3", "wall_clock",
    ]  # fmt: skip
    for e in found:
        on_gpus = {run.device for run in e.runs} == {"cuda"}
        assert on_gpus == (e.scale == "paper") and e.command.startswith(
            ("make reproduce-", "make tune", "make wall-clock")
        )
        assert e.group == e.path.stem.removesuffix("_paper")
    assert found[2].command.endswith("TABLE=2 SCALE=paper ENGINE=bluefog NP=256 HOSTFILE=hosts")
    assert found[0].title.startswith("Table 1: ") and found[8].title


def test_the_keys_of_an_experiment_have_defaults(config, tmp_path):
    path = config()
    small = load(path)
    assert (small.scale, small.scale_of, small.group) == ("laptop", None, "small")
    assert small.command == f"expograph sweep {path}" and small.title == "small"
    path.with_name("other.toml").write_text('kind = "claims"\n')
    assert [e.name for e in experiments(tmp_path)] == ["small"]
    path.write_text(BASE.replace("[run]", 'scale_of = "smal"\n[run]', 1))
    with pytest.raises(ConfigError, match=r"small\.toml: scale_of: unknown experiment 'smal'; did"):
        experiments(tmp_path)
    path.with_name("other.toml").write_text('kind = "claim"\n')
    with pytest.raises(ConfigError, match=r"other\.toml: kind: unknown kind 'claim'; did you mean"):
        experiments(tmp_path)
    with pytest.raises(ConfigError, match=r"nowhere: no such folder of configs"):
        experiments("nowhere")


@pytest.mark.parametrize("command", ["train", "sweep"])
def test_a_mistake_is_said_without_torch(config, command):
    path = config(BASE.replace("ring", "rnig"))
    code = (
        "import sys; from expograph import cli\n"
        f"status = cli.main([{command!r}, {str(path)!r}])\n"
        "sys.exit(100 if 'torch' in sys.modules or 'pandas' in sys.modules else status)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 2 and "did you mean 'ring'" in done.stderr
