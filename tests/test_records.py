"""Records: what comes of them is what comes of whole runs, to the last bit; small files."""

import gzip
import logging

import numpy as np
import pandas as pd
import pytest

from expograph.analysis import transients
from expograph.analysis.curves import mean_curves, single_curves
from expograph.analysis.statistics import mean_interval, transient
from expograph.config import Run, load
from expograph.files import DamagedFile
from expograph.report.experiment import write_report
from expograph.runs import records, results, store
from expograph.runs.pool import sweep
from expograph.runs.selection import Policy
from expograph.runs.thinning import BlockMeans, blocks, thinned

CONFIG = """
name = "short"
[run]
algorithm = "dsgd_atc"
steps = 700
lr = 0.1
record_every = 5
evaluate_every = 5
[run.problem]
kind = "least_squares"
samples = 20
[[sweep]]
topology = ["ring", "star"]
"nodes, steps" = [[4, 700], [6, 430]]
seed = [0, 1, 2]
[[sweep]]           # parallel SGD, longer than some of them: not a multiple of a block
algorithm = ["psgd"]
topology = ["fully_connected"]
nodes = [4, 6]
seed = [0, 1, 2]
[table]
kind = "transients"
title = "Short"
metrics = ["error_workers"]
factor = 2.0
"""


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    """An experiment whose runs are in the runs folder, and its results."""
    root = tmp_path_factory.mktemp("records")
    (root / "short.toml").write_text(CONFIG)
    experiment = load(root / "short.toml")
    assert len(sweep(experiment.runs, root, jobs=1).finished) == 18
    write_report(experiment, root, "short")
    return experiment, root


def whole(run: Run, root) -> pd.DataFrame:
    """A run's metrics.csv, read here."""
    return pd.read_csv(store.folder(run, root) / "metrics.csv")


def test_transient_iterations_from_records_are_those_from_whole_curves(done):
    """By the definition, on every recorded step, against what the record keeps."""
    experiment, root = done
    found = results.errors_of(results.find(experiment.runs, root))
    errors = {key: metrics["error_workers"] for key, metrics in found.items()}
    for nodes, topology in ((4, "ring"), (4, "star"), (6, "ring"), (6, "star")):
        ours = [r for r in experiment.runs if (r.nodes, r.topology) == (nodes, topology)]
        theirs = [r for r in experiment.runs if (r.nodes, r.algorithm) == (nodes, "psgd")]
        end = ours[0].steps
        curves = [[whole(r, root).set_index("step")["error_workers"] for r in g]
                  for g in (ours, theirs)]  # fmt: skip
        steps = np.array([k for k in curves[0][0].index if k > 0])
        stacked = [np.stack([c[steps].to_numpy() for c in group]) for group in curves]
        kept = [np.stack([errors[r.key].until(end)[1] for r in g]) for g in (ours, theirs)]
        for full, block in zip(stacked, kept, strict=True):
            np.testing.assert_array_equal(blocks(steps, full)[1], block)
        for factor in (1.01, 1.5, 2.0):
            expected = transient(steps, *stacked, factor)
            assert transient(errors[ours[0].key].until(end)[0], *kept, factor) == expected


@pytest.mark.parametrize("every", [1, 20])
def test_block_means_are_their_own_block_means(every):
    steps = np.arange(every, 40_001, every)
    curve = np.random.default_rng(0).random((3, len(steps)))
    first, means = blocks(steps, curve)
    again, same = blocks(first, means)
    np.testing.assert_array_equal(first, again)
    np.testing.assert_array_equal(means, same)


def test_a_longer_curve_ends_anywhere_it_was_prepared_for():
    steps = np.arange(0, 1001, 7)
    values = np.random.default_rng(0).random(len(steps))
    ends = [7, 100, 493, 994]
    kept = BlockMeans.of(steps, values, ends)
    for end in [*ends, 10**6]:
        part = (steps > 0) & (steps <= end)
        expected = blocks(steps[part], values[part])
        for a, b in zip(kept.until(end), expected, strict=True):
            np.testing.assert_array_equal(a, b)
    with pytest.raises(KeyError):
        kept.until(500)


def test_mean_curves_from_records_are_those_from_whole_curves(done):
    experiment, root = done
    made = mean_curves(
        results.summary(experiment.runs, root), results.curves(experiment.runs, root),
        ["error_workers", "train_loss"],
    ).set_index(["topology", "nodes", "step"])  # fmt: skip
    for topology, nodes in (("ring", 4), ("fully_connected", 6)):
        runs = [r for r in experiment.runs if (r.topology, r.nodes) == (topology, nodes)]
        curves = [whole(r, root).set_index("step") for r in runs]
        shown = thinned(curves[0].index.to_numpy(), 60)
        there = made.sort_index().loc[topology, nodes].index.tolist()
        assert set(there) >= set(shown) and len(there) <= len(shown) + 2 * 20  # of each metric
        for step in shown:
            values = np.array([curve.loc[step, "error_workers"] for curve in curves])
            row = made.loc[(topology, nodes, step)]
            expected = mean_interval(values)
            assert row["error_workers"] == expected.mean
            assert row["error_workers_half_width"] == expected.half_width


def test_the_committed_file_gives_the_frames_of_the_runs_folder(done, tmp_path):
    experiment, root = done
    path = tmp_path / "short" / records.FILE
    path.parent.mkdir()
    path.write_bytes((root / "short" / records.FILE).read_bytes())
    runs = experiment.runs
    pd.testing.assert_frame_equal(
        results.summary(runs, tmp_path, "short"), results.summary(runs, root), check_exact=True
    )
    ours, theirs = results.curves(runs, tmp_path, "short"), results.curves(runs, root)
    assert list(ours) == list(theirs) == [run.key for run in runs]
    for key, curve in ours.items():
        pd.testing.assert_frame_equal(curve, theirs[key], check_exact=True)
    a = results.errors_of(results.find(runs, tmp_path, "short"))
    b = results.errors_of(results.find(runs, root))
    measured = [
        transients.measure(results.summary(runs, root), errors, experiment.table)
        for errors in (a, b)
    ]
    assert measured[0] == measured[1]
    assert single_curves(ours, ["error_workers"]).groupby("key").size().between(15, 20).all()
    # the runs folder alone has nothing
    assert set(results.summary(runs, tmp_path)["status"]) == {"missing"}


def test_records_are_small_and_equal_records_are_equal_bytes(done, tmp_path):
    experiment, root = done
    path = root / "short" / records.FILE
    first = path.read_bytes()
    write_report(experiment, root, "short")
    assert path.read_bytes() == first
    assert len(first) / len(experiment.runs) < 3000
    assert len(gzip.decompress(first).splitlines()) == len(experiment.runs)


def test_half_a_file_is_named_and_a_damaged_line_is_left_out(done, tmp_path, caplog):
    root = done[1]
    content = (root / "short" / records.FILE).read_bytes()
    path = tmp_path / records.FILE
    path.write_bytes(content[: len(content) // 2])
    with pytest.raises(DamagedFile, match=records.FILE):
        records.read(path)
    lines = gzip.decompress(content).splitlines()
    edited = lines[1].replace(b'"lr":0.1', b'"lr":0.2')  # another run's config under this key
    assert edited != lines[1]
    path.write_bytes(gzip.compress(b"\n".join([lines[0][:99], edited, *lines[2:]])))
    with caplog.at_level(logging.WARNING):
        found = records.read(path)
    assert len(found) == len(lines) - 2
    (line,) = caplog.messages
    assert "line 1 is damaged" in line and line.endswith("(and 1 lines more)")
    assert records.read(tmp_path / "nowhere") == {}


def test_a_sweep_goes_on_from_committed_records_only_if_told(done, tmp_path):
    """On another machine: half of the runs are records; a plain sweep trains them all the same."""
    experiment, root = done
    runs = [run for run in experiment.runs if run.nodes == 6][:4]
    path = tmp_path / "short" / records.FILE
    records.write(path, results.find(runs[:2], root).values())
    outcome = sweep(runs[:3], tmp_path, jobs=1, policy=Policy(committed=("short",)))
    assert outcome.recorded == runs[:2] and outcome.finished == runs[2:3]
    assert not store.folder(runs[0], tmp_path).exists()
    found = results.for_table(runs, tmp_path, "short", outcome.recorded)
    assert list(found) == [run.key for run in runs[:3]]
    whole_experiment = results.for_table(runs, tmp_path, "short", ())
    assert list(whole_experiment) == [runs[2].key]  # its own only
    outcome = sweep(runs[:3], tmp_path, jobs=1)
    assert outcome.finished == runs[:2] and outcome.reused == runs[2:3]
