"""What the cost model stands on, configs/cost_model.toml."""

from pathlib import Path

from pydantic import BaseModel, Field, PositiveFloat, PositiveInt, ValidationError

from expograph.analysis.published import Published
from expograph.config import ConfigError, published_numbers, read_toml
from expograph.validation import STRICT, one_line


class _Strict(BaseModel):
    model_config = STRICT


class WorkloadValues(_Strict):
    """What is trained."""

    parameters: PositiveInt
    bytes_per_parameter: PositiveInt
    samples: PositiveInt
    epochs: PositiveInt


class ClusterValues(_Strict):
    """Servers and their links."""

    gpus: PositiveInt
    batch: PositiveInt
    gbit: PositiveFloat
    nvlink_gbyte: PositiveFloat


class Measured(_Strict):
    """Which of our measurements alpha and the efficiency come from."""

    table: str
    ranks: PositiveInt
    efficiency: str
    elements: PositiveInt
    alpha: str


class PublishedCell(_Strict):
    """Which published hours, and the one cell that gives gamma."""

    table: str
    topology: str
    nodes: PositiveInt


class Reference(_Strict):
    """A published throughput."""

    images_per_second: PositiveFloat
    gpus: PositiveInt


class Beyond(_Strict):
    """Sizes and bandwidths that nothing was measured at."""

    nodes: list[PositiveInt] = Field(min_length=2)
    gbit: list[PositiveFloat] = Field(min_length=2)
    nothing_gained: float = Field(gt=1)


class Assumptions(_Strict):
    """The whole file."""

    workload: WorkloadValues
    cluster: ClusterValues
    measured: Measured
    published: PublishedCell
    reference: Reference
    beyond: Beyond


def read(path: Path) -> Assumptions:
    """The assumptions of a file.

    Raises:
        ConfigError: one line naming file and key.
    """
    try:
        return Assumptions.model_validate(read_toml(path, kind="cost_model"))
    except ValidationError as e:
        raise ConfigError(f"{path}: {one_line(e, Assumptions)}") from None


class PublishedHours(BaseModel):
    """Hours published elsewhere, (topology, nodes) -> hours."""

    caption: str
    source: str
    hours: dict[tuple[str, int], float]


def published_hours(path: Path, name: str) -> PublishedHours:
    """A table of published.toml beside the config `path`.

    Raises:
        ConfigError: if it has no such table, or a cell of it is no number.
    """
    numbers = published_numbers(path)
    try:
        table = Published(name, numbers)
    except KeyError:
        raise ConfigError(f"{path}: published.table: {numbers} has no table {name!r}") from None
    hours = {
        (topology, int(nodes)): value
        for topology, cells in table.cells.items()
        for nodes, value in cells.items()
    }
    return PublishedHours(caption=table.caption, source=table.source, hours=hours)
