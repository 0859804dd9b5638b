"""Short runs of the laptop's configs, by which changed code is compared with older code.

    results/equivalent/<fingerprint>.json

is a reference: what the short runs gave by the code with that fingerprint, and which kinds of runs
there were. A comparison repeats them. Parameters are compared by their norms and by random
projections, a few numbers a worker.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from itertools import product
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from torch import Tensor

from expograph.config import Experiment, Run
from expograph.config.schema import KEY_SCHEMA, MEANS_SINCE
from expograph.files import DamagedFile, replace_text
from expograph.problems import Problem
from expograph.runs.assemble import assemble
from expograph.runs.cores import cores
from expograph.runs.estimate import cost
from expograph.runs.fingerprint import fingerprint, modules
from expograph.runs.provenance import provenance
from expograph.runs.worker import end_with_parent
from expograph.validation import first_mistake

FOLDER = "equivalent"  # under the results
STEPS, EARLY = 100, 10  # of a short run; where its parameters are compared
PROJECTIONS = 8
NUDGES = (1, 2, 3, 4)  # starts that are a last bit apart
SLACK = STEPS**0.5  # other code rounds otherwise at every step, a nudge is of one: they add up so
RELATIVE, POINTS, PARAMETERS = 1e-5, 0.05, 1e-5  # of losses and distances; accuracies; |x|
ROUNDING = 1e-12  # of |x|^2: a consensus distance below it is the rounding of equal models
PERCENT = ("accuracy", "map")  # first words of metrics in points
UNCOMPARED = ("train_seconds", "step")


class Measured(BaseModel):
    """What a short run gave.

    Attributes:
        run: its config, as far as it differs from the defaults.
        code: fingerprint of the code that it depends on.
        metrics: of its last record.
        norms: (R,) |x_i| after `EARLY` steps.
        projections: (R, PROJECTIONS) of x_i on vectors of random signs, over sqrt(d).
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    run: dict[str, Any]
    code: str
    metrics: dict[str, float]
    norms: list[float]
    projections: list[list[float]]


class Kind(BaseModel):
    """A run of some config that stands for all with the same fingerprint."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    run: dict[str, Any]
    code: str


class Reference(BaseModel):
    """A reference file.

    Attributes:
        code: fingerprint of the code of all runs.
        made: versions and machine.
        modules: fingerprint of each module's own code.
        kinds: of the runs of all configs, on every engine.
        measured: what the short runs gave.
        schema: the newest meaning of configs that the code knew (`Run.means_since`).
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    code: str
    made: dict[str, Any]
    modules: dict[str, str]
    kinds: list[Kind]
    measured: list[Measured]
    schema_: int = Field(KEY_SCHEMA, alias="schema")

    def still_means(self, run: Run) -> bool:
        """Whether a run of that code's time is the same run now."""
        return run.means_since <= self.schema_


class Difference(NamedTuple):
    """One quantity of a short run by both codes.

    Attributes:
        what: its name.
        old, new: values.
        apart: how far they are from each other, in the units of `within`.
        within: how far they may be.
    """

    what: str
    old: float
    new: float
    apart: float
    within: float

    @property
    def in_points(self) -> bool:
        """Whether they are accuracies, apart by points of a per cent."""
        return _in_points(self.what)

    @property
    def equal(self) -> bool:
        return self.apart <= self.within


def choose(experiments: Iterable[Experiment]) -> list[Run]:
    """Cheap short runs that have every config, algorithm, model and topology between them."""
    candidates = [
        ({("config", e.name), *_words(run)}, shortened(run)) for e in experiments for run in e.runs
    ]
    candidates.sort(key=lambda one: (cost(one[1]), one[1].algorithm == "psgd"))
    chosen: list[Run] = []
    covered: set[tuple[str, str]] = set()
    for words, short in candidates:
        if words - covered:
            chosen.append(short)
            covered |= words
    return chosen


def _words(run: Run) -> set[tuple[str, str]]:
    return {("algorithm", run.algorithm), ("topology", run.topology), ("model", run.trained)}


def shortened(run: Run) -> Run:
    """The run cut to `STEPS` steps, evaluated at its end; what counts steps is cut to fit."""
    changes: dict[str, Any] = {
        "steps": STEPS,
        "record_every": EARLY,
        "evaluate_every": None,
        "warmup_steps": min(run.warmup_steps, EARLY),
        "engine": "embedded",
    }
    if run.decay == "step":
        changes["decay_steps"] = [STEPS // 2]
    return Run.model_validate({**run.model_dump(), **changes})


def kinds(experiments: Iterable[Experiment], engines: Iterable[str]) -> list[Kind]:
    """One run for each fingerprint among those of the experiments, on every engine."""
    found: dict[str, Run] = {}
    for experiment in experiments:
        for run in experiment.runs:
            for engine in engines:
                there = run.model_copy(update={"engine": engine})
                found.setdefault(fingerprint(there), there)
    return [Kind(run=r.model_dump(exclude_defaults=True), code=c) for c, r in found.items()]


def measure(run: Run, nudge: int = 0) -> Measured:
    """Do a short run; with a nudge half of its initial model starts one last bit higher."""
    early, last = None, None
    parts = assemble(run)
    if nudge:
        x0, buffers = parts.problem.initial()
        higher = torch.rand(len(x0), generator=torch.Generator().manual_seed(nudge)) < 0.5
        x0 = torch.where(higher, x0.nextafter(torch.full_like(x0, torch.inf)), x0)
        parts = parts._replace(problem=_StartingAt(x0, buffers, parts.problem))
    for record in parts.records():
        last = record.values
        if record.step == EARLY:
            early = record.x.detach().cpu().double().numpy().copy()
    assert early is not None and last is not None, f"a run of less than {EARLY} steps"
    signs = np.random.default_rng(0).integers(0, 2, (early.shape[1], PROJECTIONS)) * 2.0 - 1
    projections = early @ signs / np.sqrt(early.shape[1])
    return Measured(
        run=run.model_dump(exclude_defaults=True),
        code=fingerprint(run),
        metrics={k: _rounded(v) for k, v in last.items() if k not in UNCOMPARED},
        norms=[_rounded(v) for v in np.linalg.norm(early, axis=1)],
        projections=[[_rounded(v) for v in row] for row in projections],
    )


class _StartingAt:
    """A problem as it is, but for its initial model and buffers."""

    def __init__(self, x0: Tensor, buffers: Tensor, problem: Problem) -> None:
        self._start, self._problem = (x0, buffers), problem

    def __getattr__(self, name: str) -> Any:
        return getattr(self._problem, name)

    def initial(self) -> tuple[Tensor, Tensor]:
        return self._start


def _rounded(value: float) -> float:
    return float(f"{value:.9g}")


def _begin() -> None:
    """What each process does first."""
    end_with_parent()
    torch.set_num_threads(1)


def measure_all(runs: Sequence[Run], nudges: Sequence[int] = (0,)) -> Iterator[Measured]:
    """`measure` each run with each nudge, one process a core, in the runs' order."""
    if not runs:
        return
    processes = min(cores(), len(runs) * len(nudges))
    with ProcessPoolExecutor(processes, get_context("spawn"), _begin) as pool:
        yield from pool.map(measure, *zip(*product(runs, nudges), strict=True))


def compare(old: Measured, new: Measured, nudged: Sequence[Measured] = ()) -> list[Difference]:
    """Every quantity of a short run by two codes; a metric that one of them lacks is NaN there.

    Args:
        nudged: the run by the newer code from models a last bit apart. Metrics after `STEPS` steps
            may then be apart by `SLACK` times what that does to them: training a network makes a
            rounding error larger, and no two orders of a sum agree in the last bit. Parameters
            after `EARLY` steps have no such allowance.
    """
    found = []
    squared = float(np.square(old.norms).mean())
    for name in dict.fromkeys((*old.metrics, *new.metrics)):
        a, b, *others = (m.metrics.get(name, float("nan")) for m in (old, new, *nudged))
        apart, within = _apart(name, a, b, squared)
        rounding = [SLACK * _apart(name, b, other, squared)[0] for other in others]
        found.append(Difference(name, a, b, apart, max([within, *rounding])))
    apart = _parameters_apart(old, new)
    where = f"parameters after {EARLY} steps, |x|"
    a, b = (float(np.mean(m.norms)) for m in (old, new))
    return [*found, Difference(where, a, b, apart, PARAMETERS)]


def _in_points(name: str) -> bool:
    return name.split("_")[0] in PERCENT


def _apart(name: str, a: float, b: float, squared: float) -> tuple[float, float]:
    """How far two values of a metric are apart, and how far equal code may be."""
    if name == "consensus_distance" and max(a, b) < ROUNDING * squared:
        return 0.0, RELATIVE
    if _in_points(name):
        return abs(a - b), POINTS
    return abs(a - b) / (max(abs(a), abs(b)) or 1.0), RELATIVE


def _parameters_apart(old: Measured, new: Measured) -> float:
    """The largest difference of a worker's norm or projection, in units of its norm."""
    a, b = (np.column_stack([m.norms, m.projections]) for m in (old, new))
    if a.shape != b.shape:
        return float("inf")
    return float((np.abs(a - b) / np.maximum(a[:, :1], 1e-300)).max())


def record(
    experiments: Sequence[Experiment], laptop: Sequence[Experiment], engines: Iterable[str]
) -> Reference:
    """Do the short runs of the laptop's experiments by the present code."""
    return Reference(
        code=fingerprint(),
        made=provenance(),
        modules=modules(),
        kinds=kinds(experiments, engines),
        measured=list(measure_all(choose(laptop))),
        schema=max(MEANS_SINCE.values()),
    )


def write(reference: Reference, root: Path) -> Path:
    """Write the file under the results; its path."""
    path = root / FOLDER / f"{reference.code}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    content = reference.model_dump(mode="json", by_alias=True)
    lines = ",\n".join(json.dumps(one) for one in content.pop("measured"))
    text = json.dumps(content, indent=1).removesuffix("\n}")
    replace_text(path, f'{text},\n "measured": [\n{lines}\n]}}\n')
    return path


def read(path: Path) -> Reference:
    """A reference file.

    Raises:
        DamagedFile: one line naming the file, if it is not there or damaged.
    """
    try:
        return Reference.model_validate_json(path.read_bytes())
    except OSError as e:
        raise DamagedFile(f"{path}: {e.strerror}") from None
    except ValidationError as e:
        raise DamagedFile(f"{path}: {first_mistake(e)}") from None


def pairs(reference: Reference) -> tuple[list[tuple[str, str]], dict[str, list[str]]]:
    """The fingerprints, older and newer, that a comparison without differences makes equivalent.

    A kind of runs counts if every module of it that changed is one that the short runs use too.

    Returns:
        The pairs, and for kinds that do not count: a label -> the modules that no short run uses.
    """
    used: set[str] = set()
    for one in reference.measured:
        if reference.still_means(run := Run.model_validate(one.run)):
            used |= modules(run).keys()
    found, uncovered = set(), {}
    for kind in reference.kinds:
        try:
            run = Run.model_validate(kind.run)
        except ValidationError:
            continue  # the present code knows no such runs
        if not reference.still_means(run):
            continue  # it has another key
        now = modules(run)
        changed = {name for name, code in now.items() if reference.modules.get(name) != code}
        if changed <= used:
            found.add((kind.code, fingerprint(run)))
        else:
            uncovered[run.label.rsplit(" (", 1)[0]] = sorted(changed - used)
    return sorted(pair for pair in found if pair[0] != pair[1]), uncovered
