"""The paper's claims, measured: each is cut into parts that hold, do not, or stay undecided.

A part that compares measured numbers holds if its whole 95 % interval is on the claimed side, does
not if the whole interval is on the other, and is undecided between: more noise never helps a claim.
What needs runs or tables reads them from the results, never trains, and says which are missing.
"""

from expograph.claims.ledger import (
    CHECKS,
    FILE,
    Ledger,
    LedgerError,
    changed,
    encoded,
    experiments,
    kept,
    load,
    measure,
    read,
    save,
)
from expograph.claims.outcome import VERDICTS, Claim, Finding, NotMeasured, Outcome, Part

__all__ = [
    "CHECKS",
    "FILE",
    "VERDICTS",
    "Claim",
    "Finding",
    "Ledger",
    "LedgerError",
    "NotMeasured",
    "Outcome",
    "Part",
    "changed",
    "encoded",
    "experiments",
    "kept",
    "load",
    "measure",
    "read",
    "save",
]
