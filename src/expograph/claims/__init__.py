"""The paper's claims, measured: each is cut into parts that hold, do not, or stay undecided.

    [[claim]]                 # configs/claims.toml
    id = "gap"
    statement = "..."
    source = "where it is claimed"
    check = "static_gap"      # a function of this module, in `CHECKS`
    with = { largest = 4096 } # its arguments

A part that compares measured numbers holds if its whole 95 % interval is on the claimed side, does
not if the whole interval is on the other, and is undecided between: more noise never helps a claim.
What needs runs reads them from results/, never trains, and says which are missing.
"""

import itertools
import math
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
import pandas as pd
import torch
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from expograph.algorithms import ALGORITHMS, Mix, init
from expograph.analysis.statistics import mean_interval, paired, power_law
from expograph.config import ConfigError, Experiment, load, read_toml
from expograph.engines.embedded import Embedded
from expograph.graphs import theory
from expograph.graphs.spectral import contraction, rho, window_of
from expograph.graphs.topology import build, ceil_log2, one_peer_exponential, static_exponential
from expograph.names import known
from expograph.report.reading import csv
from expograph.report.style import name_of
from expograph.report.tables import fitted, transient_exponent, transients
from expograph.runs import results

ROUNDING = 1e-12
ACCURACY = "accuracy_averaged"


Outcome = Literal["yes", "no", "undecided", "not measured"]


class Part(NamedTuple):
    """One testable part of a claim.

    Attributes:
        text: what should hold.
        holds: whether it does.
        evidence: numbers, with their intervals where they are means.
        runs: keys of the runs it rests on.
    """

    text: str
    holds: Outcome
    evidence: str
    runs: tuple[str, ...] = ()


class Claim(BaseModel):
    """A [[claim]] of the file."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    id: str = Field(pattern=r"^[a-z0-9-]+$")
    statement: str
    source: str
    check: str
    arguments: dict[str, Any] = Field({}, alias="with")


class Finding(NamedTuple):
    """A claim with its measured parts."""

    claim: Claim
    parts: list[Part]

    @property
    def verdict(self) -> str:
        """In a word: reproduced if all parts hold, partly if some do, not reproduced if none does
        and one is refuted, else undecided or not measured."""
        outcomes = {part.holds for part in self.parts}
        if outcomes == {"yes"}:
            return "reproduced"
        for found, word in (("yes", "partly"), ("no", "not reproduced")):
            if found in outcomes:
                return word
        return "undecided" if "undecided" in outcomes else "not measured"

    @property
    def counts(self) -> str:
        """How many parts hold, do not, ..., in words: "3 yes, 1 undecided"."""
        found = Counter(part.holds for part in self.parts)
        return ", ".join(f"{found[o]} {o}" for o in get_args(Outcome) if found[o])


class NotMeasured(Exception):
    """Evidence that is not there; the message says how to make it."""


def sure(holds: bool) -> Outcome:
    """The outcome of what has no noise."""
    return "yes" if holds else "no"


def between(low: float, high: float, lowest: float = -math.inf, most: float = math.inf) -> Outcome:
    """Whether a number known to lie in [low, high] lies between `lowest` and `most`."""
    if lowest <= low and high <= most:
        return "yes"
    return "no" if high < lowest or low > most else "undecided"


def every(outcomes: Iterable[Outcome]) -> Outcome:
    """The outcome of a statement about each of several cases."""
    found = set(outcomes)
    if not found:
        return "not measured"
    return "no" if "no" in found else "yes" if found == {"yes"} else "undecided"


def read(path: Path) -> list[Claim]:
    """The claims of a file.

    Raises:
        ConfigError: one line naming file, claim and key.
    """
    claims = []
    for i, values in enumerate(read_toml(path, "claims").get("claim", [])):
        name = values.get("id", f"number {i + 1}") if isinstance(values, dict) else i + 1
        try:
            claim = Claim.model_validate(values)
            known("check", claim.check, CHECKS)
        except ValidationError as e:
            first = e.errors()[0]
            where = ".".join(map(str, first["loc"]))
            raise ConfigError(f"{path}: claim {name}: {where}: {first['msg']}") from None
        except ValueError as e:
            raise ConfigError(f"{path}: claim {name}: check: {e}") from None
        claims.append(claim)
    if not claims:
        raise ConfigError(f"{path}: no [[claim]] in it")
    if twice := {c.id for c in claims if sum(d.id == c.id for d in claims) > 1}:
        raise ConfigError(f"{path}: claim {min(twice)}: its id is taken")
    return claims


def experiments(claims: list[Claim]) -> list[str]:
    """The configs whose runs the claims rest on, each once."""
    return list(dict.fromkeys(c.arguments["config"] for c in claims if "config" in c.arguments))


def measure(claim: Claim, root: Path) -> Finding:
    """Measure one claim from the results under `root` and from mathematics.

    Raises:
        ConfigError: if the check does not take the claim's arguments.
    """
    try:
        parts = CHECKS[claim.check](root=root, **claim.arguments)
    except NotMeasured as e:
        parts = [Part("the evidence is there", "not measured", str(e))]
    except TypeError as e:
        if "argument" not in str(e):
            raise
        raise ConfigError(f"claim {claim.id}: with: {e}") from None
    return Finding(claim, parts)


# ---- mathematics -----------------------------------------------------------------------------


def static_gap(root: Path, largest: int, largest_dense: int) -> list[Part]:
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
            f"equality for every even n up to {largest}",
            sure(np.abs(even).max() < ROUNDING),
            f"largest difference {np.abs(even).max():.1e}",
        ),
        Part(
            f"larger for every odd n from 3 to {largest}",
            sure(odd.min() > ROUNDING),
            f"smallest excess {odd.min():.4f}, at n = {sizes[sizes % 2 == 1][odd.argmin()]}",
        ),
        Part(
            f"|W - J|_2 = rho for every n up to {largest_dense}, dense linear algebra",
            sure(max(dense) < 1e-10),
            f"largest difference {max(dense):.1e}",
        ),
    ]


def exact_averaging(
    root: Path, largest: int, largest_orders: int, residuals: dict[str, float]
) -> list[Part]:
    """Products of one-peer exponential matrices against J."""
    powers = [2**t for t in range(1, largest.bit_length()) if 2**t <= largest]
    starts = [
        contraction(window_of(one_peer_exponential(n), start, ceil_log2(n)))
        for n in powers
        for start in range(2 * ceil_log2(n))
    ]
    ordered, orders = [], 0
    for n in (n for n in powers if n <= largest_orders):
        steps = window_of(one_peer_exponential(n), 0, ceil_log2(n))
        for order in itertools.permutations(steps):
            ordered.append(contraction(order))
            orders += 1
    measured = {n: contraction(window_of(one_peer_exponential(n), 0, ceil_log2(n)))
                for n in map(int, residuals)}  # fmt: skip
    apart = max(abs(measured[int(n)] - value) for n, value in residuals.items())
    others = [n for n in range(3, 200) if n & (n - 1)]
    smallest = min(contraction(window_of(one_peer_exponential(n), 0, ceil_log2(n))) for n in others)
    return [
        Part(
            f"log2 n steps average exactly from {len(starts)} starts, n = 2 ... {powers[-1]}",
            sure(max(starts) < ROUNDING),
            f"largest |product - J|_2 {max(starts):.1e}",
        ),
        Part(
            f"in every order of the log2 n matrices, n up to {largest_orders}",
            sure(max(ordered) < ROUNDING),
            f"{orders} orders, largest |product - J|_2 {max(ordered):.1e}",
        ),
        Part(
            "not for n off the powers of two",
            sure(smallest > 1e-3),
            f"n = 3 ... 199: smallest |product - J|_2 over a period {smallest:.4f}",
        ),
        Part(
            f"with the residuals computed elsewhere, {len(residuals)} n",
            sure(apart < 5e-5),
            f"largest difference {apart:.1e}, as n = 6: {measured.get(6, math.nan):.5f}",
        ),
    ]


def uniform_sampling(root: Path, nodes: list[int], steps: int) -> list[Part]:
    """The worst Fourier mode under one-peer graphs drawn uniformly, step by step."""
    parts = []
    for n in nodes:
        tau = ceil_log2(n)
        topology = build("one_peer_exponential_uniform", n, seed=0)
        factors = []
        for k in range(steps):
            values = np.abs(topology.at(k).eigenvalues()[1:]) ** 2
            factors.append(values)
        means = np.mean(factors, axis=0)
        worst = int(means.argmax())
        found = mean_interval(np.array(factors)[:, worst])
        predicted = theory.uniform_sampling_contraction(n)
        period = contraction(window_of(topology, 0, tau))
        # the largest of n - 1 noisy means is compared: two intervals' width
        near = abs(found.mean - predicted) < 2 * found.half_width + ROUNDING
        parts.append(
            Part(
                f"n = {n}: worst mode contracts by 1 - 1/{tau} = {predicted:.4f} in mean square",
                sure(near),
                f"{found.mean:.4f} ± {found.half_width:.4f} over {steps} draws; "
                f"|product of the first {tau} - J|_2 {period:.3f}",
            )
        )
    return parts


def communication(root: Path, nodes: int, engines: str) -> list[Part]:
    """Bytes that the engines count, in messages of one model a step; `engines` is under root."""
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
        topology = build(name, nodes, seed=0)
        engine, x = Embedded(topology), torch.zeros(nodes, 10)
        steps = topology.period or 10
        for k in range(steps):
            x = engine.mixer(k)(x)
        sent = int(engine.sent.max()) / (steps * x[0].nbytes)
        wanted = f"{low:g}" if low == high else f"{low:g} to {high:g}"
        parts.append(
            Part(
                f"{name_of(name)}, n = {nodes}: {wanted} messages a step from the busiest rank",
                sure(low <= sent <= high),
                f"{sent:.2f} counted by the embedded engine",
            )
        )
    parts.append(_engines_count_alike(root / engines))
    return parts


def _engines_count_alike(path: Path) -> Part:
    text = "BlueFog, mpi4py and Horovod engines count the embedded engine's bytes"
    found = csv(path, ("bytes", "bytes_embedded", "ranks"))
    if found is None or found.empty:
        how = f"{path} is not there: `make engines-agree` makes it"
        return Part(text, "not measured", how)
    apart = (found["bytes"] / found["bytes_embedded"] - 1).abs()
    return Part(
        text,
        sure(apart.max() < 1e-3),  # an all-reduce's 2 (n - 1) / n is rounded, by array or message
        f"{int((apart == 0).sum())} of {len(found)} runs equal to the byte, the others within "
        f"{apart.max():.0e} ({path.name})",
    )


def stability(root: Path, algorithms: list[str], beta: float, within: float) -> list[Part]:
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
            low, high = (lr, high) if _settles(ALGORITHMS[name].step, lr, beta) else (low, lr)
        parts.append(
            Part(
                f"{name_of(name)}, beta = {beta:g}: lr L up to {limit:.2f}, within {within:.0%}",
                sure(abs(low / limit - 1) <= within),
                f"stable up to lr L = {low:.3f}",
            )
        )
    return parts


def _settles(step: Callable, lr: float, beta: float) -> bool:
    state = init(torch.ones((1, 1), dtype=torch.float64))
    alone = Mix(lambda *x: lambda: x if len(x) > 1 else x[0])
    for _ in range(1000):
        state = step(state, lambda x: x.clone(), alone, lr, beta)
        if not abs(float(state.x)) < 1e6:
            return False
    return abs(float(state.x)) < 1


# ---- transient iterations --------------------------------------------------------------------


def _measured_transients(root: Path, config: str) -> tuple[pd.DataFrame, tuple[str, ...]]:
    experiment, summary = _finished(root, config)
    return transients(summary, results.curves(experiment.runs, root), experiment.table), tuple(
        summary["key"]
    )


def _finished(root: Path, config: str) -> tuple[Experiment, pd.DataFrame]:
    """An experiment all of whose runs are there.

    Raises:
        NotMeasured: naming the command that makes the others.
    """
    experiment = load(config)
    summary = results.summary(experiment.runs, root)
    missing = int((summary["status"] == "missing").sum())
    if missing:
        raise NotMeasured(
            f"{missing} of {len(summary)} runs of {config} are missing: `make claims`"
        )
    return experiment, summary


def _local_exponent(sizes: np.ndarray, orders: np.ndarray) -> float:
    """The exponent of the power law nearest to `orders` at these n."""
    return power_law(sizes, orders).exponent


def same_iterations(
    root: Path, config: str, order: float, logarithms: float, exponents: float, factor: float
) -> list[Part]:
    """Exponents of one-peer and static graphs against n^order log2^logarithms n, and each other.

    `exponents` is how far these may be apart, `factor` the iterations themselves.
    """
    measured, runs = _measured_transients(root, config)
    parts, slopes = [], {}
    for name in ("one_peer_exponential", "static_exponential"):
        at = measured[measured["topology"] == name]
        slope = slopes[name] = transient_exponent(at)
        if slope is None:
            raise NotMeasured(f"fewer than three n of {name} have transient iterations")
        sizes = fitted(at)["nodes"].to_numpy(dtype=float)
        claimed = _local_exponent(sizes, sizes**order * np.log2(sizes) ** logarithms)
        parts.append(
            Part(
                f"{name_of(name)}: no steeper than n^{order:g} log2^{logarithms:g} n, which is "
                f"n^{claimed:.2f} at n = {sizes.min():.0f} ... {sizes.max():.0f}",
                between(slope.low, slope.high, most=claimed),
                f"measured n^{slope}, {slope.count} n",
                runs,
            )
        )
    one, static = slopes.values()
    apart = one.exponent - static.exponent
    half_width = math.hypot(one.high - one.low, static.high - static.low) / 2
    parts.append(
        Part(
            f"their exponents differ by no more than {exponents:g}",
            between(apart - half_width, apart + half_width, -exponents, exponents),
            f"difference {apart:+.2f} ± {half_width:.2f}",
            runs,
        )
    )
    pairs = [
        (n, a, b)
        for n, a, b in _at_equal_n(measured, "one_peer_exponential", "static_exponential")
        if a.transient > 0 and b.transient > 0
    ]
    quotients = [(_low(a) / max(_high(b), 1), _high(a) / max(_low(b), 1)) for _, a, b in pairs]
    parts.append(
        Part(
            f"the same number, within a factor of {factor:g}, at equal n",
            every(between(low, high, 1 / factor, factor) for low, high in quotients),
            "one-peer over static: "
            + ", ".join(
                f"{a.transient / b.transient:.1f} [{low:.1f}, {high:.1f}] at n = {n}"
                for (n, a, b), (low, high) in zip(pairs, quotients, strict=True)
            ),
            runs,
        )
    )
    return parts


def _at_equal_n(measured: pd.DataFrame, ours: str, other: str) -> list[tuple[int, Any, Any]]:
    """n and the rows of two topologies, where both were measured."""
    at = {(row.topology, int(row.nodes)): row for row in measured.itertuples()}
    sizes = sorted(n for name, n in at if name == ours and (other, n) in at)
    return [(n, at[ours, n], at[other, n]) for n in sizes]


def fewer_iterations(root: Path, config: str) -> list[Part]:
    """Transient iterations at equal n: bootstrap intervals that do not overlap decide."""
    measured, runs = _measured_transients(root, config)
    parts = []
    for ours in ("static_exponential", "one_peer_exponential"):
        for other in ("ring", "star", "grid", "torus"):
            pairs = _at_equal_n(measured, ours, other)
            # where both are zero there is nothing to compare
            pairs = [(n, a, b) for n, a, b in pairs if a.transient != 0 or b.transient != 0]
            told = [f"n = {n}: {_steps(a)} against {_steps(b)}" for n, a, b in pairs]
            parts.append(
                Part(
                    f"{name_of(ours)} before {name_of(other)}",
                    every(
                        between(_low(a) - _high(b), _high(a) - _low(b), most=0) for _, a, b in pairs
                    ),
                    "; ".join(told) or "no n in common",
                    runs,
                )
            )
    return parts


def _steps(row: Any) -> str:
    return f"> {row.steps}" if pd.isna(row.transient) else f"{row.transient:.0f}"


def _low(row: Any) -> float:
    return row.steps if pd.isna(row.low) else row.low


def _high(row: Any) -> float:
    return math.inf if pd.isna(row.high) else row.high


def rates(root: Path, config: str) -> list[Part]:
    """Measured exponents against the upper bound's and against the noise model's."""
    measured, runs = _measured_transients(root, config)
    parts = []
    for name, at in measured.groupby("topology", sort=False):
        slope = transient_exponent(at)
        if slope is None:
            told = "fewer than three n with transient iterations"
            parts.append(Part(name_of(name), "not measured", told))
            continue
        sizes = fitted(at)["nodes"].astype(int).tolist()
        bound = [theory.transient_order(name, n) for n in sizes]
        noise = [theory.noise_transient(build(name, n)) for n in sizes]
        steepest = _local_exponent(sizes, np.array(bound))
        parts.append(
            Part(
                f"{name_of(name)}: no steeper than the bound, n^{steepest:.2f} at these n",
                between(slope.low, slope.high, most=steepest),
                f"measured n^{slope} at n = {', '.join(map(str, sizes))}; noise model "
                f"n^{_local_exponent(sizes, np.array(noise)):.2f}",
                runs,
            )
        )
    return parts


# ---- accuracy --------------------------------------------------------------------------------


def _difference(
    summary: pd.DataFrame, ours: dict[str, object], theirs: dict[str, object]
) -> tuple[Any, tuple[str, ...]]:
    """Paired difference in accuracy between the runs with these values, and their keys."""
    sides = []
    for where in (ours, theirs):
        side = summary
        for key, value in where.items():
            side = side[side[key] == value]
        if not len(side) or (side["status"] != "done").any():
            raise NotMeasured(f"no finished runs for {where}, or some diverged")
        sides.append(side.set_index("seed"))
    a, b = sides
    if set(a.index) != set(b.index) or len(a) < 2 or len(a) + len(b) > 2 * a.index.nunique():
        raise NotMeasured(f"{ours} and {theirs}: no pairs of runs of two or more seeds")
    keys = tuple([*a["key"], *b["key"]])
    return paired(a[ACCURACY], b[ACCURACY].loc[a.index]), keys


def as_accurate(
    root: Path, config: str, topologies: list[str], reference: str, margin: float
) -> list[Part]:
    """Non-inferiority: the whole 95 % interval of the difference lies above -margin points."""
    _, summary = _finished(root, config)
    parts = []
    for name in topologies:
        for n in sorted(summary["nodes"].unique()):
            found, keys = _difference(
                summary, {"topology": name, "nodes": n}, {"topology": reference, "nodes": n}
            )
            parts.append(
                Part(
                    f"{name_of(name)}, {n} nodes: not more than {margin:g} point below "
                    f"{name_of('psgd' if reference == 'fully_connected' else reference)}",
                    between(found.low, found.high, lowest=-margin),
                    f"difference {found}, {found.count} seeds",
                    keys,
                )
            )
    return parts


def more_accurate(
    root: Path, config: str, nodes: list[int], topologies: list[str], than: list[str]
) -> list[Part]:
    """The whole 95 % interval of the difference lies above zero."""
    _, summary = _finished(root, config)
    parts = []
    for name, other, n in itertools.product(topologies, than, nodes):
        found, keys = _difference(
            summary, {"topology": name, "nodes": n}, {"topology": other, "nodes": n}
        )
        parts.append(
            Part(
                f"{name_of(name)} above {name_of(other)}, {n} nodes",
                between(found.low, found.high, lowest=0),
                f"difference {found}, {found.count} seeds",
                keys,
            )
        )
    return parts


def momentum(
    root: Path, config: str, partition: str, margin: float, better: list[str], alike: list[str]
) -> list[Part]:
    """Each algorithm minus vanilla DmSGD on the same graph and seeds."""
    _, summary = _finished(root, config)
    parts = []
    for topology in ("static_exponential", "one_peer_exponential"):
        for name in (*better, *alike):
            where = {"topology": topology, "problem.partition": partition}
            found, keys = _difference(
                summary,
                {**where, "algorithm": name},
                {**where, "algorithm": "vanilla_dmsgd"},
            )
            sides = {"lowest": 0.0} if name in better else {"lowest": -margin, "most": margin}
            wanted = "above" if name in better else f"within {margin:g} point of"
            parts.append(
                Part(
                    f"{name_of(name)} {wanted} vanilla DmSGD, {name_of(topology)}",
                    between(found.low, found.high, **sides),
                    f"difference {found}, {found.count} seeds",
                    keys,
                )
            )
    return parts


# ---- time ------------------------------------------------------------------------------------


def fastest(
    root: Path, measured: list[str], from_elements: int, hours: str, within: float
) -> list[Part]:
    """Steps on the virtual cluster, and how much the paper's hours and ours say one-peer saves.

    In the cost model one-peer is the fastest by construction; what it can be wrong about is by how
    much. `measured` and `hours` are tables under root.
    """
    parts = []
    for path in (root / name for name in measured):
        table = csv(path, ("ranks", "elements", "averaging", "ms"))
        if table is None:
            raise NotMeasured(f"{path} is not there: `make testbed` makes it")
        table = table[table["elements"] >= from_elements]
        times = table.pivot_table(index=["ranks", "elements"], columns="averaging", values="ms")
        others = ["BlueFog allreduce", "Horovod allreduce", "ring", "static exponential"]
        times = times.reindex(columns=["one-peer exponential", *others])
        quotient = (times[others].min(axis=1) / times["one-peer exponential"]).dropna()
        parts.append(
            Part(
                f"fastest averaging from {from_elements:,} elements on, {path.parent.name}",
                every(sure(q > 1) for q in quotient),
                "next fastest over one-peer: "
                + ", ".join(f"{q:.2f} at {size:,.0f}" for (_, size), q in quotient.items()),
            )
        )
    path = root / hours
    long = csv(path, ("table", "row", "column", "value"))
    if long is None:
        raise NotMeasured(f"{path} is not there: `make cost-model` makes it")
    long = long[long["table"].str.startswith("Hours of the paper's")]
    table = long.pivot(index="row", columns="column", values="value")

    def saved(which: str) -> pd.Series:
        cells = table.assign(hours=table[which].astype(float), nodes=table["nodes"].astype(int))
        by_nodes = cells.pivot(index="nodes", columns="topology", values="hours")
        return by_nodes[name_of("psgd")] / by_nodes[name_of("one_peer_exponential")]

    published = saved("published (h)")
    for which, text in (
        ("predictive (h)", "calibrated on one cell"),
        ("fitted (h)", "fitted to all cells"),
    ):
        ours = saved(which)
        parts.append(
            Part(
                f"by as much as published, within {within:.0%}, in the cost model {text}",
                every(sure(abs(q / published[n] - 1) <= within) for n, q in ours.items()),
                "parallel SGD's hours over one-peer's, ours against published: "
                + ", ".join(f"{q:.2f} against {published[n]:.2f} at {n}" for n, q in ours.items()),
            )
        )
    return parts


CHECKS: dict[str, Callable[..., list[Part]]] = {
    f.__name__: f
    for f in (
        static_gap,
        exact_averaging,
        uniform_sampling,
        communication,
        stability,
        same_iterations,
        fewer_iterations,
        rates,
        as_accurate,
        more_accurate,
        momentum,
        fastest,
    )
}
