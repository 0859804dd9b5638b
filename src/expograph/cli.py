"""The command `expograph`: one function a sub-command, listed in COMMANDS."""

import argparse
import sys
from collections.abc import Callable, Sequence

from rich.console import Console
from rich.table import Table

from expograph import doctor

STYLES = {"ok": "green", "note": "yellow", "missing": "red", "broken": "bold red"}


def run_doctor(arguments: argparse.Namespace) -> int:
    """what this machine has for each engine, what it lacks, and the cure"""
    findings = doctor.examine(arguments.ranks)
    console = Console()
    table = Table(box=None, pad_edge=False, show_header=False)
    for _ in range(3):
        table.add_column(overflow="fold")
    for what, state, found, cure in findings:
        table.add_row(what, f"[{STYLES[state]}]{state}[/]", found)
        if cure:
            table.add_row("", "", f"-> {cure}", style="bold")
    console.print(table, highlight=False)
    verdicts = doctor.verdicts(findings)
    console.print()
    for engine, verdict in verdicts.items():
        console.print(f"{engine}: {verdict}", highlight=False)
    return int(verdicts[arguments.engine] != "ready")


def doctor_options(parser: argparse.ArgumentParser) -> None:
    engines = list(doctor.NEEDS)
    parser.add_argument("--ranks", type=_positive, help="to be carried here (default: the cores)")
    parser.add_argument(
        "--engine", choices=engines, default="embedded", help="whose needs decide the exit status"
    )
    parser.epilog = "example: expograph doctor --ranks 8 --engine bluefog"


Command = tuple[Callable[[argparse.Namespace], int], Callable[[argparse.ArgumentParser], None]]
COMMANDS: dict[str, Command] = {"doctor": (run_doctor, doctor_options)}


def _positive(text: str) -> int:
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text}: need a whole number above 0")
    return int(text)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="expograph")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for name, (run, add_options) in COMMANDS.items():
        command = commands.add_parser(name, help=run.__doc__, description=run.__doc__)
        add_options(command)
        command.set_defaults(run=run)
    arguments = parser.parse_args(argv)
    return arguments.run(arguments)


if __name__ == "__main__":
    sys.exit(main())
