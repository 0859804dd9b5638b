"""Measure the paper's claims and write the ledger, results/claims.md and claims.csv.

examples:
  expograph claims                  `make claims` trains what is missing first
  expograph claims --configs        only print the configs whose runs are needed

Trains nothing itself. exit status: 0 every claim was measured (whatever the verdict), 1 some could
not be, 2 the file of claims is wrong.
"""

import argparse
from pathlib import Path

import pandas as pd
from rich.console import Console

from expograph import claims
from expograph.files import replace_text
from expograph.report import tables
from expograph.runs import results
from expograph.runs.provenance import provenance


def table(rows: list[dict[str, str]]) -> str:
    """Rows as a Markdown table."""
    return tables.markdown(pd.DataFrame(rows)) + "\n"


def ledger(findings: list[claims.Finding]) -> str:
    """The ledger as Markdown: a summary, then each claim with its parts."""
    summary = [
        {
            "claim": f"[{f.claim.id}](#{f.claim.id})",
            "statement": f.claim.statement,
            "verdict": f.verdict,
            "do its parts hold": f.counts,
        }
        for f in findings
    ]
    made = provenance()
    lines = [
        "# The paper's claims, measured\n",
        "A claim is *reproduced* if all its parts hold here, *partly* if some do, *not reproduced* "
        "if none does and one is refuted. A part that compares measured numbers holds if its whole "
        "95 % interval lies on the claimed side, does not if it lies on the other, and is "
        "undecided between. Differences in accuracy are in points, over pairs of runs with the "
        "same seeds, with the p of the paired t-test.\n",
        table(summary),
    ]
    for finding in findings:
        claim = finding.claim
        parts = [{"part": p.text, "holds": p.holds, "evidence": p.evidence} for p in finding.parts]
        runs = sorted({key for part in finding.parts for key in part.runs})
        lines += [
            f"## {claim.id}\n",
            f"{claim.statement} *Source: {claim.source}.* **{finding.verdict.capitalize()}.**\n",
            table(parts),
        ]
        if runs:
            config = claim.arguments["config"]
            lines.append(f"{len(runs)} runs of `{config}`; their ids are in claims.csv.\n")
    lines.append(
        f"`make claims`; {made['cpu']}, {made['cores']} cores, torch {made['torch']}, code "
        f"{made['code']}.\n"
    )
    return "\n".join(lines)


def options(parser: argparse.ArgumentParser) -> None:
    """Declare the command line."""
    parser.add_argument("--file", type=Path, default=Path("configs/claims.toml"))
    parser.add_argument("--configs", action="store_true", help="print the configs needed")
    parser.add_argument("--results", type=Path, default=results.ROOT, help="default: results/")


def run(arguments: argparse.Namespace) -> int:
    """Measure, print the verdicts and write the ledger."""
    console = Console()
    stated = claims.read(arguments.file)
    if arguments.configs:
        print(*claims.experiments(stated), sep="\n")
        return 0
    findings = []
    for claim in stated:
        findings.append(claims.measure(claim, arguments.results))
        line = f"{findings[-1].verdict:>14}  {claim.id}: {claim.statement}"
        console.print(line, markup=False)  # W(k)[i, j] is no style
    arguments.results.mkdir(parents=True, exist_ok=True)
    replace_text(arguments.results / "claims.md", ledger(findings))
    rows = [
        {
            "claim": f.claim.id,
            "verdict": f.verdict,
            "part": p.text,
            "holds": p.holds,
            "evidence": p.evidence,
            "runs": " ".join(p.runs),
        }
        for f in findings
        for p in f.parts
    ]
    text = pd.DataFrame(rows).to_csv(index=False)
    replace_text(arguments.results / "claims.csv", text)
    return int(any(p.holds == "not measured" for f in findings for p in f.parts))
