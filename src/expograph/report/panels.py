"""From an experiment's files, or from a topology, to what its charts show."""

from collections.abc import Callable, Sequence
from functools import cache

import pandas as pd

from expograph.analysis.consensus import consensus_errors
from expograph.analysis.grouping import plain
from expograph.analysis.written import heading_of, name_of
from expograph.config import Run
from expograph.config.facts import heading, is_reference, over_exact
from expograph.graphs.spectral import spectral_gap
from expograph.graphs.topology import TOPOLOGIES, Topology, build, names, undefined
from expograph.report import charts, graphs, stepped
from expograph.report.charts import DASH, Chart, Series
from expograph.report.experiment import CURVES
from expograph.report.figures import STATIC
from expograph.report.reading import ReportError, Scale
from expograph.report.style import COLOURS, DASHES, line_style

SIZES = (16, 12, 6)  # a power of two and two others, shown of every topology
STEPS = 12  # shown of every topology: three periods of one-peer graphs at n = 16
OVER = "error_workers_over_psgd"


def settings(runs: pd.DataFrame) -> list[str]:
    """The fewest config keys, in order, that tell runs apart, seeds left out.

    Keys that follow from those before them, as the steps from the nodes, are left out.
    """
    heads = set(Run.model_fields) - {"seed"}
    keys = ["algorithm", "topology", "nodes"]
    others = [c for c in runs if c.split(".")[0] in heads and c not in keys]
    runs = runs[[*keys, *others]].drop_duplicates()
    for key in others:
        if (runs.groupby(keys, dropna=False)[key].nunique(dropna=False) > 1).any():
            keys.append(key)
    return keys


def grouped(runs: pd.DataFrame) -> pd.DataFrame:
    """Runs that differ in their seeds only: a row for each setting, with its id `run`."""
    frame = runs[settings(runs)].drop_duplicates().reset_index(drop=True)
    return frame.assign(run=[f"g{i}" for i in range(len(frame))])


def training(scale: Scale) -> Chart | None:
    """The curves of an experiment, means over seeds and, where they are kept, of each seed."""
    if scale.curves is None or scale.runs is None or scale.curves.empty:
        return None
    keys = settings(scale.runs)
    means = scale.curves.assign(seed="mean")
    metrics = [m for m in CURVES if m in means]
    for metric in (m for m in metrics if f"{m}_half_width" in means):
        means[[f"{metric}_low", f"{metric}_high"]] = _intervals(means, metric, keys[2:])
    frame = means.merge(grouped(scale.runs), how="left", on=keys)
    if frame["run"].isna().any():
        raise ReportError(
            f"{scale.name}/curves.csv: has curves that {scale.name}/runs.csv has no run of"
        )
    if scale.seeds is not None:
        singles = scale.seeds.merge(scale.runs[["key", "seed", *keys]], on="key")
        singles = singles.rename(columns={"key": "run"}).sort_values("seed", kind="stable")
        frame = pd.concat([frame, singles.astype({"seed": str})], ignore_index=True)
    if OVER.removesuffix("_over_psgd") in metrics:
        frame[OVER] = _over_reference(frame, keys)
        metrics += [OVER] if frame[OVER].notna().any() else []
    table = scale.experiment.table
    first = table.metrics[0] if table else ""
    related = first.split("_over_")[0]
    steps = {m: frame.loc[frame[m].notna(), "step"].nunique() for m in metrics}
    metrics.sort(key=lambda m: (steps[m] < 3, m != first, not m.startswith(related)))
    series = charts.series_of(frame)
    where = {key: heading_of(key) for key in keys[2:] if frame[key].nunique(dropna=False) > 1}
    number = {pair: i for i, pair in enumerate(series)}
    pairs = zip(frame["algorithm"], frame["topology"], strict=True)
    ends = [f"{m}_{end}" for m in metrics for end in ("low", "high") if f"{m}_{end}" in frame]
    shown = pd.DataFrame(
        {
            "series": [number[pair] for pair in pairs],
            "x": frame["step"],
            "seed": frame["seed"],
            "run": frame["run"],
            **{name: _choices(frame[key]) for key, name in where.items()},
            **{column: frame[column] for column in [*metrics, *ends]},
        }
    )
    logarithmic = first.startswith("error") or table is None
    return charts.lines(
        f"{scale.name}-curves",
        f"Curves of {scale.name}: {', '.join(line.label for line in series.values())}",
        shown,
        list(series.values()),
        {m: heading(m) for m in metrics},
        x="step",
        selects={name: name for name in where.values()},
        log_x=logarithmic,
        log_y=logarithmic,
        page=f"{scale.name}-runs.html",
    )


def _intervals(means: pd.DataFrame, metric: str, within: Sequence[str]) -> pd.DataFrame:
    """Ends of the 95 % intervals, at most a little beyond the lines that share a picture.

    Those of few seeds reach beyond what is possible; the lines set the limits.
    """
    ends = means.groupby(within, dropna=False)[metric].agg(["min", "max"])
    ends = means[within].merge(ends, how="left", on=within).set_index(means.index)
    half = means[f"{metric}_half_width"]
    low = 0.7 * ends["min"]  # not 0 where all are positive: the axis may be logarithmic
    high = ends["max"] + 0.15 * (ends["max"] - ends["min"])
    mean = means[metric]
    return pd.concat([(mean - half).clip(lower=low), (mean + half).clip(upper=high)], axis=1)


def _choices(values: pd.Series) -> pd.Series:
    """The values of a key as a list offers them; what some runs do not have is "none" there."""
    return values.map(lambda value: name_of(plain(value))) if values.isna().any() else values


def _over_reference(frame: pd.DataFrame, keys: Sequence[str]) -> pd.Series:
    """error_workers over that of the reference in the same setting, seed and step."""
    apart = {"topology", "engine", "steps", "nodes", "algorithm"}  # its runs may be longer
    alike = ["algorithm", "seed", "step", "nodes", *(key for key in keys if key not in apart)]
    pairs = zip(frame["algorithm"], frame["topology"], strict=True)
    exact = frame.loc[[is_reference(*pair) for pair in pairs], [*alike, "error_workers"]]
    wanted = frame[alike].assign(algorithm=frame["algorithm"].map(over_exact))
    reference = wanted.merge(exact.drop_duplicates(alike), how="left", on=alike)
    return frame["error_workers"] / reference["error_workers"].to_numpy()


def transients(scale: Scale) -> Chart | None:
    """Transient iterations against n, with their bootstrap intervals."""
    found = scale.transients
    if found is None or not (found["transient"] > 0).any():
        return None
    names = list(found["topology"].drop_duplicates())
    frame = pd.DataFrame(
        {
            "series": found["topology"].map(names.index),
            "x": found["nodes"],
            "seed": "mean",
            "transient": found["transient"],
            "transient_low": found["low"],
            "transient_high": found["high"],
        }
    )
    factor = scale.experiment.required_table.factor
    return charts.lines(
        f"{scale.name}-transients",
        "Transient iterations of each topology against the number of nodes",
        frame,
        [_line(name) for name in names],
        {"transient": f"steps until the error stays within {factor:g} times parallel SGD's"},
        x="nodes n",
        log_x=True,
        log_y=True,
    )


@cache
def gaps(sizes: Sequence[int] = (4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128)) -> Chart:
    """Spectral gap of the static graphs against n."""
    rows = [
        {"series": i, "x": n, "gap": spectral_gap(build(name, n).at(0))}
        for i, name in enumerate(STATIC)
        for n in sizes
    ]
    return charts.lines(
        "gaps",
        "Spectral gap of the static topologies against the number of nodes",
        pd.DataFrame(rows),
        [_line(name) for name in STATIC],
        {"gap": "spectral gap 1 - rho"},
        x="nodes n",
        log_x=True,
        log_y=True,
    )


@cache
def consensus(sizes: Sequence[int] = (32, 33), steps: int = 30, dim: int = 100) -> Chart:
    """|x(k) - x_bar| / |x(0) - x_bar| of pure averaging from N(0, 1) rows."""
    averaging = {n: names(n, "doubly") for n in sizes}  # pushed models are no averages
    known = {name for defined in averaging.values() for name in defined} - {"fully_connected"}
    drawn = [name for name in TOPOLOGIES if name in known]
    frames = []
    for n in sizes:
        for i, name in enumerate(drawn):
            if name not in averaging[n]:
                continue
            errors = consensus_errors(build(name, n), steps, dim)
            rows = {"series": i, "x": range(steps + 1), "n": n, "error": errors}
            frames.append(pd.DataFrame(rows))
    return charts.lines(
        "consensus",
        "Relative consensus error of pure averaging against the step, by topology",
        pd.concat(frames),
        [_line(name) for name in drawn],
        {"error": "consensus error relative to the start's; 1e-16 is exact"},
        x="step",
        selects={"n": "nodes n"},
        log_y=True,
        chosen={"n": sizes[0]},
    )


@cache
def topology(name: str) -> Chart:
    """The graph, its matrices, their product and its distance to J, step by step."""
    built = {n: build(name, n) for n in SIZES if undefined(name, n) is None}
    period = {n: min(graph.period or STEPS, STEPS) for n, graph in built.items()}
    nodes, messages = _drawn(list(built.values()), period)
    products = _over(built, graphs.products)
    shown_once = products["step"] < products["n"].map(period)
    products["w"] = products["w"].where(shown_once)  # W repeats itself, and pages stay small
    return stepped.topology(
        "graph",
        f"The {name_of(name)} graph: who sends to whom, the mixing matrix of the step, the product "
        "of the matrices so far and its distance to exact averaging",
        COLOURS[name],
        {
            "nodes": nodes,
            "messages": messages,
            "products": products,
            "residuals": _over(built, graphs.residuals),
        },
        period,
    )


def _over(built: dict[int, Topology], of: Callable[[Topology, int], pd.DataFrame]) -> pd.DataFrame:
    return pd.concat(of(graph, STEPS).assign(n=n) for n, graph in built.items())


@cache
def thumbnail(name: str) -> str:
    """The first step of a topology's graph as a small SVG."""
    nodes, messages = _drawn([build(name, SIZES[0])], {SIZES[0]: 1})
    return stepped.picture(COLOURS[name], nodes, messages, name_of(name))


def _drawn(built: Sequence[Topology], steps: dict[int, int]) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Ranks and messages of topologies over several n."""
    places = [
        pd.DataFrame(graphs.positions(t.name, t.n), columns=["x", "y"]).assign(
            n=t.n, rank=range(t.n)
        )
        for t in built
    ]
    messages = [graphs.messages(t, steps[t.n]).assign(n=t.n) for t in built]
    return pd.concat(places).round(3), pd.concat(messages)


def _line(topology: str) -> Series:
    style = line_style(topology)
    return Series(style["label"], style["color"], tuple(DASH[DASHES.get(topology, "-")]))
