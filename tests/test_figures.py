"""Figures fit a paper: stated widths, legible and uncovered text, embedded fonts, equal bytes."""

import itertools
import re
import zlib
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure
from matplotlib.text import Text

from expograph import cli
from expograph.analysis.published import Published
from expograph.analysis.table_result import Cell, Column, Row, TableResult
from expograph.analysis.tables import pivot
from expograph.commands import figure as command
from expograph.config import Table
from expograph.graphs.topology import Topology, build
from expograph.report import cost_figures, figures, gallery, style
from expograph.report import drawn as drawn_figures
from expograph.report.headline import headline

SPEED_UP = pd.DataFrame(
    np.geomspace(1, 63, 56).reshape(7, 8),
    index=[64, 128, 256, 512, 1024, 2048, 4096],
    columns=[1, 2.5, 10, 25, 50, 100, 200, 400],
)
HOURS = pd.DataFrame(
    [
        {"topology": t, "nodes": n, "published": 45 / n, "predictive": 44 / n, "fitted": 46 / n}
        for t in ("fully_connected", "ring", "one_peer_exponential")
        for n in (4, 8, 16, 32)
    ]
)
TRANSIENTS = pd.DataFrame(
    [
        {"topology": t, "nodes": n, "transient": c * n**2.5, "low": c * n**2, "high": c * n**3}
        for c, t in enumerate(("one_peer_exponential", "static_exponential", "star", "ring"), 1)
        for n in (8, 16, 32, 64)
    ]
)
RUNS = pd.DataFrame(
    [
        {"topology": t, "nodes": 32, "status": "done", "bytes_sent_max": 8 * k, "seed": s,
         "accuracy_averaged": 80 + 0.3 * k + 0.1 * s}
        for t, k in {"fully_connected": 2, "ring": 2.2, "static_exponential": 5,
                     "one_peer_exponential": 1}.items()
        for s in range(3)
    ]
)  # fmt: skip
LABELS = ("ranks", "elements", "averaging")
ACCURACIES = pivot(
    RUNS.assign(key=[f"k{i}" for i in range(len(RUNS))]),
    Table(title="t"),
    "accuracy_averaged",
    Published(None, Path()),
)


def times() -> tuple[TableResult, TableResult]:
    """What four hosts of a virtual cluster took for a million and for four million elements."""
    names = ("one-peer exponential", "static exponential", "ring", "Horovod allreduce")
    steps = {"id": "times", "heading": "", "labels": LABELS}
    steps["columns"] = tuple(Column(name=name) for name in ("ms", "predicted_ms", "wire_ms"))
    rows = [
        Row(labels=(4, n, name), cells=(Cell(mean=k * n * 4e-5), Cell(), Cell(mean=n * 3.2e-5)))
        for n in (1_000_000, 4_000_000)
        for k, name in enumerate(names, start=1)
    ]
    link = {"id": "links", "heading": "", "labels": ("ranks",)}
    link["columns"] = (Column(name="alpha_ms"), Column(name="gbit"))
    fitted = Row(labels=(4,), cells=(Cell(mean=0.37), Cell(mean=0.95)))
    return TableResult(**steps, rows=tuple(rows)), TableResult(**link, rows=(fitted,))


def curves(name):
    return pd.read_csv(Path("results") / name / "curves.csv")


ACCURACY = "test accuracy of the averaged model (%)"
DRAWN = {
    "gaps": lambda: figures.gap_against_nodes((2, 4, 8, 16)),
    "consensus": lambda: figures.consensus_error(("ring", "one_peer_exponential"), (8, 9)),
    "accuracy": lambda: figures.training_curves(curves("table2"), "accuracy_averaged", ACCURACY),
    "errors": lambda: figures.relative_errors(curves("table1"), "error_workers", 1.5),
    "headline": lambda: headline(ACCURACIES, RUNS, *times()),
    "transients": lambda: figures.transient_growth(TRANSIENTS, {"ring": 2.5}, 1.5),
    "hours": lambda: cost_figures.node_hours(
        HOURS,
        {"predictive": "--", "fitted": "-"},
        {"null": HOURS.assign(predicted=HOURS["fitted"])},
    ),
    "map": lambda: cost_figures.speed_up_map(
        {f"all-reduce by a ring, {p} parameters": SPEED_UP for p in ("a", "b", "c")}, 1.05
    ),
    "static graph": lambda: figures.draw_topology(build("static_exponential", 8)),
    "one-peer graph": lambda: figures.draw_topology(build("one_peer_exponential", 64)),
    "random graph": lambda: figures.draw_topology(build("random_match", 9)),
    "matrices": lambda: figures.matrices(build("one_peer_exponential", 64)),
    "two periods": lambda: figures.matrices(build("one_peer_exponential", 6), 6),
}


@pytest.fixture(params=DRAWN, scope="module")
def figure(request):
    return DRAWN[request.param]()


def drawn_texts(figure):
    """Every text that is drawn, with its box in pixels: of ticks those within the limits only."""
    figure.draw_without_rendering()
    ticks = {}
    for ax in figure.axes:
        for axis in (ax.xaxis, ax.yaxis):
            drawn = axis._update_ticks() if ax.axison else ()
            shown = {label for tick in drawn for label in (tick.label1, tick.label2)}
            every = axis.get_major_ticks() + axis.get_minor_ticks()
            ticks |= {label: label in shown for t in every for label in (t.label1, t.label2)}
    for text in figure.findobj(Text):
        if text.get_text().strip() and text.get_visible() and ticks.get(text, True):
            yield text, text.get_window_extent()


def test_widths_are_those_of_a_paper(figure):
    assert figure.get_figwidth() in (style.COLUMN, style.TEXT)
    assert figure.get_figheight() <= 5


def test_text_is_legible_and_inside(figure):
    whole = figure.bbox
    for text, box in drawn_texts(figure):
        assert 7 <= text.get_fontsize() <= 9, text
        assert box.x0 >= whole.x0 - 1 and box.x1 <= whole.x1 + 1, text
        assert box.y0 >= whole.y0 - 1 and box.y1 <= whole.y1 + 1, text


def test_no_text_lies_on_another(figure):
    boxes = [(text.get_text(), box.padded(-1)) for text, box in drawn_texts(figure)]
    for (one, a), (other, b) in itertools.combinations(boxes, 2):
        assert not a.overlaps(b), (one, other)


@pytest.mark.parametrize("name", DRAWN)
def test_files_are_equal_each_time_and_embed_truetype_fonts(name, tmp_path):
    for folder in ("a", "b"):
        figures.save(figure := DRAWN[name](), tmp_path / folder / "figure")
    for kind in ("png", "svg", "pdf"):
        first, second = ((tmp_path / f / f"figure.{kind}").read_bytes() for f in "ab")
        assert first == second and not re.search(rb"Date|20\d\d-\d\d-\d\d", first)
    pdf = (tmp_path / "a" / "figure.pdf").read_bytes()
    for stream in re.findall(rb"stream\r?\n(.*?)endstream", pdf, re.S):
        try:
            pdf += zlib.decompress(stream)
        except zlib.error:
            continue
    assert b"/Type3" not in pdf and pdf.count(b"/FontFile2") == pdf.count(b"/FontDescriptor /")
    width, height = map(float, re.search(rb"/MediaBox \[ ?0 0 ([\d.]+) ([\d.]+)", pdf).groups())
    assert (width, height) == pytest.approx(72 * figure.get_size_inches(), abs=0.01)
    svg = (tmp_path / "a" / "figure.svg").read_text()
    assert "<text" not in svg  # outlines: the same where the font is missing


def test_arrows_lead_from_sender_to_receiver():
    ring = Topology("mine", 4, 1, lambda k: build("one_peer_exponential", 4).at(0))
    (ax,) = figures.draw_topology(ring).axes
    (arrows,) = [c for c in ax.collections if hasattr(c, "U")]
    # rank 1 hears rank 0: from the top clockwise to the right
    assert len(arrows.U) == 4
    first = np.argmin(np.hypot(arrows.X - 0.1, arrows.Y - 0.9))
    assert arrows.U[first] > 0 > arrows.V[first]


def test_the_product_that_is_an_exact_average_is_marked():
    titles = [ax.get_title() for ax in figures.matrices(build("one_peer_exponential", 8)).axes]
    assert [t for t in titles if t.endswith("= J")] == ["W(2)\u22efW(0) = J"]
    titles = [ax.get_title() for ax in figures.matrices(build("one_peer_exponential", 6)).axes]
    assert not any(t.endswith("= J") for t in titles)


def test_what_the_headline_lacks_is_named():
    with pytest.raises(ValueError, match="nothing of ring to show"):
        kept = tuple(row for row in ACCURACIES.rows if row.labels != ("ring",))
        headline(ACCURACIES.model_copy(update={"rows": kept}), RUNS, *times())


def test_a_topology_of_ones_own_has_a_look():
    assert style.line_style("mine") == {**style.line_style("mine"), "label": "mine"}
    assert style.line_style("mine")["color"] == style.OTHER not in style.COLOURS.values()


def test_a_figure_is_drawn_again_only_if_something_has_changed(tmp_path, monkeypatch, capsys):
    def drawn() -> list[str]:
        assert cli.main(["figure", *words, "--results", str(tmp_path)]) == 0
        out = capsys.readouterr().out
        return [line for line in out.splitlines() if "are drawn already" not in line]

    drawing = []
    monkeypatch.setitem(gallery.DRAW, "table1_curves", lambda root: drawing.append(1) or Figure())
    monkeypatch.setattr(command, "ALONE", ())
    data = tmp_path / "table1" / "curves.csv"
    data.parent.mkdir()
    data.write_text("step\n1\n")
    words: list[str] = []
    assert drawn() and not drawn() and len(drawing) == 1
    data.write_text("step\n2\n")
    assert drawn() and not drawn() and len(drawing) == 2
    (tmp_path / "figures" / "table1_curves.svg").unlink()
    assert drawn() and not drawn() and len(drawing) == 3
    monkeypatch.setattr(drawn_figures, "_versions", lambda: "others")
    assert drawn() and not drawn() and len(drawing) == 4
    words = ["table1_curves"]  # asked for by name
    assert drawn() and len(drawing) == 5
