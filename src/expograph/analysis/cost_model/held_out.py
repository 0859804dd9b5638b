"""The model against our own measurements: all averagings predicted from one-peer's times alone."""

from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from expograph.analysis.cost_model.fit import fit, fit_term
from expograph.analysis.cost_model.model import ALL_REDUCES, Link, mean_step_seconds
from expograph.analysis.table_result import load
from expograph.config import ConfigError
from expograph.graphs.topology import build

ONE_PEER = "one-peer exponential"  # what is fitted; the others are held out
AVERAGINGS = {  # of the measurements: label -> topology
    ONE_PEER: "one_peer_exponential",
    "static exponential": "static_exponential",
    "ring": "ring",
    "BlueFog allreduce": "fully_connected",
    "Horovod allreduce": "fully_connected",
}
LONG = 1_000_000  # elements from which on the wire matters more than the call
SHARED_MEMORY = "one_machine"
FITTED_AT = "testbed_1gbit"  # where the parameter of an all-reduce's formula is fitted
Links = dict[tuple[str, int], Link]  # by place and number of ranks


class Measurements(NamedTuple):
    """Every bench_comm table.

    Attributes:
        times: place, ranks, elements, averaging, bytes, seconds, wire (seconds; NaN if unknown).
        messages: the links that plain messages were fitted to.
    """

    times: pd.DataFrame
    messages: Links


def measurements(root: Path) -> Measurements:
    """What `make bench-comm` and `make testbed` left under `root`.

    Raises:
        ConfigError: if there is nothing.
        TableError: if a table is damaged.
    """
    frames, messages = [], {}
    for folder in sorted(path for path in (root / "bench_comm").glob("*") if path.is_dir()):
        if (tables := load(folder)) is None:
            continue
        frames.append(pd.DataFrame(tables["times"].means()).assign(place=folder.name))
        for row in tables["links"].means():
            beta = 8e-9 / row["gbit"] if row["gbit"] else 0.0
            messages[folder.name, row["ranks"]] = Link(row["alpha_ms"] / 1e3, beta)
    if not frames:
        raise ConfigError(
            f"{root / 'bench_comm'}: no table.json in it: `make bench-comm` makes one"
        )
    times = pd.concat(frames, ignore_index=True)
    times["seconds"], times["wire"] = times["ms"] / 1e3, times["wire_ms"].astype(float) / 1e3
    return Measurements(times.assign(bytes=4 * times["elements"]), messages)


def held_out(times: pd.DataFrame) -> tuple[pd.DataFrame, Links]:
    """Each averaging predicted by the link that is fitted to the one-peer graph's times alone.

    Returns:
        place, ranks, averaging, elements, measured, predicted (seconds), error; and the links.
    """
    rows, links = [], {}
    for (place, n), at in times.groupby(["place", "ranks"]):
        one_peer = at[at["averaging"] == ONE_PEER]
        link = links[place, n] = fit(one_peer["bytes"], one_peer["seconds"])
        for label, name in AVERAGINGS.items():
            for row in at[at["averaging"] == label].itertuples():
                predicted = mean_step_seconds(build(name, int(n)), row.bytes, link)
                rows.append((place, int(n), label, int(row.elements), row.seconds, predicted))
    columns = ["place", "ranks", "averaging", "elements", "measured", "predicted"]
    frame = pd.DataFrame(rows, columns=columns)
    return frame.assign(error=frame["predicted"] / frame["measured"] - 1), links


class Formula(NamedTuple):
    """A formula for an all-reduce of long messages.

    Attributes:
        name: the formula in words and letters.
        arithmetic: its c in seconds a byte, if it has one.
        slowdown: its f, if it has one.
        errors: mean relative error by place and number of ranks.
    """

    name: str
    arithmetic: float | None
    slowdown: float | None
    errors: dict[tuple[str, int], float]


def all_reduce_formulas(checked: pd.DataFrame, links: Links) -> list[Formula]:
    """Formulas for an all-reduce of long messages, and their mean error at each place.

    A formula's one parameter, where it has one, is fitted on the virtual cluster at 1 Gbit/s and
    judged on the other places, all of which are held out.
    """
    at = checked[checked["averaging"].str.contains("allreduce") & (checked["elements"] >= LONG)]
    at = at.reset_index(drop=True)
    link = [links[place, n] for place, n in zip(at["place"], at["ranks"], strict=True)]
    ranks, message, seconds = at["ranks"], 4.0 * at["elements"], at["measured"]
    by_name = {
        name: np.array([f(*args) for args in zip(ranks, message, link, strict=True)])
        for name, f in ALL_REDUCES.items()
    }
    ring = by_name["ring"]
    reduced = ((ranks - 1) / ranks * message).to_numpy()  # bytes a rank adds up
    wire = np.array([2 * b.beta for b in link]) * reduced
    fitted = (at["place"] == FITTED_AT).to_numpy()
    arithmetic, slow = (
        fit_term(ring[fitted], term[fitted], seconds[fitted]) for term in (reduced, wire)
    )
    candidates = [
        ("ring, 2 (n - 1) (alpha + beta m / n)", None, None, ring),
        ("ring + c (n - 1) m / n, arithmetic", arithmetic, None, ring + arithmetic * reduced),
        ("ring, beta times f", None, 1 + slow, ring + slow * wire),
        ("recursive doubling, log2 n (alpha + beta m)", None, None, by_name["recursive doubling"]),
        ("trees, 2 (log2 n alpha + beta m)", None, None, by_name["tree"]),
    ]
    places = at.groupby(["place", "ranks"]).groups
    return [
        Formula(
            name,
            c,
            f,
            {
                where: float((predicted / seconds - 1)[rows].mean())
                for where, rows in places.items()
            },
        )
        for name, c, f, predicted in candidates
    ]
