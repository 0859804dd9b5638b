"""Configs: a TOML file -> an experiment, which is a list of fully resolved, frozen runs.

    name = "table2"             # where its results go: results/<name>/
    [run]                       # what every run shares; keys of `Run`
    [[sweep]]                   # lists of values, all combinations; several blocks are joined
    topology = ["ring", "static_exponential"]
    seed = [0, 1, 2]

Dotted keys ("problem.model") reach into the problem. Anything unknown, mistyped or impossible is
one `ConfigError` line that names the file and the key, before anything runs.
"""

import difflib
import hashlib
import itertools
import json
import tomllib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    field_validator,
    model_validator,
)

from expograph.algorithms import ALGORITHMS
from expograph.data import DATASETS
from expograph.models import MODELS
from expograph.partition import PARTITIONS
from expograph.topology import TOPOLOGIES

Model = TypeVar("Model", bound=BaseModel)


class ConfigError(Exception):
    """A config that cannot be run; its message is one line for the user."""


def _one_of(kind: str, known: Iterable[str], value: str) -> str:
    """`value` if it is known; otherwise a ValueError that suggests the closest name."""
    names = list(known)
    if value in names:
        return value
    close = difflib.get_close_matches(value, names, n=1)
    hint = f"did you mean {close[0]!r}? " if close else ""
    raise ValueError(f"unknown {kind} {value!r}; {hint}known: {', '.join(names)}")


class _Strict(BaseModel):
    """Frozen, no unknown keys, no silent conversions ("1e-3" is not a number, true is not 1)."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


class Logistic(_Strict):
    """Logistic regression on synthetic data, full local gradients plus Gaussian noise.

    The paper's own settings were not available to us; these follow published code of the same
    group (d = 10, N(0, I) features, labels drawn from the logistic model).
    """

    kind: Literal["logistic"]
    dim: int = Field(10, ge=1)
    samples: int = Field(100, ge=1, description="per worker")
    heterogeneity: float = Field(0.0, ge=0, description="std of each worker's true weights")
    shared_data: bool = Field(False, description="every worker holds the same samples")
    noise: float = Field(1.0, ge=0, description="std of the gradient noise, per coordinate")
    l2: float = Field(0.01, gt=0, description="makes the minimiser unique")


class LeastSquares(_Strict):
    """Linear least squares on synthetic data, full local gradients plus Gaussian noise."""

    kind: Literal["least_squares"]
    dim: int = Field(10, ge=1)
    samples: int = Field(50, ge=1, description="per worker")
    heterogeneity: float = Field(0.0, ge=0, description="std of each worker's true weights")
    shared_data: bool = Field(False, description="every worker holds the same samples")
    label_noise: float = Field(0.1, ge=0)
    noise: float = Field(1.0, ge=0, description="std of the gradient noise, per coordinate")


class Classification(_Strict):
    """Images, divided over the workers; cross-entropy; mini-batches without replacement."""

    kind: Literal["classification"]
    dataset: str
    model: str
    partition: str = "iid"
    alpha: float | None = Field(None, gt=0, description="of the Dirichlet partition")
    batch_size: int = Field(32, ge=1, description="samples per worker per step")
    weight_decay: float = Field(0.0, ge=0, description="on matrices only, not on biases or norms")

    @field_validator("dataset")
    @classmethod
    def _dataset(cls, value: str) -> str:
        return _one_of("dataset", DATASETS, value)

    @field_validator("model")
    @classmethod
    def _model(cls, value: str) -> str:
        return _one_of("model", MODELS, value)

    @field_validator("partition")
    @classmethod
    def _partition(cls, value: str) -> str:
        return _one_of("partition", PARTITIONS, value)

    @model_validator(mode="after")
    def _alpha_with_dirichlet(self) -> "Classification":
        if (self.partition == "dirichlet") != (self.alpha is not None):
            raise ValueError("alpha goes with partition = 'dirichlet', and only with it")
        return self


Problem = Annotated[Logistic | LeastSquares | Classification, Field(discriminator="kind")]


class Run(_Strict):
    """One run, fully resolved. Equal runs have equal keys and give equal numbers.

    The step size is per worker; it grows with the number of nodes only if `lr_scale` says so.
    """

    problem: Problem
    topology: str
    nodes: int = Field(ge=1)
    algorithm: str
    steps: int = Field(ge=1)
    lr: float = Field(gt=0, description="per worker, before lr_scale")
    lr_scale: Literal["none", "nodes", "sqrt_nodes"] = Field("none", description="factor on lr")
    beta: float = Field(0.0, ge=0, lt=1, description="momentum")
    warmup_steps: int = Field(0, ge=0, description="linear, from lr / warmup_steps to lr")
    decay: Literal["constant", "cosine", "step", "inverse", "inverse_sqrt"] = "constant"
    decay_steps: list[int] = Field([], description="step: where lr drops; inverse: its scale")
    decay_factor: float = Field(0.1, gt=0, lt=1, description="step: lr is multiplied by it")
    seed: int = Field(0, ge=0)
    record_every: int = Field(10, ge=1)
    evaluate_every: int | None = Field(None, ge=1, description="None: at the end only")
    engine: Literal["embedded"] = "embedded"
    device: Literal["cpu", "cuda"] = "cpu"

    @field_validator("topology")
    @classmethod
    def _topology(cls, value: str) -> str:
        return _one_of("topology", TOPOLOGIES, value)

    @field_validator("algorithm")
    @classmethod
    def _algorithm(cls, value: str) -> str:
        return _one_of("algorithm", ALGORITHMS, value)

    @model_validator(mode="after")
    def _possible(self) -> "Run":
        algorithm = ALGORITHMS[self.algorithm]
        if algorithm.exact and self.topology != "fully_connected":
            raise ValueError(f"{self.algorithm} averages exactly: topology must be fully_connected")
        if self.beta and not algorithm.momentum:
            raise ValueError(f"{self.algorithm} has no momentum: beta must be 0")
        if self.warmup_steps >= self.steps:
            raise ValueError("warmup_steps must be smaller than steps")
        if self.decay == "step" and not self.decay_steps:
            raise ValueError("decay = 'step' needs decay_steps, the steps where lr drops")
        if self.decay.startswith("inverse") and len(self.decay_steps) != 1:
            raise ValueError(f"decay = {self.decay!r} needs decay_steps = [scale]")
        if self.decay in ("constant", "cosine") and self.decay_steps:
            raise ValueError(f"decay = {self.decay!r} takes no decay_steps")
        if any(k < 1 for k in self.decay_steps) or sorted(self.decay_steps) != self.decay_steps:
            raise ValueError("decay_steps must be positive and increasing")
        return self

    @property
    def key(self) -> str:
        """16 hex digits that identify the run: the hash of all its resolved values."""
        return hashlib.sha256(self.canonical().encode()).hexdigest()[:16]

    def canonical(self) -> str:
        """The resolved values as JSON with sorted keys, the text that `key` hashes."""
        return json.dumps(self.model_dump(), sort_keys=True)

    @property
    def label(self) -> str:
        """A short name for people: progress lines and error messages."""
        return f"{self.algorithm} on {self.topology}, {self.nodes} nodes, seed {self.seed}"


class Table(_Strict):
    """How an experiment's runs become one table: a row and a column for each value of these keys.

    `kind = "theory"` is Table 1, whose columns are fixed (`report.tables`).
    """

    kind: Literal["pivot", "theory"] = "pivot"
    title: str
    rows: list[str] = ["topology"]
    column: str = "nodes"
    metrics: list[str] = Field(["accuracy_averaged"], min_length=1)
    published: str | None = Field(None, description="a table of configs/published.toml")
    notes: list[str] = Field([], description="printed below the table")
    factor: float = Field(1.5, gt=1, description="theory: how near parallel SGD is near")


class Experiment(BaseModel):
    """A config file, resolved: its runs in order, without repetition."""

    model_config = ConfigDict(frozen=True)

    name: str
    path: Path
    runs: list[Run]
    table: Table | None = None


class _File(_Strict):
    name: str = Field(pattern=r"^[a-z0-9_]+$")
    run: dict[str, Any]
    sweep: list[dict[str, list[Any]]] = []
    table: Table | None = None


def load(path: Path | str, overrides: Sequence[str] = ()) -> Experiment:
    """Read and check a config file.

    Args:
        path: the TOML file.
        overrides: `key=value` words; the key is one of `[run]`, dotted for the problem's. A list
            `key=[a,b]` sweeps; a key that the file sweeps is replaced in every block.
    Raises:
        ConfigError: one line naming file and key.
    """
    path = Path(path)
    try:
        content = tomllib.loads(path.read_text())
    except OSError as e:
        raise ConfigError(f"{path}: {e.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as e:
        raise ConfigError(f"{path}: not valid TOML: {e}") from None
    file = _checked(path, _File, content)
    blocks: list[dict[str, list[Any]]] = [dict(block) for block in file.sweep] or [{}]
    base = dict(file.run)
    for key, value in map(_parse_override, overrides):
        for block in blocks:
            block.pop(key, None)
        if isinstance(value, list) and key != "decay_steps":
            blocks = [{**block, key: value} for block in blocks]
        else:
            base = _with(base, key, value)
    runs: dict[str, Run] = {}
    for block in blocks:
        for key, values in block.items():
            if not values:
                raise ConfigError(f"{path}: sweep.{key}: an empty list sweeps nothing")
        for values in itertools.product(*block.values()):
            resolved = base
            for key, value in zip(block, values, strict=True):
                resolved = _with(resolved, key, value)
            run = _checked(path, Run, resolved)
            runs.setdefault(run.key, run)
    return Experiment(name=file.name, path=path, runs=list(runs.values()), table=file.table)


def _with(values: dict[str, Any], key: str, value: Any) -> dict[str, Any]:
    """A copy of `values` with the dotted `key` set."""
    head, _, rest = key.partition(".")
    if not rest:
        return {**values, head: value}
    inner = values.get(head, {})
    if not isinstance(inner, dict):
        raise ConfigError(f"override {key}: {head} is not a table")
    return {**values, head: _with(inner, rest, value)}


def _parse_override(word: str) -> tuple[str, Any]:
    key, equals, text = word.partition("=")
    if not equals or not key:
        raise ConfigError(f"override {word!r}: expected key=value, as in topology=ring nodes=16")
    try:
        return key, tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        bare = text.strip()
        if bare.startswith("[") and bare.endswith("]"):  # a list of bare words: [ring,grid]
            return key, [_parse_override(f"_={item.strip()}")[1] for item in bare[1:-1].split(",")]
        return key, bare


def _checked(path: Path, model: type[Model], values: dict[str, Any]) -> Model:
    """`model` built from `values`, or a ConfigError made of pydantic's first finding."""
    try:
        return model.model_validate(values)
    except ValidationError as e:
        # a misspelt key is also a missing one: the misspelling is what helps
        error = min(e.errors(), key=lambda error: error["type"] != "extra_forbidden")
        where = [str(part) for part in error["loc"]]
        if len(where) > 1 and where[0] == "problem":
            where.pop(1)  # pydantic puts the chosen kind into the path
        if model is Run:
            where.insert(0, "run")
        message = error["msg"].removeprefix("Value error, ")
        if error["type"] == "extra_forbidden":
            message = "unknown key" + _suggestion(model, where, values)
        elif error["type"] != "value_error" and not isinstance(error["input"], dict):
            message += f", got {error['input']!r}"
        raise ConfigError(f"{path}: {'.'.join(where)}: {message}") from None


def _suggestion(model: type[BaseModel], where: list[str], values: dict[str, Any]) -> str:
    """The closest key that is allowed where an unknown one stood, and where it belongs."""
    problem = values.get("problem")
    kinds = {"logistic": Logistic, "least_squares": LeastSquares, "classification": Classification}
    kind = kinds.get(problem.get("kind", "")) if isinstance(problem, dict) else None
    allowed = {name: name for name in model.model_fields}
    if model is Run:
        allowed = {name: f"run.{name}" for name in Run.model_fields}
        allowed |= {name: f"run.problem.{name}" for name in (kind.model_fields if kind else {})}
    elif where[0] == "table":
        allowed = {name: f"table.{name}" for name in Table.model_fields}
    close = difflib.get_close_matches(where[-1], allowed, n=1)
    return f"; did you mean {allowed[close[0]]}?" if close else f"; known: {', '.join(allowed)}"
