"""Runs that are killed at random moments and started again: is anything lost, is a bit another?

Each is compared with one that was never stopped: status, every recorded number but times, and the
SHA-256 of the final models. Every second kill is aimed at a checkpoint: it comes when a temporary
file of one is seen.
"""

import math
import multiprocessing
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import torch

from expograph import cluster
from expograph.analysis.table_result import Cell, Column, Row, TableResult
from expograph.config import Run
from expograph.config.facts import ENGINES
from expograph.runs import checkpoint, store
from expograph.runs.again import TIMES
from expograph.runs.mpi_job import launcher
from expograph.runs.resuming import Saving
from expograph.runs.runner import execute
from expograph.runs.spacing import Every

KILLS_A_RUN = 4  # at most; then it is left to its end
RANKS = 4
LIMIT = 600.0  # seconds that a run, or the end of a job, may take
DIGITS = {"kind": "classification", "dataset": "digits", "batch_size": 4}
ALIKE = {"nodes": RANKS, "lr": 0.02, "record_every": 10, "evaluate_every": 50}
EMBEDDED = (  # every kind of state: models, momenta, batch norm's buffers, random graphs
    {"problem": {"kind": "logistic", "noise": 0.1}, "topology": "random_match", "steps": 4000}
    | {"algorithm": "dsgd_atc"},
    {"problem": {**DIGITS, "model": "resnet8_bn"}, "topology": "one_peer_exponential"}
    | {"algorithm": "dmsgd", "beta": 0.9, "steps": 60},
    {"problem": {**DIGITS, "model": "mlp"}, "topology": "static_exponential"}
    | {"algorithm": "qg_dmsgd", "beta": 0.9, "steps": 400},
)
RANKED = (
    {**EMBEDDED[1], "engine": "bluefog", "steps": 40},
    {**EMBEDDED[2], "engine": "mpi", "steps": 100},
    {**EMBEDDED[2], "engine": "torch", "steps": 100},
    {**EMBEDDED[2], "engine": "horovod", "topology": "fully_connected", "algorithm": "psgd"}
    | {"steps": 100},
)
COLUMNS = tuple(
    Column(name=name, format=".0f")
    for name in (
        "kills",
        "while a checkpoint was written",
        "runs",
        "taken up from a checkpoint",
        "other numbers",
        "not finished",
        "processes left",
    )
)


class Count:
    """What became of runs of one kind that were killed."""

    def __init__(self, engine: str, killed: str) -> None:
        self.engine, self.killed = engine, killed
        self.kills = self.writing = self.runs = self.resumed = 0
        self.different = self.unfinished = self.left = 0

    @property
    def lost(self) -> int:
        """Nothing of this may be."""
        return self.different + self.unfinished + self.left

    @property
    def row(self) -> Row:
        numbers = (
            *(self.kills, self.writing, self.runs, self.resumed),
            *(self.different, self.unfinished, self.left),
        )
        return Row(
            labels=(self.engine, self.killed), cells=tuple(Cell(mean=float(n)) for n in numbers)
        )


class Way(NamedTuple):
    """How a run is done and killed.

    Attributes:
        start: begins a run under some results; gives what `alive` and `kill` take.
        alive: whether it is still at it.
        kill: by SIGKILL.
        end: waits until nothing is left of it; how many processes had to be killed for that.
    """

    start: Callable[[Run, Path], Any]
    alive: Callable[[Any], bool]
    kill: Callable[[Any], None]
    end: Callable[[Any], int]


# ---- one process ----


def work(run: Run, root: Path) -> None:
    """What a process does: the run, saved every few steps."""
    torch.set_num_threads(1)
    execute(run, root, saving=Saving(_often(run)))


def _often(run: Run) -> Every:
    return Every(math.inf, max(1, run.steps // 20))


def in_a_process() -> Way:
    """The embedded engine. Processes come from one that has imported all, and start at once."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__])

    def start(run: Run, root: Path) -> Any:
        process = context.Process(target=work, args=(run, root))
        process.start()
        return process

    def end(process: Any) -> int:
        process.join()
        return 0

    return Way(start, lambda process: process.is_alive(), lambda process: process.kill(), end)


# ---- a job of ranks ----


def in_a_job(whom: Callable[[list[int]], list[int]]) -> Way:
    """Ranks under their launcher; `whom` chooses among the ranks' and the launcher's processes."""

    def start(run: Run, root: Path) -> Any:
        root.mkdir(parents=True, exist_ok=True)
        text = run.model_dump_json()
        command = [*launcher(run.engine, run.ranks, None), sys.executable, "-m", __name__]
        with (root / "log").open("a") as file:
            return subprocess.Popen(
                [*command, text, str(root)], stdout=file, stderr=file, start_new_session=True
            )

    def kill(job: Any) -> None:
        for pid in whom([job.pid, *_ranks(job.pid)]):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass

    def end(job: Any) -> int:
        job.wait()
        deadline = time.monotonic() + 60
        while (left := _session(job.pid)) and time.monotonic() < deadline:
            time.sleep(0.1)
        for pid in left:
            os.kill(pid, signal.SIGKILL)
        return len(left)

    return Way(start, lambda job: job.poll() is None, kill, end)


def a_rank(processes: list[int]) -> list[int]:
    """One of them; the launcher where there are no ranks yet."""
    return [random.choice(processes[1:] or processes)]


def the_launcher(processes: list[int]) -> list[int]:
    """Alone: its ranks have to notice."""
    return processes[:1]


def _session(leader: int) -> list[int]:
    """Living processes of a session."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, _, owner = path.read_text().rsplit(")", 1)[1].split()[:4]
        except OSError:
            continue
        if int(owner) == leader and state != "Z":
            found.append(int(path.parent.name))
    return found


def _ranks(launcher: int) -> list[int]:
    return sorted(pid for pid in _session(launcher) if pid != launcher)


def as_rank(text: str, root: Path) -> None:
    """What each rank of a job does."""
    run = Run.model_validate_json(text)
    torch.set_num_threads(1)
    with cluster.join(ENGINES[run.engine].ranks) as group:
        execute(run, root, group=group, saving=Saving(_often(run)))


# ---- killing ----


def torment(kinds: list[Run], kills: int, way: Way, count: Count, folder: Path) -> Iterator[str]:
    """Kill runs of these kinds in turns, in all so many times; a line after each that ended."""
    truth: dict[str, tuple[Path, float]] = {}
    for run in kinds[: max(1, kills)]:
        began = time.monotonic()
        root = folder / f"{count.engine}_{count.killed}_never_stopped".replace(" ", "_")
        way.end(_done(way, run, root))
        truth[run.key] = root, time.monotonic() - began
    while count.kills < kills:
        run = kinds[count.runs % len(truth)]
        reference, seconds = truth[run.key]
        root = folder / "killed"
        shutil.rmtree(root, ignore_errors=True)
        planned = min(kills - count.kills, random.randint(1, KILLS_A_RUN))
        for _ in range(planned):
            _kill_once(run, root, way, seconds, count)
            if store.load(run, root):
                break
        count.left += way.end(_done(way, run, root))
        count.runs += 1
        same = compare(run, reference, root)
        count.unfinished += same is None
        count.different += same is False
        found = store.load(run, root)
        count.resumed += len(_more(found)["resumed"]) if found else 0
        yield f"{count.engine}: {count.kills} of {kills} kills, {count.lost} things lost"


def _done(way: Way, run: Run, root: Path) -> Any:
    """A run that nobody kills, to its end."""
    started = way.start(run, root)
    deadline = time.monotonic() + LIMIT
    while way.alive(started):
        if time.monotonic() > deadline:
            way.kill(started)
        time.sleep(0.01)
    return started


def _kill_once(run: Run, root: Path, way: Way, seconds: float, count: Count) -> None:
    place = checkpoint.folder(run, root)
    before = set(place.glob("*"))
    started = way.start(run, root)
    moment = time.monotonic() + random.random() * seconds
    aimed = count.kills % 2 == 1
    while way.alive(started):
        if time.monotonic() > moment and (not aimed or _writing(place, before)):
            break
        time.sleep(0 if aimed else 0.001)
    if not way.alive(started):  # it has come to its end
        count.left += way.end(started)
        return
    way.kill(started)
    count.kills += 1
    count.left += way.end(started)
    count.writing += _writing(place, before)


def _writing(place: Path, before: set[Path]) -> bool:
    """Whether a checkpoint is half-written: a temporary file, or states without their manifest."""
    new = set(place.glob("*")) - before
    manifests = {path.stem for path in new if path.suffix == ".json"}
    states = {path.name.split(".")[0] for path in new if path.suffix == ".pt"}
    return bool(any(path.suffix == ".tmp" for path in new) or states - manifests)


def _more(found: store.Finished) -> dict[str, Any]:
    """What a run.json holds beside what `Finished` names."""
    return found.model_extra or {}


def compare(run: Run, a: Path, b: Path) -> bool | None:
    """Whether two runs are equal to the last bit, times aside; None if one is not finished."""
    found = [one for root in (a, b) if (one := store.load(run, root))]
    if len(found) < 2 or checkpoint.folder(run, b).exists():
        return None
    curves = [store.curve(run, root).drop(columns=list(TIMES)) for root in (a, b)]
    finals = [{k: v for k, v in one.final.items() if k not in TIMES} for one in found]
    same = [
        (one.status, _more(one)["models"], repr(final))
        for one, final in zip(found, finals, strict=True)
    ]
    return same[0] == same[1] and curves[0].equals(curves[1])


def runs_of(kinds: tuple[Mapping[str, Any], ...]) -> list[Run]:
    """The runs of these kinds."""
    return [Run.model_validate({**ALIKE, **kind}) for kind in kinds]


def table_of(counts: list[Count]) -> TableResult:
    """What was tried and what was lost."""
    return TableResult(
        id="kills",
        heading="Runs killed by SIGKILL and started again",
        labels=("engine", "killed"),
        columns=COLUMNS,
        rows=tuple(count.row for count in counts),
    )


if __name__ == "__main__":
    as_rank(sys.argv[1], Path(sys.argv[2]))
