"""What this machine has for each engine, what it lacks, and the cure.

examples:
  expograph doctor                                what each engine needs, and its cure
  expograph doctor --ranks 8 --engine bluefog     exit status 0 if BlueFog can run 8 ranks
"""

import argparse

from rich.console import Console
from rich.table import Table
from rich.text import Text

from expograph.cluster import doctor

STYLES = {"ok": "green", "note": "yellow", "missing": "red", "broken": "bold red"}


def options(parser: argparse.ArgumentParser) -> None:
    """Declare the command line."""
    engines = list(doctor.NEEDS)
    parser.add_argument("--ranks", type=_positive, help="to be carried here (default: the cores)")
    parser.add_argument(
        "--engine", choices=engines, default="embedded", help="whose needs decide the exit status"
    )


def run(arguments: argparse.Namespace) -> int:
    """Print the findings; 0 if the engine asked for can run here."""
    findings = doctor.examine(arguments.ranks)
    console = Console()
    table = Table(box=None, pad_edge=False, show_header=False)
    for _ in range(3):
        table.add_column(overflow="fold")
    for what, state, found, cure in findings:  # Text: brackets in a message are no markup
        table.add_row(what, Text(state, STYLES[state]), Text(found))
        if cure:
            table.add_row("", "", Text(f"-> {cure}", "bold"))
    console.print(table, highlight=False)
    verdicts = doctor.verdicts(findings)
    line = "; ".join(f"{engine}: {verdict}" for engine, verdict in verdicts.items())
    console.print(f"\n{line}", highlight=False)
    return int(verdicts[arguments.engine] != "ready")


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text}: need a whole number above 0")
    return int(text)
