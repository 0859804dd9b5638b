"""What counts epochs, turned into steps: an epoch is every training image once, over all workers.

It takes N / (nodes * local_size * batch_size * accumulation) steps, N the training images that
are not held out.
"""

import math
from pathlib import Path
from typing import Any, NoReturn

from expograph.config.errors import ConfigError, quoted
from expograph.config.facts import DATASETS
from expograph.config.schema import MOST_RANKS, MOST_STEPS, Run

EPOCHS = {  # what counts epochs -> what counts steps in its place
    "epochs": "steps",
    "warmup_epochs": "warmup_steps",
    "decay_epochs": "decay_steps",
    "evaluate_epochs": "evaluate_every",
}
LISTS = ("decay_epochs",)


def in_steps(path: Path, values: dict[str, Any]) -> dict[str, Any]:
    """The values of a run, unchecked, with what counts epochs turned into steps.

    Raises:
        ConfigError: if they cannot be: no data set, not a number, given in steps too.
    """
    given = {key: values[key] for key in EPOCHS if key in values}
    if not given:
        return values
    rest = {key: value for key, value in values.items() if key not in given}
    problem = values.get("problem")
    problem = problem if isinstance(problem, dict) else {}
    dataset = problem.get("dataset")
    sizes = {name: facts.size for name, facts in DATASETS.items() if facts.size is not None}
    if dataset not in list(sizes):  # which may be no text, and not even hashable
        _refuse(path, next(iter(given)), f"epochs are of {', '.join(sizes)} only; give steps")
    for key, value in given.items():
        if EPOCHS[key] in rest:
            _refuse(path, key, f"give it or {EPOCHS[key]}, not both")
        _check(path, key, value)
    batch = [problem.get("batch_size", 32), problem.get("accumulation", 1)]
    workers = [values.get("nodes"), values.get("local_size", 1)]
    held_out, size = problem.get("held_out", 0), sizes[dataset]
    counts = all(type(v) is int and 0 < v <= MOST_RANKS for v in (*workers, *batch))
    if not counts or type(held_out) is not int or not 0 <= held_out < size:
        # the check of the run says which of them is wrong; it needs some steps to get that far
        return {"steps": 1, **rest}
    epoch = (size - held_out) / math.prod((*workers, *batch))
    for key, value in given.items():
        if key == "evaluate_epochs":
            rest |= _evaluation(path, value, epoch, rest)
        else:
            steps = [_steps(path, key, v, epoch) for v in _numbers(value)]
            rest[EPOCHS[key]] = steps if key in LISTS else steps[0]
    return rest


def _numbers(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _check(path: Path, key: str, value: Any) -> None:
    """Refuse what is no number of epochs, or no list of them where a list is wanted."""
    if isinstance(value, list) != (key in LISTS):
        what = "a list of numbers" if key in LISTS else "a number"
        _refuse(path, key, f"expected {what} of epochs, got {quoted(value)}")
    for number in _numbers(value):
        finite = isinstance(number, int | float) and abs(number) < math.inf
        if not finite or isinstance(number, bool):
            _refuse(path, key, f"expected numbers of epochs, got {quoted(value)}")
        if number < 0 or (number == 0 and key != "warmup_epochs"):
            least = "0 or a positive" if key == "warmup_epochs" else "a positive"
            _refuse(path, key, f"expected {least} number of epochs, got {quoted(number)}")


def _steps(path: Path, key: str, epochs: float, epoch: float) -> int:
    if epochs > MOST_STEPS / epoch:
        _refuse(path, key, f"{quoted(epochs)} epochs are more than {MOST_STEPS} steps")
    return math.ceil(epochs * epoch)


def _evaluation(path: Path, every: float, epoch: float, rest: dict[str, Any]) -> dict[str, int]:
    """`evaluate_every` as the nearest multiple of `record_every`, at least one of it."""
    record = rest.get("record_every", Run.model_fields["record_every"].default)
    if type(record) is not int or not 0 < record <= MOST_STEPS:
        return {}  # its own key says what is wrong with it
    _steps(path, "evaluate_epochs", every, epoch)
    return {"evaluate_every": record * max(1, round(every * epoch / record))}


def _refuse(path: Path, key: str, message: str) -> NoReturn:
    raise ConfigError(f"{path}: run.{key}: {message}")
