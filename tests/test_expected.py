"""The expected error against simulation, limits, and the sums S and H."""

import numpy as np
import pytest
from quadratic import Quadratic as Simulated

from expograph import algorithms
from expograph.graphs import expected
from expograph.graphs.disagreement import H, S
from expograph.graphs.expected import RULES, Quadratic, expected_error
from expograph.graphs.topology import build
from expograph.runs.train import train
from expograph.step_size import StepSize

DECAYING = StepSize(0.2, 30, decay="inverse_sqrt", decay_steps=[10])


def twin(rule, W, x, m, g, lr, beta):
    """A rule's step, as its papers write it."""
    match rule:
        case "dsgd_atc":
            return W @ (x - lr * g), m
        case "dmsgd":
            return W @ (x - lr * (beta * m + g)), W @ (beta * m + g)
        case "dmsgd_delayed":
            return W @ (x - lr * m), W @ (beta * m + g)
        case "vanilla_dmsgd":
            return W @ (x - lr * (beta * m + g)), beta * m + g


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("name", ["one_peer_exponential", "grid", "random_match"])
def test_a_plain_simulation_has_the_expected_error(rule, name):
    """4,000 problems of one coordinate: the mean over them is within a few hundredths."""
    n, beta, h = 6, 0.0 if rule == "dsgd_atc" else 0.6, 1.3
    topology, rng = build(name, n), np.random.default_rng(0)
    problem = Quadratic(sigma2=0.5, zeta2=2.0, initial2=3.0, curvature=h)
    b = rng.standard_normal((n, 4000)) * problem.zeta2**0.5 / h
    b -= b.mean(axis=0)
    x, m = np.full(b.shape, problem.initial2**0.5), np.zeros(b.shape)
    found = expected_error(topology, problem, [DECAYING(k) for k in range(30)], beta, rule)
    for k in range(30):
        g = h * (x - b) + problem.sigma2**0.5 * rng.standard_normal(b.shape)
        x, m = twin(rule, topology.at(k).csr, x, m, g, DECAYING(k), beta)
        mean = x.mean(axis=0)
        assert found.mean[k + 1] == pytest.approx(np.square(mean).mean(), rel=0.1)
        assert found.consensus[k + 1] == pytest.approx(np.square(x - mean).mean(), rel=0.1)
        assert found.workers[k + 1] == pytest.approx(np.square(x).mean(), rel=0.1)


@pytest.mark.parametrize("name", ["dsgd_atc", "vanilla_dmsgd"])
def test_the_training_loop_has_the_expected_error(name):
    """One run of a thousand coordinates, which are alike and independent, is a thousand runs."""
    n, dim, beta = 8, 1000, 0.0 if name == "dsgd_atc" else 0.5
    simulated = Simulated(n, dim, noise=0.7)
    simulated.curvature[:] = 1.0
    topology = build("one_peer_exponential", n)
    problem = Quadratic(sigma2=0.49 * dim, zeta2=dim, initial2=dim * (1 + 1 / n))
    found = expected_error(topology, problem, [DECAYING(k) for k in range(30)], beta, name)
    records = train(
        simulated,
        algorithms.build(name),
        topology,
        steps=30,
        step_size=DECAYING,
        beta=beta,
        record_every=5,
        evaluate_every=5,
    )
    for record in records:
        at = found.mean[record.step], found.consensus[record.step]
        values = record.values["error"], record.values["consensus_distance"]
        assert values == pytest.approx(at, rel=0.12)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("name", ["one_peer_exponential", "torus", "one_peer_hypercube"])
def test_modes_and_covariances_agree(rule, name, monkeypatch):
    beta = 0.0 if rule == "dsgd_atc" else 0.7
    arguments = build(name, 8), Quadratic(1.0, 2.0, 3.0), np.full(20, 0.05), beta, rule
    by_modes = expected_error(*arguments)
    monkeypatch.setattr(expected, "modes_of", lambda topology: None)
    np.testing.assert_allclose(by_modes, expected_error(*arguments), rtol=1e-9, atol=1e-15)


@pytest.mark.parametrize(
    "name", ["one_peer_exponential", "static_exponential", "de_bruijn", "ring"]
)
def test_with_small_steps_the_consensus_distance_is_that_of_S_and_H(name):
    topology = build(name, 8)
    lr, problem = 1e-4, Quadratic(sigma2=2.0, zeta2=3.0)
    found = expected_error(topology, problem, np.full(600, lr)).consensus[-topology.period :]
    predicted = lr**2 * (problem.sigma2 * S(topology) + problem.zeta2 * H(topology)) / 8
    assert found.mean() == pytest.approx(predicted, rel=0.01)


def test_over_exact_averaging_all_momentum_rules_with_the_current_momentum_are_one():
    arguments = build("fully_connected", 5), Quadratic(1.0, 1.0, 1.0), np.full(50, 0.1), 0.9
    dmsgd, vanilla = (expected_error(*arguments, rule) for rule in ("dmsgd", "vanilla_dmsgd"))
    np.testing.assert_allclose(dmsgd.workers, dmsgd.mean)
    np.testing.assert_allclose(dmsgd, vanilla, atol=1e-15)
    sgd = expected_error(build("ring", 5), *arguments[1:3])
    for rule in ("dmsgd", "vanilla_dmsgd"):
        without = expected_error(build("ring", 5), *arguments[1:3], 0.0, rule)
        np.testing.assert_allclose(without, sgd)


def test_past_the_transient_n_times_the_error_is_flat():
    step_sizes = [StepSize(0.05, 1, decay="inverse_sqrt", decay_steps=[10])(k) for k in range(4000)]
    problem = Quadratic(sigma2=1.0, zeta2=1.0, initial2=1.0)
    scaled = [
        n * expected_error(build("static_exponential", n), problem, step_sizes).workers[-1]
        for n in (4, 8, 16, 32)
    ]
    assert scaled == pytest.approx([np.mean(scaled)] * 4, rel=0.05)


def test_what_cannot_be_computed_is_refused_in_one_line():
    with pytest.raises(ValueError, match="rule must be one of"):
        expected_error(build("ring", 4), Quadratic(1.0), [0.1], rule="psgd")
    with pytest.raises(ValueError, match="at most 1,024 ranks"):
        expected_error(build("random_match", 1026), Quadratic(1.0), [0.1])
    with pytest.raises(ValueError, match="at most 4,096 ranks"):
        expected_error(build("ring", 5000), Quadratic(1.0), [0.1])
