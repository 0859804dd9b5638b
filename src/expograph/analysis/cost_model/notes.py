"""What is to be said below the study's tables."""

from collections.abc import Mapping
from typing import Any

from expograph.analysis.cost_model.held_out import FITTED_AT, SHARED_MEMORY, Formula
from expograph.analysis.cost_model.left_out import Rested, at_bounds
from expograph.analysis.cost_model.study import FROM_ONE_CELL, PSGD, Study
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
    given = study.given
    limit = given.beyond.nothing_gained
    little = "; ".join(
        f"{map_title(*key)}: {int((m < limit).to_numpy().sum())} of {m.size} cells"
        for key, m in study.maps.items()
    )
    return [
        f"Made by `{made['command']}` from `{path}`, `configs/published.toml` and "
        f"`results/bench_comm/*/table.json`; {made['cpu']}, {made['cores']} cores, scipy "
        f"{made['scipy']} (the machines of the measurements are named in their own tables).",
        f"Published: {study.published.caption}; {study.published.source}. Its rounding is "
        "half of its last digit.",
        "Iterations are epochs x images / (nodes x GPUs x batch). Batch "
        f"({given.cluster.batch} images a GPU), bandwidth ({given.cluster.gbit:g} Gbit/s) and "
        "NVLink are assumptions of ours: no source states them for these hours. What other values "
        "would give is in the table of parameters.",
        "*left out*: the hours of a cell predicted from all other cells: gamma, alpha and phi are "
        "fitted to those by relative least squares. *predictive*: a step takes "
        f"{study.efficiency:.3f} of the wire's time and a message {1e3 * study.alpha:.2f} ms more, "
        "both as measured, no overlap, gamma from one cell. *fitted*: to all cells, shown beside; "
        "its errors are those of a fit, not of a prediction.",
        _judgement(study),
        _parameters(study),
        _limits(study),
        _all_reduces(study),
        "Beyond: extrapolation, from at most 32 nodes. Trees come first, whose latency grows with "
        "log2 n, because libraries change to them at such sizes; a ring counts alpha 2 (n - 1) "
        "times, parallel SGD at its worst. Fitted parameters are fitted with the same all-reduce. "
        f"Speed-up below {limit:g}, nothing gained: {little}. One-peer sends one message an "
        "iteration, so by construction no topology here has a faster one: the question is by how "
        "much. The static graph's log2 n messages are more than an all-reduce's two from n = 8 "
        "on: where bandwidth counts, it is the slower.",
        "An iteration's time is not the time to an accuracy: one-peer averages exactly only over "
        "log2 n iterations, 6 at 64 nodes and 12 at 4,096, parallel SGD in each.",
    ]


def _judgement(study: Study) -> str:
    """The errors on unseen cells, the cost model's beside the null models'."""
    by_protocol: dict[str, list[str]] = {}
    for judged in study.judged:
        error = judged.errors["error"]
        worst = error.loc[error.abs().idxmax()]
        words = f"{judged.model} {100 * error.abs().mean():.1f} % (worst {_percent(worst)})"
        by_protocol.setdefault(judged.protocol, []).append(words)
    return "Mean errors on cells that a model has not seen. " + " ".join(
        f"{protocol[0].upper()}{protocol[1:]}: {', '.join(words)}."
        for protocol, words in by_protocol.items()
    )


def _parameters(study: Study) -> str:
    """How many parameters are fitted, and what they are not."""
    whole, *others = study.rested
    bound = at_bounds(whole.cluster)
    reached = f"{' and '.join(bound)} on a bound" if bound else "none on a bound"
    alphas = ", ".join(
        f"{_alpha(rested)} without {topology_name(rested.without)}'s"
        for rested in others
        if rested.without is not None
    )
    found = 1 / study.clusters[FROM_ONE_CELL, "ring"].sample_seconds
    reference = study.given.reference
    return (
        f"Three parameters are fitted; {reached} (phi = {whole.cluster.overlap:.2f}: the hours "
        f"show {'no' if whole.cluster.overlap < 0.005 else 'some'} averaging hidden behind the "
        "gradient). Alpha is no latency of a network: it is "
        f"{_alpha(whole)} fitted to all rows, {alphas} (in brackets: the root mean square error, "
        "and the same with alpha = 0). "
        "It stands for whatever parallel SGD pays once a hop, several buckets of tensors or slow "
        "ranks; without that row a message's alpha adds to every iteration what gamma adds, and "
        "only their sum is determined. The hours tell only averaging per image: batch, phi and "
        "bandwidth cannot be told apart by them. Gamma is no GPU's either: the calibrated cell "
        f"means {found:.0f} images/s a GPU, where BlueFog prints "
        f"{reference.images_per_second / reference.gpus:.0f} in its benchmark on such GPUs. The "
        "hours hold more than the gradient (reading images, evaluation: not known)."
    )


def _alpha(rested: Rested) -> str:
    errors = f"({100 * rested.error:.1f} %, {100 * rested.without_alpha:.1f} %)"
    if not rested.determined:
        return f"not determined {errors}"
    return f"{1e3 * rested.cluster.between.alpha:.1f} ms a message {errors}"


def _limits(study: Study) -> str:
    """What the published hours show and the model cannot."""
    hours = study.hours
    most, fewest = hours["nodes"].max(), hours["nodes"].min()
    at_most = hours[hours["nodes"] == most]
    largest = ", ".join(
        f"{topology_name(topology)} {_percent(left_out / published - 1)}"
        for topology, left_out, published in zip(
            at_most["topology"], at_most["left out"], at_most["published"], strict=True
        )
    )
    work = hours.assign(work=hours["nodes"] * hours["published"]).set_index(["topology", "nodes"])
    growth = work["work"].xs(most, level="nodes") / work["work"].xs(fewest, level="nodes") - 1
    grown = ", ".join(
        f"{topology_name(name)} {_percent(growth[name])}" for name in at_most["topology"]
    )
    return (
        f"What the model cannot say: published nodes x hours grow from {fewest} to {most} nodes by "
        f"{grown}; the errors at {most} nodes, left out, are {largest}. A ring's step costs the "
        "same at every n here and grows in the table. In the table parallel SGD and the ring take "
        "the same time at 4 nodes; here the ring sends 2 messages and parallel SGD 1.5. Waiting "
        "for slow neighbours would be one more term, which twelve rounded numbers of single runs "
        "do not carry."
    )


def _all_reduces(study: Study) -> str:
    """Which formula of an all-reduce comes nearest to our own measurements, and which does not."""

    def mean_error(formula: Formula, places: list[tuple[str, int]]) -> float:
        return 100 * sum(abs(formula.errors[place]) for place in places) / len(places)

    elsewhere = [place for place in study.formulas[0].errors if place[0] != FITTED_AT]
    sentences = []
    for where, places in (
        ("on slower links", [place for place in elsewhere if place[0] != SHARED_MEMORY]),
        ("in shared memory", [place for place in elsewhere if place[0] == SHARED_MEMORY]),
    ):
        if places:
            ordered = sorted(study.formulas, key=lambda f: mean_error(f, places))
            words = (
                f"{f.name} ({mean_error(f, places):.0f} %)" for f in ordered[:: len(ordered) - 1]
            )
            sentences.append(f"{where} " + " is nearest, ".join(words) + " furthest")
    ranks = ", ".join(str(n) for place, n in study.links if place == FITTED_AT)
    return (
        f"Formulas of an all-reduce, c and f fitted at 1 Gbit/s and {ranks} ranks and judged "
        f"elsewhere: {'; '.join(sentences)}. Below a million elements alpha counted 2 (n - 1) "
        "times is far too much: that of a one-peer call is mostly the call's, paid once."
    )
