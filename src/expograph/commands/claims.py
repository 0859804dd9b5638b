"""Measure the paper's claims and write the ledger, results/claims.json and claims.md.

examples:
  expograph claims                  `make claims` trains what is missing first
  expograph claims --configs        only print the configs whose runs are needed

Trains nothing itself. A claim whose evidence is not here stays in the ledger as it was measured
before. exit status: 0 every claim was measured (whatever the verdict), 1 some could not be, 2 the
file of claims or a table is wrong.
"""

import argparse
import sys
from pathlib import Path

from rich.console import Console

from expograph import claims
from expograph.report import unchanged
from expograph.report.ledger_markdown import ledger_markdown
from expograph.runs import results
from expograph.runs.provenance import provenance


def options(parser: argparse.ArgumentParser) -> None:
    """Declare the command line."""
    parser.add_argument("--file", type=Path, default=Path("configs/claims.toml"))
    parser.add_argument("--configs", action="store_true", help="print the configs needed")
    parser.add_argument("--results", type=Path, default=results.ROOT, help="default: results/")


def run(arguments: argparse.Namespace) -> int:
    """Measure, print the verdicts and write the ledger."""
    stated = claims.read(arguments.file)
    if arguments.configs:
        print(*claims.experiments(stated), sep="\n")
        return 0
    earlier = claims.load(arguments.results)
    measured = [claims.measure(claim, arguments.results) for claim in stated]
    findings, kept = claims.kept(measured, earlier)
    console = Console()
    for finding in findings:
        line = f"{finding.verdict:>14}  {finding.id}: {finding.statement}"
        console.print(line, markup=False)  # W(k)[i, j] is no style
    ledger = claims.Ledger(claims=tuple(findings), made=provenance())
    files = {claims.FILE: claims.encoded(ledger), "claims.md": ledger_markdown(ledger)}
    unchanged.write(arguments.results, {name: text.encode() for name, text in files.items()})
    if kept:
        print(
            f"not all their evidence is here, so they stay as measured before: {', '.join(kept)}; "
            "`make claims` measures them again",
            file=sys.stderr,
        )
    return int(any(finding.measured < len(finding.parts) for finding in measured))
