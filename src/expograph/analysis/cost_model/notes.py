"""What is to be said below the study's tables."""

from collections.abc import Mapping
from typing import Any

from expograph.analysis.cost_model.study import PSGD, Study
from expograph.analysis.written import name_of


def topology_name(topology: str) -> str:
    """What the study calls a topology: averaging over the complete graph is parallel SGD."""
    return name_of("psgd" if topology == PSGD else topology)


def map_title(parameters: str, all_reduce: str) -> str:
    """What one map of speed-ups is called."""
    kind = "trees" if all_reduce == "tree" else "a ring"
    return f"all-reduce by {kind}, {parameters} parameters"


def _percent(value: float) -> str:
    return f"{100 * value:+z.1f} %"


def notes_of(study: Study, path: str, made: Mapping[str, Any]) -> list[str]:
    """What stands below the tables: where the numbers come from and what they do not say."""
    given, hours, fitted = study.given, study.hours, study.clusters["fitted"]
    reference = given.reference.images_per_second / given.reference.gpus
    found = 1 / study.clusters["predictive"].sample_seconds
    limit = given.beyond.nothing_gained
    little = "; ".join(
        f"{map_title(*key)}: {int((m < limit).to_numpy().sum())} of {m.size} cells"
        for key, m in study.maps.items()
    )
    most, fewest = hours["nodes"].max(), hours["nodes"].min()
    at_most = hours[hours["nodes"] == most]
    largest = ", ".join(
        f"{topology_name(row.topology)} {_percent(row.fitted / row.published - 1)}"
        for row in at_most.itertuples()
    )
    work = hours.assign(work=hours["nodes"] * hours["published"]).set_index(["topology", "nodes"])
    growth = work["work"].xs(most, level="nodes") / work["work"].xs(fewest, level="nodes") - 1
    grown = ", ".join(
        f"{topology_name(name)} {_percent(growth[name])}" for name in at_most["topology"]
    )
    return [
        f"Made by `{made['command']}` from `{path}`, `configs/published.toml` and "
        f"`results/bench_comm/*/table.json`; {made['cpu']}, {made['cores']} cores, scipy "
        f"{made['scipy']} (the machines of the measurements are named in their own tables).",
        f"Published: {study.published.caption}; {study.published.source}. Its rounding is "
        "half of its last digit.",
        "Iterations are epochs x images / (nodes x GPUs x batch). *predictive*: "
        f"{given.cluster.gbit:g} Gbit/s, a step takes {study.efficiency:.3f} of the wire's time "
        f"and a message {1e3 * study.alpha:.2f} ms more, both as measured, no overlap, gamma from "
        "one cell; all other cells are predicted. *fitted*: gamma, alpha and phi by relative least "
        "squares over all cells, one set of parameters for the table; the bandwidth is kept. "
        "Bandwidth, batch and NVLink are stand-ins, see the config.",
        f"The fit puts phi at {fitted.overlap:.2f}: the hours show no averaging hidden behind the "
        f"gradient. Its alpha, {1e3 * fitted.between.alpha:.1f} ms a message, is no latency of a "
        "network: it stands for whatever parallel SGD pays once a hop, several buckets of tensors "
        "or slow ranks. The hours tell only averaging per image: batch, phi and bandwidth cannot "
        "be told apart by them.",
        f"Gamma is no GPU's either: the calibrated cell means {found:.0f} images/s a GPU, where "
        f"BlueFog prints {reference:.0f} in its benchmark on such GPUs. The hours hold more than "
        "the gradient (reading images, evaluation: not known).",
        f"What the model cannot say: published nodes x hours grow from {fewest} to {most} nodes by "
        f"{grown}; the fit's errors at {most} nodes are {largest}. A ring's step costs the same at "
        "every n here and grows in the table. In the table parallel SGD and the ring take the same "
        "time at 4 nodes; here the ring sends 2 messages and parallel SGD 1.5. Waiting for slow "
        "neighbours would be one more term, which twelve rounded numbers of single runs do not "
        "carry.",
        "All-reduce on the virtual cluster: what it takes longer than the ring's formula grows "
        "with the time of a byte on the link, so it is not arithmetic (c, fitted at 1 Gbit/s, "
        "explains next to nothing at 100 Mbit/s and far too much in shared memory). A factor on "
        "beta, or whole messages as in recursive doubling, come nearest; at n = 4, the only size "
        "measured there, the two cannot be told apart. What they miss at 100 Mbit/s, one-peer's "
        "own fit misses, too. In shared memory at 4 and 8 ranks no formula holds. Below a million "
        "elements alpha counted 2 (n - 1) times is far too much: that of a one-peer call is mostly "
        "the call's, paid once.",
        "Beyond: extrapolation. Fitted alpha, from at most 32 nodes, is counted 2 (n - 1) times in "
        "a ring: parallel SGD at its worst. Libraries change to trees, whose latency grows with "
        f"log2 n: the fairer comparison at such sizes. Speed-up below {limit:g}, nothing gained: "
        f"{little}. One-peer sends one message an iteration, so by construction no topology here "
        "has a faster one: the question is by how much. The static graph's log2 n messages are "
        "more than an all-reduce's two from n = 8 on: where bandwidth counts, it is the slower.",
        "An iteration's time is not the time to an accuracy: one-peer averages exactly only over "
        "log2 n iterations, 6 at 64 nodes and 12 at 4,096, parallel SGD in each.",
    ]
