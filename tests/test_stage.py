"""The transient stage of a network: where a gap comes within some points, and who is compared."""

import numpy as np
import pandas as pd
import pytest

from expograph import cli
from expograph.analysis.stage import gaps, stage_table, within_from
from expograph.config import ConfigError, Table, load
from expograph.config.selection import Selection
from expograph.graphs.disagreement import H, S
from expograph.graphs.topology import build

ACCURACY = "accuracy_averaged"
LENGTHS = (100, 400, 1600, 6400)
TABLE = Table(
    title="t",
    rows=["nodes", "algorithm", "topology"],
    column="steps",
    compare={"algorithm": "psgd", "topology": "fully_connected"},
    within=0.5,
)


def runs(noise: float = 0.1, **below: tuple[float, ...]) -> pd.DataFrame:
    """Accuracies of parallel SGD, 80 at every length, and of graphs so many points below it."""
    rng, rows = np.random.default_rng(0), []
    for name, points in {"fully_connected": (0, 0, 0, 0), **below}.items():
        algorithm = "psgd" if name == "fully_connected" else "dmsgd"
        for steps, gap in zip(LENGTHS, points, strict=True):
            for seed in range(5):
                accuracy = 80 + seed - gap + noise * rng.normal()
                key = f"{name}{steps}{seed}"
                rows.append((key, 8, algorithm, name, steps, seed, "done", accuracy))
    columns = ["key", "nodes", "algorithm", "topology", "steps", "seed", "status", ACCURACY]
    return pd.DataFrame(rows, columns=columns)


def test_a_gap_comes_within_by_a_line_over_the_logarithm_of_the_steps():
    steps = np.array(LENGTHS)
    assert within_from(steps, np.array([3.0, 2.0, 1.0, 0.0]), 0.5) == pytest.approx(3200)
    assert within_from(steps, np.array([0.4, 0.9, 0.1, 0.0]), 0.5) == pytest.approx(800)  # for good
    assert within_from(steps, np.array([0.4, -0.9, 0.1, 0.5]), 0.5) == 100
    assert within_from(steps, np.array([0.0, 0.0, 0.0, 0.6]), 0.5) is None


def test_each_row_is_paired_by_seed_with_its_reference_and_stands_beside_theory():
    summary = runs(ring=(4, 3, 2, 1), static_exponential=(1, 0.1, 0.0, 0.0))
    table = stage_table(summary, TABLE, ACCURACY)
    assert [row.labels for row in table.rows] == [
        (8, "dmsgd", "ring"),
        (8, "dmsgd", "static_exponential"),
    ]
    ring, static = (row.cells for row in table.rows)
    assert ring[0].mean is None and ring[0].beyond == 6400
    assert 100 < static[0].low <= static[0].mean <= static[0].high < 400
    assert len(static[0].runs) == 40 and static[0].count == 5
    graph = build("ring", 8)
    assert (ring[1].mean, ring[2].mean) == (S(graph) / 8, H(graph) / 8)
    found = gaps(summary, TABLE, ACCURACY)[8, "dmsgd", "ring"]
    assert (
        found.points.shape == (5, 4) and abs(found.points.mean(axis=0) - [4, 3, 2, 1]).max() < 0.2
    )


def test_what_is_missing_or_diverged_is_left_out():
    summary = runs(ring=(4, 3, 2, 1))
    summary.loc[summary["topology"] == "ring", "status"] = ["diverged"] + ["done"] * 19
    assert not stage_table(summary, TABLE, ACCURACY).rows


def test_within_needs_lengths_and_a_reference(tmp_path):
    text = (
        'name = "a"\n[run]\nproblem = { kind = "logistic" }\ntopology = "ring"\nnodes = 4\n'
        'algorithm = "dsgd_atc"\nsteps = 10\nlr = 0.1\n[table]\ntitle = "t"\nwithin = 0.5\n'
        'metrics = ["error_workers"]\n'
    )
    path = tmp_path / "a.toml"
    path.write_text(text)
    with pytest.raises(ConfigError, match=r"table\.within: needs column = 'steps' and compare"):
        load(path)


# ---- a part of an experiment ----


def config(tmp_path, short: str = ""):
    path = tmp_path / "a.toml"
    path.write_text(
        f'name = "a"\n{short}\n[run]\nproblem = {{ kind = "logistic" }}\nalgorithm = "dsgd_atc"\n'
        'steps = 10\nlr = 0.1\n[[sweep]]\ntopology = ["ring", "star"]\nnodes = [4, 8, 16]\n'
        "seed = [3, 4, 5]\n"
    )
    return path


def test_a_part_has_the_runs_that_were_asked_for(tmp_path):
    whole = load(config(tmp_path, 'short.topology = ["star"]\nshort.seed = [4]'))
    short = Selection(short=True).of(whole).runs
    assert {(r.topology, r.seed) for r in short} == {("star", 4)} and len(short) == 3
    part = Selection(seeds=2, extremes=True).of(whole).runs
    assert {(r.nodes, r.seed) for r in part} == {(4, 3), (4, 4), (16, 3), (16, 4)}
    assert {r.key for r in part} <= {r.key for r in whole.runs}
    assert Selection().of(whole).runs == whole.runs
    assert Selection(True, 2, True).flags == ["--short", "--seeds", "2", "--extremes"]


def test_a_short_version_of_nothing_is_one_line(tmp_path):
    with pytest.raises(ConfigError, match=r"a\.toml: short\.nodes: no run has 5"):
        load(config(tmp_path, "short.nodes = [4, 5]"))
    whole = load(config(tmp_path, "short.nodes = [4]"), ["nodes=8"])
    with pytest.raises(ConfigError, match="short: it leaves no runs"):
        Selection(short=True).of(whole)


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["--seeds", "1"], "--seeds: the whole table is in results/; give --tables FOLDER"),
        (["--short"], "--short: the whole table is in results/; give --tables FOLDER"),
        (["--seeds", "0", "--tables", "mine"], "--seeds 0: needs at least 1"),
    ],
)
def test_a_part_never_replaces_a_whole_table(tmp_path, words, line, capsys):
    assert cli.main(["train", str(config(tmp_path)), *words]) == 2
    error = capsys.readouterr().err
    assert line in error and error.count("\n") == 1
