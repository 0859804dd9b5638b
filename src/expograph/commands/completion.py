"""Print the completion script of a shell: commands, options, topologies.

examples:
  expograph completion bash > ~/.local/share/bash-completion/completions/expograph
  expograph completion zsh > ~/.zfunc/_expograph        with fpath+=~/.zfunc before compinit
  eval "$(expograph completion bash)"                   for this shell only
"""

import argparse

import shtab


def options(parser: argparse.ArgumentParser) -> None:
    """Declare the command line."""
    parser.add_argument("shell", choices=shtab.SUPPORTED_SHELLS)


def run(arguments: argparse.Namespace) -> int:
    """Print the script."""
    print(shtab.complete(arguments.whole_parser(complete=True), arguments.shell))
    return 0
