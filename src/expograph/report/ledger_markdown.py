"""The ledgers of claims as Markdown, results/claims.md, and how claims are decided, in words."""

import pandas as pd

from expograph.claims.ledger import FILE, Ledger
from expograph.claims.outcome import Finding, LedgerName
from expograph.report.markdown import markdown

HEAD = "# Claims, measured\n"
DECIDED = (
    "A claim is decided by its primary endpoint, fixed before its runs, or, where the runs were "
    "there already (transients, Table 2), before this ledger was measured: supported if "
    "the endpoint holds (all of its parts, where it has several), refuted if it does not. What "
    "compares measured numbers holds if a one-sided test at 2.5 % says so, that is if the whole "
    "95 % interval lies on the claimed side; it does not if the interval lies on the other, and "
    'is undecided between. "Within" takes two such tests. Parts beside the endpoint are tested '
    "with Holm's correction for their number. Differences in accuracy are in points, over pairs "
    "of runs with the same seeds, with the p of the two-sided paired t-test."
)
HEADINGS: dict[LedgerName, str] = {
    "paper": "The paper's claims",
    "successors": "Its successors' claims",
    "ours": "Ours",
}


def ledger_markdown(ledger: Ledger) -> str:
    """Three ledgers: a summary of each, then each claim with its parts."""
    made = ledger.made
    lines = [HEAD, DECIDED + "\n"]
    for name, heading in HEADINGS.items():
        claims = [finding for finding in ledger.claims if finding.ledger == name]
        if claims:
            lines += [
                f"## {heading}\n",
                markdown(pd.DataFrame(_summary(claims)), made=["claim"]) + "\n",
            ]
            for finding in claims:
                lines += _section(finding)
    lines.append(
        f"`make claims`; {made['cpu']}, {made['cores']} cores, torch {made['torch']}, code "
        f"{made['code']}.\n"
    )
    return "\n".join(lines)


def _summary(claims: list[Finding]) -> list[dict[str, str]]:
    return [
        {
            "claim": f"[{finding.id}](#{finding.id})",
            "statement": finding.statement,
            "verdict": finding.verdict,
            "endpoint": finding.counts(primary=True),
            "beside it": finding.counts(primary=False),
        }
        for finding in claims
    ]


def _section(finding: Finding) -> list[str]:
    parts = [
        {
            "": "endpoint" if part.primary else "",
            "part": part.text,
            "holds": part.holds,
            "evidence": part.evidence,
        }
        for part in finding.parts
    ]
    runs = {key for part in finding.parts for key in part.runs}
    lines = [
        f"### {finding.id}\n",
        f"{finding.statement} *Source: {finding.source}.* **{finding.verdict.capitalize()}.**\n",
        _table(parts),
    ]
    if runs:
        lines.append(f"{len(runs)} runs of `{finding.config}`; their keys are in {FILE}.\n")
    if finding.made:
        lines.append(f"Measured before by code {finding.made.get('code')}.\n")
    return lines


def _table(rows: list[dict[str, str]]) -> str:
    return markdown(pd.DataFrame(rows)) + "\n"
