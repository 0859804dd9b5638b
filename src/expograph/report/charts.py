"""Charts of the report: Vega-Lite specifications, drawn as SVG by the browser.

What a chart's reader can change is a parameter bound to a native input (checkbox, list, slider),
so that it works with a keyboard. Each input has a place of its own in the page, `Control`, next
to which the template paints the line that it switches.
"""

import json
import math
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from itertools import cycle
from typing import Any, NamedTuple

import altair as alt
import pandas as pd
import vl_convert

from expograph.report.style import COLOURS, DASHES, line_style, name_of

DASH: dict[str, list[float]] = {"-": [], "--": [6, 3], "-.": [7, 3, 1, 3], ":": [1.5, 2.5]}
PAPER, INK = "#ffffff", "#1a1a1a"
DEPTH = COLOURS["static_exponential"]  # of a matrix's entries
FONT = "system-ui, sans-serif"


class Control(NamedTuple):
    """Where an input of a chart stands.

    Attributes:
        id: of the element that Vega puts the input into.
        group: heading of the inputs it stands with.
        colour, dash: of the line it switches; "" and [] for none.
    """

    id: str
    group: str
    colour: str = ""
    dash: tuple[float, ...] = ()


class Chart(NamedTuple):
    """A specification, its inputs, and what it shows in words for those who do not see it."""

    id: str
    description: str
    spec: dict[str, Any]
    controls: list[Control]

    @property
    def groups(self) -> dict[str, list[Control]]:
        """The inputs by the heading under which they stand, in order."""
        found: dict[str, list[Control]] = {}
        for control in self.controls:
            found.setdefault(control.group, []).append(control)
        return found

    @property
    def json(self) -> str:
        """The specification, safe inside a script element."""
        return json.dumps(self.spec, separators=(",", ":")).replace("<", "\\u003c")


class Series(NamedTuple):
    """A line that can be switched on and off."""

    label: str
    colour: str
    dash: tuple[float, ...] = ()


def series_of(frame: pd.DataFrame) -> dict[tuple[str, str], Series]:
    """(algorithm, topology) -> how its lines look, in order of appearance.

    A topology has its colour. Where several algorithms run on it, the dashes tell them apart.
    """
    pairs = list(frame[["algorithm", "topology"]].drop_duplicates().itertuples(index=False))
    several = len({a for a, _ in pairs if a != "psgd"}) > 1
    momentum = dict.fromkeys(a for a, _ in pairs if a != "psgd")
    dashes = {a: tuple(dash) for a, dash in zip(momentum, cycle(DASH.values()), strict=False)}
    found = {}
    for algorithm, topology in pairs:
        style = line_style(topology)
        dash = tuple(DASH[DASHES.get(topology, "-")])
        label = name_of(topology)
        if algorithm == "psgd":
            label = name_of("psgd")
        elif several:
            label, dash = f"{name_of(algorithm)}, {label}", dashes[algorithm]
        found[algorithm, topology] = Series(label, style["color"], dash)
    return found


class Inputs:
    """Parameters bound to native inputs, and the places of these, of one chart."""

    def __init__(self, chart: str) -> None:
        self.chart = chart
        self.parameters: list[alt.Parameter] = []
        self.controls: list[Control] = []

    def box(
        self, name: str, label: str, group: str, value: bool, line: Series | None = None
    ) -> None:
        """A checkbox, beside the look of the line that it switches."""
        self._add(name, group, alt.binding_checkbox, value, line, name=label)

    def select(
        self, name: str, label: str, group: str, options: Mapping[Any, str], value: Any
    ) -> None:
        """A list of options: value -> what is read."""
        choices: dict[str, Any] = {"options": list(options), "labels": list(options.values())}
        self._add(name, group, alt.binding_select, value, name=label, **choices)

    def slider(self, name: str, label: str, group: str, low: int, high: int, value: int) -> None:
        """A slider in whole steps."""
        self._add(name, group, alt.binding_range, value, name=label, min=low, max=high, step=1)

    def _add(
        self,
        parameter: str,
        group: str,
        binding: Callable[..., Any],
        value: Any,
        line: Series | None = None,
        **options: Any,
    ) -> None:
        place = f"{self.chart}-{parameter}"
        look = (line.colour, line.dash) if line else ()
        self.controls.append(Control(place, group, *look))
        bind = binding(element=f"#{place}", **options)
        self.parameters.append(alt.param(name=parameter, bind=bind, value=value))


def inline(frame: pd.DataFrame) -> alt.Data:
    """A frame as CSV within the specification: a third of the size of JSON."""
    numeric = pd.api.types.is_numeric_dtype
    parse = {column: "number" if numeric(frame[column]) else "string" for column in frame}
    content = frame.to_csv(index=False, float_format="%.5g", lineterminator="\n")
    return alt.InlineData(values=content, format=alt.CsvDataFormat(type="csv", parse=parse))


def finished(chart: alt.TopLevelMixin, description: str) -> dict[str, Any]:
    """A chart as a specification, in the report's type and colours."""
    grey = {"gridColor": "#e6e6e6", "domainColor": "#888888", "tickColor": "#888888"}
    text = {"labelColor": INK, "titleColor": INK, "labelFontSize": 12, "titleFontSize": 13}
    spec = (
        chart.properties(description=description)
        .configure(background=PAPER, font=FONT, aria=False)  # a hundred marks read out help nobody
        .configure_view(stroke=None)
        .configure_axis(**text, **grey, titleFontWeight="normal")
        .configure_legend(**text)
        .configure_title(fontSize=13, fontWeight="normal", color=INK, anchor="start")
        .to_dict()
    )
    options = {"renderer": "svg", "actions": False, "logLevel": 1}  # 1: errors only
    return spec | {"usermeta": {"embedOptions": options}}


def lines(
    id: str,
    description: str,
    frame: pd.DataFrame,
    series: Sequence[Series],
    metrics: Mapping[str, str],
    *,
    x: str,
    selects: Mapping[str, str] | None = None,
    log_x: bool = False,
    log_y: bool = False,
    chosen: Mapping[str, Any] | None = None,
    page: str = "",
) -> Chart:
    """Lines to hover, zoom and switch on and off.

    Args:
        id: of the chart in its page.
        frame: a row a point: `series` (index into `series`), `x`, a column a metric, perhaps
            `<metric>_low` and `<metric>_high`, `seed` ("mean" or a number as text) and `run`.
        metrics: column -> what the vertical axis shows; the first is shown first.
        x: label of the horizontal axis.
        selects: further columns -> label, each reduced to one value by a list.
        log_x, log_y: whether axes begin logarithmic.
        chosen: the value that a list of `selects` begins with; else the last of those with the
            most lines.
        page: where a click on a point leads, to the element whose id is the point's `run`.
    """
    metric, *others = metrics
    seeds = list(frame["seed"].drop_duplicates()) if "seed" in frame else ["mean"]
    band = any(f"{m}_low" in frame for m in metrics)
    ins = Inputs(id)
    for i, line in enumerate(series):
        ins.box(f"line{i}", line.label, "lines", True, line)
    for i, seed in enumerate(seeds if len(seeds) > 1 else []):
        label = "mean over seeds" if seed == "mean" else f"seed {seed}"
        ins.box(f"seed{i}", label, "seeds", seed == "mean")
    if band:
        ins.box("band", "95 % interval", "seeds" if len(seeds) > 1 else "view", True)
    for name, label in (selects or {}).items():
        lengths = frame.groupby(name)["series"].nunique()  # sorted by value
        begin = (chosen or {}).get(name, lengths.index[lengths == lengths.max()][-1])
        options = {value: str(name_of(value)) for value in lengths.index.tolist()}
        ins.select(f"pick_{name}", label, "view", options, _native(begin))
    if others:
        ins.select("metric", "shown", "view", dict(metrics), metric)
    else:
        ins.parameters.append(alt.param(name="metric", value=metric))
    low, high = math.floor(frame["x"].min()), math.ceil(frame["x"].max())
    ins.slider("first", f"from {x}", "view", low, high, low)
    ins.slider("last", "to", "view", low, high, high)
    ins.box("log_x", f"logarithmic {x}", "view", log_x)
    ins.box("log_y", "logarithmic values", "view", log_y)

    kept = [f"[{','.join(f'line{i}' for i in range(len(series)))}][datum.series]"]
    kept += [f"datum['{name}'] == pick_{name}" for name in selects or {}]
    kept += ["first <= datum.x && datum.x <= last"]
    if len(seeds) > 1:
        switches = ", ".join(f"'{seed}': seed{i}" for i, seed in enumerate(seeds))
        kept += [f"{{{switches}}}[datum.seed]"]
    base = (
        alt.Chart(inline(frame))
        .transform_filter(" && ".join(kept))
        .transform_calculate(
            name=f"{json.dumps([line.label for line in series])}[datum.series]",
            value="datum[metric]",
            across=_scaled("datum.x", "log_x"),
            up=_scaled("datum[metric]", "log_y"),
            low=_scaled("datum[metric + '_low']", "log_y"),
            high=_scaled("datum[metric + '_high']", "log_y"),
            page=f"'{page}#' + datum.run",
        )
        .transform_filter("isValid(datum.value) && isValid(datum.up) && isValid(datum.across)")
    )
    every = {"domain": list(range(len(series)))}
    colours = alt.Scale(**every, range=[line.colour for line in series])
    dashes = alt.Scale(**every, range=[line.dash or (1, 0) for line in series])
    across = alt.Axis(title=x, tickCount=6, grid=False, **_logarithmic("log_x", frame["x"]))
    up = alt.Axis(title=None, tickCount=6, **_logarithmic("log_y", frame[metric]))
    base = base.encode(
        x=alt.X("across:Q", axis=across, scale=alt.Scale(nice=False, padding=6)),
        color=alt.Color("series:N", scale=colours, legend=None),
    )
    if "seed" in frame:
        base = base.encode(detail="seed:N")
    values = base.encode(y=alt.Y("up:Q", axis=up, scale=alt.Scale(zero=False, padding=6)))
    intervals = (
        base.transform_filter("band && datum.seed == 'mean' && isValid(datum.low)")
        .mark_area(opacity=0.12, clip=True)
        .encode(y="low:Q", y2="high:Q")
    )
    width = alt.expr("datum.seed == 'mean' ? 2 : 1" if len(seeds) > 1 else "2")
    curves = values.mark_line(clip=True, strokeWidth=width).encode(
        strokeDash=alt.StrokeDash("series:N", scale=dashes, legend=None)
    )
    tooltip = [
        alt.Tooltip("name:N", title="line"),
        alt.Tooltip("x:Q", title=x),
        alt.Tooltip("value:Q", title="value", format=".5~g"),
        *([alt.Tooltip("seed:N")] if "seed" in frame else []),
    ]
    points = values.mark_circle(clip=True, size=26, opacity=0.9).encode(tooltip=tooltip)
    if page:
        points = points.encode(href="page:N")
    # fingers and the bare wheel scroll the page, also over a chart
    grab = "[pointerdown[event.pointerType != 'touch'], window:pointerup] > window:pointermove!"
    wheel = "wheel![event.ctrlKey || event.shiftKey]"
    zoom = alt.selection_interval(name="zoom", bind="scales", on=grab, translate=grab, zoom=wheel)
    layers = [*([intervals] if band else []), curves, points.add_params(zoom)]
    title = alt.TitleParams(text=alt.expr(f"{json.dumps(dict(metrics))}[metric]"))
    chart = alt.layer(*layers).add_params(*ins.parameters)
    chart = chart.properties(width="container", height=340, title=title)
    return Chart(id, description, finished(chart, description), ins.controls)


def _native(value: Any) -> Any:
    """A number of numpy's as Python's, which JSON knows."""
    return value.item() if hasattr(value, "item") else value


def _scaled(value: str, switch: str) -> str:
    """A value, or its logarithm while `switch` is on; a scale's kind can't be a parameter."""
    return f"{switch} ? ({value} > 0 ? log({value}) / LN10 : null) : {value}"


def _logarithmic(switch: str, values: pd.Series) -> dict[str, Any]:
    """Ticks and labels of an axis that shows log10 of its values while `switch` is on."""
    positive = values[values > 0]
    span = math.log10(positive.max() / positive.min()) if len(positive) else 0
    digits = (1,) if span > 3 else (1, 2, 5) if span > 1.2 else (1, 1.5, 2, 3, 4, 5, 7)
    ticks = [round(math.log10(d) + e, 4) for e in range(-18, 12) for d in digits]
    power = "pow(10, datum.value)"
    plain = "datum.value > -3.1 && datum.value < 5.9"
    written = f"{plain} ? format({power}, ',.3~r') : format({power}, '.0e')"
    return {
        "values": alt.ExprRef(f"{switch} ? {ticks} : null"),
        "labelExpr": f"{switch} ? ({written}) : datum.label",
        "labelOverlap": "greedy",
    }


@cache
def library() -> str:
    """Vega, Vega-Lite and Vega-Embed in one script that needs no network."""
    return vl_convert.javascript_bundle()  # type: ignore[call-arg]  # its stub asks for a snippet
