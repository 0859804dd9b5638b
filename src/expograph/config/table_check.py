"""What is wrong with a table, said before the training and not after it."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NoReturn

from expograph.config.errors import ConfigError
from expograph.config.facts import (
    METRICS,
    OVER_PSGD,
    PROBLEMS,
    algorithm,
    gives,
    is_reference,
    over_exact,
)
from expograph.config.problem_settings import KINDS
from expograph.config.schema import Run, Table
from expograph.config.toml import published_numbers, read_toml
from expograph.names import known


def check_table(path: Path, table: Table, runs: Sequence[Run]) -> None:
    """Everything about the table that could otherwise fail only after the training.

    Raises:
        ConfigError: one line naming file and key.
    """
    kinds = list(dict.fromkeys(run.problem.kind for run in runs))
    keys = {
        *Run.model_fields,
        *(f"problem.{k}" for kind in kinds for k in KINDS[kind].model_fields),
    }
    for key in (*table.rows, table.column):
        _known(path, "table.rows and column", "key", key, sorted(keys - {"problem"}))
    for metric in table.metrics:
        if kinds != ["own"]:
            _known(path, "table.metrics", "metric", metric, METRICS)
        if not all(gives(kind, metric) for kind in kinds):
            _refuse(path, "table.metrics", f"not every run's problem gives {metric!r}")
    if table.published:
        tables = read_toml(published_numbers(path), "published")
        _known(path, "table.published", "table", table.published, tables)
    for key in table.compare:
        _known(path, "table.compare", "key", key, table.rows)
    if table.within is not None and (table.column != "steps" or not table.compare):
        _refuse(path, "table.within", "needs column = 'steps' and compare")
    if table.kind != "pivot":
        _check_transients(path, table, runs)


def _check_transients(path: Path, table: Table, runs: Sequence[Run]) -> None:
    if not all(PROBLEMS[run.problem.kind].minimiser for run in runs):
        _refuse(path, "table.kind", "transients need problems with a known minimiser")
    if (metric := table.metrics[0]).endswith(OVER_PSGD):
        plain = metric.removesuffix(OVER_PSGD)
        _refuse(path, "table.metrics", f"transients are of {plain!r} itself")
    if all(algorithm(run.algorithm).exact for run in runs):
        _refuse(path, "table.kind", "transients need runs beside parallel SGD")
    within = [key for key in table.rows if key not in ("topology", "algorithm")]
    references: dict[tuple[str, ...], list[Run]] = {}  # where -> an algorithm over exact averaging
    for run in runs:
        if is_reference(run.algorithm, run.topology):
            references.setdefault((run.algorithm, *_place(run, within)), []).append(run)
    for run in runs:
        for other in references.get((over_exact(run.algorithm), *_place(run, within)), []):
            _check_pair(path, run, other)


def _place(run: Run, within: Sequence[str]) -> tuple[str, ...]:
    """Where two runs that are compared agree: the table's rows apart, nodes and seed."""
    return tuple(str(run.value(key)) for key in (*within, "nodes", "seed"))


def _check_pair(path: Path, run: Run, reference: Run) -> None:
    """Refuse a run that measures at steps where parallel SGD, its reference, has no value."""
    pair = f"{run.label} is compared with {reference.label}"
    if run.steps > reference.steps:
        counts = f"{run.steps} steps and the other only {reference.steps}"
        _refuse(path, "table.kind", f"{pair}, but has {counts}")
    every, theirs = _measured_every(run), _measured_every(reference)
    ends_alike = run.steps == reference.steps or run.steps % theirs == 0
    if (every < run.steps and every % theirs) or not ends_alike:
        grids = f"{every} steps and the other every {theirs}"
        _refuse(path, "table.kind", f"{pair}, but is measured every {grids}")


def _measured_every(run: Run) -> int:
    return run.evaluate_every or run.steps


def _known(path: Path, where: str, kind: str, name: str, allowed: Iterable[str]) -> None:
    try:
        known(kind, name, allowed)
    except ValueError as e:
        _refuse(path, where, str(e))


def _refuse(path: Path, where: str, message: str) -> NoReturn:
    raise ConfigError(f"{path}: {where}: {message}")
