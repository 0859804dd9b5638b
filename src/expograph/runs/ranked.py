"""Some runs, done by the ranks of a job."""

import os

import torch
from rich.console import Console

from expograph import cluster
from expograph.config import ConfigError, Run
from expograph.config.facts import ENGINES
from expograph.data import DataUnavailable
from expograph.files import DamagedFile
from expograph.memory import keep_freed_memory
from expograph.runs import alike
from expograph.runs.cores import cores
from expograph.runs.job import Order
from expograph.runs.outcome import Outcome
from expograph.runs.progress import SweepProgress
from expograph.runs.resuming import describe
from expograph.runs.runner import execute_all
from expograph.runs.selection import check_machine, plan
from expograph.runs.store import ResultsError

PLAIN = (ConfigError, DamagedFile, DataUnavailable, ResultsError)  # one line says it all


def run_in_job(runs: list[Run], order: Order, console: Console) -> Outcome:
    """Every rank of a job does this; only rank 0 writes and prints."""
    (carrier,) = {ENGINES[run.engine].ranks for run in runs}
    with cluster.join(carrier, plain=PLAIN) as group:
        device_count = torch.cuda.device_count()
        if device_count:
            torch.cuda.set_device(group.local_rank % device_count)
        torch.set_num_threads(_threads(group.local_size))
        keep_freed_memory()
        hosts = len(set(group.hosts))
        threads = torch.get_num_threads()
        console.print(f"{group.size} ranks on {hosts} hosts, {threads} threads a rank")
        shared = device_count and any(run.device == "cuda" for run in runs)
        if shared and group.local_size > device_count:
            console.print(
                f"{group.local_size} ranks share {device_count} GPUs: models stay there, messages "
                "go by way of the host's memory"
            )
        group.doing("the data")
        group.once_per_host(lambda: check_machine(runs), "the data of each host")
        alike.check(runs, group)
        root = order.root if group.rank == 0 else None  # one writer
        if root:
            found = plan(runs, root, order.policy)
            for line in (*found.describe(), *describe(found.todo, root, order.policy)):
                console.print(line)
        with SweepProgress(runs, console, root, order.configs) as progress:
            how = order.policy, progress, order.tensorboard, order.saving
            return execute_all(runs, group, order.root, *how)


def _threads(ranks_here: int) -> int:
    """Threads of each of so many ranks on this host: as asked for, else as many as fit."""
    asked = os.environ.get("OMP_NUM_THREADS", "").split(",")[0]  # a list is one a level
    fitting = max(1, cores() // ranks_here)
    return int(asked) if asked.isdecimal() and int(asked) else fitting
