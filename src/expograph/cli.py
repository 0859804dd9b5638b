"""The command `expograph`: finds the sub-command, reads its words, turns what fails into a status.

Nothing heavy is imported before a sub-command asks for it: `--help` and completion answer at once,
and `doctor` works where torch is broken.
"""

import argparse
import errno
import importlib
import io
import os
import select
import sys
from collections.abc import Sequence
from types import ModuleType

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EIO)
COMMANDS = {
    "train": "run experiments in this process, or as a rank of an MPI job",
    "sweep": "run all of some configs, on any engine, and write their tables",
    "tune": "choose step sizes on held-out training images",
    "table": "show a table, also while its sweep is running",
    "figure": "draw figures from the results",
    "verify": "compare your tables with the committed ones, cell by cell",
    "run": "show one run by its key, or train it again and compare",
    "report": "build the page with everything that was measured",
    "topology": "list the topologies, or draw one with its matrix",
    "predict": "predict transient iterations, and set them beside the measured ones",
    "claims": "measure the paper's claims and write the ledger",
    "equivalent": "check that changed code gives the numbers of older code",
    "doctor": "what this machine has for each engine, what it lacks, and the cure",
    "completion": "print the completion script of a shell",
}
DESCRIPTION = """Decentralized training over exponential graphs: run, compare and look.

examples:
  expograph topology show one_peer_exponential --nodes 16
  expograph train configs/table2.toml topology=ring nodes=8 seed=0
  expograph sweep configs/table2.toml
  expograph table table2
  expograph COMMAND --help                      each with examples of its own

exit status: 0 done, 1 something could not be done, 2 the command or a config is wrong (one line
says where), 130 interrupted; the same command then goes on where it was.
"""


def module_of(name: str) -> ModuleType:
    """The module of a sub-command."""
    return importlib.import_module(f"expograph.commands.{name}")


def describe(parser: argparse.ArgumentParser, module: ModuleType) -> argparse.ArgumentParser:
    """Give a sub-command's parser its text and options."""
    parser.description = module.__doc__
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    module.options(parser)
    return parser


def whole_parser(complete: bool = False) -> argparse.ArgumentParser:
    """The parser of all sub-commands: their names, and if `complete` their options too."""
    layout = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(
        prog="expograph", description=DESCRIPTION, formatter_class=layout
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND", title="commands")
    for name, summary in COMMANDS.items():
        command = commands.add_parser(name, help=summary)
        if complete:
            describe(command, module_of(name))
    return parser


def output_is_closed() -> bool:
    """Whether stdout is a pipe that nobody reads any more."""
    try:
        poll = select.poll()
        poll.register(sys.stdout.fileno(), 0)
        return any(event & (select.POLLERR | select.POLLHUP) for _, event in poll.poll(0))
    except (OSError, ValueError):  # it is closed, or no file
        return True


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command line, `sys.argv` by default; its exit status."""
    if sys.stdout is None:  # closed by the shell: `>&-`
        sys.stdout = open(os.devnull, "w")
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # a terminal without the compiler's letters
    words = list(sys.argv[1:] if argv is None else argv)
    if not words or words[0] not in COMMANDS:
        whole_parser().parse_args(words or ["--help"])
        return 2  # not reached: argparse exits
    module = module_of(words[0])
    parser = describe(argparse.ArgumentParser(prog=f"expograph {words[0]}"), module)
    parser.set_defaults(whole_parser=whole_parser)  # `completion` is about all of them
    arguments = parser.parse_intermixed_args(words[1:])  # options may stand between the words
    try:
        status: int = module.run(arguments)
        return status
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:
        if not output_is_closed():  # a pipe of our own: something broke
            raise
        sys.stderr.close()  # `expograph table table2 | head`
        return 0
    except Exception as e:
        if isinstance(e, OSError) and e.filename is None and e.errno in FULL:  # of no file: stdout
            print(f"the output cannot be written: {e.strerror}", file=sys.stderr)
            return 1
        from expograph.config import ConfigError

        if not isinstance(e, ConfigError):
            from expograph.commands.mendable import MENDABLE  # imports torch

            if not isinstance(e, MENDABLE):
                raise
        print(e, file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
