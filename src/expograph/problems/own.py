"""A problem of the user's own, named in a config: "module:function"."""

from collections.abc import Sequence
from dataclasses import replace

from expograph import own
from expograph.config import METRICS, Own
from expograph.problems.supervised import Shared, Supervised


def divided(settings: Own, workers: int, ranks: Sequence[int], seed: int, device: str) -> Shared:
    """What the function returns, divided over the workers by the run's seed.

    A function that has a parameter `seed` is given the run's. A score named accuracy is headed as
    ours is, in per cent.

    Raises:
        ValueError: in one line, where it cannot be had, has no such parameter, or returns something
            else.
    """
    address = own.address(settings.of)
    made = own.called("problem", settings.of, seed=seed)
    if not isinstance(made, Supervised):
        raise ValueError(f"problem {address!r}: the function returns no expograph.Supervised")
    for name in made.scores:
        if name != "accuracy" and f"{name}_averaged" in METRICS:
            raise ValueError(f"problem {address!r}: score {name!r} is the name of another metric")
    return replace(made, seed=seed).over(workers, ranks)
