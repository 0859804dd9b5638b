"""Step sizes: chosen inside a grid that grows, written, and taken by the experiments that ask."""

import pandas as pd
import pytest

from expograph import data
from expograph.analysis import tuning
from expograph.cli import main
from expograph.config import ConfigError, Table, load
from expograph.config.step_sizes import interpolated, read_rows, write_rows
from expograph.data.dataset import held_out
from expograph.randomness import HELD_OUT, generator

TABLE = Table(title="t", rows=["topology", "nodes"], column="lr", metrics=["accuracy_averaged"])
GRID = """
name = "tuning_small"
tunes = "small"
[run]
algorithm = "dmsgd"
nodes = 4
steps = 12
beta = 0.9
problem = { kind = "classification", dataset = "digits", model = "linear", held_out = 300 }
[[sweep]]
algorithm = ["psgd"]
topology = ["fully_connected"]
lr = [0.01, 0.02]
seed = [1000, 1001]
[[sweep]]
topology = ["ring"]
lr = [0.01, 0.02]
seed = [1000, 1001]
[table]
title = "t"
rows = ["algorithm", "topology", "nodes"]
column = "lr"
"""
USER = """
name = "user"
step_sizes = "small"
[run]
algorithm = "dmsgd"
steps = 12
beta = 0.9
problem = { kind = "classification", dataset = "digits", model = "linear" }
[[sweep]]
topology = ["ring"]
nodes = [2, 4, 8, 16, 64]
"""


def summary(scores: dict[float, float | None], topology="ring", nodes=8) -> pd.DataFrame:
    """Two seeds a step size, half a point apart; None has diverged with one of them."""
    rows = []
    for lr, score in scores.items():
        for seed in (0, 1):
            lost = score is None and seed
            row = {"key": f"{topology}{lr}{seed}", "topology": topology, "nodes": nodes, "lr": lr}
            status = "diverged" if lost else "done"
            value = None if lost else (score or 99.0) + seed / 2
            rows.append(row | {"seed": seed, "status": status, "accuracy_averaged": value})
    return pd.DataFrame(rows)


@pytest.mark.parametrize(
    "scores, lr, beyond",
    [
        ({0.1: 80, 0.2: 85, 0.4: 84}, 0.2, None),
        ({0.1: 80, 0.2: 85, 0.4: 86}, 0.4, 0.8),
        ({0.1: 87, 0.2: 85, 0.4: 86}, 0.1, 0.05),
        ({0.1: 80, 0.2: 85, 0.4: None}, 0.2, None),  # whatever its other seed gave
    ],
)
def test_the_best_mean_wins_and_an_edge_asks_for_more(scores, lr, beyond):
    (choice,) = tuning.choices(summary(scores), TABLE)
    assert (choice.lr, choice.beyond, choice.seeds) == (lr, beyond, 2)
    assert choice.score == scores[lr] + 0.25


def test_where_everything_diverged_smaller_step_sizes_are_tried_and_none_is_chosen():
    found = summary({0.1: None, 0.2: None})
    (choice,) = tuning.choices(found, TABLE)
    assert choice.beyond == 0.05 and tuning.chosen_table(found, TABLE).rows == ()


def test_the_grid_grows_until_the_best_lies_inside(tmp_path, monkeypatch, capsys):
    monkeypatch.delenv("EXPOGRAPH_RUNS", raising=False)
    (tmp_path / "tuning_small.toml").write_text(GRID)
    words = ["tune", str(tmp_path / "tuning_small.toml"), "--results", str(tmp_path / "results")]
    assert main(words) == 0, capsys.readouterr().err
    rows = read_rows(tmp_path / "step_sizes.toml", "small")
    assert {row["topology"] for row in rows} == {"ring", "fully_connected"}
    for row in rows:
        assert 0.02 < row["lr"][4] < 10  # the grid began far below
    assert (tmp_path / "results/tuning_small/figure.svg").exists()
    (tmp_path / "user.toml").write_text(USER)
    ring = next(row["lr"][4] for row in rows if row["topology"] == "ring")
    assert {run.lr for run in load(tmp_path / "user.toml").runs} == {ring}
    assert {run.lr for run in load(tmp_path / "user.toml", ["lr=0.5"]).runs} == {0.5}
    assert main([*words, "lr=0.1"]) == 2 and "takes configs alone" in capsys.readouterr().err
    assert main(["tune", str(tmp_path / "user.toml")]) == 2
    assert "no grid of step sizes" in capsys.readouterr().err


def test_step_sizes_between_two_tuned_are_on_a_line_in_logarithms(tmp_path):
    chosen = {8: 0.1, 32: 0.4}
    assert [interpolated(chosen, n) for n in (4, 8, 16, 32, 99)] == [0.1, 0.1, 0.2, 0.4, 0.4]
    rows = [{"algorithm": "dmsgd", "topology": "ring", "nodes": n, "lr": chosen[n]} for n in chosen]
    write_rows(tmp_path / "step_sizes.toml", "small", rows)
    write_rows(tmp_path / "step_sizes.toml", "other", rows[:1])  # the first stays
    assert read_rows(tmp_path / "step_sizes.toml", "small") == [
        {"algorithm": "dmsgd", "topology": "ring", "lr": chosen}
    ]
    (tmp_path / "user.toml").write_text(USER)
    lrs = {run.nodes: run.lr for run in load(tmp_path / "user.toml").runs}
    assert lrs == {2: 0.1, 4: 0.1, 8: 0.1, 16: 0.2, 64: 0.4}


@pytest.mark.parametrize(
    "change, message",
    [
        (('"ring"', '"grid"'), "step_sizes.toml has no row of small for .*topology = 'grid'"),
        (('step_sizes = "small"', 'step_sizes = "smal"'), "unknown entry 'smal'; did you mean"),
    ],
)
def test_what_was_not_tuned_is_said(tmp_path, change, message):
    rows = [{"algorithm": "dmsgd", "topology": "ring", "nodes": 8, "lr": 0.1}]
    write_rows(tmp_path / "step_sizes.toml", "small", rows)
    (tmp_path / "user.toml").write_text(USER.replace(*change))
    with pytest.raises(ConfigError, match=message):
        load(tmp_path / "user.toml")


@pytest.mark.parametrize("lr", ['"0.1"', "{ 8 = -1 }", "{ x = 0.1 }", "{ 8 = true }"])
def test_a_damaged_file_of_step_sizes_is_said(tmp_path, lr):
    text = f'kind = "step_sizes"\n[[small]]\nalgorithm = "dmsgd"\ntopology = "ring"\nlr = {lr}\n'
    (tmp_path / "step_sizes.toml").write_text(text)
    (tmp_path / "user.toml").write_text(USER)
    with pytest.raises(ConfigError, match=r"step_sizes\.toml: small: expected lr = "):
        load(tmp_path / "user.toml")


def test_held_out_images_are_training_images_that_nobody_trains_on():
    whole = data.load("digits")
    part = held_out(whole, 300, generator(7, HELD_OUT))
    assert len(part.train_labels) == len(whole.train_labels) - 300
    images = [*part.train_images, *part.test_images]
    expected = sorted(image.tobytes() for image in whole.train_images)
    assert sorted(image.tobytes() for image in images) == expected
    other = held_out(whole, 300, generator(8, HELD_OUT))
    assert (other.test_labels != part.test_labels).any()
    with pytest.raises(ValueError, match="1 to 1437 of 1438 training images, got 1438"):
        held_out(whole, 1438, generator(7, HELD_OUT))
