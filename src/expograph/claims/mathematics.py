"""Claims about matrices, messages and step sizes: checked by computing, without noise."""

import itertools
import math
from pathlib import Path
from typing import Annotated

import numpy as np
import torch
from pydantic import Field

from expograph.algorithms import Algorithm, Mix
from expograph.algorithms import build as build_algorithm
from expograph.analysis.statistics import mean_interval
from expograph.analysis.written import name_of
from expograph.claims import evidence
from expograph.claims.arguments import Algorithms, Folder, Nodes, Share
from expograph.claims.outcome import NotMeasured, Part, sure
from expograph.engines.embedded import Embedded
from expograph.graphs import theory
from expograph.graphs.modes import modes_of
from expograph.graphs.spectral import contraction, rho, window_of
from expograph.graphs.topology import build, ceil_log2, one_peer_exponential, static_exponential

ROUNDING = 1e-12
Dense = Annotated[int, Field(ge=2, le=512)]  # of dense linear algebra for every n up to it
Permuted = Annotated[int, Field(ge=2, le=256)]  # log2 n matrices are taken in every order
Residual = Annotated[float, Field(ge=0, le=1)]
NodesKey = Annotated[int, Field(ge=2, le=4096, strict=False)]  # the keys of a TOML table are text
Draws = Annotated[int, Field(ge=2, le=200_000)]
Drawn = Annotated[list[Annotated[int, Field(ge=2, le=256)]], Field(min_length=1)]
Momentum = Annotated[float, Field(ge=0, lt=1)]


def static_gap(
    root: Path, largest: Annotated[int, Field(ge=3, le=16384)], largest_dense: Dense
) -> list[Part]:
    """1 - rho of the static exponential graph against 2 / (1 + ceil(log2 n)), every n."""
    sizes = np.arange(2, largest + 1)
    gaps = np.array([1 - rho(static_exponential(int(n)).at(0)) for n in sizes])
    excess = gaps - [theory.static_exponential_gap(int(n)) for n in sizes]
    even, odd = excess[sizes % 2 == 0], excess[(sizes % 2 == 1)]
    dense = []
    for n in range(2, largest_dense + 1):
        W = static_exponential(n).at(0)
        norm = np.linalg.norm(W.dense() - 1 / n, ord=2)
        values = np.linalg.eigvals(W.dense() - 1 / n)
        dense.append(abs(norm - np.abs(values).max()))
    return [
        Part(
            "even",
            f"equality for every even n up to {largest}",
            sure(np.abs(even).max() < ROUNDING),
            f"largest difference {np.abs(even).max():.1e}",
        ),
        Part(
            "odd",
            f"larger for every odd n from 3 to {largest}",
            sure(odd.min() > ROUNDING),
            f"smallest excess {odd.min():.4f}, at n = {sizes[sizes % 2 == 1][odd.argmin()]}",
        ),
        Part(
            "norm",
            f"|W - J|_2 = rho for every n up to {largest_dense}, dense linear algebra",
            sure(max(dense) < 1e-10),
            f"largest difference {max(dense):.1e}",
        ),
    ]


def exact_averaging(
    root: Path,
    largest: Nodes,
    largest_orders: Permuted,
    residuals: Annotated[dict[NodesKey, Residual], Field(min_length=1)],
) -> list[Part]:
    """Products of one-peer exponential matrices against J.

    `residuals` are |W(tau-1) ... W(0) - J|_2 by n, computed elsewhere.
    """
    powers = [2**t for t in range(1, largest.bit_length()) if 2**t <= largest]
    starts = [
        contraction(window_of(one_peer_exponential(n), start, ceil_log2(n)))
        for n in powers
        for start in range(2 * ceil_log2(n))
    ]
    ordered = [
        contraction(order)
        for n in powers
        if n <= largest_orders
        for order in itertools.permutations(window_of(one_peer_exponential(n), 0, ceil_log2(n)))
    ]
    measured = {n: _period_residual(n) for n in residuals}
    apart = max(abs(measured[n] - value) for n, value in residuals.items())
    smallest = min(_period_residual(n) for n in range(3, 200) if n & (n - 1))
    return [
        Part(
            "starts",
            f"log2 n steps average exactly from {len(starts)} starts, n = 2 ... {powers[-1]}",
            sure(max(starts) < ROUNDING),
            f"largest |product - J|_2 {max(starts):.1e}",
        ),
        Part(
            "orders",
            f"in every order of the log2 n matrices, n up to {largest_orders}",
            sure(max(ordered) < ROUNDING),
            f"{len(ordered)} orders, largest |product - J|_2 {max(ordered):.1e}",
        ),
        Part(
            "other-n",
            "not for n off the powers of two",
            sure(smallest > 1e-3),
            f"n = 3 ... 199: smallest |product - J|_2 over a period {smallest:.4f}",
        ),
        Part(
            "residuals",
            f"with the residuals computed elsewhere, {len(residuals)} n",
            sure(apart < 5e-5),
            f"largest difference {apart:.1e}, as n = 6: {measured.get(6, math.nan):.5f}",
        ),
    ]


def _period_residual(n: int) -> float:
    """|W(tau-1) ... W(0) - J|_2 of the one-peer exponential graph."""
    return contraction(window_of(one_peer_exponential(n), 0, ceil_log2(n)))


def uniform_sampling(root: Path, nodes: Drawn, steps: Draws) -> list[Part]:
    """The worst Fourier mode under one-peer graphs drawn uniformly, step by step."""
    parts = []
    for n in nodes:
        tau = ceil_log2(n)
        topology = build("one_peer_exponential(order=uniform)", n, seed=0)
        modes = modes_of(topology)
        assert modes is not None, "one-peer graphs are circulant"
        factors = np.array([np.abs(modes.at(k)) ** 2 for k in range(steps)])
        worst = int(factors.mean(axis=0).argmax())
        found = mean_interval(factors[:, worst])
        predicted = theory.uniform_sampling_contraction(n)
        period = contraction(window_of(topology, 0, tau))
        # the largest of n - 1 noisy means is compared: two intervals' width
        assert found.half_width is not None, "one step has no interval"
        near = abs(found.mean - predicted) < 2 * found.half_width + ROUNDING
        parts.append(
            Part(
                f"n={n}",
                f"n = {n}: worst mode contracts by 1 - 1/{tau} = {predicted:.4f} in mean square",
                sure(near),
                f"{found.mean:.4f} ± {found.half_width:.4f} over {steps} draws; "
                f"|product of the first {tau} - J|_2 {period:.3f}",
            )
        )
    return parts


def communication(root: Path, nodes: Nodes, engines: Folder) -> list[Part]:
    """Bytes that the engines count, in messages of one model a step.

    `engines` is the folder of what `make engines-agree` measures.
    """
    expected = {
        "one_peer_exponential": (1, 1),
        "static_exponential": (ceil_log2(nodes), ceil_log2(nodes)),
        "ring": (2, 2),
        "grid": (2, 4),
        "torus": (2, 4),
        "half_random": (0.4 * nodes, 0.75 * nodes),
        "star": (nodes - 1, nodes - 1),
    }
    parts = []
    for name, (low, high) in expected.items():
        sent = _messages_sent(name, nodes)
        wanted = f"{low:g}" if low == high else f"{low:g} to {high:g}"
        parts.append(
            Part(
                name,
                f"{name_of(name)}, n = {nodes}: {wanted} messages a step from the busiest rank",
                sure(low <= sent <= high),
                f"{sent:.2f} counted by the embedded engine",
            )
        )
    return [*parts, _engines_count_alike(root, engines)]


def _messages_sent(name: str, nodes: int) -> float:
    """Models a step that the busiest rank sends, as the embedded engine counts."""
    topology = build(name, nodes, seed=0)
    engine, x = Embedded(topology), torch.zeros(nodes, 10)
    steps = topology.period or 10
    for k in range(steps):
        x = engine.mixer(k)(x)
    return int(engine.sent.max()) / (steps * x[0].nbytes)


def _engines_count_alike(root: Path, engines: str) -> Part:
    text = "BlueFog, mpi4py and Horovod engines count the embedded engine's bytes"
    try:
        found = evidence.table(root / engines, "agreement", "engines-agree")
    except NotMeasured as e:
        return Part("engines", text, "not measured", str(e))
    apart = [abs(row["bytes"] / row["bytes_embedded"] - 1) for row in found.means()]
    return Part(
        "engines",
        text,
        sure(max(apart) < 1e-3),  # an all-reduce's 2 (n - 1) / n is rounded, by array or message
        f"{apart.count(0)} of {len(apart)} runs equal to the byte, the others within "
        f"{max(apart):.0e} ({engines}/{evidence.FILE})",
    )


def stability(root: Path, algorithms: Algorithms, beta: Momentum, within: Share) -> list[Part]:
    """Largest stable step size on f(x) = L x^2 / 2 by bisection; heavy-ball's is 2 (1 + beta) / L.

    One worker, so that nothing but the momentum's rule is seen. A step size is stable if a
    thousand steps from x = 1 end below it.
    """
    limit = 2 * (1 + beta)
    parts = []
    for name in algorithms:
        low, high = 0.0, 2 * limit
        while high - low > 1e-4:
            lr = (low + high) / 2
            low, high = (lr, high) if _settles(build_algorithm(name), lr, beta) else (low, lr)
        parts.append(
            Part(
                name,
                f"{name_of(name)}, beta = {beta:g}: lr L up to {limit:.2f}, within {within:.0%}",
                sure(abs(low / limit - 1) <= within),
                f"stable up to lr L = {low:.3f}",
            )
        )
    return parts


def _settles(rule: Algorithm, lr: float, beta: float) -> bool:
    state = rule.init(torch.ones((1, 1), dtype=torch.float64))
    alone = Mix(lambda *x: lambda: x if len(x) > 1 else x[0])
    for _ in range(1000):
        state = rule.step(state, lambda x: x.clone(), alone, lr, beta)
        if not abs(float(rule.model(state))) < 1e6:
            return False
    return abs(float(rule.model(state))) < 1
