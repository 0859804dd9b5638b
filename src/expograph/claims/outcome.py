"""What a claim is, what its parts may come to, and how an interval decides."""

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple, Self, get_args

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, model_validator

from expograph.analysis.statistics import Paired, holm
from expograph.validation import STRICT

Outcome = Literal["yes", "no", "undecided", "not measured"]
Verdict = Literal["supported", "refuted", "undecided", "not measured"]
VERDICTS: tuple[Verdict, ...] = get_args(Verdict)
LedgerName = Literal["paper", "successors", "ours"]
LEDGERS: tuple[LedgerName, ...] = get_args(LedgerName)
LEVEL = 0.025  # of a one-sided test: what a 95 % interval on one side of a bound amounts to


MISSING = "evidence"  # id of the one part of a claim whose evidence is not there


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
        p: of the one-sided test (the larger of two) that supports it; None where nothing is tested.
        against: of the test that refutes it.
        primary: whether it is the claim's endpoint, or one of those that must hold together.
    """

    id: str
    text: str
    holds: Outcome
    evidence: str
    runs: tuple[str, ...] = ()
    p: float | None = None
    against: float | None = None
    primary: bool = False

    @classmethod
    def tested(
        cls, id: str, text: str, tests: "PValues", evidence: str, runs: Iterable[str] = ()
    ) -> Self:
        """One that tests decide."""
        return cls(id, text, decided(*tests), evidence, tuple(runs), *tests)


class PValues(NamedTuple):
    """p-values of the one-sided tests that support a statement and that refute it."""

    p: float
    against: float


class Claim(BaseModel):
    """A [[claim]] of configs/claims.toml.

    Attributes:
        ledger: whose claim it is.
        arguments: of its check, as written there.
        primary: ids of the parts that are its endpoint: all must hold, and they alone decide. None:
            every part, as of what is proved or counted.
    """

    model_config = STRICT

    id: str = Field(pattern=r"^[a-z0-9-]+$")
    ledger: LedgerName
    statement: str
    source: str
    check: str
    arguments: dict[str, Any] = Field({}, alias="with")
    primary: list[str] | None = Field(None, min_length=1)


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
    ledger: LedgerName
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
        """The finding that these parts are, those beside the endpoint corrected for being many.

        Raises:
            ValueError: the endpoint is no part; one line.
        """
        parts = tuple(parts)
        ids = [part.id for part in parts]
        endpoint = ids if claim.primary is None or ids == [MISSING] else claim.primary
        if lost := [id for id in endpoint if id not in ids]:
            raise ValueError(f"primary: no part {lost[0]!r}, there are {', '.join(ids)}")
        parts = corrected([replace(part, primary=part.id in endpoint) for part in parts])
        return cls(
            id=claim.id,
            ledger=claim.ledger,
            statement=claim.statement,
            source=claim.source,
            check=claim.check,
            verdict=verdict_of(parts),
            config=claim.arguments.get("config"),
            arguments=claim.arguments,
            parts=parts,
        )

    def counts(self, primary: bool) -> str:
        """How many parts of the endpoint, or beside it, hold, do not, ...: "3 yes, 1 undecided"."""
        found = Counter(part.holds for part in self.parts if part.primary == primary)
        return ", ".join(f"{found[o]} {o}" for o in get_args(Outcome) if found[o])

    @property
    def measured(self) -> int:
        """How many parts could be measured."""
        return sum(part.holds != "not measured" for part in self.parts)


def verdict_of(parts: Iterable[Part]) -> Verdict:
    """What the primary parts come to: supported if all hold, refuted if one does not."""
    outcomes = {part.holds for part in parts if part.primary}
    if "no" in outcomes:
        return "refuted"
    if not outcomes or "not measured" in outcomes:
        return "not measured"
    return "supported" if outcomes == {"yes"} else "undecided"


def corrected(parts: Iterable[Part]) -> tuple[Part, ...]:
    """The parts, those beside the endpoint decided anew with Holm's correction for their number.

    Parts of the endpoint need none: all of them must hold (an intersection-union test).
    """
    parts = list(parts)
    many = {
        i: (part.p, part.against)
        for i, part in enumerate(parts)
        if not part.primary and part.p is not None and part.against is not None
    }
    supports, refutes = (holm([tests[k] for tests in many.values()]) for k in (0, 1))
    for i, p, against in zip(many, supports, refutes, strict=True):
        parts[i] = replace(parts[i], holds=decided(p, against), p=p, against=against)
    return tuple(parts)


def decided(p: float, against: float) -> Outcome:
    """By the p-values of the one-sided tests that support a statement and that refute it."""
    return "yes" if p <= LEVEL else "no" if against <= LEVEL else "undecided"


def within(found: Paired, lowest: float = -math.inf, most: float = math.inf) -> PValues:
    """Whether a mean difference lies between two bounds: two one-sided t-tests (TOST).

    Both must reject for it to lie there; one that rejects the other way is enough against it.
    """
    inside = max(found.not_above(lowest), found.not_below(most))
    return PValues(inside, min(found.not_below(lowest), found.not_above(most)))


def by_draws(draws: np.ndarray, lowest: float = -math.inf, most: float = math.inf) -> PValues:
    """The same of bootstrap draws of a number (R,): the share of them beyond each bound."""
    below, above = (
        (1 + int(beyond.sum())) / (1 + len(draws)) for beyond in (draws < lowest, draws > most)
    )
    inside = (1 + int(((draws >= lowest) & (draws <= most)).sum())) / (1 + len(draws))
    return PValues(
        max(below if lowest > -math.inf else 0.0, above if most < math.inf else 0.0), inside
    )


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
