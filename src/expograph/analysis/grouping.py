"""Runs that agree in some config keys, told apart from the others; None is a value of its own."""

from collections.abc import Sequence
from typing import Any

import pandas as pd


def plain(value: Any) -> Any:
    """A value out of a frame as Python's own; pandas' NaN, which stands for None, as None.

    NaN never equals itself, so that no cell would ever be found under it.
    """
    value = value.item() if hasattr(value, "item") else value
    return None if isinstance(value, float) and value != value else value


def values_of(frame: pd.DataFrame, key: str) -> list[Any]:
    """The values of a column, each once: numbers ascending, others in order of appearance."""
    values = list(dict.fromkeys(map(plain, frame[key])))
    return sorted(values) if all(isinstance(v, int | float) for v in values) else values


def grouped(frame: pd.DataFrame, keys: Sequence[str]) -> dict[tuple[Any, ...], pd.DataFrame]:
    """The rows that agree in all of `keys`, by these values, in order of appearance."""
    places: dict[tuple[Any, ...], list[int]] = {}
    columns = [map(plain, frame[key]) for key in keys]
    for i, values in enumerate(zip(*columns, strict=True)):
        places.setdefault(values, []).append(i)
    return {values: frame.iloc[rows] for values, rows in places.items()}
