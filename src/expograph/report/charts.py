"""Charts of the report: Vega-Lite specifications, drawn as SVG by the browser.

What a chart's reader can change is a parameter bound to a native input (checkbox, list, slider),
so that it works with a keyboard. Each input has a place of its own in the page, `Control`, next
to which the template paints the line that it switches.
"""

import json
import math
from collections.abc import Mapping, Sequence
from functools import cache
from itertools import cycle
from typing import Any, NamedTuple

import altair as alt
import pandas as pd
import vl_convert

from expograph.report.style import COLOURS, DASHES, line_style, name_of

DASH = {"-": [], "--": [6, 3], "-.": [7, 3, 1, 3], ":": [1.5, 2.5]}
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
    shown: bool = True


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


class _Inputs:
    """Parameters bound to inputs, and their places, of one chart."""

    def __init__(self, chart: str) -> None:
        self.chart = chart
        self.parameters: list[alt.Parameter] = []
        self.controls: list[Control] = []

    def _add(self, name: str, group: str, bind: Any, value: Any, line: Series | None = None):
        look = (line.colour, line.dash) if line else ()
        self.controls.append(Control(f"{self.chart}-{name}", group, *look))
        self.parameters.append(alt.param(name=name, bind=bind, value=value))

    def _place(self, name: str) -> str:
        return f"#{self.chart}-{name}"

    def box(self, name: str, label: str, group: str, value: bool, line: Series | None = None):
        self._add(
            name, group, alt.binding_checkbox(name=label, element=self._place(name)), value, line
        )

    def select(self, name: str, label: str, group: str, options: list, labels: list[str], value):
        bind = alt.binding_select(
            name=label, element=self._place(name), options=options, labels=labels
        )
        self._add(name, group, bind, value)

    def slider(self, name: str, label: str, group: str, low: float, high: float, value: float):
        bind = alt.binding_range(name=label, element=self._place(name), min=low, max=high, step=1)
        self._add(name, group, bind, value)


def _inline(frame: pd.DataFrame, text: Sequence[str] = ()) -> alt.Data:
    """A frame as CSV within the specification: a third of the size of JSON."""
    parse = {column: "string" if column in text else "number" for column in frame}
    content = frame.to_csv(index=False, float_format="%.5g", lineterminator="\n")
    return alt.InlineData(values=content, format=alt.CsvDataFormat(type="csv", parse=parse))


def _finished(chart: alt.TopLevelMixin, description: str) -> dict[str, Any]:
    grey = {"gridColor": "#e6e6e6", "domainColor": "#888888", "tickColor": "#888888"}
    type_ = {"labelFont": FONT, "titleFont": FONT, "labelColor": INK, "titleColor": INK,
             "labelFontSize": 12, "titleFontSize": 13, "titleFontWeight": "normal"}  # fmt: skip
    spec = (
        chart.properties(description=description)
        .configure(background=PAPER, font=FONT, aria=False)  # a hundred marks read out help nobody
        .configure_view(stroke=None)
        .configure_axis(**type_, **grey)
        .configure_legend(**{k: v for k, v in type_.items() if k != "titleFontWeight"})
        .configure_title(font=FONT, fontSize=13, fontWeight="normal", color=INK, anchor="start")
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
        chosen: the value that a list of `selects` begins with; else its last.
        page: where a click on a point leads, to the element whose id is the point's `run`.
    """
    ins = _Inputs(id)
    for i, line in enumerate(series):
        ins.box(f"line{i}", line.label, "lines", line.shown, line)
    seeds = list(frame["seed"].drop_duplicates()) if "seed" in frame else []
    if len(seeds) > 1:
        for i, seed in enumerate(seeds):
            label = "mean over seeds" if seed == "mean" else f"seed {seed}"
            ins.box(f"seed{i}", label, "seeds", seed == "mean")
    band = [m for m in metrics if f"{m}_low" in frame]
    if band:
        ins.box("band", "95 % interval", "seeds" if len(seeds) > 1 else "view", True)
    keep = [f"[{','.join(f'line{i}' for i in range(len(series)))}][datum.series]"]
    for name, label in (selects or {}).items():
        values = frame[name].drop_duplicates().tolist()
        start = (chosen or {}).get(name, values[-1])
        ins.select(f"pick_{name}", label, "view", values, [name_of(v) for v in values], start)
        keep.append(f"datum['{name}'] == pick_{name}")
    if len(seeds) > 1:
        shown = ", ".join(f"'{seed}': seed{i}" for i, seed in enumerate(seeds))
        keep.append(f"{{{shown}}}[datum.seed]")
    if len(metrics) > 1:
        ins.select(
            "metric", "shown", "view", list(metrics), list(metrics.values()), next(iter(metrics))
        )
    else:
        ins.parameters.append(alt.param(name="metric", value=next(iter(metrics))))
    low, high = float(frame["x"].min()), float(frame["x"].max())
    high = math.ceil(high)
    ins.slider("first", f"from {x}", "view", low, high, low)
    ins.slider("last", "to", "view", low, high, high)
    keep.append("first <= datum.x && datum.x <= last")
    ins.box("log_x", f"logarithmic {x}", "view", log_x)
    ins.box("log_y", "logarithmic values", "view", log_y)

    def scaled(value: str, log: str) -> str:
        return f"{log} ? ({value} > 0 ? log({value}) / LN10 : null) : {value}"

    words = json.dumps([line.label for line in series])
    base = alt.Chart(_inline(frame, _texts(frame))).transform_filter(" && ".join(keep))
    base = base.transform_calculate(
        name=f"{words}[datum.series]",
        value="datum[metric]",
        across=scaled("datum.x", "log_x"),
        up=scaled("datum[metric]", "log_y"),
        low=scaled("datum[metric + '_low']", "log_y"),
        high=scaled("datum[metric + '_high']", "log_y"),
    ).transform_filter("isValid(datum.value) && isValid(datum.up) && isValid(datum.across)")
    axis = {"title": x, "tickCount": 6, "grid": False, **_logarithmic("log_x", frame["x"])}
    values = frame[next(iter(metrics))]
    upward = {"title": None, "tickCount": 6, **_logarithmic("log_y", values)}
    look = {"domain": list(range(len(series)))}
    across = alt.X("across:Q", axis=alt.Axis(**axis), scale=alt.Scale(nice=False, padding=6))
    encoded = base.encode(
        x=across,
        color=alt.Color(
            "series:N", scale=alt.Scale(**look, range=[s.colour for s in series]), legend=None
        ),
        detail="seed:N" if "seed" in frame else alt.Undefined,
    )
    y = alt.Y("up:Q", axis=alt.Axis(**upward), scale=alt.Scale(zero=False, padding=6))
    layers = []
    if band:
        layers.append(
            base.transform_filter("band && datum.seed == 'mean' && isValid(datum.low)")
            .mark_area(opacity=0.12, clip=True)
            .encode(
                x=across,
                y=alt.Y("low:Q", title=None),
                y2="high:Q",
                color=alt.Color(
                    "series:N",
                    scale=alt.Scale(**look, range=[s.colour for s in series]),
                    legend=None,
                ),
            )
        )
    dashes = alt.Scale(**look, range=[list(s.dash) or [1, 0] for s in series])
    thin = "datum.seed == 'mean' ? 2 : 1" if "seed" in frame else "2"
    layers.append(
        encoded.mark_line(clip=True, strokeWidth=alt.expr(thin)).encode(
            y=y, strokeDash=alt.StrokeDash("series:N", scale=dashes, legend=None)
        )
    )
    tooltip = [alt.Tooltip("name:N", title="line"), alt.Tooltip("x:Q", title=x),
               alt.Tooltip("value:Q", title="value", format=".5~g")]  # fmt: skip
    tooltip += [alt.Tooltip("seed:N")] if "seed" in frame else []
    dots = encoded.mark_circle(clip=True, size=26, opacity=0.9)
    if page:
        dots = dots.transform_calculate(page=f"'{page}#' + datum.run").encode(href="page:N")
    layers.append(dots.encode(y=y, tooltip=tooltip))
    # fingers and the bare wheel scroll the page, also over a chart
    grab = "[pointerdown[event.pointerType != 'touch'], window:pointerup] > window:pointermove!"
    wheel = "wheel![event.ctrlKey || event.shiftKey]"
    zoom = alt.selection_interval(name="zoom", bind="scales", on=grab, translate=grab, zoom=wheel)
    title = f"{json.dumps(dict(metrics))}[metric]"
    chart = alt.layer(*layers).add_params(*ins.parameters)
    chart.layer[-1] = chart.layer[-1].add_params(zoom)
    chart = chart.properties(
        width="container", height=340, title=alt.TitleParams(text=alt.expr(title), anchor="start")
    )
    return Chart(id, description, _finished(chart, description), ins.controls)


def _logarithmic(switch: str, values: pd.Series) -> dict[str, Any]:
    """Ticks and labels of an axis that shows log10 of its values while `switch` is on.

    A scale's kind cannot be a parameter in Vega-Lite, hence logarithms as data.
    """
    positive = values[values > 0]
    span = math.log10(positive.max() / positive.min()) if len(positive) else 0
    digits = (1,) if span > 3 else (1, 2, 5)
    ticks = [round(math.log10(d) + e, 4) for e in range(-18, 12) for d in digits]
    power = "pow(10, datum.value)"
    plain = "datum.value > -3.1 && datum.value < 5.9"
    written = f"{plain} ? format({power}, ',.3~r') : format({power}, '.0e')"
    return {
        "values": alt.ExprRef(f"{switch} ? {ticks} : null"),
        "labelExpr": f"{switch} ? ({written}) : datum.label",
        "labelOverlap": "greedy",
    }


def _texts(frame: pd.DataFrame) -> list[str]:
    return [c for c in frame if not pd.api.types.is_numeric_dtype(frame[c])]


def topology(
    id: str,
    description: str,
    colour: str,
    data: Mapping[str, pd.DataFrame],
    period: Mapping[int, int],
) -> Chart:
    """A topology stepped or played: its graph, W(k), the product W(k) ... W(0), its distance to J.

    Args:
        colour: of the arrows.
        data: frames with a column n: "nodes" has rank, x, y; "messages", "products" and
            "residuals" the columns of the functions of that name in `graphs`, messages and W(k)
            for the steps of one period at least.
        period: n -> steps after which `messages` are repeated.
    """
    last = int(data["residuals"]["step"].max())
    spec, controls = _stepped(id, tuple(period), last)
    spec = json.loads(spec)
    spec["description"] = description
    for signal in spec["signals"]:
        if signal["name"] in ("colour", "period"):
            signal["value"] = {"colour": colour, "period": dict(period)}[signal["name"]]
    for source in spec["data"]:
        if source["name"] in data:
            source |= _inline(data[source["name"]]).to_dict()
    return Chart(id, description, spec, list(controls))


@cache
def _stepped(id: str, sizes: tuple[int, ...], last: int) -> tuple[str, tuple[Control, ...]]:
    """The specification of `topology` without its data, which takes a second to compile."""
    ins = _Inputs(id)
    ins.slider("step", "step k", "step", 0, last, 0)
    ins.box("play", "play", "step", False)
    ins.select("n", "nodes n", "step", list(sizes), [str(n) for n in sizes], sizes[0])
    ins.parameters += [alt.param(name="colour", value=INK), alt.param(name="period", value={})]
    colour = alt.expr("colour")
    now = "datum.n == n && datum.step == step % period[n]"
    plane = {"axis": None, "scale": alt.Scale(domain=[-1.2, 1.2], nice=False)}
    x, y = alt.X("x:Q", **plane), alt.Y("y:Q", **plane)
    hover = [alt.Tooltip(c, title=t) for c, t in
             (("source:Q", "from"), ("target:Q", "to"), ("weight:Q", "weight"))]  # fmt: skip
    arrows = _from("messages").transform_filter(now)
    shafts = arrows.mark_rule(color=colour, strokeWidth=1.3, opacity=0.75).encode(
        x=alt.X("x1:Q", **plane), y=alt.Y("y1:Q", **plane), x2="x2:Q", y2="y2:Q", tooltip=hover
    )
    heads = (
        arrows.transform_filter("isValid(datum.angle) && isFinite(datum.angle)")
        .mark_point(shape="M0,-1L0.55,0.6L-0.55,0.6Z", filled=True, color=colour, size=110,
                    opacity=1, yOffset=0)
        .encode(
            x=alt.X("x2:Q", **plane), y=alt.Y("y2:Q", **plane),
            angle=alt.Angle("angle:Q", scale=None), tooltip=hover,
        )
    )  # fmt: skip
    here = _from("nodes").transform_filter("datum.n == n")
    discs = here.mark_circle(size=300, color="white", stroke=INK, strokeWidth=1, opacity=1).encode(
        x=x, y=y, tooltip=[alt.Tooltip("rank:Q", title="rank")]
    )
    names = here.mark_text(fontSize=10, color=INK).encode(x=x, y=y, text="rank:Q")
    graph = alt.layer(shafts, heads, discs, names).properties(
        width=290, height=290, title=_title("'who sends to whom at step ' + step")
    )

    cells = _from("products")
    ranks = {
        "title": None,
        "labelFontSize": 9,
        "labelAngle": 0,
        "tickSize": 2,
        "labelOverlap": True,
    }
    places = {
        "x": alt.X("source:O", axis=alt.Axis(**{**ranks, "title": "sender j"})),
        "y": alt.Y("target:O", axis=alt.Axis(**{**ranks, "title": "receiver i"})),
    }
    shades = {"range": [PAPER, DEPTH, INK], "interpolate": "rgb"}
    bar = {"orient": "bottom", "gradientLength": 180, "tickCount": 5, "titleFontSize": 11}
    weights = (
        cells.transform_filter(f"{now} && datum.w > 0")
        .mark_rect(stroke=PAPER, strokeWidth=0.5)
        .encode(
            **places,
            color=alt.Color("w:Q", title="weight W(k)[i, j]", legend=alt.Legend(**bar),
                            scale=alt.Scale(domain=[0, 0.5, 1], **shades)),
            tooltip=[alt.Tooltip("target:Q", title="receiver"),
                     alt.Tooltip("source:Q", title="sender"), alt.Tooltip("w:Q", title="weight")],
        )
        .properties(width=230, height=230, title=_title("'mixing matrix W(' + step + ')'"))
    )  # fmt: skip
    share = cells.transform_filter("datum.n == n && datum.step == step")
    share = share.transform_calculate(share="datum.p * datum.n")
    written = "'product ' + (step > 1 ? 'W(' + step + ') ... W(0)' : step ? 'W(1) W(0)' : 'W(0)')"
    product = (
        share.mark_rect(stroke=PAPER, strokeWidth=0.5)
        .encode(
            **places,
            color=alt.Color("share:Q", title="times 1/n: 1 everywhere is J",
                            legend=alt.Legend(**bar),
                            scale=alt.Scale(domain=[0, 1, 4], clamp=True, **shades)),
            tooltip=[alt.Tooltip("target:Q", title="receiver"),
                     alt.Tooltip("source:Q", title="sender"),
                     alt.Tooltip("p:Q", title="entry"), alt.Tooltip("share:Q", title="times 1/n")],
        )
        .properties(width=230, height=230, title=_title(written))
    )  # fmt: skip
    path = _from("residuals").transform_filter("datum.n == n")
    px = alt.X("step:Q", title="step k", axis=alt.Axis(tickMinStep=1, grid=False))
    py = alt.Y("residual:Q", title=None, scale=alt.Scale(domain=[0, 1.1], nice=False))
    told = [alt.Tooltip("step:Q"), alt.Tooltip("residual:Q", format=".4f")]
    curve = path.mark_line(color=colour, point=alt.OverlayMarkDef(color=colour, size=30)).encode(
        x=px, y=py, tooltip=told
    )
    current = path.transform_filter("datum.step == step")
    dot = current.mark_circle(size=140, color=colour, opacity=1).encode(x=px, y=py)
    value = current.mark_text(align="left", dx=8, dy=-10, fontSize=12, color=INK).encode(
        x=px, y=py, text=alt.Text("residual:Q", format=".4f")
    )
    distance = alt.layer(curve, dot, value).properties(
        width=240, height=230, title=_title("'distance of the product to J, |product - J|'")
    )
    chart = (
        alt.concat(graph, weights, product, distance, columns=4)
        .resolve_scale(color="independent")
        .add_params(*ins.parameters)
    )
    spec = vl_convert.vegalite_to_vega(_finished(chart, ""))
    return json.dumps(_played(spec, last)), tuple(ins.controls)


def _from(name: str) -> alt.Chart:
    return alt.Chart(alt.NamedData(name))


def _title(expression: str) -> alt.TitleParams:
    return alt.TitleParams(text=alt.expr(expression), anchor="start", fontSize=13)


COLUMNS = "containerSize()[0] < 620 ? 1 : containerSize()[0] < 1130 ? 2 : 4"


def _played(spec: dict[str, Any], last: int) -> dict[str, Any]:
    """A compiled specification with a clock on `step` and as many columns as the page has room for.

    Vega-Lite has animated selections in single views only, and a fixed number of columns.
    """
    for signal in spec["signals"]:
        if signal["name"] == "step":
            tick = {"type": "timer", "throttle": 1100}
            signal["on"] = [{"events": tick, "update": f"play ? (step + 1) % {last + 1} : step"}]
    turned = [{"events": {"source": "window", "type": "resize"}, "update": COLUMNS}]
    spec["signals"].append({"name": "columns", "init": COLUMNS, "on": turned})
    spec["autosize"] = {"type": "pad", "resize": True}
    spec["layout"]["columns"] = {"signal": "columns"}
    return spec


def picture(colour: str, nodes: pd.DataFrame, messages: pd.DataFrame, description: str) -> str:
    """A small still of a graph's first step, as SVG text."""
    plane = {"axis": None, "scale": alt.Scale(domain=[-1.15, 1.15], nice=False)}
    shafts = (
        alt.Chart(_inline(messages))
        .mark_rule(color=colour, strokeWidth=1)
        .encode(x=alt.X("x1:Q", **plane), y=alt.Y("y1:Q", **plane), x2="x2:Q", y2="y2:Q")
    )
    discs = (
        alt.Chart(_inline(nodes))
        .mark_circle(size=60, color=INK, opacity=1)
        .encode(x=alt.X("x:Q", **plane), y=alt.Y("y:Q", **plane))
    )
    chart = alt.layer(shafts, discs).properties(width=150, height=150)
    return vl_convert.vegalite_to_svg(_finished(chart, description))


def library() -> str:
    """Vega, Vega-Lite and Vega-Embed in one script that needs no network."""
    return vl_convert.javascript_bundle()
