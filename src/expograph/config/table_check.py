"""Everything about an experiment's table that could otherwise fail only after the training."""

from collections.abc import Iterable, Sequence
from pathlib import Path

from expograph.config.errors import ConfigError
from expograph.config.facts import (
    METRICS,
    OVER_PSGD,
    PROBLEMS,
    gives,
    is_reference,
    over_exact,
)
from expograph.config.schema import ExperimentFile, Run, Table
from expograph.config.toml import published_numbers, read_toml
from expograph.names import known


def check_table(path: Path, file: ExperimentFile, runs: Sequence[Run]) -> None:
    """Check keys, metrics, published numbers and references of a table against the runs.

    Raises:
        ConfigError: one line naming file and key.
    """
    table = file.table
    if table is None:
        return
    keys = {
        *Run.model_fields,
        *(f"problem.{key}" for run in runs for key in type(run.problem).model_fields),
    } - {"problem"}
    for key in (*table.rows, table.column):
        _check(path, "rows and column", "key", key, sorted(keys))
    for metric in table.metrics:
        _check(path, "metrics", "metric", metric, METRICS)
        if not all(gives(run.problem.kind, metric) for run in runs):
            raise ConfigError(f"{path}: table.metrics: not every run's problem gives {metric!r}")
    if table.published:
        tables = read_toml(published_numbers(path), kind="published")
        _check(path, "published", "table", table.published, tables)
    for key in table.compare:
        _check(path, "compare", "key", key, table.rows)
    if table.kind != "pivot":
        _check_transients(path, table, runs)


def _check(path: Path, where: str, kind: str, name: str, names: Iterable[str]) -> None:
    try:
        known(kind, name, names)
    except ValueError as e:
        raise ConfigError(f"{path}: table.{where}: {e}") from None


def _check_transients(path: Path, table: Table, runs: Sequence[Run]) -> None:
    """Whether every run has a reference to be compared with, at every one of its steps."""
    if not all(PROBLEMS[run.problem.kind].minimiser for run in runs):
        raise ConfigError(f"{path}: table.kind: transients need problems with a known minimiser")
    if (metric := table.metrics[0]).endswith(OVER_PSGD):
        plain = metric.removesuffix(OVER_PSGD)
        raise ConfigError(f"{path}: table.metrics: transients are of {plain!r} itself")
    references = {
        (run.algorithm, *_place(run, table)): run
        for run in runs
        if is_reference(run.algorithm, run.topology)
    }
    others = [run for run in runs if not is_reference(run.algorithm, run.topology)]
    if not others:
        raise ConfigError(f"{path}: table.kind: transients need runs beside parallel SGD")
    for run in others:
        reference = references.get((over_exact(run.algorithm), *_place(run, table)))
        if reference is None:
            continue  # the table says so
        if reference.steps < run.steps:
            raise ConfigError(
                f"{path}: table.kind: {run.topology} over {run.nodes} nodes takes {run.steps} "
                f"steps, its reference ({reference.algorithm}) {reference.steps}: give it as many"
            )
        ours, theirs = (r.evaluate_every or r.steps for r in (run, reference))
        if ours % theirs:
            raise ConfigError(
                f"{path}: table.kind: {run.topology} over {run.nodes} nodes is evaluated every "
                f"{ours} steps, its reference every {theirs}: give both the same evaluate_every"
            )


def _place(run: Run, table: Table) -> tuple:
    """Where in the table a run stands, its topology left out, and its seed."""
    values = run.model_dump()
    inside = {f"problem.{key}": value for key, value in values["problem"].items()}
    keys = [key for key in table.rows if key not in ("topology", "algorithm")]
    return (run.nodes, run.seed, *(str((values | inside).get(key)) for key in keys))
