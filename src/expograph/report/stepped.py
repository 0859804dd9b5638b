"""The chart of a topology, stepped or played, and its still."""

import json
from collections.abc import Mapping
from functools import cache
from typing import Any

import altair as alt
import pandas as pd
import vl_convert

from expograph.report.charts import DEPTH, INK, PAPER, Chart, Control, Inputs, finished, inline


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
            source |= inline(data[source["name"]]).to_dict()
    return Chart(id, description, spec, list(controls))


@cache
def _stepped(id: str, sizes: tuple[int, ...], last: int) -> tuple[str, tuple[Control, ...]]:
    """The specification of `topology` without its data, which takes a second to compile."""
    ins = Inputs(id)
    ins.slider("step", "step k", "step", 0, last, 0)
    ins.box("play", "play", "step", False)
    ins.select("n", "nodes n", "step", {n: str(n) for n in sizes}, sizes[0])
    ins.parameters += [alt.param(name="colour", value=INK), alt.param(name="period", value={})]
    chart = (
        alt.concat(_graph(), _weights(), _product(), _distance(), columns=4)
        .resolve_scale(color="independent")
        .add_params(*ins.parameters)
    )
    spec = vl_convert.vegalite_to_vega(finished(chart, ""))
    return json.dumps(_played(spec, last)), tuple(ins.controls)


LINE = alt.expr("colour")
NOW = "datum.n == n && datum.step == step % period[n]"


def _plane(reach: float, x: str, y: str) -> dict[str, Any]:
    """Horizontal and vertical position of a drawing without axes."""
    bare = {"axis": None, "scale": alt.Scale(domain=[-reach, reach], nice=False)}
    return {"x": alt.X(f"{x}:Q", **bare), "y": alt.Y(f"{y}:Q", **bare)}


def _graph() -> alt.LayerChart:
    """Ranks and the arrows of the step."""
    told = {"source:Q": "from", "target:Q": "to", "weight:Q": "weight"}
    tooltip = [alt.Tooltip(field, title=title) for field, title in told.items()]
    arrows = _from("messages").transform_filter(NOW).encode(tooltip=tooltip)
    shafts = arrows.mark_rule(color=LINE, strokeWidth=1.3, opacity=0.75).encode(
        **_plane(1.2, "x1", "y1"), x2="x2:Q", y2="y2:Q"
    )
    tip = {"shape": "M0,-1L0.55,0.6L-0.55,0.6Z", "size": 110, "filled": True, "opacity": 1}
    heads = (
        arrows.transform_filter("isValid(datum.angle)")
        .mark_point(color=LINE, **tip)
        .encode(**_plane(1.2, "x2", "y2"), angle=alt.Angle("angle:Q", scale=None))
    )
    ranks = _from("nodes").transform_filter("datum.n == n").encode(**_plane(1.2, "x", "y"))
    ranks = ranks.encode(tooltip=[alt.Tooltip("rank:Q")])
    discs = ranks.mark_circle(size=300, color=PAPER, stroke=INK, strokeWidth=1, opacity=1)
    names = ranks.mark_text(fontSize=10, color=INK).encode(text="rank:Q")
    title = _title("'who sends to whom at step ' + step")
    return alt.layer(shafts, heads, discs, names).properties(width=290, height=290, title=title)


def _matrix(cells: alt.Chart, shown: str, legend: str, scale: dict[str, Any]) -> alt.Chart:
    """A heat map of the entries `shown`, rows receivers."""
    small = {"labelFontSize": 9, "labelAngle": 0, "tickSize": 2, "labelOverlap": True}
    bar = alt.Legend(orient="bottom", gradientLength=180, tickCount=5, titleFontSize=11)
    shades = alt.Scale(range=[PAPER, DEPTH, INK], interpolate="rgb", **scale)
    told = {"target:Q": "receiver", "source:Q": "sender", f"{shown}:Q": legend}
    return (
        cells.mark_rect(stroke=PAPER, strokeWidth=0.5)
        .encode(
            x=alt.X("source:O", axis=alt.Axis(title="sender j", **small)),
            y=alt.Y("target:O", axis=alt.Axis(title="receiver i", **small)),
            color=alt.Color(f"{shown}:Q", title=legend, legend=bar, scale=shades),
            tooltip=[alt.Tooltip(field, title=title) for field, title in told.items()],
        )
        .properties(width=230, height=230)
    )


def _weights() -> alt.Chart:
    """The mixing matrix of the step."""
    cells = _from("products").transform_filter(f"{NOW} && datum.w > 0")
    shown = _matrix(cells, "w", "weight W(k)[i, j]", {"domain": [0, 0.5, 1]})
    return shown.properties(title=_title("'mixing matrix W(' + step + ')'"))


def _product() -> alt.Chart:
    """The product of the matrices so far, in shares of exact averaging."""
    cells = _from("products").transform_filter("datum.n == n && datum.step == step")
    cells = cells.transform_calculate(share="datum.p * datum.n")
    scale = {"domain": [0, 1, 4], "clamp": True}
    shown = _matrix(cells, "share", "times 1/n: 1 everywhere is J", scale)
    factors = "step > 1 ? 'W(' + step + ') ... W(0)' : step ? 'W(1) W(0)' : 'W(0)'"
    return shown.properties(title=_title(f"'product ' + ({factors})"))


def _distance() -> alt.LayerChart:
    """How far the product is from J after each step, the present one marked."""
    path = (
        _from("residuals")
        .transform_filter("datum.n == n")
        .encode(
            x=alt.X("step:Q", title="step k", axis=alt.Axis(tickMinStep=1, grid=False)),
            y=alt.Y("residual:Q", title=None, scale=alt.Scale(domain=[0, 1.1], nice=False)),
            tooltip=[alt.Tooltip("step:Q"), alt.Tooltip("residual:Q", format=".4f")],
        )
    )
    line = path.mark_line(color=LINE, point=alt.OverlayMarkDef(color=LINE, size=30))
    now = path.transform_filter("datum.step == step")
    dot = now.mark_circle(size=140, color=LINE, opacity=1)
    number = now.mark_text(align="left", dx=8, dy=-10, fontSize=12, color=INK).encode(
        text=alt.Text("residual:Q", format=".4f")
    )
    title = _title("'distance of the product to J, |product - J|'")
    return alt.layer(line, dot, number).properties(width=240, height=230, title=title)


def _from(name: str) -> alt.Chart:
    return alt.Chart(alt.NamedData(name))


def _title(expression: str) -> alt.TitleParams:
    return alt.TitleParams(text=alt.expr(expression))


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
    shafts = (
        alt.Chart(inline(messages))
        .mark_rule(color=colour, strokeWidth=1)
        .encode(**_plane(1.15, "x1", "y1"), x2="x2:Q", y2="y2:Q")
    )
    discs = (
        alt.Chart(inline(nodes))
        .mark_circle(size=60, color=INK, opacity=1)
        .encode(**_plane(1.15, "x", "y"))
    )
    chart = alt.layer(shafts, discs).properties(width=150, height=150)
    return vl_convert.vegalite_to_svg(finished(chart, description))
