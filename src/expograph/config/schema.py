"""What a config says, as frozen types: a run, its table, the file and the experiment it makes."""

import hashlib
import json
import unicodedata
from functools import cache, reduce
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, field_validator, model_validator

from expograph import names
from expograph.config.facts import ALGORITHMS, ENGINES, algorithm
from expograph.config.problem_settings import Problem, Strict

KEY_SCHEMA = 1  # part of every key: raised when a default is changed
MEANS_SINCE = {  # schema of keys since which a value means what it does; others: the first
    ("algorithm", "dmsgd"): 2,  # this step's momentum
    ("partition", "label"): 2,  # dealt by the seed
    ("partition", "dirichlet"): 2,  # equally large shards
}
MOST_RANKS = 2**20
MOST_STEPS = 10**9
MOST_NUMBERS = 2**32  # of all workers' synthetic samples: 32 GiB
RESERVED = (  # folders of results/ that are no experiment's
    "runs",
    "running",
    "custom",
    "tensorboard",
    "figures",
    "report",
    "bench",
    "bench_comm",
    "engines",
    "cost_model",
    "dry_run",
    "predictions",
    *("index", "claims", "costs", "topologies"),  # pages of the report
)


def _one_line(text: str) -> str:
    if not text.strip() or any(unicodedata.category(c) in ("Cc", "Zl", "Zp") for c in text):
        raise ValueError("expected one line of text")
    return text


@cache  # a sweep has the same few in thousands of runs
def _canonical(topology: str) -> str:
    from expograph.graphs.topology import canonical  # scipy, which takes a third of a second

    return canonical(topology)


Line = Annotated[str, AfterValidator(_one_line)]
Step = Annotated[int, Field(ge=1, le=MOST_STEPS)]


class Run(Strict):
    """One run, fully resolved. Equal runs have equal keys and give equal numbers.

    The step size is per worker; it grows with the number of nodes only if `lr_scale` says so.
    """

    problem: Problem
    topology: str
    nodes: int = Field(ge=1, le=MOST_RANKS, description="what the topology connects")
    local_size: int = Field(1, ge=1, le=MOST_RANKS, description="ranks a node: a server's GPUs")
    algorithm: str
    steps: Step
    lr: float = Field(gt=0, description="per worker, before lr_scale")
    lr_scale: Literal["none", "nodes", "ranks", "sqrt_nodes"] = Field("none", description="of lr")
    beta: float = Field(0.0, ge=0, lt=1, description="momentum")
    warmup_steps: int = Field(
        0, ge=0, le=MOST_STEPS, description="linear, from lr / warmup_steps to lr"
    )
    decay: Literal["constant", "cosine", "step", "inverse", "inverse_sqrt"] = "constant"
    decay_steps: list[Step] = Field(
        [], max_length=1000, description="step: where lr drops; inverse: its scale"
    )
    decay_factor: float = Field(0.1, gt=0, lt=1, description="step: lr is multiplied by it")
    seed: int = Field(0, ge=0, lt=2**32)
    record_every: Step = 10
    evaluate_every: Step | None = Field(None, description="None: at the end only")
    engine: str = "embedded"
    device: Literal["cpu", "cuda"] = "cpu"

    @field_validator("topology")
    @classmethod
    def _topology(cls, value: str) -> str:
        return _canonical(value)

    @field_validator("algorithm")
    @classmethod
    def _algorithm(cls, value: str) -> str:
        parameters = {name: facts.parameters for name, facts in ALGORITHMS.items()}
        return names.canonical("algorithm", value, parameters)

    @field_validator("engine")
    @classmethod
    def _engine(cls, value: str) -> str:
        return names.known("engine", value, ENGINES)

    @model_validator(mode="after")
    def _possible(self) -> "Run":
        facts = algorithm(self.algorithm)
        if facts.exact and self.topology != "fully_connected":
            raise ValueError(f"{self.algorithm} averages exactly: topology must be fully_connected")
        if ENGINES[self.engine].exact and self.topology != "fully_connected":
            raise ValueError(
                f"engine = {self.engine!r} averages exactly: topology must be fully_connected"
            )
        if self.beta and not facts.momentum:
            raise ValueError(f"{self.algorithm} has no momentum: beta must be 0")
        if self.ranks > MOST_RANKS:
            raise ValueError(f"nodes x local_size must be at most {MOST_RANKS}, got {self.ranks}")
        numbers = self.ranks * getattr(self.problem, "samples", 0) * getattr(self.problem, "dim", 0)
        if numbers > MOST_NUMBERS:
            raise ValueError(
                f"nodes x samples x dim must be at most {MOST_NUMBERS} numbers, got {numbers}"
            )
        if self.evaluate_every and self.evaluate_every % self.record_every:
            raise ValueError("evaluate_every must be a multiple of record_every")
        self._check_schedule()
        return self

    def _check_schedule(self) -> None:
        """The keys of the step size, one with another."""
        if self.warmup_steps >= self.steps:
            raise ValueError("warmup_steps must be smaller than steps")
        if self.decay == "step" and not self.decay_steps:
            raise ValueError("decay = 'step' needs decay_steps, the steps where lr drops")
        if self.decay.startswith("inverse") and len(self.decay_steps) != 1:
            raise ValueError(f"decay = {self.decay!r} needs decay_steps = [scale]")
        if self.decay in ("constant", "cosine") and self.decay_steps:
            raise ValueError(f"decay = {self.decay!r} takes no decay_steps")
        if sorted(set(self.decay_steps)) != self.decay_steps:
            raise ValueError("decay_steps must be positive and increasing")
        if self.decay != "step" and self.decay_factor != Run.model_fields["decay_factor"].default:
            raise ValueError("decay_factor goes with decay = 'step', and only with it")
        if self.decay == "step" and not self.warmup_steps <= self.decay_steps[0] < self.steps:
            raise ValueError("decay_steps must lie between warmup_steps and steps")

    @property
    def ranks(self) -> int:
        """Workers, each with its own data: nodes x local_size."""
        return self.nodes * self.local_size

    @property
    def key(self) -> str:
        """16 hex digits that identify the run: the hash of `canonical`."""
        return hashlib.sha256(self.canonical().encode()).hexdigest()[:16]

    def canonical(self) -> str:
        """What differs from the defaults, and its schema, as JSON with sorted keys.

        A new option with a default leaves the text, and so the key, of every older run as it was.
        """
        named = {("algorithm", names.parse(self.algorithm)[0])}
        named.add(("partition", getattr(self.problem, "partition", None)))
        schema = max(MEANS_SINCE.get(value, KEY_SCHEMA) for value in named)
        differing = self.model_dump(exclude_defaults=True)
        return json.dumps({"schema": schema, **differing}, sort_keys=True)

    def value(self, key: str) -> Any:
        """The value of a dotted key, as "problem.model"; None if the problem has no such key."""
        return reduce(lambda value, part: getattr(value, part, None), key.split("."), self)

    @property
    def label(self) -> str:
        """A short name for people: progress lines and error messages."""
        problem = getattr(self.problem, "model", self.problem.kind)
        where = f"{self.topology}, {self.nodes} nodes"
        if self.local_size > 1:
            where += f" of {self.local_size} ranks"
        if self.engine != "embedded":
            where += f", {self.engine}"
        return f"{self.algorithm} on {where}, {problem}, seed {self.seed} (run {self.key})"


class Table(Strict):
    """How an experiment's runs become one table: a row and a column for each value of these keys.

    `kind = "theory"` is Table 1, whose columns are fixed; `"transients"` shows transient
    iterations by topology and nodes, and how they grow.
    """

    kind: Literal["pivot", "theory", "transients"] = "pivot"
    title: Line = Field(max_length=300)
    rows: list[str] = Field(["topology"], min_length=1, max_length=20)
    column: str = "nodes"
    metrics: list[str] = Field(["accuracy_averaged"], min_length=1, max_length=50)
    published: str | None = Field(None, description="a table of configs/published.toml")
    notes: list[Line] = Field([], max_length=100, description="printed below the table")
    factor: float = Field(1.5, gt=1, description="transients: how near parallel SGD is near")
    compare: dict[str, str] = Field({}, description="the row others are compared with, by seed")


Scale = Literal["laptop", "paper"]


class Experiment(BaseModel):
    """A config file, resolved: its runs in order, without repetition.

    Attributes:
        name: its folder under results/.
        path: the file.
        runs: its runs.
        table: what they become, if anything.
        tunes: the entry of step_sizes.toml that `expograph tune` chooses by it, if any.
        scale: "laptop", or "paper" for what needs the paper's machines and data.
        scale_of: the experiment of which this is the same at another scale, if any.
        command: what makes it.
    """

    model_config = ConfigDict(frozen=True)

    name: str
    path: Path
    runs: list[Run]
    table: Table | None = None
    tunes: str | None = None
    scale: Scale = "laptop"
    scale_of: str | None = None
    command: str = ""

    @property
    def title(self) -> str:
        """The table's title, or the name where there is no table."""
        return self.table.title if self.table else self.name

    @property
    def group(self) -> str:
        """The name that an experiment has in common with the same at another scale."""
        return self.scale_of or self.name


class ExperimentFile(Strict):
    """The TOML file of an experiment, before its sweeps are expanded."""

    kind: Literal["experiment"] = "experiment"
    name: str = Field(pattern=r"^[a-z0-9][a-z0-9_]*$", max_length=100)
    scale: Scale = "laptop"
    scale_of: str | None = None
    command: Line | None = Field(None, max_length=1000)
    step_sizes: Line | None = Field(None, max_length=100, description="of step_sizes.toml")
    tunes: Line | None = Field(None, max_length=100, description="the entry it chooses there")
    run: dict[str, Any]
    sweep: list[dict[str, list[Any]]] = Field([], max_length=1000)
    table: Table | None = None

    @field_validator("name")
    @classmethod
    def _free(cls, value: str) -> str:
        if value in RESERVED:
            raise ValueError(f"{value!r} is taken by the results' own folders")
        return value
