"""Intervals and transient iterations against values worked out by hand and scipy."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from expograph.analysis.statistics import (
    fitted_exponent,
    holm,
    mean_interval,
    paired,
    transient,
    transient_steps,
)

STEPS = np.array([10, 20, 30, 40, 50])


def test_interval_equals_scipy_and_one_value_has_none():
    values = np.array([91.2, 91.9, 90.8])
    low, high = stats.t.interval(0.95, 2, loc=values.mean(), scale=stats.sem(values))
    found = mean_interval(values)
    assert (found.mean - found.half_width, found.mean + found.half_width) == pytest.approx(
        (low, high)
    )
    assert found.count == 3 and "±" in str(found)
    assert mean_interval(np.array([5.0])) == (5.0, None, 1)
    assert str(mean_interval(np.array([5.0]))) == "5.00"


def test_interval_covers_the_truth_as_often_as_it_says():
    rng = np.random.default_rng(0)
    hits = 0
    for _ in range(2000):
        found = mean_interval(rng.standard_normal(3))
        hits += abs(found.mean) <= found.half_width
    assert 0.94 < hits / 2000 < 0.96


@pytest.mark.parametrize(
    ("curve", "expected"),
    [
        ([1, 1, 1, 1, 1], 0),
        ([9, 9, 1, 1, 1], 30),
        ([9, 1, 9, 1.4, 1.4], 40),  # a return above the bound counts
        ([9, 9, 9, 9, 1.5], 50),  # on the bound is within it
        ([1, 1, 1, 1, 1.6], None),
    ],
)
def test_transient_is_the_last_crossing(curve, expected):
    assert transient_steps(STEPS, np.array(curve), np.ones(5), 1.5) == expected


def test_bootstrap_interval_holds_the_measured_value():
    rng = np.random.default_rng(1)
    k = np.arange(1, 401)
    reference = 1 / k * np.exp(0.05 * rng.standard_normal((10, 400)))
    curve = (1 / k + 20 / k**2) * np.exp(0.05 * rng.standard_normal((10, 400)))
    found = transient(k, curve, reference, factor=1.5)  # 1 + 20/k = 1.5 at k = 40
    assert 30 < found.steps < 55
    assert found.low <= found.steps <= found.high


@given(st.lists(st.tuples(st.floats(-9, 9), st.floats(-9, 9)), min_size=2, max_size=9))
def test_paired_difference_is_scipys(pairs):
    a, b = np.array(pairs).T
    found = paired(a, b)
    if np.ptp(a - b) < 1e-6:  # scipy divides by zero
        return
    theirs = stats.ttest_rel(a, b)
    assert found.p == pytest.approx(theirs.pvalue, rel=1e-6)
    interval = theirs.confidence_interval()
    assert (found.low, found.high) == pytest.approx(tuple(interval), rel=1e-6, abs=1e-9)


def test_equal_differences_have_no_doubt():
    assert paired([1.0, 2.0], [1.0, 2.0]).p == 1
    assert paired([2.0, 3.0], [1.0, 2.0]).p == 0


def test_an_exponent_is_that_of_scipys_line_through_logarithms():
    n = np.array([4, 8, 16, 32, 64])
    assert fitted_exponent(n, 7.0 * n**3.0) == pytest.approx(3)
    y = 2.0 * n**2.5 * np.exp([0.1, -0.2, 0.05, 0.1, -0.05])
    assert fitted_exponent(n, y) == pytest.approx(stats.linregress(np.log(n), np.log(y)).slope)


def test_holms_adjustment_is_monotone_and_that_of_the_textbook():
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([0.5, 0.9]) == [1.0, 1.0] and holm([]) == []
