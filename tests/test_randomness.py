"""Addressed randomness and the batches drawn with it."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from expograph.data.batches import Batches
from expograph.randomness import BATCHES, NOISE, generator


def test_equal_addresses_give_equal_draws_and_others_do_not():
    draws = lambda *a: generator(*a).random(4).tolist()  # noqa: E731
    assert draws(1, NOISE, 2, 3) == draws(1, NOISE, 2, 3)
    others = [(0, NOISE, 2, 3), (1, BATCHES, 2, 3), (1, NOISE, 3, 2), (1, NOISE, 2)]
    others += [(1, NOISE, 2, 3, 0), (2**31, NOISE, 2, 3)]
    assert draws(1, NOISE) != draws(1, NOISE, 0)  # trailing zeros count
    assert all(draws(*a) != draws(1, NOISE, 2, 3) for a in others)


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 30), st.integers(1, 12), st.integers(0, 5))
def test_each_sample_is_seen_once_an_epoch(size, batch_size, seed):
    shard = np.arange(size) + 100
    batches = Batches([shard, shard[:1]], [0, 1], batch_size, seed)
    stream = np.concatenate([batches.at(k)[0] for k in range(4 * size)])
    for epoch in range(4 * batch_size):
        assert sorted(stream[epoch * size : (epoch + 1) * size]) == shard.tolist()


def test_batches_are_addressed_by_rank_and_step():
    shards = np.split(np.arange(120), 4)
    all_ranks, only_2 = Batches(shards, range(4), 7, 1), Batches(shards, [2], 7, 1)
    for k in (0, 9, 3, 40):  # in any order, as after a resume
        np.testing.assert_array_equal(all_ranks.at(k)[2], only_2.at(k)[0])
    fresh = Batches(shards, range(4), 7, 1).at(9)
    np.testing.assert_array_equal(fresh, all_ranks.at(9))
    assert set(all_ranks.at(5)[3]) <= set(shards[3])


@pytest.mark.parametrize("seed", range(3))
def test_other_seeds_give_other_orders(seed):
    shards = [np.arange(1000)]
    assert (Batches(shards, [0], 50, seed).at(0) != Batches(shards, [0], 50, seed + 1).at(0)).any()
