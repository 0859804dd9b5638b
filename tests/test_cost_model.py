"""The alpha-beta model against arithmetic by hand, and the fit against a link made up here."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from expograph.cost_model import Link, fit, mean_step_seconds, step_seconds
from expograph.topology import build

LINK = Link(alpha=1e-3, beta=8e-9)  # 1 ms, 1 Gbit/s


@pytest.mark.parametrize(
    ("name", "n", "messages"),
    [
        ("ring", 8, 2),
        ("star", 8, 7),  # the hub sends and hears seven
        ("static_exponential", 8, 3),
        ("static_exponential", 6, 3),
        ("one_peer_exponential", 8, 1),
        ("random_match", 8, 1),
        ("random_match", 7, 1),
    ],
)
def test_a_neighbour_step_is_one_latency_and_the_busiest_ranks_messages(name, n, messages):
    message = 4_000_000  # 32 ms on the wire
    expected = 1e-3 + messages * 32e-3
    assert mean_step_seconds(build(name, n), message, LINK) == pytest.approx(expected)


def test_an_all_reduce_is_a_ring():
    W = build("fully_connected", 4).at(0)
    assert step_seconds(W, 4_000_000, LINK) == pytest.approx(6 * 1e-3 + 1.5 * 32e-3)


@pytest.mark.parametrize("name", ["ring", "fully_connected", "one_peer_exponential", "star"])
def test_one_rank_costs_nothing(name):
    assert mean_step_seconds(build(name, 1), 1000, LINK) == 0


@given(st.floats(1e-6, 1e-2), st.floats(1e-11, 1e-7))
def test_fit_finds_the_link_that_made_the_times(alpha, beta):
    sizes = np.array([4e3, 4e4, 4e5, 4e6, 1.6e7])
    found = fit(sizes, alpha + beta * sizes)
    assert found.beta == pytest.approx(beta, rel=1e-5)
    assert found.alpha == pytest.approx(alpha, rel=1e-5)


def test_fit_of_noisy_times_is_never_negative():
    rng = np.random.default_rng(0)
    sizes = np.geomspace(1e3, 1e7, 8)
    for _ in range(50):
        link = fit(sizes, 1e-9 * sizes * rng.lognormal(0, 0.5, len(sizes)))
        assert link.alpha >= 0 and link.beta >= 0
