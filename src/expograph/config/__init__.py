"""Configs: a TOML file -> an experiment, which is a list of fully resolved, frozen runs.

    name = "table2"             # where its results go: results/<name>/
    [run]                       # what every run shares; keys of `Run`
    [[sweep]]                   # lists of values, all combinations; several blocks are joined
    topology = ["ring", "static_exponential"]
    seed = [0, 1, 2]
    "nodes, steps" = [[8, 100], [16, 400]]    # keys that go together

Dotted keys ("problem.model") reach into the problem. `epochs`, `warmup_epochs`, `decay_epochs`
and `evaluate_epochs` are turned into steps: an epoch is every training image once, over all
workers. Anything unknown, mistyped or impossible is one `ConfigError` line that names the file
and the key, before anything runs.
"""

import hashlib
import itertools
import json
import math
import tomllib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, Union, get_args

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    field_validator,
    model_validator,
)

from expograph import algorithms
from expograph.data.partition import PARTITIONS
from expograph.engines import ENGINES
from expograph.graphs.topology import TOPOLOGIES
from expograph.names import closest, known
from expograph.networks import MODELS
from expograph.networks.detectors import DETECTORS

Model = TypeVar("Model", bound=BaseModel)
ALGORITHMS = {name: rule() for name, rule in algorithms.ALGORITHMS.items()}


SIZES = {  # training images, for configs that count in epochs
    "fashion_mnist": 60_000,
    "digits": 1_438,
    "cifar10": 50_000,
    "imagenet": 1_281_167,
    "fashion_scenes": 4_000,
    "voc": 16_551,
    "coco": 117_266,
}
SCENES = ("fashion_scenes", "voc", "coco")  # data sets of boxes
FOLDERS = ("imagenet",)  # those that stay on disk, photographs of any size
BATCH_NORM = {"resnet8_bn", "resnet20", "resnet56", "resnet50", "mobilenet_v2", "efficientnet_b0"}


class ConfigError(Exception):
    """A config that cannot be run; its message is one line for the user."""


METRICS = {  # what a table may show, and how it is headed
    "accuracy_averaged": "test accuracy (%) of the averaged model",
    "accuracy_worker_mean": "test accuracy (%), mean over the local models",
    "accuracy_worker_worst": "test accuracy (%) of the worst local model",
    "accuracy_worker_best": "test accuracy (%) of the best local model",
    "map_50": "mAP (%) at IoU 0.5 of the averaged model",
    "map": "mAP (%) over IoU 0.5 to 0.95 of the averaged model",
    "map_50_worker_mean": "mAP (%) at IoU 0.5, mean over the local models",
    "map_50_worker_worst": "mAP (%) at IoU 0.5 of the worst local model",
    "test_loss_averaged": "test cross-entropy of the averaged model",
    "train_loss": "training loss of the last step, mean over the workers",
    "consensus_distance": "consensus distance, 1/n sum of |x_i - x_bar|^2",
    "error_workers": "1/n sum of |x_i - x*|^2",
    "error_averaged": "|x_bar - x*|^2",
    "suboptimality": "f(x_bar) - f(x*)",
    "error_workers_over_psgd": "1/n sum of |x_i - x*|^2 over parallel SGD's",
    "error_averaged_over_psgd": "|x_bar - x*|^2 over parallel SGD's",
}
RESERVED = (  # folders of results/ that are no experiment's
    "runs",
    "running",
    "tensorboard",
    "figures",
    "report",
    "bench",
    "bench_comm",
    "engines",
    "cost_model",
    "dry_run",
    *("index", "claims", "costs", "topologies"),  # pages of the report
)


class _Strict(BaseModel):
    """Frozen, no unknown keys, no silent conversions ("1e-3" is not a number, true is not 1)."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


class _Synthetic(_Strict):
    """What the two synthetic problems share."""

    dim: int = Field(10, ge=1)
    heterogeneity: float = Field(0.0, ge=0, description="std of each worker's true weights")
    shared_data: bool = Field(False, description="every worker holds the same samples")
    noise: float = Field(1.0, ge=0, description="std of the gradient noise, per coordinate")

    @model_validator(mode="after")
    def _shared_is_homogeneous(self) -> "_Synthetic":
        if self.shared_data and self.heterogeneity:
            raise ValueError("shared_data leaves no room for heterogeneity: set one of them")
        return self


class Logistic(_Synthetic):
    """Logistic regression on synthetic data, full local gradients plus Gaussian noise.

    The paper's own settings were not available to us; these follow published code of the same
    group (d = 10, N(0, I) features, labels drawn from the logistic model).
    """

    kind: Literal["logistic"]
    samples: int = Field(100, ge=1, description="per worker")
    l2: float = Field(0.01, gt=0, description="makes the minimiser unique")


class LeastSquares(_Synthetic):
    """Linear least squares on synthetic data, full local gradients plus Gaussian noise."""

    kind: Literal["least_squares"]
    samples: int = Field(50, ge=1, description="per worker")
    label_noise: float = Field(0.1, ge=0)

    @model_validator(mode="after")
    def _unique_minimiser(self) -> "LeastSquares":
        if self.samples < self.dim:
            raise ValueError("samples must be at least dim, or there is no unique minimiser")
        return self


class _Sharded(_Strict):
    """What the problems on real images share: the data divided over the workers."""

    dataset: str
    model: str
    partition: str = "iid"
    alpha: float | None = Field(None, gt=0, description="of the Dirichlet partition")
    batch_size: int = Field(32, ge=1, description="samples per worker per gradient")
    weight_decay: float = Field(0.0, ge=0, description="on matrices only, not on biases or norms")

    @field_validator("partition")
    @classmethod
    def _partition(cls, value: str) -> str:
        return known("partition", value, PARTITIONS)

    @model_validator(mode="after")
    def _alpha_with_dirichlet(self) -> "_Sharded":
        if (self.partition == "dirichlet") != (self.alpha is not None):
            raise ValueError("alpha goes with partition = 'dirichlet', and only with it")
        return self


class Classification(_Sharded):
    """Images, divided over the workers; cross-entropy; mini-batches without replacement."""

    kind: Literal["classification"]
    accumulation: int = Field(1, ge=1, description="gradients averaged per worker per step")
    augment: Literal["none", "crop_flip", "resized_crop_flip"] = "none"
    image_size: int | None = Field(None, ge=32, description="side, for data sets of any size: 224")

    @field_validator("dataset")
    @classmethod
    def _dataset(cls, value: str) -> str:
        return known("dataset", value, [name for name in SIZES if name not in SCENES])

    @field_validator("model")
    @classmethod
    def _model(cls, value: str) -> str:
        return known("model", value, MODELS)

    @model_validator(mode="after")
    def _fitting_images(self) -> "Classification":
        if self.model in BATCH_NORM and self.batch_size < 2:
            raise ValueError("batch norm needs a batch_size of at least 2")
        fitting = "resized_crop_flip" if self.dataset in FOLDERS else "crop_flip"
        if self.augment not in ("none", fitting):
            raise ValueError(f"augment for {self.dataset} is 'none' or {fitting!r}")
        if self.image_size and self.dataset not in FOLDERS:
            raise ValueError(f"image_size: the images of {self.dataset} have a size of their own")
        return self


class Detection(_Sharded):
    """Boxes around objects; the sum of a detector's losses."""

    kind: Literal["detection"]
    flip: bool = Field(False, description="mirror each training image with probability 1/2")
    backbone_weights: str | None = Field(None, description="a state_dict of torchvision's resnet50")
    min_size: int = Field(800, ge=32, description="pixels of an image's shorter side")
    max_size: int = Field(1333, ge=32, description="most pixels of its longer side")

    @field_validator("dataset")
    @classmethod
    def _dataset(cls, value: str) -> str:
        return known("dataset", value, SCENES)

    @field_validator("model")
    @classmethod
    def _model(cls, value: str) -> str:
        return known("model", value, DETECTORS)

    @model_validator(mode="after")
    def _fitting_model(self) -> "Detection":
        small = self.model.endswith("_small")
        if small != (self.dataset == "fashion_scenes"):
            raise ValueError(f"model: {self.model} is not made for the images of {self.dataset}")
        theirs = ("backbone_weights", "min_size", "max_size")
        fields = Detection.model_fields
        if small and any(getattr(self, name) != fields[name].default for name in theirs):
            raise ValueError(
                "backbone_weights, min_size and max_size are for the ResNet-50 detectors"
            )
        if self.min_size > self.max_size:
            raise ValueError("min_size must not be above max_size")
        return self


KINDS = (Logistic, LeastSquares, Classification, Detection)
GIVERS = {  # first word of a metric -> the problems that give it; what is not here all give
    "accuracy": Classification,
    "test": Classification,
    "map": Detection,
    "error": _Synthetic,
    "suboptimality": _Synthetic,
}
Problem = Annotated[Union[KINDS], Field(discriminator="kind")]  # noqa: UP007


class Run(_Strict):
    """One run, fully resolved. Equal runs have equal keys and give equal numbers.

    The step size is per worker; it grows with the number of nodes only if `lr_scale` says so.
    """

    problem: Problem
    topology: str
    nodes: int = Field(ge=1, description="what the topology connects")
    local_size: int = Field(1, ge=1, description="ranks a node: the GPUs of a server")
    algorithm: str
    steps: int = Field(ge=1)
    lr: float = Field(gt=0, description="per worker, before lr_scale")
    lr_scale: Literal["none", "nodes", "ranks", "sqrt_nodes"] = Field("none", description="of lr")
    beta: float = Field(0.0, ge=0, lt=1, description="momentum")
    warmup_steps: int = Field(0, ge=0, description="linear, from lr / warmup_steps to lr")
    decay: Literal["constant", "cosine", "step", "inverse", "inverse_sqrt"] = "constant"
    decay_steps: list[int] = Field([], description="step: where lr drops; inverse: its scale")
    decay_factor: float = Field(0.1, gt=0, lt=1, description="step: lr is multiplied by it")
    seed: int = Field(0, ge=0, lt=2**32)
    record_every: int = Field(10, ge=1)
    evaluate_every: int | None = Field(None, ge=1, description="None: at the end only")
    engine: str = "embedded"
    device: Literal["cpu", "cuda"] = "cpu"

    @field_validator("topology")
    @classmethod
    def _topology(cls, value: str) -> str:
        return known("topology", value, TOPOLOGIES)

    @field_validator("algorithm")
    @classmethod
    def _algorithm(cls, value: str) -> str:
        return known("algorithm", value, ALGORITHMS)

    @field_validator("engine")
    @classmethod
    def _engine(cls, value: str) -> str:
        return known("engine", value, ENGINES)

    @model_validator(mode="after")
    def _possible(self) -> "Run":
        algorithm = ALGORITHMS[self.algorithm]
        if algorithm.exact and self.topology != "fully_connected":
            raise ValueError(f"{self.algorithm} averages exactly: topology must be fully_connected")
        if self.engine == "horovod" and self.topology != "fully_connected":
            raise ValueError(
                "engine = 'horovod' averages exactly: topology must be fully_connected"
            )
        if self.beta and not algorithm.momentum:
            raise ValueError(f"{self.algorithm} has no momentum: beta must be 0")
        if self.warmup_steps >= self.steps:
            raise ValueError("warmup_steps must be smaller than steps")
        if self.evaluate_every and self.evaluate_every % self.record_every:
            raise ValueError("evaluate_every must be a multiple of record_every")
        if self.decay == "step" and not self.decay_steps:
            raise ValueError("decay = 'step' needs decay_steps, the steps where lr drops")
        if self.decay.startswith("inverse") and len(self.decay_steps) != 1:
            raise ValueError(f"decay = {self.decay!r} needs decay_steps = [scale]")
        if self.decay in ("constant", "cosine") and self.decay_steps:
            raise ValueError(f"decay = {self.decay!r} takes no decay_steps")
        if (
            any(k < 1 for k in self.decay_steps)
            or sorted(set(self.decay_steps)) != self.decay_steps
        ):
            raise ValueError("decay_steps must be positive and increasing")
        if self.decay != "step" and "decay_factor" in self.model_fields_set:
            if self.decay_factor != Run.model_fields["decay_factor"].default:
                raise ValueError("decay_factor goes with decay = 'step', and only with it")
        if self.decay == "step" and not self.warmup_steps <= self.decay_steps[0] < self.steps:
            raise ValueError("decay_steps must lie between warmup_steps and steps")
        return self

    @property
    def ranks(self) -> int:
        """Workers, each with its own data: nodes x local_size."""
        return self.nodes * self.local_size

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
        problem = getattr(self.problem, "model", self.problem.kind)
        where = f"{self.topology}, {self.nodes} nodes"
        if self.local_size > 1:
            where += f" of {self.local_size} ranks"
        if self.engine != "embedded":
            where += f", {self.engine}"
        return f"{self.algorithm} on {where}, {problem}, seed {self.seed} (run {self.key})"


class Table(_Strict):
    """How an experiment's runs become one table: a row and a column for each value of these keys.

    `kind = "theory"` is Table 1, whose columns are fixed (`report.tables`); `"transients"` shows
    transient iterations by topology and nodes, and how they grow.
    """

    kind: Literal["pivot", "theory", "transients"] = "pivot"
    title: str
    rows: list[str] = Field(["topology"], min_length=1)
    column: str = "nodes"
    metrics: list[str] = Field(["accuracy_averaged"], min_length=1)
    published: str | None = Field(None, description="a table of configs/published.toml")
    notes: list[str] = Field([], description="printed below the table")
    factor: float = Field(1.5, gt=1, description="transients: how near parallel SGD is near")
    compare: dict[str, str] = Field({}, description="the row others are compared with, by seed")


class Experiment(BaseModel):
    """A config file, resolved: its runs in order, without repetition."""

    model_config = ConfigDict(frozen=True)

    name: str
    path: Path
    runs: list[Run]
    table: Table | None = None


class _File(_Strict):
    name: str = Field(pattern=r"^[a-z0-9][a-z0-9_]*$")
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
    file = _checked(path, _File, read_toml(path))
    blocks: list[dict[str, list[Any]]] = [dict(block) for block in file.sweep] or [{}]
    base = dict(file.run)
    for key, value in map(_parse_override, overrides):
        for block in blocks:
            # parallel SGD, the reference of a table, has the one topology it can have
            spared = key == "topology" and value != "fully_connected"
            if not (spared and _averages_exactly(block, base)):
                for swept in [s for s in block if key in _keys(s)]:
                    del block[swept]
        for epochs in (e for e, steps in EPOCHS.items() if steps == key):
            base.pop(epochs, None)
        if isinstance(value, list) and key not in ("decay_steps", "decay_epochs"):
            blocks = [block if key in block else {**block, key: value} for block in blocks]
        else:
            base = _with(base, key, value)
    runs: dict[str, Run] = {}
    for block in blocks:
        for key, values in block.items():
            if not values:
                raise ConfigError(f"{path}: sweep.{key}: an empty list sweeps nothing")
        for values in itertools.product(*block.values()):
            resolved = base
            for swept, value in zip(block, values, strict=True):
                keys = _keys(swept)
                together = value if len(keys) > 1 else [value]
                if not isinstance(together, list) or len(together) != len(keys):
                    raise ConfigError(
                        f"{path}: sweep.{swept}: expected {len(keys)} values, got {value!r}"
                    )
                for key, part in zip(keys, together, strict=True):
                    resolved = _with(resolved, key, part)
            run = _checked(path, Run, _in_steps(path, resolved))
            runs.setdefault(run.key, run)
    _check_table(path, file, list(runs.values()))
    return Experiment(name=file.name, path=path, runs=list(runs.values()), table=file.table)


def read_toml(path: Path) -> dict[str, Any]:
    """What a TOML file holds.

    Raises:
        ConfigError: one line naming the file, if it cannot be read or is no TOML.
    """
    try:
        return tomllib.loads(path.read_text())
    except OSError as e:
        raise ConfigError(f"{path}: {e.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as e:
        raise ConfigError(f"{path}: not valid TOML: {e}") from None


def _keys(swept: str) -> list[str]:
    """The keys that a key of a sweep's block sets: `"nodes, steps"` sets two."""
    return [key.strip() for key in swept.split(",")]


EPOCHS = {  # what counts epochs -> what counts steps in its place
    "epochs": "steps",
    "warmup_epochs": "warmup_steps",
    "decay_epochs": "decay_steps",
    "evaluate_epochs": "evaluate_every",
}


def _in_steps(path: Path, values: dict[str, Any]) -> dict[str, Any]:
    """`values` of a run with what counts epochs turned into steps.

    An epoch is N / (workers * batch_size * accumulation) steps, N the data set's training images.
    """
    given = {key: values[key] for key in EPOCHS if key in values}
    if not given:
        return values
    problem = values.get("problem")
    problem = problem if isinstance(problem, dict) else {}
    if str(problem.get("dataset")) not in SIZES:
        raise ConfigError(f"{path}: run.{next(iter(given))}: epochs are of {', '.join(SIZES)} only")
    workers = [values.get("nodes"), values.get("local_size", 1)]
    batch = [problem.get("batch_size", 32), problem.get("accumulation", 1)]
    if not all(isinstance(v, int) and v > 0 for v in (*workers, *batch)):
        return values  # what is wrong with them is said by their own keys
    epoch = SIZES[problem["dataset"]] / math.prod((*workers, *batch))
    rest = {key: value for key, value in values.items() if key not in given}
    for key, value in given.items():
        numbers = value if isinstance(value, list) else [value]
        if not all(_is_number(v) for v in numbers):
            raise ConfigError(f"{path}: run.{key}: expected numbers of epochs, got {value!r}")
        if EPOCHS[key] in rest:
            raise ConfigError(f"{path}: run.{key}: give it or {EPOCHS[key]}, not both")
        steps = [math.ceil(v * epoch) for v in numbers]
        rest[EPOCHS[key]] = steps if isinstance(value, list) else steps[0]
    if (every := given.get("evaluate_epochs")) is not None:
        if isinstance(every, list) or every <= 0:
            raise ConfigError(f"{path}: run.evaluate_epochs: expected a positive number")
        record = rest.get("record_every", Run.model_fields["record_every"].default)
        if _is_number(record) and record > 0:  # else its own key says what is wrong with it
            rest["evaluate_every"] = record * max(1, round(every * epoch / record))
    return rest


def _is_number(value: object) -> bool:
    """A finite number; TOML knows true and inf."""
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _averages_exactly(block: dict[str, list[Any]], base: dict[str, Any]) -> bool:
    names = block.get("algorithm", [base.get("algorithm")])
    return all(name in ALGORITHMS and ALGORITHMS[name].exact for name in names)


def _check_table(path: Path, file: _File, runs: list[Run]) -> None:
    """Everything about the table that could otherwise fail only after the training."""

    def check(where: str, kind: str, name: str, names: Iterable[str]) -> None:
        try:
            known(kind, name, names)
        except ValueError as e:
            raise ConfigError(f"{path}: {where}: {e}") from None

    if file.name in RESERVED:
        raise ConfigError(f"{path}: name: {file.name!r} is taken by the results' own folders")
    if file.table is None:
        return
    keys = {
        *Run.model_fields,
        *(f"problem.{key}" for run in runs for key in type(run.problem).model_fields),
    } - {"problem"}
    for key in (*file.table.rows, file.table.column):
        check("table.rows and column", "key", key, sorted(keys))
    for metric in file.table.metrics:
        check("table.metrics", "metric", metric, METRICS)
        giver = GIVERS.get(metric.split("_")[0])
        if giver and not all(isinstance(run.problem, giver) for run in runs):
            raise ConfigError(f"{path}: table.metrics: not every run's problem gives {metric!r}")
    if file.table.published:
        tables = read_toml(published_numbers(path))
        check("table.published", "table", file.table.published, tables)
    for key in file.table.compare:
        check("table.compare", "key", key, file.table.rows)
    if file.table.kind != "pivot":
        if any(isinstance(run.problem, _Sharded) for run in runs):
            raise ConfigError(
                f"{path}: table.kind: transients need problems with a known minimiser"
            )
        if (metric := file.table.metrics[0]).endswith("_over_psgd"):
            plain = metric.removesuffix("_over_psgd")
            raise ConfigError(f"{path}: table.metrics: transients are of {plain!r} itself")
        if all(ALGORITHMS[run.algorithm].exact for run in runs):
            raise ConfigError(f"{path}: table.kind: transients need runs beside parallel SGD")


def published_numbers(config: Path) -> Path:
    """The file of numbers published elsewhere that belongs to a config: beside it."""
    return config.with_name("published.toml")


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
    key, equals, text = word.removeprefix("run.").partition("=")
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
    kind = problem.get("kind") if isinstance(problem, dict) else None
    kinds = {get_args(k.model_fields["kind"].annotation)[0]: k for k in KINDS}
    inner = kinds[kind].model_fields if isinstance(kind, str) and kind in kinds else {}
    allowed = list(model.model_fields)
    if model is Run:
        allowed = [f"run.{name}" for name in (*Run.model_fields, *EPOCHS)]
        allowed += [f"run.problem.{name}" for name in inner]
    elif where[0] == "table":
        allowed = [f"table.{name}" for name in Table.model_fields]
    by_last = {name.rsplit(".", 1)[-1]: name for name in allowed}
    near = closest(where[-1], by_last)
    return f"; did you mean {by_last[near]}?" if near else f"; known: {', '.join(allowed)}"
