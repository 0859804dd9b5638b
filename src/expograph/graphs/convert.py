"""Schedules from what a user has: a name, edges, a graph of networkx, matrices, or a function.

One step is converted by `mixing`, a schedule by `topology`; `graphs.topology` has the graphs that
are known by name.
"""

import inspect
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import lru_cache, wraps
from typing import Any

import numpy as np
from scipy.sparse import csr_array, issparse

from expograph import names
from expograph.graphs import topology as known
from expograph.graphs.checks import ScheduleError, check_schedule
from expograph.graphs.forms import metropolis
from expograph.graphs.mixing import Mixing, Sparse, Stochastic
from expograph.graphs.topology import Topology
from expograph.looks import ATTRIBUTE, LOOKS, Look
from expograph.own import imported

FORMS = (
    "a name, edges (i, j), a networkx graph, a matrix, a sequence of these, or a function step -> "
    "one of these"
)


def topology(
    what: Any,
    n: int | None = None,
    *,
    name: str = "own",
    period: int | None = None,
    stochastic: Stochastic = "doubly",
    seed: int = 0,
    local_size: int = 1,
    **parameters: Any,
) -> Topology:
    """A schedule of mixing matrices, checked: step k -> W(k), from what you have.

    Its `.at(k)` is a `Mixing`: `.dense()`, `.csr`, `.entries`, `.sources(rank)`,
    `.destinations(rank)`, `.messages` and more. Rows are receivers, as in x <- W x.

    Args:
        what: one of

            - a name, with parameters or not: "one_peer_exponential(order=permutation)";
            - edges, a list or set of (i, j), each linking two ranks both ways: Metropolis weights;
              or (i, j, w) with the weight w of the link, what is left stays with the rank;
            - a networkx graph: Metropolis weights, or those of its edges' "weight" if all have
              one; an arc (i, j) of a directed graph is sent from i to j, and arcs without weights
              must be as many into as out of every node: then all weights are equal;
            - a matrix, (n, n): a numpy array, a scipy sparse array or a `Mixing`;
            - a list of such graphs or matrices, or an array (period, n, n): one after the other,
              again and again;
            - a function step -> such a graph or matrix, the same one each time it is asked;
            - a schedule, which is checked.
        n: number of ranks. Names need it; elsewhere it is found, and checked if given. Of edges it
            is one more than the largest rank, of a function what step 0 has.
        name: what to call it in messages; names and schedules have their own.
        period: of a function: W(k + period) = W(k); None for a fresh matrix each step, of which
            the first 256 are checked.
        stochastic: what is checked: "doubly" (the mean of the models stays what it is), or "row"
            or "column" for rules that need sums of one in rows or in columns alone.
        seed: of the random graphs among the names.
        local_size: ranks a node, as the GPUs of a server; above 1, every rank of what is given
            becomes a server of so many (`graphs.topology.hierarchical`).
        parameters: of a name, as order="uniform".
    Raises:
        ScheduleError, ValueError: in one line, where it is none of these or fails the check.

    >>> import networkx as nx
    >>> graph = topology(nx.cycle_graph(4))
    >>> graph.at(0).dense().round(2).tolist()[0]
    [0.33, 0.33, 0.0, 0.33]
    >>> topology([(0, 1), (1, 2)]).at(0).sources(1)
    {0: 0.3333333333333333, 2: 0.3333333333333333}
    >>> topology("one_peer_exponential", 8).at(1).sources(5)
    {3: 0.5}
    >>> topology(np.array([[0.5, 0.6], [0.5, 0.4]]))
    Traceback (most recent call last):
    expograph.graphs.checks.ScheduleError: own, step 0: the weights that rank 0 takes in sum to \
1.1; the algorithm needs doubly stochastic matrices

    Ref: Metropolis weights, `graphs.forms.metropolis`.
    """
    if isinstance(what, str):
        if n is None:
            raise ValueError(f"topology {what!r}: give n, the number of ranks")
        word, given = names.parse(what)
        schedule = known.build(names.spell(word, given | parameters), n, seed)
    elif parameters:
        raise ValueError(f"{next(iter(parameters))}: parameters go with a name; {_said(what)}")
    elif isinstance(what, Topology):
        schedule = what
    elif callable(what):
        schedule = _of_function(what, n, name, period)
    else:
        schedule = _of_steps(what, n, name)
    if n is not None and schedule.n != n:
        raise ScheduleError(f"{schedule.name}: has {schedule.n} ranks, not n = {n}")
    schedule = known.hierarchical(schedule, local_size)
    check_schedule(schedule, stochastic)
    return schedule


def mixing(what: Any, n: int | None = None) -> Mixing:
    """One step's mixing matrix of edges, a networkx graph or a matrix, unchecked: see `topology`.

    Args:
        what: edges, a networkx graph, an array (n, n), dense or sparse, or a `Mixing`.
        n: number of ranks of edges; None for one more than the largest.
    Raises:
        ValueError: in one line, where it is none of these.

    >>> mixing(np.eye(2)).dense().tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    if isinstance(what, Mixing):
        return what
    if _is_networkx(what):
        return _of_networkx(what)
    if issparse(what) or isinstance(what, np.ndarray):
        return _of_matrix(what)
    if isinstance(what, Iterable) and not isinstance(what, str):
        return _of_edges(list(what), n)
    raise ValueError(f"a topology is {FORMS}; {_said(what)}")


def _of_steps(what: Any, n: int | None, name: str) -> Topology:
    """A static schedule, or one that goes through a sequence of graphs or matrices."""
    stacked = isinstance(what, np.ndarray) and what.ndim == 3
    several = isinstance(what, Sequence) and len(what) and not _is_edge(what[0])
    if several and isinstance(what[0], int | float | str):
        raise ValueError(f"a topology is {FORMS}; {_said(what)}")
    steps = [mixing(one, n) for one in what] if stacked or several else [mixing(what, n)]
    if not steps:
        raise ValueError("a topology needs at least one matrix, got none")
    return Topology(name, steps[0].n, len(steps), lambda k: steps[k % len(steps)])


def _of_function(
    function: Callable[[int], Any], n: int | None, name: str, period: int | None
) -> Topology:
    if period is not None and period < 1:
        raise ValueError(f"period must be at least 1, got {period}")
    if name == "own":
        name = getattr(function, "__name__", name)

    def at(k: int) -> Mixing:
        return mixing(function(k % period if period else k), n)

    first, again = at(0), at(0)
    if first.n != again.n or (first.csr != again.csr).nnz:
        raise ScheduleError(
            f"{name}, step 0: two calls give two matrices; draw by the step, as in "
            "numpy.random.default_rng([seed, k])"
        )
    return Topology(name, first.n, period, lru_cache(maxsize=period or 4)(at))


def _of_matrix(what: Any) -> Mixing:
    if what.ndim != 2 or what.shape[0] != what.shape[1] or not what.shape[0]:
        shape = " x ".join(map(str, what.shape))
        raise ValueError(f"a mixing matrix is square, (n, n); got an array of {shape}")
    try:
        W = csr_array(what, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError(f"a mixing matrix holds numbers; got an array of {what.dtype}") from None
    if np.iscomplexobj(what):
        raise ValueError(f"a mixing matrix holds real numbers; got an array of {what.dtype}")
    return Sparse(W)


def _of_edges(edges: list[Any], n: int | None) -> Mixing:
    """Metropolis weights, or symmetric ones as given, with what is left on the diagonal."""
    for edge in edges:
        if not _is_edge(edge):
            raise ValueError(
                f"an edge is (i, j) or (i, j, weight), a matrix an array; {_said(edge)}"
            )
        if min(edge[:2]) < 0 or (n is not None and max(edge[:2]) >= n):
            most = "" if n is None else f"..{n - 1}"
            raise ValueError(f"edge {tuple(edge)}: ranks are 0{most or ', 1, 2, ...'}")
        if edge[0] == edge[1]:
            raise ValueError(f"edge {tuple(edge)}: links a rank with itself")
    n = 1 + max((max(edge[:2]) for edge in edges), default=0) if n is None else n
    unique = {tuple(sorted(map(int, edge[:2]))): edge for edge in edges}
    weighted = {len(edge) for edge in edges} == {3}
    if not weighted and any(len(edge) == 3 for edge in edges):
        raise ValueError("edges: some have a weight and some have none")
    pairs = np.array(list(unique), dtype=np.int64).reshape(-1, 2)
    if not weighted:
        return metropolis(n, pairs)
    if len(unique) < len(edges):
        raise ValueError("edges: a pair is given twice, and has two weights")
    weights = np.array([edge[2] for edge in unique.values()], dtype=np.float64)
    i, j = pairs.T
    return _completed(n, np.tile(weights, 2), np.append(i, j), np.append(j, i))


def _of_networkx(graph: Any) -> Mixing:
    n = graph.number_of_nodes()
    if not n:
        raise ValueError("a graph without nodes has no ranks")
    if graph.is_multigraph():
        raise ValueError("a multigraph has several edges between two nodes: give a simple graph")
    order = range(n) if set(graph.nodes) == set(range(n)) else list(graph.nodes)
    rank = {node: r for r, node in enumerate(order)}
    arcs = [(rank[i], rank[j], data.get("weight")) for i, j, data in graph.edges(data=True)]
    weighted = [weight is not None for _, _, weight in arcs]
    if any(weighted) and not all(weighted):
        raise ValueError("some edges of the graph have a weight and some have none")
    senders, receivers = np.array([a[:2] for a in arcs], dtype=np.int64).reshape(-1, 2).T
    loops = senders == receivers
    if any(weighted):
        weights = np.array([weight for _, _, weight in arcs], dtype=np.float64)
        if not graph.is_directed():
            weights = np.append(weights, weights[~loops])
            senders, receivers = (
                np.append(senders, receivers[~loops]),
                np.append(receivers, senders[~loops]),
            )
        return _completed(n, weights, receivers, senders)
    senders, receivers = senders[~loops], receivers[~loops]
    if not graph.is_directed():
        return metropolis(n, np.stack([senders, receivers], axis=1))
    degrees = np.append(np.bincount(senders, minlength=n), np.bincount(receivers, minlength=n))
    if (degrees != degrees[0]).any():
        raise ValueError(
            "a directed graph without weights needs as many arcs into as out of every node, the "
            f"same number for all; here they are {degrees.min()} to {degrees.max()}: give weights"
        )
    return _completed(n, np.full(len(senders), 1 / (1 + degrees[0])), receivers, senders)


def _completed(n: int, weights: Any, receivers: Any, senders: Any) -> Mixing:
    """With what a rank's row lacks to one on the diagonal, where the diagonal is not given."""
    W = csr_array((weights, (receivers, senders)), shape=(n, n))
    rest = np.where(W.diagonal() == 0, 1 - W.sum(axis=1), 0)
    rest[np.abs(rest) < 1e-12] = 0  # rounding
    ranks = np.arange(n)
    return Sparse(csr_array(W + csr_array((rest, (ranks, ranks)), shape=(n, n))))


def _is_edge(what: Any) -> bool:
    if not isinstance(what, Sequence) or isinstance(what, str) or len(what) not in (2, 3):
        return False
    return all(isinstance(rank, int | np.integer) for rank in what[:2])


def _is_networkx(what: Any) -> bool:
    networkx = sys.modules.get("networkx")  # what is not imported has made no graph
    return networkx is not None and isinstance(what, networkx.Graph)


def _said(what: Any) -> str:
    text = repr(what)
    text = text if len(text) <= 60 and "\n" not in text else f"an object of {type(what).__name__}"
    return f"got {text}"


def register(text: str) -> str:
    """Make a user's function known to `graphs.topology` by its address; import its module.

    Args:
        text: "module:function", with parameters or not. The function takes n and its parameters,
            also `seed` if it is random, and returns anything that `topology` takes. Its module is
            looked for as Python does, and in the current folder.
    Returns:
        The spelling, with parameters in declared order and without those at their default.
    Raises:
        ValueError: in one line, where there is no such function or no such parameter.
    """
    address, _ = names.parse(text)
    if address not in known.TOPOLOGIES:
        function = imported("topology", address)
        known.TOPOLOGIES[address] = _one_of_ours(function, address)
        LOOKS[address] = getattr(function, ATTRIBUTE, Look())
    return known.canonical(text)


def _one_of_ours(function: Callable[..., Any], address: str) -> Callable[..., Topology]:
    declared = inspect.signature(function)
    if "n" not in declared.parameters:
        raise ValueError(f"topology {address!r}: the function takes no n, the number of ranks")

    @wraps(function)
    def built(n: int, **given: Any) -> Topology:
        try:
            schedule = topology(function(n=n, **given), n, name=address)
        except Exception as e:
            said = " ".join(str(e).split()).removeprefix(f"{address}: ")
            raise ScheduleError(f"topology {address!r}, n = {n}: {said}") from None
        parameters = {key: value for key, value in given.items() if key != "seed"}
        return replace(
            schedule, name=names.spell(address, parameters), seed=given.get("seed", schedule.seed)
        )

    return built
