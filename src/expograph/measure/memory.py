"""Memory of the embedded engine: the peak of a fresh process, less what it had at its start."""

import multiprocessing
import resource
import time
from collections.abc import Callable
from typing import Any

import torch

from expograph import algorithms
from expograph.engines.embedded import Embedded
from expograph.graphs.spectral import spectral_gap
from expograph.graphs.topology import build
from expograph.measure.ratios import Ratio
from expograph.memory import keep_freed_memory

LR, BETA = 0.01, 0.9


def of_steps(n: int = 16, d: int = 1_000_000) -> list[Ratio]:
    """Ten training steps, in units of the arrays that an algorithm cannot do without."""
    rows = []
    for algorithm, topology in (
        ("vanilla_dmsgd", "one_peer_exponential"),
        ("dmsgd", "static_exponential"),
        ("qg_dmsgd", "random_match"),
    ):
        _, peak = in_fresh_process(many_steps, algorithm, topology, n, d)
        ratio = peak / (3 * n * d * 4)
        name = f"{algorithm} on {topology}, n = {n}, d = {d:,}"
        what = f"{name}: peak memory / (models + gradients + momenta)"
        rows.append(Ratio("memory", what, ratio, target="<= 1.7"))
    return rows


def of_a_million_nodes() -> list[Ratio]:
    """The spectral gap and exact averaging of 2^20 nodes."""
    group = "a million nodes, n = 2^20"
    gap_seconds, _ = in_fresh_process(a_million_gap)
    seconds, peak = in_fresh_process(a_million_averages)
    return [
        Ratio(group, "spectral gap, seconds", gap_seconds, target="<= 0.1"),
        Ratio(group, "exact averaging, d = 16, seconds", seconds, target="<= 1"),
        Ratio(group, "exact averaging, d = 16, peak GiB", peak / 2**30, target="<= 1"),
    ]


def in_fresh_process(function: Callable, *arguments: Any) -> tuple[Any, int]:
    """(what `function` returns, its peak of resident memory above the start in bytes)."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(_measured, (function, *arguments))


def _measured(function: Callable, *arguments: Any) -> tuple[Any, int]:
    torch.zeros(8).sum()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    value = function(*arguments)
    return value, 1024 * (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)


def many_steps(algorithm: str, topology: str, n: int, d: int) -> None:
    """Ten steps on a quadratic, whose only arrays are models, gradients and momenta."""
    keep_freed_memory()
    rule, engine = algorithms.build(algorithm), Embedded(build(topology, n))
    state = rule.init(torch.randn(n, d))
    for k in range(10):
        state = rule.step(state, lambda x: 0.5 * x, engine.mixer(k), LR, BETA)


def a_million_gap() -> float:
    """Seconds of the spectral gap of 2^20 nodes."""
    start = time.perf_counter()
    spectral_gap(build("static_exponential", 2**20).at(0))
    return time.perf_counter() - start


def a_million_averages() -> float:
    """Seconds in which 2^20 nodes average exactly."""
    start = time.perf_counter()
    topology = build("one_peer_exponential", 2**20)
    engine, x = Embedded(topology), torch.randn(2**20, 16)
    mean = x.double().mean(dim=0)
    assert topology.period is not None
    for k in range(topology.period):
        x = engine.mixer(k)(x)
    assert float((x - mean).abs().max()) < 1e-5
    return time.perf_counter() - start
