"""What a config says, as frozen types: a run, its table, the file and the experiment it makes."""

import hashlib
import json
import unicodedata
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, field_validator, model_validator

from expograph import names, own, rule_parameters
from expograph.config.facts import ALGORITHMS, ENGINES, AlgorithmFacts, algorithm
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
    "mine",
    "tensorboard",
    "figures",
    "report",
    "bench",
    "bench_comm",
    "engines",
    "cost_model",
    "dry_run",
    "predictions",
    "reliability",
    *("index", "claims", "costs", "topologies"),  # pages of the report
)


def _one_line(text: str) -> str:
    if not text.strip() or any(unicodedata.category(c) in ("Cc", "Zl", "Zp") for c in text):
        raise ValueError("expected one line of text")
    return text


@cache  # a sweep has the same few in thousands of runs
def _canonical(topology: str) -> str:
    if own.is_own(topology):
        return own.canonical(topology)
    from expograph.graphs.topology import canonical  # scipy, which takes a third of a second

    return canonical(topology)


Line = Annotated[str, AfterValidator(_one_line)]
Step = Annotated[int, Field(ge=1, le=MOST_STEPS)]


class Run(Strict):
    """One run, fully resolved. Equal runs have equal keys and give equal numbers.

    The step size is per worker; it grows with the number of nodes only if `lr_scale` says so.

    Attributes:
        problem: what the workers minimise, a table of its own.
        topology: who averages with whom; a name, with parameters or not.
        algorithm: the update rule; a name, with parameters or not.
        steps: gradients of each worker; `epochs` counts passes over the data instead.
        decay: how lr falls: along a half cosine to 0, by a factor at some steps, or as
            scale / k and sqrt(scale / k) from step `scale` on.
        seed: of the data, the model, the batches, the noise and random topologies.
        record_every: steps between the rows of metrics.csv.
        engine: where the workers live: in one process, or one a rank.
        device: where the tensors are.
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

    @field_validator("problem", mode="before")
    @classmethod
    def _problem(cls, value: Any) -> Any:
        """ "module:function" is short for a problem of the user's own."""
        return {"kind": "own", "of": value} if isinstance(value, str) else value

    @field_validator("topology")
    @classmethod
    def _topology(cls, value: str) -> str:
        return _canonical(value)

    @field_validator("algorithm")
    @classmethod
    def _algorithm(cls, value: str) -> str:
        if own.is_own(value):  # what it declares is known once it is imported
            address = own.address(value)
            ALGORITHMS.setdefault(address, AlgorithmFacts(over_exact=address))
            return own.canonical(value)
        parameters = {name: facts.parameters for name, facts in ALGORITHMS.items()}
        spelled = names.canonical("algorithm", value, parameters)
        rule_parameters.check(*names.parse(spelled))
        return spelled

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
        if "flat" in facts.needs and self.local_size > 1:
            raise ValueError(f"{self.algorithm} needs local_size = 1, servers of one rank")
        if "flat" in facts.needs and ENGINES[self.engine].exact:
            raise ValueError(f"engine = {self.engine!r} cannot send {self.algorithm}'s messages")
        if self.ranks > MOST_RANKS:
            raise ValueError(f"nodes x local_size must be at most {MOST_RANKS}, got {self.ranks}")
        numbers = self.ranks * getattr(self.problem, "samples", 0) * getattr(self.problem, "dim", 0)
        if numbers > MOST_NUMBERS:
            raise ValueError(
                f"nodes x samples x dim must be at most {MOST_NUMBERS} numbers, got {numbers}"
            )
        if self.problem.kind == "own" and self.device != "cpu":
            raise ValueError("device: a problem of your own is trained on the CPU")
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
        differing = self.model_dump(exclude_defaults=True)
        return json.dumps({"schema": self.means_since, **differing}, sort_keys=True)

    @property
    def means_since(self) -> int:
        """The schema of keys since which this config means what it does."""
        named = {
            ("algorithm", names.parse(self.algorithm)[0]),
            ("partition", getattr(self.problem, "partition", "")),
        }
        return max(MEANS_SINCE.get(value, KEY_SCHEMA) for value in named)

    def value(self, key: str) -> Any:
        """The value of a dotted key, as "problem.model"; None if the problem has no such key."""
        value: Any = self
        for part in key.split("."):
            value = getattr(value, part, None)
        return value

    @property
    def own_parts(self) -> list[str]:
        """Addresses of what is the user's own: its topology, algorithm, problem and data set."""
        theirs = (getattr(self.problem, name, "") for name in ("of", "dataset"))
        return [own.address(n) for n in (self.topology, self.algorithm, *theirs) if own.is_own(n)]

    @property
    def trained(self) -> str:
        """What is trained, for people: the network, the user's problem, or the kind of problem."""
        names: tuple[str, ...] = (self.value("problem.model"), self.value("problem.of"))
        return next(filter(None, names), self.problem.kind)

    @property
    def label(self) -> str:
        """A short name for people: progress lines and error messages."""
        where = f"{self.topology}, {self.nodes} nodes"
        if self.local_size > 1:
            where += f" of {self.local_size} ranks"
        if self.engine != "embedded":
            where += f", {self.engine}"
        return f"{self.algorithm} on {where}, {self.trained}, seed {self.seed} (run {self.key})"


class Table(Strict):
    """How an experiment's runs become one table: a row and a column for each value of these keys.

    `kind = "theory"` is Table 1, whose columns are fixed; `"transients"` shows transient
    iterations by topology and nodes, and how they grow. A pivot table over steps that has `within`
    also shows from which length of training a row is within so many points of `compare`.

    Attributes:
        kind: what is shown: a mean a cell, the costs and rates of each graph, or transients.
        title: its heading.
        rows: config keys, each value of which is a row.
        column: the config key whose values are the columns.
        metrics: what the cells show, a table for each.
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
    within: float | None = Field(None, gt=0, le=100, description="points; columns are steps")


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
        short: config key -> values: the runs of its short version; all, if it names none.
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
    short: dict[str, list[Any]] = {}

    @property
    def title(self) -> str:
        """The table's title, or the name where there is no table."""
        return self.table.title if self.table else self.name

    @property
    def required_table(self) -> Table:
        """The table, where it is known that there is one."""
        assert self.table is not None, f"{self.name} has no table"
        return self.table

    @property
    def group(self) -> str:
        """The name that an experiment has in common with the same at another scale."""
        return self.scale_of or self.name


class ExperimentFile(Strict):
    """The TOML file of an experiment, before its sweeps are expanded.

    Attributes:
        kind: what the file is: other TOML files of the folder name another kind.
        name: the folder of its results.
        scale: whether a laptop is enough, or the paper's machines and data are needed.
        scale_of: the experiment of which this is the same at another scale.
        command: what makes it; by default `expograph sweep` and the file.
        run: what all its runs share.
        sweep: blocks of lists; each block is all combinations of its values.
        table: what the runs become.
    """

    kind: Literal["experiment"] = "experiment"
    name: str = Field(pattern=r"^[a-z0-9][a-z0-9_]*$", max_length=100)
    scale: Scale = "laptop"
    scale_of: str | None = None
    command: Line | None = Field(None, max_length=1000)
    step_sizes: Line | None = Field(None, max_length=100, description="of step_sizes.toml")
    tunes: Line | None = Field(None, max_length=100, description="the entry it chooses there")
    short: dict[str, list[Any]] = Field({}, description="keys and values: the runs of --short")
    run: dict[str, Any]
    sweep: list[dict[str, list[Any]]] = Field([], max_length=1000)
    table: Table | None = None

    @field_validator("name")
    @classmethod
    def _free(cls, value: str) -> str:
        if value in RESERVED:
            raise ValueError(f"{value!r} is taken by the results' own folders")
        return value
