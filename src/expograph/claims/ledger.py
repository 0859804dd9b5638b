"""The ledger, results/claims.json: claims are read, measured, and kept as measured.

[[claim]]                 # configs/claims.toml
id = "gap"
ledger = "paper"          # whose claim it is: the paper's, its "successors"', "ours"
statement = "..."
source = "where it is claimed"
check = "static_gap"      # a function, in `CHECKS`
with = { largest = 4096 } # its arguments
primary = ["even"]        # its endpoint: parts that decide it; without, all
"""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from expograph.claims import accuracy, mathematics, time, transients
from expograph.claims.arguments import Check, declared
from expograph.claims.outcome import LEDGERS, MISSING, Claim, Finding, NotMeasured, Part
from expograph.config import ConfigError, read_toml
from expograph.files import DamagedFile, replace_text
from expograph.names import known
from expograph.validation import one_line, read_json

FILE = "claims.json"
CHECKS: dict[str, Check] = {
    check.__name__: check
    for check in (
        mathematics.static_gap,
        mathematics.exact_averaging,
        mathematics.uniform_sampling,
        mathematics.communication,
        mathematics.stability,
        transients.growth_no_faster,
        transients.same_number,
        transients.fewer_iterations,
        transients.balance,
        transients.rates,
        transients.predicted,
        transients.linear_speedup,
        accuracy.as_accurate,
        accuracy.alike,
        accuracy.more_accurate,
        accuracy.rules_alike,
        accuracy.rules_better,
        time.fastest,
    )
}


class LedgerError(DamagedFile):
    """A claims.json that cannot be used; its message is one line with the file's name."""


class Ledger(BaseModel):
    """Every claim as it was measured last.

    Attributes:
        claims: in the order of configs/claims.toml.
        made: code, machine and command that measured those that do not name their own.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    claims: tuple[Finding, ...]
    made: Mapping[str, Any] = {}


def read(path: Path) -> list[Claim]:
    """The claims of a file, each with a check that takes its arguments.

    Raises:
        ConfigError: one line naming file, claim and key.
    """
    stated = read_toml(path, kind="claims").get("claim", [])
    if not isinstance(stated, list) or not stated:
        raise ConfigError(f"{path}: no [[claim]] in it")
    claims = [_claim(path, i, values) for i, values in enumerate(stated, start=1)]
    if twice := {c.id for c in claims if sum(d.id == c.id for d in claims) > 1}:
        raise ConfigError(f"{path}: claim {min(twice)}: its id is taken")
    return sorted(claims, key=lambda claim: LEDGERS.index(claim.ledger))


def _claim(path: Path, number: int, values: Any) -> Claim:
    name = values.get("id", f"number {number}") if isinstance(values, dict) else f"number {number}"
    where = f"{path}: claim {name}: "
    try:
        claim = Claim.model_validate(values)
        known("check", claim.check, CHECKS)
    except ValidationError as e:
        raise ConfigError(where + one_line(e, Claim)) from None
    except ValueError as e:
        raise ConfigError(f"{where}check: {e}") from None
    try:
        declared(CHECKS[claim.check]).model_validate(claim.arguments)
    except ValidationError as e:
        line = one_line(e, declared(CHECKS[claim.check]))
        raise ConfigError(f"{where}with.{line}") from None
    return claim


def experiments(claims: list[Claim]) -> list[str]:
    """The configs whose runs the claims rest on, each once."""
    return list(dict.fromkeys(c.arguments["config"] for c in claims if "config" in c.arguments))


def measure(claim: Claim, root: Path) -> Finding:
    """Measure one claim from the results under `root` and from mathematics.

    Raises:
        TableError: a table of the results is damaged.
        ConfigError: the claim's endpoint is no part of what its check measures.
    """
    check = CHECKS[claim.check]
    arguments = declared(check).model_validate(claim.arguments)
    try:
        parts = check(root=root, **dict(arguments))
    except NotMeasured as e:
        parts = [Part(MISSING, "the evidence is there", "not measured", str(e))]
    try:
        return Finding.of(claim, parts)
    except ValueError as e:
        raise ConfigError(f"claim {claim.id}: {e}") from None


def kept(new: Iterable[Finding], old: Ledger | None) -> tuple[list[Finding], list[str]]:
    """The findings to write, and the ids of those that stay as they were measured before.

    A finding stays where evidence that it rests on is not here, as in a fresh clone, and its check
    and arguments are the same.
    """
    before = {finding.id: finding for finding in old.claims} if old else {}
    findings, ids = [], []
    for finding in new:
        earlier = before.get(finding.id)
        if old and earlier and _lacks_evidence(finding, earlier):
            made = dict(earlier.made or old.made)
            about = {"statement": finding.statement, "source": finding.source, "made": made}
            ids.append(finding.id)
            finding = earlier.model_copy(update=about)
        findings.append(finding)
    return findings, ids


def _lacks_evidence(new: Finding, earlier: Finding) -> bool:
    same = (new.check, new.arguments) == (earlier.check, earlier.arguments)
    return same and new.measured < len(new.parts) and new.measured < earlier.measured


def changed(ours: Ledger, theirs: Ledger) -> list[tuple[Finding, Finding]]:
    """The claims that both have whose verdicts are not the same."""
    other = {finding.id: finding for finding in theirs.claims}
    pairs = [(finding, other[finding.id]) for finding in ours.claims if finding.id in other]
    return [(one, another) for one, another in pairs if one.verdict != another.verdict]


def encoded(ledger: Ledger) -> str:
    """What claims.json holds."""
    content = ledger.model_dump(mode="json", by_alias=True)
    for claim in content["claims"]:
        if claim["made"] is None:
            del claim["made"]
    return json.dumps(content, indent=1, ensure_ascii=False) + "\n"


def save(ledger: Ledger, root: Path) -> Path:
    """Write claims.json under `root`, whole or not at all."""
    root.mkdir(parents=True, exist_ok=True)
    replace_text(root / FILE, encoded(ledger))
    return root / FILE


def load(root: Path) -> Ledger | None:
    """The ledger under `root`; None if there is none.

    Raises:
        LedgerError: if the file is damaged or of another form.
    """
    return read_json(root / FILE, Ledger, LedgerError)
