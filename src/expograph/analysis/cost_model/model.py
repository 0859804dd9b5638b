"""What averaging and training cost on a network: the alpha-beta-gamma model.

A message of m bytes takes alpha + beta m seconds on its link. A rank's messages of one step
share its link, so they follow each other; their latencies overlap.

    neighbours   alpha + degree beta m, degree the larger of the busiest rank's in and out
    all-reduce   2 (n - 1) (alpha + beta m / n), a ring; `ALL_REDUCES` has others

An iteration of training on n servers of g GPUs, b samples a GPU, gamma seconds a sample:

    compute    gamma b
    averaging  all-reduce inside each server, the step between servers, broadcast inside
    iteration  compute + averaging - min(phi averaging, compute)

phi in [0, 1] is the share of the averaging that can hide behind the gradient. An iteration's
seconds say nothing about how many iterations an accuracy takes.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from expograph.graphs.mixing import Mixing
from expograph.graphs.topology import Topology, ceil_log2


class Link(NamedTuple):
    """A full-duplex link.

    Attributes:
        alpha: seconds a message takes however short it is.
        beta: seconds a byte.
    """

    alpha: float
    beta: float

    @property
    def gbit(self) -> float | None:
        """Gbit a second; None where times do not grow with the bytes, so that none is known."""
        return 8e-9 / self.beta if self.beta else None


# ---- one averaging step ----


def ring_all_reduce(n: int, message: float, link: Link) -> float:
    """2 (n - 1) (alpha + beta m / n). Ref: Patarasuk & Yuan 2009."""
    return 2 * (n - 1) * (link.alpha + link.beta * message / n)


def recursive_doubling(n: int, message: float, link: Link) -> float:
    """ceil(log2 n) (alpha + beta m): whole messages to the rank whose number differs in a bit."""
    return ceil_log2(n) * (link.alpha + link.beta * message)


def tree_all_reduce(n: int, message: float, link: Link) -> float:
    """2 (ceil(log2 n) alpha + beta m): up and down pipelined trees at full bandwidth.

    Ref: Sanders, Speck & Traeff 2009, two-tree algorithms.
    """
    return 2 * (ceil_log2(n) * link.alpha + link.beta * message) if n > 1 else 0.0


AllReduce = Callable[[int, float, Link], float]  # ranks, bytes, link -> seconds
ALL_REDUCES: dict[str, AllReduce] = {
    "ring": ring_all_reduce,
    "recursive doubling": recursive_doubling,
    "tree": tree_all_reduce,
}


def step_seconds(
    W: Mixing, message: float, link: Link, all_reduce: AllReduce = ring_all_reduce
) -> float:
    """Seconds to average `message` bytes a rank once with W."""
    if W.n == 1:
        return 0.0
    if W.is_exact_average:
        return all_reduce(W.n, message, link)
    degree = int(max(W.out_degrees.max(), W.in_degrees.max()))
    return (link.alpha + link.beta * message * degree) if degree else 0.0


def mean_step_seconds(
    topology: Topology,
    message: float,
    link: Link,
    steps: int = 64,
    all_reduce: AllReduce = ring_all_reduce,
) -> float:
    """`step_seconds` averaged over the topology's period, or over `steps` random ones."""
    counted = range(topology.period or steps)
    return float(
        np.mean([step_seconds(topology.at(k), message, link, all_reduce) for k in counted])
    )


# ---- one iteration, one training ----


class Workload(NamedTuple):
    """What is trained.

    Attributes:
        message: bytes of the model, averaged once an iteration.
        samples: of the training set.
        epochs: passes over it, by all GPUs together.
    """

    message: float
    samples: int
    epochs: float


class Cluster(NamedTuple):
    """Servers of equal make; the topology's nodes are servers.

    Attributes:
        gpus: in a server.
        batch: samples a GPU takes in an iteration.
        sample_seconds: gamma, seconds a GPU takes for one of them; what else an iteration costs
            whatever the topology, such as reading images, is in it too.
        between: the link of a server to the others.
        inside: the link of a GPU to the others in its server.
        overlap: phi in [0, 1], the share of the averaging that can hide behind the gradient.
        all_reduce: how parallel SGD averages between servers.
    """

    gpus: int
    batch: int
    sample_seconds: float
    between: Link
    inside: Link
    overlap: float = 0.0
    all_reduce: AllReduce = ring_all_reduce


def averaging_seconds(cluster: Cluster, workload: Workload, topology: Topology) -> float:
    """Seconds of an iteration's averaging, none of it hidden; topology.n servers."""
    message, inside = workload.message, cluster.inside
    local = ring_all_reduce(cluster.gpus, message, inside)
    if topology.n > 1 and cluster.gpus > 1:  # what one GPU heard goes to the others
        local += inside.alpha + inside.beta * message
    across = mean_step_seconds(topology, message, cluster.between, all_reduce=cluster.all_reduce)
    return local + across


def iteration_seconds(cluster: Cluster, workload: Workload, topology: Topology) -> float:
    """Seconds of one iteration on topology.n servers."""
    compute = cluster.sample_seconds * cluster.batch
    averaging = averaging_seconds(cluster, workload, topology)
    return compute + averaging - min(cluster.overlap * averaging, compute)


def iterations(cluster: Cluster, workload: Workload, nodes: int) -> float:
    """epochs samples / (nodes gpus batch), a fraction as it comes."""
    return workload.epochs * workload.samples / (nodes * cluster.gpus * cluster.batch)


def training_hours(cluster: Cluster, workload: Workload, topology: Topology) -> float:
    """Hours of the whole training on topology.n servers."""
    seconds = iteration_seconds(cluster, workload, topology)
    return iterations(cluster, workload, topology.n) * seconds / 3600
