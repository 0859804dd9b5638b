"""Run the experiments of one or more configs and write their tables.

    python scripts/train.py configs/table2.toml
    python scripts/train.py configs/table2.toml topology=ring nodes=[8,16] seed=0

Finished runs are used again. `key=value` words override the config; what they make goes to
results/<name>_custom/ and leaves results/<name>/ alone. Exit status: 0 all runs finished (a
diverged run is a result), 1 some failed, 2 the config is wrong, 130 interrupted.
"""

import argparse
import signal
import sys
from pathlib import Path

import torch
from rich.console import Console

from expograph import results
from expograph.config import ConfigError, Run, load
from expograph.data import DataUnavailable
from expograph.data import load as load_data
from expograph.progress import SweepProgress
from expograph.report.experiment import write_report
from expograph.sweep import Outcome, sweep


def check_machine(runs: list[Run]) -> None:
    """What a config can ask for and this machine may not have: data, samples, a GPU.

    Raises:
        ConfigError, DataUnavailable: in one line, before anything runs.
    """
    images = [run for run in runs if run.problem.kind == "classification"]
    names = {run.problem.dataset for run in images}
    sizes = {name: len(load_data(name).train_labels) for name in names}
    for run in images:
        size = sizes[run.problem.dataset]
        if run.nodes > size:
            raise ConfigError(f"nodes: {run.nodes} nodes cannot share {size} training images")
    if any(run.device == "cuda" for run in runs) and not torch.cuda.is_available():
        raise ConfigError("device: 'cuda' was asked for, and torch sees no GPU; use device=cpu")


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("words", nargs="+", metavar="CONFIG.toml | key=value")
    parser.add_argument("--jobs", type=int, help="processes (default: one a core)")
    parser.add_argument("--force", action="store_true", help="do finished runs again")
    parser.add_argument("--results", type=Path, default=results.ROOT, help="default: results/")
    arguments = parser.parse_args()
    paths = [w for w in arguments.words if w.endswith(".toml") and "=" not in w]
    overrides = [w for w in arguments.words if w not in paths]
    console = Console()
    try:
        if arguments.jobs is not None and arguments.jobs < 1:
            raise ConfigError(f"--jobs {arguments.jobs}: needs at least 1")
        if not paths:
            raise ConfigError(
                f"{arguments.words[0]}: expected a config file, as configs/table2.toml"
            )
        experiments = [load(path, overrides) for path in paths]
        runs = list({run.key: run for e in experiments for run in e.runs}.values())
        check_machine(runs)
    except (ConfigError, DataUnavailable) as e:
        print(e, file=sys.stderr)
        return 2
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # as Ctrl-C
    console.print(f"{len(runs)} runs of {', '.join(map(str, paths))}")
    outcome = Outcome()
    try:
        with SweepProgress(runs, console) as progress:
            for run in runs:
                if not arguments.force and results.load(run, arguments.results):
                    progress.reuse(run)
            outcome = sweep(runs, arguments.results, arguments.jobs, arguments.force, progress)
    except KeyboardInterrupt:
        print("interrupted; the same command goes on with the runs that are left", file=sys.stderr)
        return 130
    console.print(outcome.describe())
    for experiment in experiments:
        name = experiment.name + ("_custom" if overrides else "")
        for text in write_report(experiment, arguments.results, name):
            console.print(text)
    for run, cause in outcome.failed:
        print(f"failed: {run.label}: {cause}", file=sys.stderr)
    return 1 if outcome.failed else 0


if __name__ == "__main__":
    sys.exit(main())
