"""What config checks are told without torch is what algorithms and problems declare."""

import importlib
import importlib.util

import pytest
import torch

from expograph import algorithms, problems
from expograph.config import Run
from expograph.problems.supervised import Supervised
from expograph.runs.assemble import assemble

declared = pytest.mark.skipif(
    importlib.util.find_spec("expograph.config.facts") is None, reason="no facts yet"
)


def facts():
    return importlib.import_module("expograph.config.facts")


@declared
def test_every_algorithm_has_its_facts():
    assert set(facts().ALGORITHMS) == set(algorithms.ALGORITHMS)


@declared
@pytest.mark.parametrize("name", algorithms.ALGORITHMS)
def test_facts_of_an_algorithm_are_what_it_declares(name):
    ours, theirs = algorithms.build(name), facts().ALGORITHMS[name]
    assert theirs.momentum == ours.momentum
    assert theirs.exact == ours.exact
    assert theirs.over_exact == (ours.over_exact or name)
    assert dict(theirs.parameters) == algorithms.parameters(name)


@pytest.mark.parametrize("name", algorithms.ALGORITHMS)
def test_every_parameter_of_an_algorithm_has_a_plain_default(name):
    assert all(type(v) in (int, float, bool, str) for v in algorithms.parameters(name).values())


@declared
def test_facts_of_problems_are_what_they_declare():
    found = {kind: dict(known.metrics) for kind, known in facts().PROBLEMS.items()}
    theirs = found.pop("own")
    built = {kind: problem for kind, problem in problems.PROBLEMS.items() if kind != "own"}
    assert found == {kind: dict(problem.metrics) for kind, problem in built.items()}
    ones = torch.ones(2, 1)
    assert Supervised(torch.nn.Linear(1, 1), torch.dist, ones, ones).over(2).metrics == theirs


IMAGES = {"kind": "classification", "dataset": "digits", "model": "linear", "batch_size": 8}


@pytest.mark.parametrize("problem", [{"kind": "logistic"}, {"kind": "least_squares"}, IMAGES])
def test_a_problem_gives_the_metrics_that_it_names(problem):
    run = Run.model_validate(
        {
            "problem": problem,
            "topology": "ring",
            "nodes": 3,
            "algorithm": "dsgd_atc",
            "steps": 2,
            "lr": 0.01,
        }
    )
    first, last = assemble(run).records()
    common = {*first.values, "train_loss", "lr"}
    assert set(last.values) - common == set(problems.PROBLEMS[run.problem.kind].metrics)
