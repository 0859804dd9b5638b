"""Run the experiments of configs in this process, or as a rank of an MPI job; write their tables.

examples:
  expograph train configs/table2.toml
  expograph train configs/table2.toml topology=ring nodes=[8,16] seed=0 problem.model=mlp
  expograph train configs/table2.toml nodes=8 --tensorboard
  bfrun -np 8 expograph train configs/table2.toml engine=bluefog

Finished runs are used again, unless other code made them (--keep-stale). `key=value` words override
the config's [run]; what they make goes to results/custom/<name>/<override>/ and leaves
results/<name>/ alone. `engine=` alone is no variation: its results go to results/<name>_<engine>/.
Under an MPI launcher the runs that have its number of ranks, nodes x local_size, are done. Runs lie
in the folder $EXPOGRAPH_RUNS, by default runs/ in the results.

exit status: 0 all runs finished (a diverged run is a result), 1 some failed, 2 the config is wrong,
130 interrupted.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from expograph.cluster.launch import launched_rank
from expograph.config import ConfigError, Experiment, load
from expograph.runs.destination import check_names
from expograph.runs.interrupt import interruptible


def paths_of(arguments: argparse.Namespace) -> list[str]:
    """The configs among the words of a command line; the others are overrides.

    A word with "=" is one only if there is such a file: `key=value.toml` is an override.
    """
    words = [w for w in arguments.words if w.endswith(".toml")]
    return [w for w in words if "=" not in w or Path(w).is_file()]


def options(parser: argparse.ArgumentParser) -> None:
    """Declare the command line."""
    parser.add_argument("words", nargs="+", metavar="CONFIG.toml | key=value")
    parser.add_argument("--jobs", type=int, help="processes (default: one a core)")
    parser.add_argument("--force", action="store_true", help="do finished runs again")
    parser.add_argument(
        "--keep-stale", action="store_true", help="use finished runs that other code made"
    )
    parser.add_argument(
        "--continue",
        dest="go_on",
        action="store_true",
        help="count the records committed beside a table as finished runs",
    )
    parser.add_argument("--results", type=Path, default=Path("results"), help="default: results/")
    parser.add_argument(
        "--tensorboard",
        action="store_true",
        help="write every run's curves for `tensorboard --logdir results/tensorboard`",
    )


def run(arguments: argparse.Namespace) -> int:
    """Do the runs, write results/<name>/ and print the tables."""
    speaks = launched_rank() == 0
    try:
        with interruptible():
            overrides = [w for w in arguments.words if w not in paths_of(arguments)]
            experiments = experiments_of(arguments, overrides)
            # imported now: what is wrong with a config is said without torch, which takes seconds
            from expograph.commands.training import train

            return train(experiments, overrides, arguments, speaks)
    except KeyboardInterrupt:
        print("interrupted; the same command goes on with the runs that are left", file=sys.stderr)
        return 130
    except ConfigError:
        if speaks:
            raise  # the command line says it
        return 2


def experiments_of(arguments: argparse.Namespace, overrides: Sequence[str]) -> list[Experiment]:
    """The experiments of a command line.

    Raises:
        ConfigError: if a config is wrong, or the results of one are another's.
    """
    paths = paths_of(arguments)
    if arguments.jobs is not None and arguments.jobs < 1:
        raise ConfigError(f"--jobs {arguments.jobs}: needs at least 1")
    if not paths:
        raise ConfigError(f"{arguments.words[0]}: expected a config file, as configs/table2.toml")
    experiments = [load(path, overrides) for path in paths]
    check_names(experiments, overrides, arguments.results)
    return experiments
