"""Accuracy against seconds: embedded runs' accuracies over step times measured on a network.

What an engine sends, and so what a training computes, is the same everywhere; only a step's seconds
are the network's. A curve is therefore composed: accuracy after k steps, from embedded runs, at k
times the measured seconds a step. Trainings that were really done on the network are held against
it.

A rank's computing is emulated, computed and then waited for to a stated time, because the ranks
share this machine's cores. The stated time keeps computing : sending as the cost model finds it in
the published hours (`emulated`).
"""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
from pydantic import BaseModel, ConfigDict

from expograph.analysis.cost_model.assumptions import Assumptions
from expograph.analysis.cost_model.model import Link
from expograph.analysis.cost_model.study import FROM_ALL_CELLS
from expograph.analysis.table_result import load
from expograph.analysis.written import name_of
from expograph.config import ConfigError, Run
from expograph.files import DamagedFile, replace_text
from expograph.validation import read_json

FILE = "measured.json"
METRIC, SENT = "accuracy_averaged", "bytes_sent_mean"
HOROVOD, BLUEFOG = "parallel SGD, Horovod", "parallel SGD, BlueFog"
BASE_RATE = "1gbit"  # of the link by which the stated time of a gradient is found
BELOW = (0.5, 1.0, 2.0)  # points below the reference's final accuracy: the targets


class _Data(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


# ---- who competes ----


class Contender(NamedTuple):
    """A way to train.

    Attributes:
        label: what tables and figures call it.
        topology: its graph.
        engine: by which it averages on the network.
        runs: its embedded runs by seed; contenders that differ in the engine only share them.
    """

    label: str
    topology: str
    engine: str
    runs: Mapping[int, Run]

    def on_the_network(self, seed: int) -> Run:
        """The run of a seed on the network's engine."""
        return Run.model_validate({**self.runs[seed].model_dump(), "engine": self.engine})


def contenders(runs: Iterable[Run], hosts: int) -> list[Contender]:
    """Parallel SGD by Horovod and by BlueFog, then every other topology by BlueFog.

    Raises:
        ConfigError: if the runs of a topology differ in more than the seed, some are not for so
            many hosts, or parallel SGD is missing.
    """
    by_topology: dict[str, dict[int, Run]] = {}
    for run in runs:
        own = by_topology.setdefault(run.topology, {})
        alike = all(o.model_copy(update={"seed": run.seed}) == run for o in own.values())
        if run.seed in own or not alike or run.ranks != hosts or run.engine != "embedded":
            raise ConfigError(
                f"{run.label}: need one embedded run on {hosts} nodes for each topology and seed, "
                "alike in all else"
            )
        own[run.seed] = run
    if "fully_connected" not in by_topology:
        raise ConfigError("no run of parallel SGD, the reference (topology fully_connected)")
    exact = by_topology.pop("fully_connected")
    return [
        Contender(HOROVOD, "fully_connected", "horovod", exact),
        Contender(BLUEFOG, "fully_connected", "bluefog", exact),
        *(Contender(name_of(name), name, "bluefog", own) for name, own in by_topology.items()),
    ]


# ---- how long a rank computes ----


class Emulated(NamedTuple):
    """The stated time of a rank's gradient.

    Attributes:
        ratio: seconds of computing over those of one message, in the cost model fitted to the
            published hours.
        link: of the virtual cluster at 1 Gbit/s, fitted to the one-peer graph's steps.
        message: seconds of one message of the network on it.
    """

    ratio: float
    link: Link
    message: float

    @property
    def seconds(self) -> float:
        """ratio x message."""
        return self.ratio * self.message


def emulated(root: Path, given: Assumptions, elements: int) -> Emulated:
    """How long a rank computes, from results/cost_model and what it stands on.

        ratio = (batch / images a second) / (alpha + beta m)     of the fit to the published hours
        seconds = ratio (alpha' + beta' 4 elements)              the link of the virtual cluster

    It is the same at every rate of the virtual cluster: another network, the same computers.

    Args:
        root: the results.
        given: the cost model's assumptions.
        elements: float32 parameters of the network that is trained here.
    Raises:
        ConfigError: if there is no cost model.
    """
    tables = load(root / "cost_model")
    if tables is None:
        raise ConfigError(f"{root / 'cost_model'}: no table.json in it: `make cost-model`")
    fitted = {row["prediction"]: row for row in tables["parameters"].means()}[FROM_ALL_CELLS]
    computing = given.cluster.batch / fitted["images/s a GPU"]
    message = given.workload.parameters * given.workload.bytes_per_parameter
    sending = fitted["alpha (ms)"] / 1e3 + 8e-9 / fitted["1/beta (Gbit/s)"] * message
    place = (given.measured.table, given.measured.ranks)
    links = {(row["place"], row["ranks"]): row for row in tables["links"].means()}
    link = Link(links[place]["alpha (ms)"] / 1e3, 8e-9 / links[place]["1/beta (Gbit/s)"])
    return Emulated(computing / sending, link, link.alpha + link.beta * 4 * elements)


# ---- what was measured ----


class StepTimes(_Data):
    """Steps of one contender in one job.

    Attributes:
        label: the contender's.
        seconds: a step, of the slowest rank; one value a block of steps.
        late: share of the gradients that took longer than the stated time.
    """

    label: str
    seconds: list[float]
    late: float


class RealRun(_Data):
    """A whole training on the network.

    Attributes:
        label, seed: which.
        steps, seconds, accuracy: at every evaluation: steps done, training seconds of the slowest
            rank, test accuracy (%) of the averaged model.
        late: share of the gradients that took longer than the stated time.
    """

    label: str
    seed: int
    steps: list[int]
    seconds: list[float]
    accuracy: list[float]
    late: float


class Measured(_Data):
    """Everything measured at one rate; grows piece by piece.

    Attributes:
        rate: of the links, "1gbit".
        hosts: how many.
        model, dataset: the network that is trained, and on what.
        elements: its float32 parameters.
        compute: seconds of a rank's gradient, emulated.
        steps: one for each contender and job.
        real: whole trainings.
    """

    rate: str
    hosts: int
    model: str
    dataset: str
    elements: int
    compute: float
    steps: list[StepTimes] = []
    real: list[RealRun] = []

    def step_seconds(self, label: str) -> np.ndarray:
        """All blocks of a contender."""
        return np.concatenate([[], *(s.seconds for s in self.steps if s.label == label)])

    def step(self, label: str) -> float:
        """Seconds a step: the median block; NaN where there is none."""
        seconds = self.step_seconds(label)
        return float(np.median(seconds)) if len(seconds) else np.nan


def read_measured(folder: Path) -> Measured | None:
    """What was measured so far; None if nothing.

    Raises:
        DamagedFile: in one line.
    """
    return read_json(folder / FILE, Measured, DamagedFile)


def write_measured(folder: Path, measured: Measured) -> None:
    """Write it, whole or not at all."""
    folder.mkdir(parents=True, exist_ok=True)
    replace_text(folder / FILE, measured.model_dump_json(indent=1) + "\n")


# ---- accuracy against seconds ----


class Curve(NamedTuple):
    """A contender's accuracy against seconds.

    Attributes:
        label, topology: which.
        seconds: (T,) at the evaluations: steps x seconds a step.
        sent: (T,) bytes that a rank has sent by then, mean over the ranks.
        accuracy: (seeds, T), %.
    """

    label: str
    topology: str
    seconds: np.ndarray
    sent: np.ndarray
    accuracy: np.ndarray


def composed(
    measured: Measured, every: Sequence[Contender], curves: Mapping[str, pd.DataFrame]
) -> list[Curve]:
    """The curves of those contenders whose steps were measured and whose runs are all done.

    Args:
        curves: `results.curves` of the embedded runs, by key.
    """
    found = []
    for contender in every:
        step, runs = measured.step(contender.label), contender.runs.values()
        if np.isnan(step) or any(run.key not in curves for run in runs):
            continue
        evaluated = [evaluated_of(curves[run.key]) for run in runs]
        steps = evaluated[0]["step"].to_numpy()
        accuracy = np.stack([frame[METRIC].to_numpy() for frame in evaluated])
        sent = evaluated[0][SENT].to_numpy()
        found.append(Curve(contender.label, contender.topology, step * steps, sent, accuracy))
    return found


def evaluated_of(curve: pd.DataFrame) -> pd.DataFrame:
    """Its evaluations: step, bytes sent so far, accuracy."""
    return curve.loc[curve[METRIC].notna(), ["step", SENT, METRIC]]


def spent_to(target: float, spent: np.ndarray, accuracy: np.ndarray) -> float:
    """What is spent until a curve first reaches a target; NaN if it does not.

    Args:
        spent: (T,), increasing: seconds, bytes; linear between evaluations.
        accuracy: (T,).
    """
    reached = np.flatnonzero(accuracy >= target)
    if len(reached) == 0:
        return np.nan
    i = reached[0]
    if i == 0:
        return float(spent[0])
    share = (target - accuracy[i - 1]) / (accuracy[i] - accuracy[i - 1])
    return float(spent[i - 1] + share * (spent[i] - spent[i - 1]))


def targets(curves: Sequence[Curve]) -> list[float]:
    """`BELOW` the mean final accuracy of parallel SGD: a rule, so that no target is chosen."""
    final = next((c.accuracy[:, -1].mean() for c in curves if c.topology == "fully_connected"), 0)
    return [round(float(final) - below, 2) for below in sorted(BELOW, reverse=True)]
