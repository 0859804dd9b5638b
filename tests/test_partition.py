"""Every partition uses every sample once; its heterogeneity goes where theory says."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from expograph.data.partition import PARTITIONS, describe, partition
from expograph.randomness import PARTITION, generator

BALANCED = np.random.default_rng(0).permutation(np.repeat(np.arange(10), 600))  # (6000,)


@st.composite
def problems(draw):
    """(kind, labels, n, seed, alpha) with 1 <= n <= N and arbitrary, gappy labels."""
    labels = draw(st.lists(st.sampled_from([0, 1, 2, 7, 99]), min_size=1, max_size=60))
    n = draw(st.integers(1, len(labels)))
    seed = draw(st.integers(0, 2**32))
    alpha = 10.0 ** draw(st.floats(-6, 6))
    return draw(st.sampled_from(sorted(PARTITIONS))), np.array(labels), n, seed, alpha


@settings(max_examples=300, deadline=None)
@given(problems())
def test_every_sample_is_somewhere_once_and_no_worker_is_empty(problem):
    kind, labels, n, seed, alpha = problem
    shards = partition(kind, labels, n, seed, alpha)
    assert len(shards) == n
    assert all(shard.dtype == np.int64 and shard.ndim == 1 and len(shard) for shard in shards)
    assert sorted(np.concatenate(shards).tolist()) == list(range(len(labels)))
    sizes = [len(shard) for shard in shards]
    assert max(sizes) - min(sizes) <= 1
    again = partition(kind, labels, n, seed, alpha)
    assert all(np.array_equal(a, b) for a, b in zip(shards, again, strict=True))


@settings(max_examples=100, deadline=None)
@given(problems())
def test_label_shards_are_contiguous_in_the_sorted_labels(problem):
    _, labels, n, seed, _ = problem
    shards = partition("label_contiguous", labels, n, seed)
    np.testing.assert_array_equal(np.concatenate([labels[s] for s in shards]), np.sort(labels))


@settings(max_examples=100, deadline=None)
@given(problems())
def test_label_deals_the_contiguous_shards(problem):
    _, labels, n, seed, _ = problem
    dealt = {tuple(shard) for shard in partition("label", labels, n, seed)}
    assert dealt == {tuple(shard) for shard in partition("label_contiguous", labels, n, seed)}


def test_the_seed_draws_which_labels_sit_next_to_which():
    """Over 300 seeds each of 10 workers holds each of the 10 labels about 30 times."""
    first = [BALANCED[partition("label", BALANCED, 10, seed)[0][0]] for seed in range(300)]
    counts = np.bincount(first, minlength=10)
    assert counts.min() > 10 and counts.max() < 60
    for seed in range(3):  # as before: worker i holds label i
        shards = partition("label_contiguous", BALANCED, 10, seed)
        assert [int(BALANCED[shard[0]]) for shard in shards] == list(range(10))


@pytest.mark.parametrize("kind", sorted(PARTITIONS))
def test_the_seed_matters(kind):
    a, b = (partition(kind, BALANCED, 4, seed, 0.5) for seed in (0, 1))
    assert any(not np.array_equal(x, y) for x, y in zip(a, b, strict=True))


@pytest.mark.parametrize("n, at_most", [(10, 1), (7, 3), (20, 1), (13, 2), (100, 1)])
def test_label_shards_hold_few_labels(n, at_most):
    # a shard of ceil(N / n) in a row touches at most ceil(K / n) + 1 classes, one fewer where
    # the shards' ends fall on the classes' ends
    shards = partition("label", BALANCED, n, seed=0)
    assert max(len(np.unique(BALANCED[shard])) for shard in shards) <= at_most


def test_dirichlet_tends_to_iid_and_to_one_class_per_worker():
    def distance(alpha: float) -> float:
        shards = partition("dirichlet", BALANCED, 10, 3, alpha)
        return describe(shards, BALANCED)["label_distance"]

    iid = describe(partition("iid", BALANCED, 10, 3), BALANCED)["label_distance"]
    assert distance(1e6) == pytest.approx(iid, rel=0.3)
    assert distance(1e-3) > 0.7
    assert iid < distance(10) < distance(1) < distance(0.1)


def test_dirichlet_proportions_have_the_variance_of_the_dirichlet():
    """Of the worker that draws first, who takes what it likes; later ones find less choice.

    Of s draws with q ~ Dirichlet(a, ..., a) over K classes the share of a class has mean 1/K and
    variance (1/K) (1 - 1/K) (s + K a) / (s (K a + 1)).
    """
    K, m, n, alpha = 5, 1000, 50, 0.7
    labels = np.repeat(np.arange(K), m)
    s, shares = K * m // n, []
    for seed in range(600):
        rng = generator(seed, PARTITION)
        rng.permutation(len(labels))  # the samples' order is drawn before the workers'
        first = partition("dirichlet", labels, n, seed, alpha)[rng.permutation(n)[0]]
        shares.append(np.bincount(labels[first], minlength=K) / s)
    expected = (1 / K) * (1 - 1 / K) * (s + K * alpha) / (s * (K * alpha + 1))
    assert np.var(shares) == pytest.approx(expected, rel=0.1)
    assert np.mean(shares, axis=0) == pytest.approx(1 / K, abs=4 * (expected / 600) ** 0.5)


def test_dirichlet_takes_what_is_left_where_its_own_classes_have_run_out():
    labels = np.repeat([0, 1], [3, 97])  # whoever likes only class 0 must take the other, too
    for seed in range(20):
        shards = partition("dirichlet", labels, 4, seed, 1e-9)
        assert [len(shard) for shard in shards] == [25] * 4


def test_heterogeneity_of_partitions_worked_out_by_hand():
    labels = np.array([0, 0, 1, 1])
    apart = describe([np.array([0, 1]), np.array([2, 3])], labels)
    assert apart == {"size_min": 2, "size_mean": 2.0, "size_max": 2, "label_distance": 0.5}
    assert describe([np.array([0, 2]), np.array([1, 3])], labels)["label_distance"] == 0
    # (3/4, 1/4) overall; worker 0 has (1, 0): 1/4 away; worker 1 has (1/2, 1/2): 1/4 away
    uneven = describe([np.array([0]), np.array([1, 3])], np.array([5, 5, 5, 8]))
    assert uneven["label_distance"] == pytest.approx(0.25)
    assert (uneven["size_min"], uneven["size_mean"], uneven["size_max"]) == (1, 1.5, 2)


def test_heterogeneity_of_the_extremes():
    iid = describe(partition("iid", BALANCED, 10, 0), BALANCED)
    # E|p_k - 1/10| of a share among m = 600 is about sqrt(2/pi 0.09/600): 10 such, halved
    assert iid["label_distance"] == pytest.approx(5 * (2 / np.pi * 0.09 / 600) ** 0.5, rel=0.25)
    by_label = describe(partition("label", BALANCED, 10, 0), BALANCED)
    assert by_label["label_distance"] == pytest.approx(0.9)


@pytest.mark.parametrize("n", [0, 11])
def test_a_number_of_workers_out_of_range_is_an_error_with_both_numbers(n):
    for kind in PARTITIONS:
        with pytest.raises(ValueError, match=f"10 samples over {n} workers"):
            partition(kind, np.arange(10), n, seed=0, alpha=1.0)


@pytest.mark.parametrize("alpha", [None, 0, -1.0, float("nan"), float("inf"), 1e308])
def test_dirichlet_needs_a_finite_positive_alpha(alpha):
    with pytest.raises(ValueError, match=f"alpha > 0, got {alpha}".replace("+", r"\+")):
        partition("dirichlet", BALANCED, 4, seed=0, alpha=alpha)


def test_an_unknown_kind_is_an_error_that_names_the_known():
    with pytest.raises(
        ValueError, match="'labels', known: iid, label, label_contiguous, dirichlet"
    ):
        partition("labels", BALANCED, 4, seed=0)
