"""From TOML files to experiments: the one place that says which files are any, and what of them."""

from collections.abc import Sequence
from pathlib import Path

from expograph.config.checking import checked
from expograph.config.epochs import in_steps
from expograph.config.errors import ConfigError, quoted
from expograph.config.expand import blocks_of, expand
from expograph.config.overrides import override
from expograph.config.schema import Experiment, ExperimentFile, Run
from expograph.config.step_sizes import StepSizes
from expograph.config.table_check import check_table
from expograph.config.toml import read_toml
from expograph.names import known

# of the files in configs/
KINDS = ("experiment", "claims", "cost_model", "published", "step_sizes")


def load(path: Path | str, overrides: Sequence[str] = ()) -> Experiment:
    """Read and check the config file of an experiment.

    Args:
        path: the TOML file.
        overrides: `key=value` words; the key is one of `[run]`, dotted for the problem's. A list
            `key=[a,b]` sweeps; a key that the file sweeps is replaced in every block.
    Raises:
        ConfigError: one line naming file and key.
    """
    path = Path(path)
    try:
        file = checked(path, ExperimentFile, read_toml(path, "experiment"))
        base, blocks = override(file.run, blocks_of(path, file.sweep), overrides)
        step_sizes = StepSizes(path, file.step_sizes)
        runs: dict[str, Run] = {}
        for values in expand(path, base, blocks):
            run = checked(path, Run, step_sizes.into(in_steps(path, values)))
            runs.setdefault(run.key, run)
    except RecursionError:
        raise ConfigError(f"{path}: tables or brackets nested too deeply") from None
    if file.table:
        check_table(path, file.table, list(runs.values()))
    for key, wanted in file.short.items():
        there = {quoted(run.value(key)) for run in runs.values()}
        if not overrides and (lost := [v for v in wanted if quoted(v) not in there]):
            raise ConfigError(f"{path}: short.{key}: no run has {quoted(lost[0])}")
    return Experiment(
        name=file.name,
        path=path,
        runs=list(runs.values()),
        table=file.table,
        tunes=file.tunes,
        scale=file.scale,
        scale_of=file.scale_of,
        command=file.command or f"expograph sweep {path}",
        short=file.short,
    )


def experiments(folder: Path | str) -> list[Experiment]:
    """The experiments among the TOML files of a folder: those whose `kind` is not another.

    Tables come first, then the others by name; what is the same at several scales stands together,
    the laptop's before the paper's.

    Raises:
        ConfigError: if there is no such folder; one line naming a file that is wrong.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise ConfigError(f"{folder}: no such folder of configs; run this in the repository")
    found = [load(path) for path in paths(folder)]
    names = {experiment.name for experiment in found}
    for experiment in found:
        if experiment.scale_of is not None and experiment.scale_of not in names:
            try:
                known("experiment", experiment.scale_of, sorted(names))
            except ValueError as e:
                raise ConfigError(f"{experiment.path}: scale_of: {e}") from None
    return sorted(found, key=_place)


def paths(folder: Path) -> list[Path]:
    """The TOML files of a folder that are experiments, sorted by name.

    Raises:
        ConfigError: if a file cannot be read, or its `kind` is none of `KINDS`.
    """
    return [path for path in sorted(folder.glob("*.toml")) if _kind(path) == "experiment"]


def _kind(path: Path) -> str:
    kind = read_toml(path).get("kind", "experiment")
    try:
        return known("kind", kind if isinstance(kind, str) else quoted(kind), KINDS)
    except ValueError as e:
        raise ConfigError(f"{path}: kind: {e}") from None


def _place(experiment: Experiment) -> tuple[bool, str, bool, str]:
    group = experiment.group
    return not group.startswith("table"), group, experiment.scale == "paper", experiment.name
