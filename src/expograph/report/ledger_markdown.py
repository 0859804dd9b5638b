"""The ledger of claims as Markdown, results/claims.md."""

import pandas as pd

from expograph.claims.ledger import FILE, Ledger
from expograph.claims.outcome import Finding
from expograph.report.markdown import markdown

HEAD = (
    "# The paper's claims, measured\n",
    "A claim is *reproduced* if all its parts hold here, *partly* if some do, *not reproduced* "
    "if none does and one is refuted. A part that compares measured numbers holds if its whole "
    "95 % interval lies on the claimed side, does not if it lies on the other, and is "
    "undecided between. Differences in accuracy are in points, over pairs of runs with the "
    "same seeds, with the p of the paired t-test.\n",
)


def ledger_markdown(ledger: Ledger) -> str:
    """A summary, then each claim with its parts."""
    summary = [
        {
            "claim": f"[{finding.id}](#{finding.id})",
            "statement": finding.statement,
            "verdict": finding.verdict,
            "do its parts hold": finding.counts,
        }
        for finding in ledger.claims
    ]
    made = ledger.made
    lines = [*HEAD, markdown(pd.DataFrame(summary), made=["claim"]) + "\n"]
    for finding in ledger.claims:
        lines += _section(finding)
    lines.append(
        f"`make claims`; {made['cpu']}, {made['cores']} cores, torch {made['torch']}, code "
        f"{made['code']}.\n"
    )
    return "\n".join(lines)


def _section(finding: Finding) -> list[str]:
    parts = [{"part": p.text, "holds": p.holds, "evidence": p.evidence} for p in finding.parts]
    runs = {key for part in finding.parts for key in part.runs}
    lines = [
        f"## {finding.id}\n",
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
