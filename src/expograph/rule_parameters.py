"""What the parameters of update rules mean, and what they may be, each name once for all rules.

Defaults are those of the rules' signatures in `algorithms`. Nothing here imports torch: a mistake
in a config is said without it.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple


class Meaning(NamedTuple):
    """A parameter of rules.

    Attributes:
        words: what it is.
        low, high: the least and the largest value.
        open_low, open_high: whether these themselves are excluded.
        among: the only values, where they are few.
    """

    words: str
    low: float
    high: float
    open_low: bool = False
    open_high: bool = False
    among: tuple[int, ...] = ()

    def allows(self, value: float) -> bool:
        """Whether a value is in the range."""
        if self.among:
            return value in self.among
        above = value > self.low if self.open_low else value >= self.low
        return above and (value < self.high if self.open_high else value <= self.high)

    @property
    def allowed(self) -> str:
        """The range in words: "in (0, 1]", "at least 1"."""
        if self.among:
            return f"one of {', '.join(map(str, self.among))}"
        if self.high == MOST:
            return f"at least {self.low:g}"
        left, right = "(" if self.open_low else "[", ")" if self.open_high else "]"
        return f"in {left}{self.low:g}, {self.high:g}{right}"


MOST = 10**9  # steps
PARAMETERS: dict[str, Meaning] = {
    "every": Meaning("H: steps from one message, or exact average, to the next", 1, MOST),
    "cycle": Meaning("steps whose mean gradient enters Adam's moments at once", 1, MOST),
    "outer_lr": Meaning("step size of the outer step", 0, 10, open_low=True),
    "outer_beta": Meaning("momentum of the outer step", 0, 1, open_high=True),
    "slow_lr": Meaning("SlowMo's alpha, times lr", 0, 10, open_low=True),
    "slow_beta": Meaning("SlowMo's slow momentum", 0, 1, open_high=True),
    "pull": Meaning("NoLoCo's pull towards the neighbors' anchors", 0, 2),
    "beta2": Meaning("Adam's beta2", 0, 1, open_high=True),
    "eps": Meaning("Adam's epsilon", 0, 1, open_low=True),
    "bits": Meaning("bits of a coordinate sent", 2, 8, among=(2, 4, 8)),
    "fraction": Meaning("share of the coordinates sent", 0, 1, open_low=True),
    "consensus_lr": Meaning("CHOCO's step size of consensus", 0, 1, open_low=True),
}


def check(name: str, given: Mapping[str, Any]) -> None:
    """Check the values that a rule's spelling gives; those of a user's own rule are its own matter.

    Raises:
        ValueError: in one line, for a value out of its range.
    """
    for key, value in given.items():
        if ":" not in name and key in PARAMETERS and not PARAMETERS[key].allows(value):
            raise ValueError(f"{name}: {key} must be {PARAMETERS[key].allowed}, got {value}")
