"""Tables from hand-made summaries: intervals, holes, divergence, published numbers, LaTeX."""

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from expograph.analysis.written import NAMES
from expograph.config import Table, load
from expograph.graphs import theory
from expograph.graphs.topology import TOPOLOGIES
from expograph.report import tables
from expograph.report.style import COLOURS
from expograph.runs.results import flatten
from expograph.runs.thinning import BlockMeans

TABLE = Table(title="t", rows=["topology"], column="nodes")
ACCURACY = "accuracy_averaged"
NONE = tables.Published(None, Path("unread"))


def summary(*rows: tuple) -> pd.DataFrame:
    columns = ["topology", "nodes", "seed", "status", "accuracy_averaged"]
    return pd.DataFrame(rows, columns=columns)


def test_cells_are_mean_and_interval_or_say_what_is_wrong():
    frame = tables.pivot(
        summary(
            ("ring", 4, 0, "done", 80.0),
            ("ring", 4, 1, "done", 82.0),
            ("ring", 4, 2, "done", 84.0),
            ("ring", 8, 0, "done", 70.0),
            ("grid", 4, 0, "done", 50.0),
            ("grid", 4, 1, "diverged", np.nan),
            ("grid", 8, 0, "missing", np.nan),
            ("grid", 8, 1, "done", 1.0),
        ),
        TABLE,
        "accuracy_averaged",
        NONE,
    ).set_index("topology")
    assert frame.loc["ring", "4 nodes"] == "82.00 ± 4.97"  # t(2) = 4.303, s = 2, n = 3
    assert frame.loc["ring", "8 nodes"] == "70.00"  # one seed has no interval
    assert frame.loc["2D grid", "4 nodes"] == "diverged (1 of 2 runs)"
    assert frame.loc["2D grid", "8 nodes"] == "missing (1 of 2 runs)"


def test_published_numbers_stand_beside_ours_and_never_invented():
    published = tables.Published("imagenet_resnet50", Path("configs/published.toml"))
    frame = tables.pivot(
        summary(
            ("ring", 4, 0, "done", 1.0), ("grid", 4, 0, "done", 2.0), ("ring", 6, 0, "done", 3.0)
        ),
        TABLE,
        "accuracy_averaged",
        published,
    ).set_index("topology")  # fmt: skip
    assert frame.loc["ring", "4 nodes, published"] == "76.16"
    assert frame.loc["2D grid", "4 nodes, published"] == tables.UNAVAILABLE
    assert frame.loc["ring", "6 nodes, published"] == tables.UNAVAILABLE


def test_transients_against_psgd_of_the_same_n_and_seed():
    k = np.arange(0, 101, 10)
    rows, errors = [], {}
    for n in (4, 8):
        for seed in (0, 1):
            for algorithm, topology, late in (("psgd", "fully_connected", 0), ("d", "ring", 50)):
                key = f"{n}{seed}{algorithm}"
                rows.append((key, algorithm, topology, n, seed, 100, "done"))
                excess = np.where(k < late * n / 4, 9.0, 1.0)
                errors[key] = BlockMeans.of(k, excess * (1 + seed), ends=())
    columns = ["key", "algorithm", "topology", "nodes", "seed", "steps", "status"]
    table = Table(kind="theory", title="t", metrics=["e"], factor=1.5)
    found = tables.transients(pd.DataFrame(rows, columns=columns), errors, table)
    assert found.set_index("nodes")["transient"].to_dict() == {4: 50, 8: 100}
    frame = pd.DataFrame(rows, columns=columns)
    frame.loc[1, "status"] = "diverged"
    frame.loc[frame["nodes"] == 8, "algorithm"] = "d"
    again = tables.transients(frame, errors, table).set_index("nodes")["what"]
    assert again[4] == "diverged" and set(again[8]) == {"no parallel SGD to compare with"}
    twice = pd.concat([frame, frame.assign(key=frame["key"] + "'", lr=0.2)])  # a sweep over lr
    pooled = tables.transients(twice, errors, table).set_index("nodes")
    assert set(pooled["what"]) == {"its runs differ in more than the seed"}
    assert pooled["transient"].isna().all() and (pooled["seeds"] == 0).all()


def test_files_are_written_in_three_forms(tmp_path):
    frame = pd.DataFrame(
        {"topology": ["2D grid"], "1 - rho, order": ["1/n^2"], "x_i": ["81.0 ± 2"]}
    )
    tables.write({"accuracy (%)": frame}, "- a note\n", tmp_path, "T & title")
    markdown = (tmp_path / "table.md").read_text()
    assert "| 2D grid" in markdown and "- a note" in markdown
    tex = (tmp_path / "table.tex").read_text()
    assert r"\toprule" in tex and r"$\pm$" in tex and "$1/n^2$" in tex and r"x\_i" in tex
    lines = [line for line in tex.splitlines() if not line.startswith("%")]
    assert not re.search(r"(?<!\\)[%#]|±", "\n".join(lines))
    csv = pd.read_csv(tmp_path / "table.csv")
    assert csv["value"].tolist() == ["2D grid", "1/n^2", "81.0 ± 2"]
    assert not list(tmp_path.glob(".*"))


def test_every_topology_has_a_colour_and_theory_names_only_known_ones():
    assert set(COLOURS) == set(TOPOLOGIES)
    assert set(theory.RATES) <= set(TOPOLOGIES) and set(theory.PAPER_TRANSIENT) <= set(TOPOLOGIES)
    assert len(set(COLOURS.values())) == len(COLOURS) and NAMES


@pytest.mark.parametrize(("n", "rho", "expected"), [(8, 0.5, 128), (16, 0.6, 4096 * 0.81)])
def test_transient_bound_by_hand(n, rho, expected):
    assert theory.transient_bound(n, rho) == pytest.approx(expected)


def test_table_1_is_made_from_its_committed_config():
    """Every row and column of Table 1, from the config's runs with made-up errors."""
    experiment = load("configs/table1.toml")
    frame = pd.DataFrame([{"key": r.key, **flatten(r.model_dump())} for r in experiment.runs])
    frame["status"] = "done"
    frame["bytes_sent_max"] = 8 * frame["problem.dim"] * frame["steps"]
    k = np.arange(0, 3001, 20)
    errors = {key: BlockMeans.of(k, 1 / (k + 1), ends=()) for key in frame["key"]}
    measured = tables.transients(frame, errors, experiment.table)
    made = tables.theory_table(frame, measured).set_index("topology")
    assert len(made) == 10
    assert made.loc["static exponential", "1 - rho, n = 32"] == "0.3333"
    one_peer = made.loc["one-peer exponential"]
    assert one_peer["norm of W(tau-1)...W(0) - J, tau = 5"] == "0.0000"
    assert one_peer["sent by the busiest rank, n = 32"] == "1.00"
    assert (made["transient, measured, n = 16"] == "0 [0, 0]").all()


def test_a_cell_never_pools_runs_that_differ_in_more_than_the_seed():
    frame = summary(*(("ring", 4, seed, "done", 80.0 + seed) for seed in range(4)))
    frame["lr"] = [0.1, 0.1, 0.2, 0.2]
    made = tables.pivot(frame, TABLE, "accuracy_averaged", NONE)
    assert made["lr"].tolist() == ["0.1", "0.2"]
    assert made["4 nodes"].str.startswith(("80.50", "82.50")).all()


def test_pipes_do_not_break_markdown_rows(tmp_path):
    tables.write({"t": pd.DataFrame({"|x|": ["a|b"]})}, "", tmp_path, "t")
    rows = [r for r in (tmp_path / "table.md").read_text().splitlines() if r.startswith("|")]
    assert [len(re.split(r"(?<!\\)\|", row)) for row in rows] == [3, 3, 3]


def test_differences_are_paired_by_seed_with_the_stated_row():
    rows = [("ring", 4, s, "done", 70.0 + s) for s in range(3)]
    rows += [("grid", 4, s, "done", 71.0 + s) for s in (2, 0, 1)]  # another order of seeds
    rows += [("star", 4, s, "done", 70.0 + s) for s in range(2)] + [
        ("star", 4, 2, "missing", np.nan)
    ]
    table = Table(title="t", compare={"topology": "ring"})
    frame = tables.differences(summary(*rows), table, "accuracy_averaged").set_index("topology")
    assert list(frame.index) == ["2D grid", "star"]
    assert frame.loc["2D grid", "4 nodes"] == "+1.00 ± 0.00 (p = 0)"
    assert frame.loc["star", "4 nodes"] == ""  # a pair is missing


def test_a_table_of_nothing_is_left_out(tmp_path):
    rows = summary(*(("ring", 4, s, "done", 70.0 + s) for s in range(3)))
    empty = tables.differences(rows, Table(title="t", compare={"topology": "ring"}), ACCURACY)
    assert empty.empty
    tables.write({"a": pd.DataFrame({"b": ["1"]}), "none": empty}, "", tmp_path, "t")
    assert list(tables.read(tmp_path / "table.csv")) == ["a"]
    assert "none" not in (tmp_path / "table.md").read_text()


def test_exponents_stand_beside_the_theorys():
    n = np.array([16, 32, 64])
    measured = pd.DataFrame(
        {
            "topology": "one_peer_exponential",
            "nodes": [8, *n],
            "transient": [20.0, *(0.5 * n**3.0)],  # the first is too short to count
        }
    )
    (row,) = tables.exponents(measured).to_dict("records")
    assert row["n"] == "16, 32, 64" and row["measured"].startswith("3.00 [3.00, 3.00]")
    assert 3.2 < float(row["noise model"]) < 3.5 and 3.5 < float(row["upper bound"]) < 3.7
