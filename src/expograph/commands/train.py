"""Run the experiments of configs in this process, or as a rank of an MPI job; write their tables.

examples:
  expograph train configs/table2.toml
  expograph train configs/table2.toml topology=ring nodes=[8,16] seed=0 problem.model=mlp
  expograph train configs/table2.toml nodes=8 --tensorboard
  expograph train configs/table2.toml --tables results/mine
  expograph train configs/table2.toml --tables results/mine --seeds 3 --extremes
  bfrun -np 8 expograph train configs/table2.toml engine=bluefog

Finished runs are used again, unless other code made them (--keep-stale). `key=value` words override
the config's [run]; what they make goes to results/custom/<name>/<override>/ and leaves
results/<name>/ alone. `engine=` alone is no variation: its results go to results/<name>_<engine>/.
--tables writes all these folders into another one, as results/mine/, which git ignores: committed
tables stay as they are, and `expograph verify` compares the two. Runs lie where they always do.
Under an MPI launcher the runs that have its number of ranks, nodes x local_size, are done. Runs lie
in the folder $EXPOGRAPH_RUNS, by default runs/ in the results.

A run in the middle is saved after a minute, then every five, in at most 2 % of its time;
--checkpoint or $EXPOGRAPH_CHECKPOINT says otherwise: minutes, or 1000steps (at its word, whatever
that costs), or never. Ctrl-C, SIGTERM, SIGHUP and SIGUSR1 finish the step, save, and exit with 130.
The same command goes on from there to the last bit, and where it was killed from the last
checkpoint. --resume-from KEY goes on from that of a run on another engine, equal to 1e-5; a
checkpoint of another config or of other code is refused.

exit status: 0 all runs finished (a diverged run is a result), 1 some failed, 2 the config is wrong,
130 interrupted and saved.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from expograph.cluster.launch import launched_rank
from expograph.config import ConfigError, Experiment, load
from expograph.config.selection import Selection
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
    parser.add_argument(
        "--checkpoint", metavar="EVERY", help="minutes, or as 1000steps, or never (default: 5)"
    )
    parser.add_argument(
        "--resume-from", metavar="KEY", help="go on from the checkpoint of this run"
    )
    parser.add_argument("--results", type=Path, default=Path("results"), help="default: results/")
    parser.add_argument(
        "--tables", type=Path, help="the folder that tables go to (default: that of the results)"
    )
    parser.add_argument(
        "--short",
        action="store_true",
        help="only the runs that a config names as its short version",
    )
    parser.add_argument("--seeds", type=int, help="of every config only so many seeds")
    parser.add_argument(
        "--extremes", action="store_true", help="only the smallest and the largest number of nodes"
    )
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
        print("interrupted; the same command goes on where this one was", file=sys.stderr)
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
    if arguments.tables is not None and str(arguments.tables).strip() in ("", "."):
        raise ConfigError("--tables: need the name of a folder")
    experiments = [load(path, overrides) for path in paths]
    for experiment in experiments:
        check_own(experiment)
    root = arguments.tables or arguments.results
    check_names(experiments, overrides, root)
    part = selection(arguments)
    if part.flags and root == Path("results") and not overrides:
        raise ConfigError(f"{part.flags[0]}: the whole table is in {root}/; give --tables FOLDER")
    return [part.of(experiment) for experiment in experiments]


def check_own(experiment: Experiment) -> None:
    """Import the parts of the user's own that an experiment names, and check them.

    Raises:
        ConfigError: in one line, where one cannot be had or is not what it should be.
    """
    runs = [run for run in experiment.runs if run.own_parts]
    if not runs:
        return
    from expograph.runs.own import check  # with torch: not for every config

    try:
        check(runs)
    except ValueError as e:
        raise ConfigError(f"{experiment.path}: {e}") from None


def selection(arguments: argparse.Namespace) -> Selection:
    """Which part of the configs a command line asks for.

    Raises:
        ConfigError: no seeds.
    """
    if arguments.seeds is not None and arguments.seeds < 1:
        raise ConfigError(f"--seeds {arguments.seeds}: needs at least 1")
    return Selection(arguments.short, arguments.seeds, arguments.extremes)
