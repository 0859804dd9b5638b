"""Tables from hand-made summaries: intervals, holes, divergence, published numbers, renderings."""

import io
import json
import re
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from rich.console import Console

from expograph.analysis import transients
from expograph.analysis.experiment import tables_of
from expograph.analysis.growth import Growth, exponents
from expograph.analysis.published import Published, published_of, published_table
from expograph.analysis.table_result import (
    Cell,
    Column,
    Row,
    TableError,
    TableResult,
    Tables,
    load,
    save,
)
from expograph.analysis.tables import differences, live_cell, pivot
from expograph.analysis.theory_table import theory_table
from expograph.analysis.written import NAMES, UNAVAILABLE, written
from expograph.config import ConfigError, Table
from expograph.config import load as load_config
from expograph.graphs import theory
from expograph.graphs.topology import TOPOLOGIES, names
from expograph.report import rendering
from expograph.report.layout import layout
from expograph.report.screen import Screen, show
from expograph.report.style import COLOURS
from expograph.runs.results import flatten
from expograph.runs.thinning import BlockMeans

TABLE = Table(title="t", rows=["topology"], column="nodes")
ACCURACY = "accuracy_averaged"
NONE = Published(None, Path("unread"))


def summary(*rows: tuple) -> pd.DataFrame:
    columns = ["topology", "nodes", "seed", "status", ACCURACY]
    frame = pd.DataFrame(rows, columns=columns)
    return frame.assign(key=[f"k{i}" for i in range(len(frame))])


def texts(table: TableResult) -> pd.DataFrame:
    """A table as it is read, with the first label as index."""
    shown = layout(table)
    rows = [[entry.text for entry in row] for row in shown.rows]
    names = [name for name, _ in shown.columns]
    return pd.DataFrame(rows, columns=names).set_index(names[0])


MIXED = summary(
    ("ring", 4, 0, "done", 80.0),
    ("ring", 4, 1, "done", 82.0),
    ("ring", 4, 2, "done", 84.0),
    ("ring", 8, 0, "done", 70.0),
    ("grid", 4, 0, "done", 50.0),
    ("grid", 4, 1, "diverged", np.nan),
    ("grid", 8, 0, "missing", np.nan),
    ("grid", 8, 1, "done", 1.0),
)


def test_cells_are_mean_and_interval_or_say_what_is_wrong():
    table = pivot(MIXED, TABLE, ACCURACY, NONE)
    cell = table.cell(4, topology="ring")
    assert (cell.mean, cell.count, cell.runs) == (82.0, 3, ("k0", "k1", "k2"))
    assert cell.half_width == pytest.approx(4.303 * 2 / 3**0.5, rel=1e-3)  # t(2), s = 2, n = 3
    assert table.cell(8, topology="ring").half_width is None  # one seed has no interval
    assert table.cell(4, topology="grid").mean is None
    frame = texts(table)
    assert frame.loc["ring", "4 nodes"] == "82.00 ± 4.97"
    assert frame.loc["ring", "8 nodes"] == "70.00"
    assert frame.loc["2D grid", "4 nodes"] == "diverged (1 of 2 runs)"
    assert frame.loc["2D grid", "8 nodes"] == "missing (1 of 2 runs)"


def test_a_cell_that_fills_shows_the_mean_so_far():
    frame = texts(pivot(MIXED, TABLE, ACCURACY, NONE, live_cell))
    assert frame.loc["2D grid", "8 nodes"] == "1.00 (1 of 2)"
    assert frame.loc["ring", "4 nodes"] == "82.00 ± 4.97"
    nothing = summary(("ring", 4, 0, "missing", np.nan))
    assert texts(pivot(nothing, TABLE, ACCURACY, NONE, live_cell)).iloc[0, 0] == "-"


def test_what_is_no_number_never_becomes_one():
    rows = summary(("ring", 4, 0, "done", 80.0), ("ring", 4, 1, "done", np.nan))
    assert pivot(rows, TABLE, ACCURACY, NONE).cell(4, topology="ring") == Cell(
        text="no number (1 of 2 runs)", runs=("k0", "k1")
    )


def test_published_numbers_stand_beside_ours_and_never_invented():
    published = Published("imagenet_resnet50", Path("configs/published.toml"))
    table = pivot(
        summary(
            ("ring", 4, 0, "done", 1.0), ("grid", 4, 0, "done", 2.0), ("ring", 6, 0, "done", 3.0)
        ),
        TABLE,
        ACCURACY,
        published,
    )  # fmt: skip
    cell = table.cell(4, topology="ring")
    assert cell.published == 76.16 and "lecture slides" in cell.source
    assert table.cell(4, topology="grid").published is None
    frame = texts(table)
    assert list(frame) == ["4 nodes", "4 nodes, published", "6 nodes", "6 nodes, published"]
    assert frame.loc["ring", "4 nodes, published"] == "76.16"
    assert frame.loc["2D grid", "4 nodes, published"] == UNAVAILABLE
    assert frame.loc["ring", "6 nodes, published"] == UNAVAILABLE


def test_published_numbers_alone_and_what_is_no_number(tmp_path):
    quoted = texts(published_table(load_config("configs/table2.toml")))
    assert quoted.loc["ring", "32 nodes, published"] == "75.62"
    assert published_table(load_config("configs/convex.toml")) is None
    assert published_table(load_config("configs/table3_paper.toml")) is None  # places, all empty
    path = tmp_path / "published.toml"
    path.write_text('[t]\n[t.cells.ring]\n4 = "about 7"\n')
    with pytest.raises(ConfigError, match=r"published.toml: t.cells.ring.4: .* 'about 7'"):
        Published("t", path)


def test_a_reader_with_the_paper_fills_places_in_and_they_appear(tmp_path):
    """Every place of the file is one of the table that names it."""
    configs = tmp_path / "configs"
    shutil.copytree("configs", configs)
    text = (configs / "published.toml").read_text()
    (configs / "published.toml").write_text(text.replace('= ""', '= "12.5"'))
    for name in ("table2_paper", "table3_paper", "table4_paper"):
        experiment = load_config(configs / f"{name}.toml")
        published, table = published_of(experiment), experiment.table
        places = {
            (tuple(str(run.value(key)) for key in table.rows), str(run.value(table.column)))
            for run in experiment.runs
        }
        filled = {(tuple(row.split(", ")), c) for row, of in published.cells.items() for c in of}
        assert filled == places
        assert all(published.number(*place) is not None for place in places)
        quoted = texts(published_table(experiment))
        assert len(quoted) == len({labels for labels, _ in places})


def made_up_runs(algorithm: str, reference: str):
    """Runs over two n: the ring's error is nine times the reference's up to steps 50 and 100."""
    k = np.arange(0, 101, 10)
    rows, errors = [], {}
    for n in (4, 8):
        for seed in (0, 1):
            for name, topology, late in (
                (reference, "fully_connected", 0),
                (algorithm, "ring", 50),
            ):
                key = f"{n}{seed}{name}{topology}"
                rows.append((key, name, topology, n, seed, 100, "done"))
                excess = np.where(k < late * n / 4, 9.0, 1.0)
                errors[key] = {"e": BlockMeans.of(k, excess * (1 + seed), [50])}
    columns = ["key", "algorithm", "topology", "nodes", "seed", "steps", "status"]
    return pd.DataFrame(rows, columns=columns), errors


@pytest.mark.parametrize(
    ("algorithm", "reference"),
    [("dsgd_atc", "psgd"), ("dmsgd", "psgd"), ("qg_dmsgd", "qg_dmsgd")],
)
def test_transients_against_the_algorithm_over_exact_averaging(algorithm, reference):
    frame, errors = made_up_runs(algorithm, reference)
    table = Table(kind="theory", title="t", metrics=["e"], factor=1.5)
    measured = transients.measure(frame, errors, table)
    found = transients.frame(measured)
    assert found.set_index("nodes")["transient"].to_dict() == {4: 50, 8: 100}
    assert len(measured.rows[0].cells[0].runs) == 4  # of both, two seeds
    frame.loc[1, "status"] = "diverged"
    frame.loc[(frame["nodes"] == 8) & (frame["topology"] != "ring"), "topology"] = "grid"
    again = transients.frame(transients.measure(frame, errors, table)).set_index("nodes")["what"]
    assert again[4] == "diverged" and set(again[8]) == {"no parallel SGD to compare with"}
    twice = pd.concat([frame, frame.assign(key=frame["key"] + "'", lr=0.2)])  # a sweep over lr
    pooled = transients.frame(transients.measure(twice, errors, table)).set_index("nodes")
    assert set(pooled["what"]) == {"its runs differ in more than the seed"}
    assert pooled["transient"].isna().all() and (pooled["seeds"] == 0).all()


def test_a_reference_that_is_shorter_is_named():
    frame, errors = made_up_runs("dsgd_atc", "psgd")
    frame.loc[frame["algorithm"] == "psgd", "steps"] = 50
    found = transients.frame(transients.measure(frame, errors, Table(title="t", metrics=["e"])))
    assert set(found["what"]) == {"its reference has fewer steps"}


def test_what_lies_beyond_the_last_step_is_said():
    interval, steps = Column(name="n", format=".0f"), 3000
    assert written(Cell(beyond=steps), interval) == "> 3000"
    assert written(Cell(mean=120, low=90, high=150), interval) == "120 [90, 150]"
    assert written(Cell(mean=120, low=90, beyond=steps), interval) == "120 [90, > 3000]"
    assert written(Cell(), interval) == ""


def tables(heading: str, label: str, **cells: str) -> Tables:
    """A table of one row of text."""
    one = TableResult(
        id="t",
        heading=heading,
        labels=("topology",),
        columns=tuple(Column(name=name) for name in cells),
        rows=(Row(labels=(label,), cells=tuple(Cell(text=text) for text in cells.values())),),
    )
    return Tables(title="T & title", tables=(one,), notes=("a note",))


def test_files_are_written_in_four_forms(tmp_path):
    content = tables("accuracy (%)", "grid", **{"1 - rho, order": "1/n^2", "x_i": "81.0 ± 2"})
    rendering.write(content, tmp_path)
    assert load(tmp_path) == content
    markdown = (tmp_path / "table.md").read_text()
    assert "| 2D grid" in markdown and "- a note" in markdown
    tex = (tmp_path / "table.tex").read_text()
    assert r"\toprule" in tex and r"$\pm$" in tex and "$1/n^2$" in tex and r"x\_i" in tex
    lines = [line for line in tex.splitlines() if not line.startswith("%")]
    assert not re.search(r"(?<!\\)[%#]|±", "\n".join(lines))
    csv = pd.read_csv(tmp_path / "table.csv")
    assert csv["text"].tolist() == ["1/n^2", "81.0 ± 2"] and set(csv["topology"]) == {"grid"}
    assert not list(tmp_path.glob(".*"))


def test_numbers_in_a_csv_are_whole():
    (csv,) = [rendering.as_csv(Tables(title="t", tables=(pivot(MIXED, TABLE, ACCURACY, NONE),)))]
    lines = csv.splitlines()
    assert lines[0].startswith("table,topology,column,mean,half_width,")
    assert lines[1].startswith(f"{ACCURACY},ring,4,82.0,4.968")
    assert lines[3].endswith(",diverged (1 of 2 runs)")


@pytest.mark.parametrize("end", ["\n", "\r\n", "\u2028", "\x0b"])
def test_a_line_break_in_a_name_never_reaches_a_file(tmp_path, end):
    bad = f"one{end}\\input{{secret}}{end}# two <script> [a](b)"
    content = tables(bad, bad, **{bad: bad})
    content = content.model_copy(update={"title": bad, "notes": (bad,)})
    rendering.write(content, tmp_path)
    tex = (tmp_path / "table.tex").read_text()
    assert r"\input" not in "".join(x for x in tex.splitlines() if not x.startswith("%"))
    markdown = (tmp_path / "table.md").read_text()
    assert len(re.findall(r"^#", markdown, re.M)) == 2  # the title and the heading
    assert not re.search(r"(?<!\\)<script|(?<!\\)\(b\)", markdown)


def test_every_topology_has_a_colour_and_theory_names_only_known_ones():
    assert set(COLOURS) == set(names())
    assert set(theory.RATES) <= set(TOPOLOGIES) and set(theory.PAPER_TRANSIENT) <= set(TOPOLOGIES)
    assert len(set(COLOURS.values())) == len(COLOURS) and NAMES


@pytest.mark.parametrize(("n", "rho", "expected"), [(8, 0.5, 128), (16, 0.6, 4096 * 0.81)])
def test_transient_bound_by_hand(n, rho, expected):
    assert theory.transient_bound(n, rho) == pytest.approx(expected)


def test_table_1_is_made_from_its_committed_config():
    """Every row and column of Table 1, from the config's runs with made-up errors."""
    experiment = load_config("configs/table1.toml")
    frame = pd.DataFrame([{"key": r.key, **flatten(r.model_dump())} for r in experiment.runs])
    frame["status"] = "done"
    frame["bytes_sent_max"] = 8 * frame["problem.dim"] * frame["steps"]
    k = np.arange(0, 3001, 20)
    means = {"error_workers": BlockMeans.of(k, 1 / (k + 1), [])}
    made = tables_of(experiment, frame, dict.fromkeys(frame["key"], means))
    assert [table.id for table in made.tables] == ["theory", "measured"]
    table = made["theory"]
    assert table.cell("1 - rho, n = 32", topology="static_exponential").mean == pytest.approx(1 / 3)
    shown = texts(table)
    assert len(shown) == 10 and not made["measured"].shown
    assert shown.loc["static exponential", "1 - rho, n = 32"] == "0.3333"
    one_peer = shown.loc["one-peer exponential"]
    assert one_peer["norm of W(tau-1)...W(0) - J, tau = 5"] == "0.0000"
    assert one_peer["sent by the busiest rank, n = 32"] == "1.00"
    assert (shown["transient, measured, n = 16"] == "0 [0, 0]").all()
    again = theory_table(frame, made["measured"], "t")
    assert again.rows == table.rows


def test_a_cell_never_pools_runs_that_differ_in_more_than_the_seed():
    frame = summary(*(("ring", 4, seed, "done", 80.0 + seed) for seed in range(4)))
    frame["lr"] = [0.1, 0.1, 0.2, 0.2]
    made = pivot(frame, TABLE, ACCURACY, NONE)
    assert [row.labels for row in made.rows] == [("ring", 0.1), ("ring", 0.2)]
    assert texts(made)["4 nodes"].str.startswith(("80.50", "82.50")).all()


def test_an_optional_key_that_some_runs_lack_is_shown_under_none():
    """In rows, columns and differences; pandas makes NaN of it, which never equals itself."""
    frame = summary(*(("ring", 4, s, "done", 70.0 + s + (s > 2)) for s in range(6)))
    frame["problem.alpha"] = [None, None, None, 0.1, 0.1, 0.1]
    frame["seed"] = [0, 1, 2] * 2
    by_column = Table(title="t", column="problem.alpha")
    table = pivot(frame, by_column, ACCURACY, NONE)
    assert table.cell("none", topology="ring").mean == 71 and table.cell(0.1, topology="ring").mean
    assert list(texts(table)) == ["none", "0.1"]
    by_row = Table(title="t", rows=["problem.alpha", "topology"], compare={"topology": "grid"})
    grid = frame.assign(topology="grid", key=frame["key"] + "g")
    both = pd.concat([frame, grid.assign(**{ACCURACY: grid[ACCURACY] - 1})])
    assert texts(pivot(both, by_row, ACCURACY, NONE)).index.tolist() == ["none", "0.1"] * 2
    apart = differences(both, by_row, ACCURACY)
    assert [row.labels for row in apart.rows] == [(None, "ring"), (0.1, "ring")]
    assert [row.cells[0].mean for row in apart.rows] == [1, 1]


def test_pipes_do_not_break_markdown_rows(tmp_path):
    rendering.write(tables("t", "a|b", **{"|x|": "a|b"}), tmp_path)
    rows = [r for r in (tmp_path / "table.md").read_text().splitlines() if r.startswith("|")]
    assert [len(re.split(r"(?<!\\)\|", row)) for row in rows] == [4, 4, 4]


def test_differences_are_paired_by_seed_with_the_stated_row():
    rows = [("ring", 4, s, "done", 70.0 + s) for s in range(3)]
    rows += [("grid", 4, s, "done", 71.0 + s) for s in (2, 0, 1)]  # another order of seeds
    rows += [("star", 4, s, "done", 70.0 + s) for s in range(2)] + [
        ("star", 4, 2, "missing", np.nan)
    ]
    table = differences(summary(*rows), Table(title="t", compare={"topology": "ring"}), ACCURACY)
    cell = table.cell(4, topology="grid")
    assert (cell.mean, cell.half_width, cell.p, cell.count) == (1.0, 0.0, 0.0, 3)
    assert sorted(cell.runs) == [f"k{i}" for i in range(6)]
    frame = texts(table)
    assert list(frame.index) == ["2D grid", "star"]
    assert frame.loc["2D grid", "4 nodes"] == "+1.00 ± 0.00 (p = 0)"
    assert frame.loc["star", "4 nodes"] == ""  # a pair is missing


def test_a_table_of_nothing_is_left_out(tmp_path):
    rows = summary(*(("ring", 4, s, "done", 70.0 + s) for s in range(3)))
    empty = differences(rows, Table(title="t", compare={"topology": "ring"}), ACCURACY)
    assert not empty.rows
    whole = tables("some", "a", b="1")
    rendering.write(whole.model_copy(update={"tables": (*whole.tables, empty)}), tmp_path)
    assert "difference" not in (tmp_path / "table.md").read_text()


def test_exponents_stand_beside_the_theorys():
    n = np.array([8, 16, 32, 64])
    steps = [20.0, *(0.5 * n[1:] ** 3.0)]  # the first is too short to count
    measured = TableResult(
        id="measured",
        heading="",
        labels=("nodes", "topology"),
        columns=(Column(name="transient"), Column(name="steps")),
        rows=tuple(
            Row(
                labels=(int(size), "one_peer_exponential"),
                cells=(Cell(mean=k, runs=(f"r{size}",)), Cell(mean=1e6)),
            )
            for size, k in zip(n, steps, strict=True)
        ),
    )
    grown = Growth(
        (16, 32, 64), {"one_peer_exponential": 3.0}, {"one_peer_exponential": np.ones(9)}
    )
    table = exponents(measured, ["topology"], {("one_peer_exponential",): grown})
    assert table.rows[0].cells[1].runs == ("r8", "r16", "r32", "r64")
    (row,) = texts(table).to_dict("records")
    assert row["n"] == "16, 32, 64" and row["measured"].startswith("3.00 [1.00, 1.00]")
    assert 3.2 < float(row["noise model"]) < 3.5 and 3.5 < float(row["upper bound"]) < 3.7
    by_nodes = transients.by_nodes(measured, ["topology"])
    assert by_nodes.cell("one_peer_exponential", nodes=64).mean == steps[-1]


def test_a_damaged_table_is_one_line_naming_the_file(tmp_path):
    save(Tables(title="t", tables=(pivot(MIXED, TABLE, ACCURACY, NONE),)), tmp_path)
    path = tmp_path / "table.json"
    text = path.read_text()
    content = json.loads(text)
    content["tables"][0]["rows"][0]["cells"].pop()
    for damaged in (text[:-30], "", "[]", text.replace('"mean"', '"mena"'), json.dumps(content)):
        path.write_text(damaged)
        with pytest.raises(TableError, match=r"table\.json: ") as error:
            load(tmp_path)
        assert "\n" not in str(error.value)


@pytest.mark.parametrize("width", [20, 40, 80, 300])
def test_a_terminal_of_any_width_cuts_no_number(width):
    table = pivot(MIXED, TABLE, ACCURACY, Published(None, Path()))
    out = io.StringIO()
    console = Console(width=width, force_terminal=True, color_system=None, file=out)
    show(console, [Screen(table, "a[bold]b")])
    lines = re.sub(r"\x1b\[\d*m", "", out.getvalue()).splitlines()
    text = "\n".join(lines)
    assert "82.00 ± 4.97" in text and "diverged (1 of 2 runs)" in text and "a[bold]b" in text
    longest = len("│ 2D grid  │ diverged (1 of 2 runs) │")
    assert max(map(len, lines)) <= max(width, longest)


def test_a_pipe_gets_the_natural_width_whatever_the_columns(monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "10")
    show(Console(), [Screen(pivot(MIXED, TABLE, ACCURACY, NONE), "[/old] name")])
    out = capsys.readouterr().out
    assert "│ 2D grid  │ diverged (1 of 2 runs) │ missing (1 of 2 runs) │" in out
    assert "[/old] name" in out
