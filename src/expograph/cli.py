"""The command `expograph`: one function a sub-command, listed in COMMANDS."""

import argparse
import sys
from collections.abc import Callable, Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from expograph import doctor

STYLES = {"ok": "green", "note": "yellow", "missing": "red", "broken": "bold red"}
EXAMPLES = """examples:
  expograph doctor                                what each engine needs, and its cure
  expograph doctor --ranks 8 --engine bluefog     exit status 0 if BlueFog can run
"""


def run_doctor(arguments: argparse.Namespace) -> int:
    """what this machine has for each engine, what it lacks, and the cure"""
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


def doctor_options(parser: argparse.ArgumentParser) -> None:
    engines = list(doctor.NEEDS)
    parser.add_argument("--ranks", type=_positive, help="to be carried here (default: the cores)")
    parser.add_argument(
        "--engine", choices=engines, default="embedded", help="whose needs decide the exit status"
    )


Command = tuple[Callable[[argparse.Namespace], int], Callable[[argparse.ArgumentParser], None]]
COMMANDS: dict[str, Command] = {"doctor": (run_doctor, doctor_options)}


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text}: need a whole number above 0")
    return int(text)


def main(argv: Sequence[str] | None = None) -> int:
    sys.stdout.reconfigure(errors="replace")  # a terminal without the compiler's letters
    layout = {"epilog": EXAMPLES, "formatter_class": argparse.RawDescriptionHelpFormatter}
    parser = argparse.ArgumentParser(prog="expograph", **layout)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for name, (run, add_options) in COMMANDS.items():
        command = commands.add_parser(name, help=run.__doc__, description=run.__doc__, **layout)
        add_options(command)
        command.set_defaults(run=run)
    arguments = parser.parse_args(argv)
    return arguments.run(arguments)


if __name__ == "__main__":
    sys.exit(main())
