"""The sub-commands of `expograph`, a module each: its docstring is what `--help` shows.

A module has `options(parser)`, which declares the command line, and `run(arguments)`, which
returns the exit status.
"""
