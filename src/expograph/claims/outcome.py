"""What a claim is, what its parts may come to, and how an interval decides."""

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, Self, get_args

from pydantic import BaseModel, ConfigDict, Field, model_validator

from expograph.validation import STRICT

Outcome = Literal["yes", "no", "undecided", "not measured"]
Verdict = Literal["reproduced", "partly", "undecided", "not reproduced", "not measured"]
VERDICTS: tuple[Verdict, ...] = get_args(Verdict)


class NotMeasured(Exception):
    """Evidence that is not there; the message says how to make it."""


@dataclass(frozen=True)
class Part:
    """One testable part of a claim.

    Attributes:
        id: a word by which it is found in its claim.
        text: what should hold.
        holds: whether it does.
        evidence: numbers, with their intervals where they are means.
        runs: keys of the runs it rests on.
    """

    id: str
    text: str
    holds: Outcome
    evidence: str
    runs: tuple[str, ...] = ()


class Claim(BaseModel):
    """A [[claim]] of configs/claims.toml; `arguments` are those of its check, as written there."""

    model_config = STRICT

    id: str = Field(pattern=r"^[a-z0-9-]+$")
    statement: str
    source: str
    check: str
    arguments: dict[str, Any] = Field({}, alias="with")


class Finding(BaseModel):
    """A claim with its measured parts: an entry of the ledger.

    Attributes:
        verdict: `verdict_of` the parts.
        config: the experiment whose runs it rests on, if any.
        arguments: of the check; what was measured with others is not this claim.
        made: by which code and machine, if not by those that the ledger itself names.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)

    id: str
    statement: str
    source: str
    check: str
    verdict: Verdict
    config: str | None
    arguments: dict[str, Any] = Field(alias="with")
    parts: tuple[Part, ...]
    made: Mapping[str, Any] | None = None

    @model_validator(mode="after")
    def _verdict_follows(self) -> Self:
        if self.verdict != verdict_of(self.parts):
            raise ValueError(f"claim {self.id}: its parts do not make it {self.verdict!r}")
        return self

    @classmethod
    def of(cls, claim: Claim, parts: Iterable[Part]) -> Self:
        """The finding that these parts are."""
        parts = tuple(parts)
        return cls(
            id=claim.id,
            statement=claim.statement,
            source=claim.source,
            check=claim.check,
            verdict=verdict_of(parts),
            config=claim.arguments.get("config"),
            arguments=claim.arguments,
            parts=parts,
        )

    @property
    def counts(self) -> str:
        """How many parts hold, do not, ..., in words: "3 yes, 1 undecided"."""
        found = Counter(part.holds for part in self.parts)
        return ", ".join(f"{found[o]} {o}" for o in get_args(Outcome) if found[o])

    @property
    def measured(self) -> int:
        """How many parts could be measured."""
        return sum(part.holds != "not measured" for part in self.parts)


def verdict_of(parts: Iterable[Part]) -> Verdict:
    """Reproduced if all parts hold, partly if some do, not reproduced if none does and one is
    refuted, else undecided or not measured."""
    outcomes = {part.holds for part in parts}
    if outcomes == {"yes"}:
        return "reproduced"
    for outcome, verdict in (("yes", "partly"), ("no", "not reproduced")):
        if outcome in outcomes:
            return verdict
    return "undecided" if "undecided" in outcomes else "not measured"


def sure(holds: bool) -> Outcome:
    """The outcome of what has no noise."""
    return "yes" if holds else "no"


def between(low: float, high: float, lowest: float = -math.inf, most: float = math.inf) -> Outcome:
    """Whether a number known to lie in [low, high] lies between `lowest` and `most`."""
    if lowest <= low and high <= most:
        return "yes"
    return "no" if high < lowest or low > most else "undecided"


def every(outcomes: Iterable[Outcome]) -> Outcome:
    """The outcome of a statement about each of several cases."""
    found = set(outcomes)
    if not found:
        return "not measured"
    return "no" if "no" in found else "yes" if found == {"yes"} else "undecided"
