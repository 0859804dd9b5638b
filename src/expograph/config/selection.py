"""A part of an experiment's runs, for who has less time: its own short version, or fewer seeds."""

from typing import NamedTuple

from expograph.config.errors import ConfigError
from expograph.config.schema import Experiment


class Selection(NamedTuple):
    """Which runs of an experiment to do.

    Attributes:
        short: those that the config's `short` names, where it has one.
        seeds: of each experiment only so many seeds, the first ones.
        extremes: only the smallest and the largest number of nodes.
    """

    short: bool = False
    seeds: int | None = None
    extremes: bool = False

    @property
    def flags(self) -> list[str]:
        """The options of the command line that make it."""
        seeds = [] if self.seeds is None else ["--seeds", str(self.seeds)]
        return ["--short"] * self.short + seeds + ["--extremes"] * self.extremes

    def of(self, experiment: Experiment) -> Experiment:
        """The experiment with the runs that are selected.

        Raises:
            ConfigError: none are; one line.
        """
        runs = experiment.runs
        if self.short:
            wanted = experiment.short.items()
            runs = [run for run in runs if all(run.value(key) in values for key, values in wanted)]
        if self.seeds is not None:
            seeds = sorted({run.seed for run in runs})[: self.seeds]
            runs = [run for run in runs if run.seed in seeds]
        if self.extremes and runs:
            sizes = [run.nodes for run in runs]
            runs = [run for run in runs if run.nodes in (min(sizes), max(sizes))]
        if not runs:
            raise ConfigError(f"{experiment.path}: short: it leaves no runs")
        return experiment.model_copy(update={"runs": runs})
