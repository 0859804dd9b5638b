"""Step sizes by hand, and from the keys of a run."""

import pytest

from expograph.config import Run
from expograph.runs.assemble import step_size_of
from expograph.step_size import StepSize


def test_a_warm_up_then_each_decay():
    cosine = StepSize(0.2, steps=110, warmup_steps=10, decay="cosine")
    assert cosine(0) == pytest.approx(0.02)
    assert cosine(9) == cosine(10) == pytest.approx(0.2)
    assert cosine(60) == pytest.approx(0.1)
    drops = StepSize(0.2, steps=110, decay="step", decay_steps=(30, 60), decay_factor=0.1)
    expected = [0.2, 0.2, 0.02, 0.02, 0.002]
    assert [drops(k) for k in (0, 29, 30, 59, 60)] == pytest.approx(expected)
    assert StepSize(0.2, 110, decay="inverse", decay_steps=(10,))(10) == pytest.approx(0.1)
    assert StepSize(0.2, 110, decay="inverse_sqrt", decay_steps=(10,))(30) == pytest.approx(0.1)
    assert StepSize(0.2, 110)(109) == 0.2
    with pytest.raises(ValueError, match="unknown decay 'linear'"):
        StepSize(0.2, 110, decay="linear")(0)


@pytest.mark.parametrize(
    "changes, expected",
    [
        ({}, 0.2),
        ({"lr_scale": "nodes"}, 3.2),
        ({"lr_scale": "sqrt_nodes"}, 0.8),
        ({"lr_scale": "nodes", "local_size": 8}, 3.2),
        ({"lr_scale": "ranks", "local_size": 8}, 25.6),
        ({"warmup_steps": 10}, 0.12),
        ({"decay": "step", "decay_steps": [3, 60], "decay_factor": 0.5}, 0.1),
    ],
)
def test_a_runs_step_size_at_step_5(changes, expected):
    values = {
        "problem": {"kind": "logistic"},
        "topology": "ring",
        "nodes": 16,
        "algorithm": "dsgd_atc",
        "steps": 110,
        "lr": 0.2,
    }
    assert step_size_of(Run.model_validate(values | changes))(5) == pytest.approx(expected)
