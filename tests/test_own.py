"""Topologies of a user's own, named in a config by an address."""

import json
import sys
from pathlib import Path

import networkx as nx
import numpy as np
import pytest

from expograph import algorithms, cli, looks, own
from expograph.analysis.table_result import load as load_tables
from expograph.analysis.written import name_of
from expograph.config import facts, load
from expograph.graphs import theory
from expograph.graphs import topology as topologies
from expograph.graphs.convert import register
from expograph.report.style import line_style
from expograph.runs import records, store
from expograph.runs.fingerprint import fingerprint, modules

CONFIG = """
name = "chords"
[run]
nodes = 6
steps = 20
lr = 0.1
problem = { kind = "logistic" }
algorithm = "dsgd_atc"
[[sweep]]
topology = ["ring", "chords_of_mine:chordal_ring", "chords_of_mine:chordal_ring( hops = 3 )"]
"""
MODULE = """
import networkx as nx
import expograph as eg

@eg.named("chordal ring", "#7f3b08", communication="4", gap="1/n^2", transient="n^7")
def chordal_ring(n, hops=2):
    return nx.circulant_graph(n, list(range(1, hops + 1)))

def sum_above_one(n):
    chain = nx.DiGraph([(0, 1, {"weight": 0.5})])
    chain.add_nodes_from(range(n))
    return chain

def without_nodes():
    pass

@eg.named("plain SGD")
def plain(scale=1.0):
    def step(x, grad, mix, lr, beta):
        return mix(x.sub(grad(x), alpha=scale * lr))
    return eg.Algorithm(step, init=lambda x0: x0, model=lambda x: x)
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    (tmp_path / "chords.toml").write_text(CONFIG)
    (tmp_path / "chords_of_mine.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    registries = (topologies.TOPOLOGIES, algorithms.ALGORITHMS, facts.ALGORITHMS, looks.LOOKS)
    before = [dict(registry) for registry in registries]
    yield tmp_path
    sys.modules.pop("chords_of_mine", None)
    for registry, content in zip(registries, before, strict=True):
        registry.clear()
        registry.update(content)


def test_a_config_is_read_without_the_module(folder):
    names = [run.topology for run in load(Path("chords.toml")).runs]
    assert names == ["ring", *(f"chords_of_mine:chordal_ring{p}" for p in ("", "(hops=3)"))]
    assert "chords_of_mine" not in sys.modules
    assert own.canonical("m:f(b=1,  a=2)") == "m:f(a=2, b=1)"


def test_it_is_a_topology_like_ours(folder):
    name = register("chords_of_mine:chordal_ring(hops=3)")
    schedule = topologies.build(name, 8)
    assert schedule.name == name and topologies.canonical("chords_of_mine:chordal_ring(hops=2)")
    graph = nx.circulant_graph(8, [1, 2, 3])
    W = np.where(nx.to_numpy_array(graph) > 0, 1 / 7, 0)
    np.testing.assert_allclose(schedule.at(0).dense(), W + np.diag(1 - W.sum(axis=1)))


def test_it_is_shown(folder, capsys):
    assert cli.main(["topology", "show", "chords_of_mine:chordal_ring", "--nodes", "6"]) == 0
    assert "chordal_ring over 6 ranks" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("chords_of_mine:chordal_rin", "did you mean 'chordal_ring'"),
        ("chords_of_mine:chordal_ring(hop=1)", "did you mean 'hops'"),
        ("chords_of_mine:sum_above_one", "rank 0 gives sum to 1.5"),
        ("chords_of_mine:without_nodes", "takes no n"),
        ("no_such_module:graph", "can't be imported"),
    ],
)
def test_what_is_none_is_one_line_before_the_training(folder, capsys, name, words):
    assert cli.main(["train", "chords.toml", f"topology={name}"]) == 2
    said = capsys.readouterr().err
    assert words in said and said.count("\n") == 1 and said.startswith("chords.toml: ")


def test_its_code_counts_for_its_runs_alone(folder):
    ring, mine, _ = load(Path("chords.toml")).runs
    assert {"chords_of_mine", "expograph.graphs.convert"} <= set(modules(mine))
    assert "expograph.graphs.convert" not in modules(ring)
    assert fingerprint(mine) != fingerprint(ring)


def test_name_colour_and_theory_come_with_the_record(folder):
    name = load(Path("chords.toml")).runs[2].topology
    assert name_of(name) == name  # not met yet
    look = looks.Look("chordal ring", "#7f3b08", "4", "1/n^2", "n^7")._asdict()
    run = load(Path("chords.toml")).runs[2]
    record = records.RunRecord(
        key=run.key,
        status="done",
        run=run.model_dump(exclude_defaults=True),
        final={"step": 20},
        provenance={},
        curve={"step": [20]},
        looks={own.address(name): look},
    )
    records.write(folder / records.FILE, [record])
    assert records.read(folder / records.FILE) == {run.key: record}
    assert name_of(name) == "chordal ring (hops=3)"
    assert line_style(name)["color"] == "#7f3b08"
    assert theory.rate_of(name) == theory.Rate("4", "1/n^2", "n^7")
    assert "chords_of_mine" not in sys.modules


def test_a_rule_is_one_like_ours(folder):
    names = "[vanilla_dmsgd,chords_of_mine:plain,chords_of_mine:plain(scale=0.5)]"
    assert (
        cli.main(["train", "chords.toml", f"algorithm={names}", "topology=ring", "--jobs=1"]) == 0
    )
    finished = store.runs_folder(folder / "results").glob("*/run.json")
    found = [json.loads(path.read_text()) for path in finished]
    finals = {one["run"]["algorithm"]: one["final"]["error_workers"] for one in found}
    assert finals["chords_of_mine:plain"] == finals["vanilla_dmsgd"]  # beta is 0
    assert finals["chords_of_mine:plain(scale=0.5)"] != finals["vanilla_dmsgd"]
    assert name_of("chords_of_mine:plain(scale=0.5)") == "plain SGD (scale=0.5)"


@pytest.mark.parametrize("given", [("", ""), ("a\nb", ""), ("a", "brown"), ("a", "#12345")])
def test_looks_are_checked(given):
    with pytest.raises(ValueError, match="named: ") as found:
        looks.named(*given)
    assert "\n" not in str(found.value)


IMAGES = """
name = "squares"
[run]
nodes = 4
steps = 30
lr = 0.1
topology = "one_peer_exponential"
algorithm = "dsgd_atc"
problem = { kind = "classification", dataset = "chords_of_mine:squares", model = "linear" }
[[sweep]]
seed = [0, 1]
[table]
title = "Squares"
metrics = ["accuracy_averaged"]
"""
LINES = IMAGES.replace("squares", "lines").replace("Squares", "Lines")
LINES = LINES.replace(
    '{ kind = "classification", dataset = "chords_of_mine:lines", model = "linear" }',
    '"chords_of_mine:a_line(noise = 0.1)"',
).replace('["accuracy_averaged"]', '["loss_averaged", "distance_averaged", "train_loss"]')
PROBLEMS = """
import numpy as np
import torch
import expograph as eg

def squares(size=200):
    images = np.zeros((size, 6, 6, 1), dtype=np.uint8)
    labels = np.arange(size) % 2
    images[labels == 1, 2:4, 2:4] = 255
    return (images, labels), (images[:20], labels[:20])

def no_images():
    return (np.zeros(3), np.zeros(3)), (np.zeros(3), np.zeros(3))

def a_line(noise, seed):
    draws = torch.Generator().manual_seed(seed)
    inputs = torch.randn(100, 2, generator=draws)
    targets = inputs.sum(1, keepdim=True) + noise * torch.randn(100, 1, generator=draws)
    torch.manual_seed(0)
    def distance(outputs, targets):
        return (outputs - targets).abs().mean()
    loss = torch.nn.functional.mse_loss
    scores = {"distance": distance}
    return eg.Supervised(torch.nn.Linear(2, 1), loss, inputs, targets, scores=scores)

def nothing():
    return None

def misnamed():
    made = a_line(1.0, 0)
    scores = {"error": made.loss}
    return eg.Supervised(made.module, made.loss, made.inputs, made.targets, scores=scores)
"""


@pytest.fixture
def problems(folder):
    (folder / "chords_of_mine.py").write_text(MODULE + PROBLEMS)
    (folder / "squares.toml").write_text(IMAGES)
    (folder / "lines.toml").write_text(LINES)
    before = dict(facts.DATASETS)
    yield folder
    facts.DATASETS.clear()
    facts.DATASETS.update(before)


def table(folder, name):
    assert cli.main(["sweep", f"{name}.toml", "--jobs=1"]) == 0
    return load_tables(folder / "results" / name)


def test_data_of_ones_own_are_trained_on_and_shown_without_the_module(problems, capsys):
    tables = table(problems, "squares")
    (row,) = tables.tables[0].means()
    assert list(row.values())[-1] == 100
    sys.modules.pop("chords_of_mine")
    (problems / "chords_of_mine.py").unlink()
    capsys.readouterr()
    assert cli.main(["table", "squares"]) == 0 and "100.00" in capsys.readouterr().out


def test_a_problem_of_ones_own_has_metrics_of_its_own(problems):
    tables = table(problems, "lines")
    headings = [one.heading for one in tables.tables if one.rows]
    assert headings[:2] == ["loss of the averaged model", "distance of the averaged model"]
    ((_, loss),) = list(tables.tables[0].means()[0].items())[-1:]
    assert 0 < loss < 0.05
    one, other = load(Path("lines.toml")).runs
    assert one.problem.of == "chords_of_mine:a_line(noise=0.1)" and one.key != other.key
    assert "chords_of_mine" in modules(one) and one.trained == one.problem.of
    curves = [store.curve(run, problems / "results") for run in (one, other)]
    assert not curves[0].equals(curves[1])  # the seed reaches the function


def test_a_record_does_not_run_code_unasked(problems, capsys):
    table(problems, "lines")
    run = load(Path("lines.toml")).runs[0]
    sys.modules.pop("chords_of_mine")
    assert cli.main(["run", run.key, "--again"]) == 2
    said = capsys.readouterr().err
    assert "chords_of_mine:a_line" in said and "--import-own" in said and said.count("\n") == 1
    assert "chords_of_mine" not in sys.modules
    assert cli.main(["run", run.key]) == 0 and "chords_of_mine" not in sys.modules
    assert cli.main(["run", run.key, "--again", "--import-own"]) == 0
    assert "bit-identical" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("config", "word", "said"),
    [
        ("lines", "problem=chords_of_mine:nothing", "returns no expograph.Supervised"),
        ("lines", "problem=chords_of_mine:a_lin(noise=1)", "did you mean 'a_line'"),
        ("lines", "problem=chords_of_mine:a_line(nois=1)", "did you mean 'noise'"),
        ("lines", "problem=chords_of_mine:a_line", "missing 1 required"),
        ("lines", "problem=chords_of_mine:misnamed", "score 'error' is the name of another metric"),
        ("lines", "problem=chords_of_mine", "expected 'module:function'"),
        ("lines", "nodes=101", "100 samples can't be divided over 101 workers"),
        ("lines", "device=cuda", "a problem of your own is trained on the CPU"),
        ("squares", "problem.dataset=chords_of_mine:no_images", "expected ((images, labels)"),
        ("squares", "problem.dataset=chords_of_mine:squares(sizes=3)", "sizes"),
        ("squares", "epochs=1", "give steps"),
        ("squares", "nodes=201", "201"),
    ],
)
def test_what_is_no_problem_is_one_line_before_the_training(problems, capsys, config, word, said):
    assert cli.main(["train", f"{config}.toml", word]) == 2
    error = capsys.readouterr().err
    assert said in error and error.count("\n") == 1
    assert not (problems / "results").exists()
