"""From the tidy summary of an experiment to its table, in Markdown, CSV and LaTeX."""

import tomllib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd

from expograph.analysis.statistics import (
    Slope,
    Transient,
    mean_interval,
    paired,
    power_law,
    transient,
)
from expograph.config import Table
from expograph.files import replace_text
from expograph.graphs import theory
from expograph.graphs.spectral import contraction, spectral_gap, window_of
from expograph.graphs.topology import build, ceil_log2
from expograph.report import latex
from expograph.report.style import name_of
from expograph.runs.results import varying
from expograph.runs.thinning import BlockMeans

UNAVAILABLE = "not available to us"


class Published:
    """Numbers published elsewhere, by row and column of one of our tables."""

    def __init__(self, name: str | None, path: Path) -> None:
        table = tomllib.loads(path.read_text())[name] if name else {}
        self.caption = table.get("caption", "")
        self.source = table.get("source", "")
        self.cells: dict[str, dict[str, str]] = table.get("cells", {})

    def cell(self, row: object, column: object) -> str:
        return self.cells.get(str(row), {}).get(str(column), UNAVAILABLE)


def cell(group: pd.DataFrame, metric: str) -> str:
    """One table cell: mean and interval over seeds, or what kept it from being a number."""
    missing = int((~group["status"].isin(["done", "diverged"])).sum())
    diverged = int((group["status"] == "diverged").sum())
    if missing:
        return f"missing ({missing} of {len(group)} runs)"
    if diverged:
        return f"diverged ({diverged} of {len(group)} runs)"
    return str(mean_interval(group[metric].to_numpy()))


def live_cell(group: pd.DataFrame, metric: str) -> str:
    """The same while runs are still to come: the mean so far and of how many seeds it is."""
    count = int((group["status"] == "done").sum())
    if count == len(group) or (group["status"] == "diverged").any():
        return cell(group, metric)
    return f"{group[metric].mean():.2f} ({count} of {len(group)})" if count else "-"


Cell = Callable[[pd.DataFrame, str], str]


def pivot(
    summary: pd.DataFrame, table: Table, metric: str, published: Published, cell: Cell = cell
) -> pd.DataFrame:
    """A row for each value of `table.rows`, a column for each of `table.column`, in run order.

    What else the runs of one cell differ in, seeds apart, becomes further rows: a cell's interval
    is over seeds and nothing else. With a published table each column is followed by the published
    number, where there is one.
    """
    columns = list(summary[table.column].drop_duplicates())
    cells = summary.groupby([*table.rows, table.column], dropna=False)
    extra = [
        key
        for key in varying(summary)
        if key not in (*table.rows, table.column) and (cells[key].nunique(dropna=False) > 1).any()
    ]
    by = [*table.rows, *extra]
    rows = []
    for keys, group in summary.groupby(by, sort=False, dropna=False):
        row = dict(zip(map(_heading, by), map(name_of, keys), strict=True))
        for column in columns:
            cells = group[group[table.column] == column]
            heading = _column_heading(table.column, column)
            row[heading] = cell(cells, metric) if len(cells) else ""
            if published.cells:
                row[f"{heading}, published"] = published.cell(keys[0], column)
        rows.append(row)
    return pd.DataFrame(rows)


def transients(summary: pd.DataFrame, errors: dict[str, BlockMeans], table: Table) -> pd.DataFrame:
    """Measured transient iterations of every row and number of nodes, against the psgd runs.

    Args:
        summary: `results.summary` of the experiment.
        errors: `results.block_means` of the experiment, of the metric `table.metrics[0]`.
        table: gives `factor` and `rows`.
    Returns:
        The keys of `table.rows`, nodes, what ("measured", or why not), transient, low, high,
        seeds, steps.
    """
    within = [*(key for key in table.rows if key != "topology"), "nodes"]
    rows = []
    for where, at_n in summary.groupby(within, sort=False, dropna=False):
        reference = at_n[at_n["algorithm"] == "psgd"].set_index("seed")["key"]
        for topology, group in at_n[at_n["algorithm"] != "psgd"].groupby("topology", sort=False):
            ours = group.set_index("seed")["key"]
            pooled = ours.index.has_duplicates or reference.index.has_duplicates
            seeds = [] if pooled else [seed for seed in ours.index if seed in reference.index]
            keys = [*ours[seeds], *reference[seeds]]
            statuses = set(summary.set_index("key").loc[keys, "status"])
            what, found = "measured", Transient(None, None, None)
            if pooled:
                what = "its runs differ in more than the seed"
            elif not seeds:
                what = "no parallel SGD to compare with"
            elif statuses != {"done"}:
                what = "diverged" if "diverged" in statuses else "missing"
            else:
                end = int(group["steps"].iloc[0])  # parallel SGD's runs may be longer
                steps, _ = errors[ours[seeds[0]]].until(end)
                means = [
                    np.stack([errors[key].until(end)[1] for key in some[seeds]])
                    for some in (ours, reference)
                ]
                found = transient(steps, *means, table.factor)
            rows.append(
                {
                    **dict(zip(within, where, strict=True)),
                    "topology": topology,
                    "what": what,
                    "transient": found.steps,
                    "low": found.low,
                    "high": found.high,
                    "seeds": len(seeds),
                    "steps": int(group["steps"].iloc[0]),
                }
            )
    return pd.DataFrame(rows)


def transient_table(measured: pd.DataFrame, rows: list[str]) -> pd.DataFrame:
    """What `transients` returned: a line for each number of nodes, a column for each row's keys."""
    lines = {int(n): {"nodes": int(n)} for n in sorted(measured["nodes"].unique())}
    names = []
    for keys, group in measured.groupby(rows, sort=False, dropna=False):
        names.append(", ".join(map(name_of, keys)))
        for found in group.itertuples():
            lines[int(found.nodes)][names[-1]] = _transient_text(found)
    return pd.DataFrame(lines.values(), columns=["nodes", *names]).fillna("")


def exponents(measured: pd.DataFrame) -> pd.DataFrame:
    """How measured transient iterations grow with n, beside theory's orders, a row a topology.

    Each theory's column is the exponent of the power law nearest to its values at the same n.
    """
    lines = []
    for topology, group in measured.groupby("topology", sort=False):
        slope = transient_exponent(group)
        line = {"topology": name_of(topology), "n": "", "measured": "fewer than three n"}
        if slope:
            sizes = fitted(group)["nodes"].astype(int).tolist()
            noise = [theory.noise_transient(build(topology, n)) for n in sizes]
            bound = [theory.transient_order(topology, n) for n in sizes]
            line |= {
                "n": ", ".join(map(str, sizes)),
                "measured": str(slope),
                "noise model": f"{power_law(sizes, noise).exponent:.2f}",
                "upper bound": f"{power_law(sizes, bound).exponent:.2f}",
            }
        rate = theory.RATES.get(topology, theory.Rate("", "", ""))
        line["upper bound's order"] = rate.transient or "unknown"
        line["claimed by the paper"] = theory.PAPER_TRANSIENT.get(topology, UNAVAILABLE)
        lines.append(line)
    return pd.DataFrame(lines).fillna("")


FIT_FROM = 100  # steps: what is shorter is the initial phase's, not the network's


def fitted(measured: pd.DataFrame) -> pd.DataFrame:
    """The rows of `transients` that an exponent is fitted to."""
    used = measured[measured["transient"].notna() & (measured["transient"] >= FIT_FROM)]
    return used.sort_values("nodes")


def transient_exponent(measured: pd.DataFrame) -> Slope | None:
    """The exponent of one topology's transient iterations; None for fewer than three n."""
    used = fitted(measured)
    return power_law(used["nodes"], used["transient"]) if len(used) >= 3 else None


def differences(summary: pd.DataFrame, table: Table, metric: str) -> pd.DataFrame:
    """Each row of the pivot table minus the row `table.compare`, paired by seed."""
    columns = list(summary[table.column].drop_duplicates())
    done = summary[summary["status"] == "done"]
    lines = []
    for keys, group in summary.groupby(table.rows, sort=False, dropna=False):
        where = dict(zip(table.rows, keys, strict=True))
        if where == {**where, **table.compare}:
            continue
        line = dict(zip(map(_heading, table.rows), map(name_of, keys), strict=True))
        for column in columns:
            ours, theirs = (
                _by_seed(done, {**at, table.column: column}, metric)
                for at in (where, {**where, **table.compare})
            )
            seeds = ours.index.intersection(theirs.index)
            heading = _column_heading(table.column, column)
            whole = len(seeds) > 1 and len(seeds) == len(group[group[table.column] == column])
            line[heading] = str(paired(ours[seeds], theirs[seeds])) if whole else ""
        lines.append(line)
    return pd.DataFrame(lines)


def _by_seed(summary: pd.DataFrame, where: dict[str, object], metric: str) -> pd.Series:
    """`metric` of the runs in which the keys have these values, indexed by seed."""
    for key, value in where.items():
        summary = summary[summary[key].isna() if pd.isna(value) else summary[key] == value]
    return summary.set_index("seed")[metric]


def theory_table(summary: pd.DataFrame, measured: pd.DataFrame) -> pd.DataFrame:
    """Table 1: cost of a step, spectral gap, and transient iterations in theory and as measured.

    Args:
        summary: `results.summary` of the experiment.
        measured: what `transients` returned.
    """
    sizes = sorted(int(n) for n in measured["nodes"].unique())
    largest = sizes[-1]
    rows = []
    for name in measured["topology"].drop_duplicates():
        topology = build(name, largest, seed=0)
        W = topology.at(0)
        tau = max(1, ceil_log2(largest))
        static = topology.period == 1
        rate = theory.RATES.get(name, theory.Rate("", "", ""))
        runs = summary[(summary["topology"] == name) & (summary["nodes"] == largest)]
        done = runs[runs["status"] == "done"]
        message = 8 * done["problem.dim"] * done["steps"]  # bytes of one float64 vector a step
        row = {
            "topology": name_of(name),
            "messages a step, order": rate.communication,
            f"sent by the busiest rank, n = {largest}": (
                f"{(done['bytes_sent_max'] / message).mean():.2f}" if len(done) else "missing"
            ),
            "1 - rho, order": rate.gap or "time-varying",
            f"1 - rho, n = {largest}": f"{spectral_gap(W):.4f}" if static else "time-varying",
            f"norm of W(tau-1)...W(0) - J, tau = {tau}": (
                f"{contraction(window_of(topology, 0, tau)):.4f}"
            ),
            "transient, claimed by the paper": theory.PAPER_TRANSIENT.get(name, UNAVAILABLE),
            "transient, theory": rate.transient or "unknown",
        }
        for n in sizes:
            W = build(name, n, seed=0).at(0)
            if static:
                row[f"n^3 rho^4/(1-rho)^2, n = {n}"] = (
                    f"{theory.transient_bound(n, 1 - spectral_gap(W)):.2g}"
                )
            else:
                row[f"n^3 rho^4/(1-rho)^2, n = {n}"] = "time-varying"
        for n in sizes:
            (found,) = measured[
                (measured["topology"] == name) & (measured["nodes"] == n)
            ].itertuples()
            row[f"transient, measured, n = {n}"] = _transient_text(found)
        rows.append(row)
    return pd.DataFrame(rows)


def markdown(frame: pd.DataFrame) -> str:
    """A frame of text as a Markdown table, bars in it escaped."""
    shown = frame.map(_markdown).rename(columns=_markdown)
    return shown.to_markdown(index=False, disable_numparse=True)


def write(frames: dict[str, pd.DataFrame], notes: str, folder: Path, title: str) -> None:
    """Write `frames` (heading -> table) as table.md, table.csv and table.tex into `folder`.

    Frames without rows, at least one has some, are left out.
    table.csv is long: heading, row number, column, value. table.tex has all frames; if they are
    several, table_1.tex and so on have one each, for a document's `\\input`.
    """
    folder.mkdir(parents=True, exist_ok=True)
    parts, snippets, tidy = [f"# {title}\n"], [], []
    for heading, frame in ((h, f) for h, f in frames.items() if not f.empty):
        parts.append(f"## {heading}\n\n{markdown(frame)}\n")
        snippets.append(latex.snippet(heading, frame))
        long = frame.reset_index(names="row").melt("row", var_name="column")
        tidy.append(long.assign(table=heading))
    parts.append(notes)
    replace_text(folder / "table.md", "\n".join(parts))
    replace_text(folder / "table.tex", "\n\\bigskip\n".join([f"% {title}", *snippets]))
    for stale in folder.glob("table_*.tex"):
        stale.unlink()
    for k, snippet in enumerate(snippets if len(snippets) > 1 else [], start=1):
        replace_text(folder / f"table_{k}.tex", snippet)
    csv = pd.concat(tidy)[["table", "row", "column", "value"]].sort_values(
        ["table", "row"], kind="stable"
    )
    replace_text(folder / "table.csv", csv.to_csv(index=False))


def read(path: Path) -> dict[str, pd.DataFrame]:
    """The frames of a table.csv that `write` made, heading -> table of text."""
    tidy = pd.read_csv(path, dtype=str, keep_default_na=False)
    frames = {}
    for heading, part in tidy.groupby("table", sort=False):
        columns = list(part["column"].drop_duplicates())
        rows = part.assign(row=part["row"].astype(int))
        wide = rows.pivot(index="row", columns="column", values="value").sort_index()
        frames[heading] = wide[columns].reset_index(drop=True)
    return frames


def _heading(key: str) -> str:
    return key.rsplit(".", 1)[-1]


def _column_heading(key: str, value: object) -> str:
    return f"{value} nodes" if key == "nodes" else name_of(value)


def _transient_text(found) -> str:
    if found.what != "measured":
        return found.what
    if pd.isna(found.transient):
        return f"> {found.steps}"
    high = f"> {found.steps}" if pd.isna(found.high) else f"{found.high:.0f}"
    low = f"> {found.steps}" if pd.isna(found.low) else f"{found.low:.0f}"
    return f"{found.transient:.0f} [{low}, {high}]"


def _markdown(text: object) -> str:
    return str(text).replace("|", r"\|")
