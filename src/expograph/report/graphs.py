"""A topology as data for its page: where ranks stand, who sends to whom, what products become.

Everything is computed from `topology` and `spectral`; nothing here draws.
"""

from collections.abc import Sequence
from functools import cache

import numpy as np
import pandas as pd

from expograph.graphs.mixing import Mixing
from expograph.graphs.spectral import contraction, spectral_gap, window_of
from expograph.graphs.topology import Topology, build, ceil_log2, grid_shape, undefined

NODE = 0.1  # radius of a rank's disc, in units of the circle's
STUB = 0.55  # of the way to the next rank: how far a link around the torus is drawn


def positions(name: str, n: int) -> np.ndarray:
    """Where ranks stand, (n, 2), within the unit square around 0: on a circle, or on a grid.

    Rank 0 is at the top, the others follow clockwise; grids are filled row by row.
    """
    if name in ("grid", "torus"):
        rows, columns = grid_shape(n)
        row, column = np.divmod(np.arange(n), columns)
        reach = 0.78 / max(rows - 1, columns - 1, 1)  # leaves room for links around the torus
        return reach * np.stack([2 * column - columns + 1, rows - 1 - 2 * row], axis=1)
    if name == "star":
        angle = 2 * np.pi * (np.arange(n) - 1) / max(n - 1, 1)
        place = np.stack([np.sin(angle), np.cos(angle)], axis=1)
        place[0] = 0  # the centre
        return place
    angle = 2 * np.pi * np.arange(n) / n
    return np.stack([np.sin(angle), np.cos(angle)], axis=1)


def messages(topology: Topology, steps: int) -> pd.DataFrame:
    """The messages of steps 0 ... steps-1, a row each: step, source, target, weight.

    x1, y1, x2, y2 are the ends of the arrow, `angle` where it points, in degrees from north;
    NaN for a part without a head: a link around the torus is drawn as two stubs.
    """
    place = positions(topology.name, topology.n)
    rows = []
    for k in range(steps):
        W = topology.at(k).csr.tocoo()
        for i, j, weight in zip(*W.coords, W.data, strict=True):
            if i == j:
                continue
            told = {"step": k, "source": j, "target": i, "weight": weight}
            for start, end, head in _segments(topology, place[j], place[i]):
                (x1, y1), (x2, y2) = start, end
                angle = np.degrees(np.arctan2(x2 - x1, y2 - y1)) if head else np.nan
                rows.append(told | {"x1": x1, "y1": y1, "x2": x2, "y2": y2, "angle": angle})
    columns = ["step", "source", "target", "weight", "x1", "y1", "x2", "y2", "angle"]
    return pd.DataFrame(rows, columns=columns).round(3)


def _segments(topology: Topology, start: np.ndarray, end: np.ndarray):
    """(start, end, whether it has a head) of the parts of one arrow, clear of the discs."""
    way = end - start
    length = np.linalg.norm(way)
    unit = way / length
    if topology.name == "torus":
        apart = 2 * 0.78 / max(*(s - 1 for s in grid_shape(topology.n)), 1)
        if length > 1.5 * apart:  # around: out of the picture, and in on the other side
            out = start - unit * STUB * apart
            return [
                (start - unit * NODE, out, False),
                (end + unit * STUB * apart, end + unit * NODE, True),
            ]
    return [(start + unit * NODE, end - unit * NODE, True)]


def products(topology: Topology, steps: int) -> pd.DataFrame:
    """W(k) and W(k) ... W(0) for k < steps, their nonzero entries: step, target, source, w, p."""
    product = np.eye(topology.n)
    frames = []
    for k in range(steps):
        W = topology.at(k)
        product = W.csr @ product
        dense = W.dense()
        target, source = np.nonzero((product > 1e-12) | (dense > 0))
        entries = {"w": dense[target, source], "p": product[target, source]}
        frames.append(pd.DataFrame({"step": k, "target": target, "source": source, **entries}))
    return pd.concat(frames).round(4)


def residuals(topology: Topology, steps: int) -> pd.DataFrame:
    """|W(k) ... W(0) - J|_2 after each of `steps` steps: step, residual."""
    found = [contraction(window_of(topology, 0, k + 1)) for k in range(steps)]
    return pd.DataFrame({"step": range(steps), "residual": found}).round(6)


def sent_a_step(window: Sequence[Mixing]) -> float:
    """Models that the busiest rank sends a step, mean over the window, as the engines count."""
    return float(np.mean([W.messages for W in window], axis=0).max())


def sent_in_words(window: Sequence[Mixing]) -> str:
    """`sent_a_step` with two digits where they say something."""
    return f"{sent_a_step(window):.2f}".rstrip("0").rstrip(".")


@cache
def facts(name: str, sizes: tuple[int, ...]) -> pd.DataFrame:
    """What a step costs and what it does to disagreement, a row for each n."""
    rows = []
    for n in sizes:
        if reason := undefined(name, n):
            rows.append({"nodes n": n, "period (steps)": f"not defined: {reason}"})
            continue
        topology = build(name, n)
        tau = max(1, ceil_log2(n))
        window = window_of(topology, 0, topology.period or tau)
        heard = max(len({j for W in window for j in W.sources(i)}) for i in range(n))
        static = topology.period == 1
        rows.append(
            {
                "nodes n": n,
                "period (steps)": topology.period or "none: random",
                "messages a step, busiest rank": sent_in_words(window),
                "neighbours a rank hears in all": heard if topology.period else "any",
                "spectral gap 1 - rho": f"{spectral_gap(window[0]):.4f}" if static
                else "time-varying",
                "|W(tau-1) ... W(0) - J|, tau = ceil(log2 n)":
                f"{contraction(window_of(topology, 0, tau)):.4f}",
            }
        )  # fmt: skip
    return pd.DataFrame(rows, dtype=object).fillna("")
