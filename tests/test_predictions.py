"""Predicted transients: from configs alone, and beside what was measured."""

from pathlib import Path

import pytest

from expograph.analysis.predictions import (
    AGREEMENT,
    agreement,
    first_made,
    measured_of,
    predict,
    quadratic_of,
    table_of,
)
from expograph.analysis.table_result import Tables, load
from expograph.cli import main
from expograph.config import load as load_config
from expograph.problems import build as build_problem

ALIKE = "configs/transients.toml"
UNLIKE = "configs/transients_heterogeneous.toml"


def chosen(path, topology, nodes):
    experiment = load_config(path)
    runs = [r for r in experiment.runs if (r.topology, r.nodes) == (topology, nodes)]
    return experiment.model_copy(update={"runs": runs})


@pytest.mark.parametrize(
    ("path", "topology", "nodes", "low", "high"),
    [(ALIKE, "grid", 24, 280, 620), (ALIKE, "static_exponential", 64, 520, 840)],
)
def test_a_prediction_lies_in_the_measured_interval(path, topology, nodes, low, high):
    experiment = chosen(path, topology, nodes)
    assert low <= predict(experiment.runs, experiment.table.factor).transient <= high


def test_the_heterogeneous_config_has_as_much_heterogeneity_as_noise():
    run = chosen(UNLIKE, "one_peer_exponential", 32).runs[0]
    assert quadratic_of(run).zeta2 == pytest.approx(quadratic_of(run).sigma2, rel=0.001)
    facts = build_problem(run.problem, 32, range(32), 0).describe()
    assert facts["sigma2"] == 10 and facts["zeta2"] == pytest.approx(10, rel=0.2)


def test_a_table_says_how_near_and_who_predicted_it_first():
    experiment = chosen(ALIKE, "static_exponential", 48)
    alone = table_of(experiment, None)
    beside = table_of(experiment, measured_of(load(Path("results/transients"))))
    assert alone.rows[0].cells[0] == beside.rows[0].cells[0]
    assert alone.rows[0].cells[1].text == "not measured yet"
    assert beside.rows[0].cells[1].mean == 220
    counted = agreement([beside])
    assert counted.id == AGREEMENT and counted.rows[0].cells[1].mean == 1
    made = first_made([alone], None, {"commit": "a"})
    earlier = Tables(title="", tables=(alone,), made={"predicted": made})
    assert first_made([beside], earlier, {"commit": "b"}) == {"transients": {"commit": "a"}}


def test_other_experiments_are_refused_in_one_line(capsys):
    assert main(["predict", "configs/table2.toml"]) == 2
    assert "only transients are predicted" in capsys.readouterr().err
