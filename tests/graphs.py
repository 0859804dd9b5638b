"""Topologies for tests that hold of all of them: pairs (name, n) for which there is a graph."""

from functools import cache

from hypothesis import strategies as st

from expograph.graphs.topology import build, names, undefined

defined = cache(names)


def graphs(sizes, stochastic="doubly", among=None):
    """(name, n) of a topology that is defined over n ranks, with such sums of weights."""

    @cache
    def is_one(pair):
        if undefined(*pair):
            return False
        return stochastic is None or build(*pair).at(0).is_(stochastic)

    return st.tuples(st.sampled_from(among or names()), sizes).filter(is_one)
