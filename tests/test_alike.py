"""Ranks that would train something else than rank 0 are found before the first step."""

import numpy as np
import pytest

from expograph import data
from expograph.cluster.launch import JobError
from expograph.config import Run
from expograph.runs import alike

VALUES = {
    "problem": {"kind": "classification", "dataset": "digits", "model": "linear", "batch_size": 8},
    "topology": "ring",
    "nodes": 4,
    "algorithm": "dsgd_atc",
    "steps": 5,
    "lr": 0.1,
}
RUN = Run.model_validate(VALUES)


class Four:
    """Four ranks on two hosts, of which the last says something else."""

    hosts = ("a", "a", "b", "b")

    def __init__(self, **changes: str) -> None:
        self.changes = changes

    def exchange(self, value, what):
        return [value, value, value, value | self.changes]


def test_equal_ranks_are_let_through():
    alike.check([RUN], Four())


@pytest.mark.parametrize("what", ["runs", "code", "torch", "numpy", "python", "the data digits"])
def test_what_differs_is_named_with_the_rank_and_its_host(what):
    with pytest.raises(JobError, match=f"^rank 3 on b has {what} other, rank 0 on a ") as found:
        alike.check([RUN], Four(**{what: "other"}))
    assert "\n" not in str(found.value)


def test_another_label_and_another_image_are_other_data(monkeypatch):
    digits = data.load("digits")
    seen = {alike.facts([RUN])["the data digits"]}
    for name in ("train_labels", "test_images"):
        changed = np.array(getattr(digits, name))
        changed.flat[7] += 1
        other = type(digits)(**{**vars(digits), name: changed})
        monkeypatch.setattr(data, "load", lambda _, other=other: other)
        seen.add(alike.facts([RUN])["the data digits"])
    assert len(seen) == 3
