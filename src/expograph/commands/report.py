"""Build the page with everything that was measured: tables, figures, claims, topologies, runs.

examples:
  expograph report                          results/report/index.html, which opens from disk
  expograph report --output /tmp/report
"""

import argparse
from pathlib import Path

from expograph.report import page
from expograph.runs import results


def options(parser: argparse.ArgumentParser) -> None:
    """Declare the command line."""
    parser.add_argument("--output", type=Path, help="the folder (default: report/ in the results)")
    parser.add_argument("--results", type=Path, default=results.ROOT, help="default: results/")


def run(arguments: argparse.Namespace) -> int:
    """Build the page and say where it is."""
    index = page.build(arguments.results, arguments.output or arguments.results / "report")
    print(f"open {index}")
    return 0
