"""What a rank does in test_cluster.py: `bfrun -np N python cluster_worker.py CASE ...`.

Each case is a function of the job; what it prints on rank 0 is what the test reads.
"""

import json
import os
import shutil
import signal
import sys
import time
from pathlib import Path

import torch

from expograph import algorithms, cluster, data, engines
from expograph.algorithms import ALGORITHMS
from expograph.cluster.job import Job
from expograph.cluster.launch import launched_rank
from expograph.config import Run
from expograph.data import fashion_mnist
from expograph.graphs.checks import check_schedule
from expograph.graphs.forms import OnePeer
from expograph.graphs.mixing import bytes_sent
from expograph.graphs.topology import Topology, build, hierarchical, names
from expograph.measure.agreement import allowed
from expograph.problems import convex
from expograph.runs import store
from expograph.runs.assemble import assemble, records_of
from expograph.runs.interrupt import interruptible
from expograph.runs.resuming import Saving
from expograph.runs.runner import execute

CARRIER = "torch" if "MASTER_ADDR" in os.environ else "mpi"  # what the launcher is for
ENGINES = ("torch",) if CARRIER == "torch" else ("bluefog", "mpi")
FOUND = next(
    (f for f in (Path("data/fashion_mnist"), fashion_mnist.DEBIAN_FOLDER) if f.is_dir()),
    fashion_mnist.DEBIAN_FOLDER,
)  # Fashion-MNIST on this machine, from before a test moves the data folder


def run_of(nodes: int, **changes) -> Run:
    values = {
        "problem": {"kind": "logistic", "samples": 5, "heterogeneity": 1.0},
        "topology": "one_peer_exponential",
        "nodes": nodes,
        "algorithm": "dsgd_atc",
        "steps": 40,
        "lr": 0.1,
        "engine": "torch" if CARRIER == "torch" else "bluefog",
    }
    return Run.model_validate(values | changes)


def on_embedded(run: Run) -> Run:
    return run.model_copy(update={"engine": "embedded"})


def join() -> Job:
    """The job, over what its launcher is for."""
    return cluster.join(CARRIER)


def tell(job: Job, **facts) -> None:
    if job.rank == 0:
        print(json.dumps(facts), flush=True)


def at_step(step: int, rank: int, job: Job, action) -> None:
    """Do `action` in `rank`'s gradient of `step`."""
    gradient = convex.Convex.gradient

    def patched(self, x, buffers, k):
        if k == step and job.rank == rank:
            action()
        return gradient(self, x, buffers, k)

    convex.Convex.gradient = patched


def fail(job: Job, how: str, rank: str, results: str) -> None:
    """A rank fails in the third step of a run, in one of the ways in which ranks fail."""

    def raise_error():
        raise ArithmeticError("the gradient went wrong")

    actions = {
        "raise": raise_error,
        "exit": lambda: sys.exit(1),
        "kill": lambda: os.kill(os.getpid(), signal.SIGKILL),
        "stop": lambda: os.kill(os.getpid(), signal.SIGSTOP),
        "slow": lambda: time.sleep(1000),
    }
    at_step(3, int(rank), job, actions[how])
    execute(run_of(job.size), Path(results), group=job)


def diverge(job: Job, rank: str, results: str) -> None:
    """One rank's gradient becomes NaN at step 7; its loss at step 8."""
    nan = torch.full((1,), float("nan"), dtype=torch.float64)
    gradient = convex.Convex.gradient

    def patched(self, x, buffers, k):
        losses, gradients, buffers = gradient(self, x, buffers, k)
        broken = k == 7 and job.rank == int(rank)
        return losses, gradients + nan if broken else gradients, buffers

    convex.Convex.gradient = patched
    status = execute(run_of(job.size, record_every=1000, steps=4000), Path(results), group=job)
    tell(job, status=status)


def mismatch(job: Job, kind: str, local_size: str) -> None:
    """Ranks that disagree on the schedule, at step 2 of a period of 3."""
    size = int(local_size)
    good = build("one_peer_exponential", job.size // size)

    def at(k: int):
        W = good.at(k)
        if k % 3 == 2 and kind == "source" and job.rank == size:
            return OnePeer(W.permutation[0][::-1].copy())
        if k % 3 == 2 and kind == "weights":
            W = type(W)(W.n, {**W.weights, 0: 0.6})
        return W

    custom = hierarchical(Topology("custom", good.n, 3, at), size)
    engines.build("bluefog", custom, job)  # checks who sends to whom, all ranks together
    check_schedule(custom)  # as training does, on each rank


def alone(job: Job) -> None:
    """Every topology and algorithm with one rank trains as plain SGD, as the embedded engine."""
    for name in ENGINES:
        for topology in names(1, "doubly"):
            for algorithm in ALGORITHMS:
                if not allowed(algorithms.build(algorithm), build(topology, 1)):
                    continue
                run = run_of(1, topology=topology, algorithm=algorithm, engine=name, steps=5)
                *_, ours = records_of(run, job)
                *_, theirs = records_of(on_embedded(run))
                torch.testing.assert_close(ours.x, theirs.x)
    tell(job, trained=True)


def graphs(job: Job, *chosen: str) -> None:
    """Graphs over so many ranks, by name or all: W(k) x, sent along the edges of W(k) alone."""
    x = torch.randn(job.size, 9, dtype=torch.float64, generator=torch.Generator().manual_seed(5))
    row, mixed = x[job.rank : job.rank + 1], 0
    for topology in (build(name, job.size, seed=1) for name in chosen or names(job.size)):
        steps = [topology.at(k) for k in range(min(topology.period or 3, 6))]
        for name in ENGINES:
            engine = engines.build(name, topology, job)
            for k, W in enumerate(steps):
                expected = torch.from_numpy(W.dense()[job.rank : job.rank + 1]) @ x
                torch.testing.assert_close(engine.mixer(k)(row), expected, rtol=1e-12, atol=1e-12)
                mixed += 1
            sent = sum(int(bytes_sent(W.messages[job.rank], row.nbytes)) for W in steps)
            assert engine.sent.item() == sent, topology.name
    tell(job, mixed=mixed)


def overlap(job: Job) -> None:
    """The message of dsgd_awc travels while the gradient is computed: it has been started."""
    order = []
    run = run_of(job.size, topology="ring", algorithm="dsgd_awc", steps=2)
    assembly = assemble(run, job)
    engine = assembly.engine
    average = engine._average

    def noted(part, wire, what):
        order.append("sent")
        wait = average(part, wire, what)
        return lambda: (order.append("awaited"), wait())[1]

    engine._average = noted
    gradient = convex.Convex.gradient

    def counted(self, x, buffers, k):
        order.append("gradient")
        return gradient(self, x, buffers, k)

    convex.Convex.gradient = counted
    list(assembly.records())
    tell(job, order=order)


def peers(job: Job, accumulation: str) -> None:
    """Whom rank 0 hears at each of 8 steps, by each engine, with accumulated gradients."""
    heard = {}
    problem = {"kind": "classification", "dataset": "digits", "model": "mlp", "batch_size": 4}
    problem["accumulation"] = int(accumulation)
    for name in ("bluefog", "mpi"):
        run = run_of(job.size, problem=problem, steps=8, engine=name)
        assembly = assemble(run, job)
        engine = assembly.engine
        part, heard[name] = engine._average, []

        def noted(p, wire, what, part=part, name=name):
            heard[name].append(list(p.sources))
            return part(p, wire, what)

        engine._average = noted
        list(assembly.records())
    tell(job, **heard)


def servers(job: Job, local_size: str) -> None:
    """Trains on servers of several ranks; the largest relative difference from embedded.

    Embedded is checked against dense products elsewhere. Also how far models of one server are
    apart, whether the bytes are equal, and whether BlueFog's own machines were used.
    """
    size = int(local_size)
    told = {"difference": 0.0, "spread": 0.0, "bytes_equal": True, "runs": 0}
    for name, algorithm, topology in (
        (name, algorithm, topology)
        for name in ("bluefog", "mpi")
        for algorithm in ("dmsgd", "vanilla_dmsgd", "psgd", "dsgd_awc")
        for topology in ("static_exponential", "one_peer_exponential", "random_match", "star")
    ):
        if algorithm == "psgd":
            topology = "fully_connected"
        run = run_of(
            job.size // size,
            local_size=size,
            topology=topology,
            algorithm=algorithm,
            beta=0.0 if algorithm == "dsgd_awc" else 0.9,
            lr=0.02,
            engine=name,
        )
        assembly = assemble(run, job)
        *_, ours = assembly.records()
        engine = assembly.engine
        x, sent = engine.gather(ours.x), engine.gather(engine.sent)
        embedded = assemble(on_embedded(run))
        *_, theirs = embedded.records()
        reference = embedded.engine
        difference = (x - theirs.x).norm(dim=1) / theirs.x.norm(dim=1)
        told["difference"] = max(told["difference"], float(difference.max()))
        if algorithm in ("dmsgd", "vanilla_dmsgd"):  # the models leave a step averaged
            rows = x.unflatten(0, (-1, size))
            told["spread"] = max(told["spread"], float((rows - rows[:, :1]).abs().max()))
        told["bytes_equal"] &= sent.tolist() == reference.sent.tolist()
        told["runs"] += 1
    told["on_hosts"] = engines.build("bluefog", assembly.schedule, job)._on_hosts
    tell(job, **told)


def soak(job: Job, calls: str) -> None:
    """Many averaging calls in a row, static and one-peer in turns, checked at the end."""
    built = [
        engines.build("bluefog", build(name, job.size), job)
        for name in ("one_peer_exponential", "static_exponential", "fully_connected")
    ]
    x = torch.arange(1000.0, dtype=torch.float64).unsqueeze(0) * (job.rank + 1)
    mean = job.mean(x[0], "the mean")
    for k in range(int(calls)):
        x = built[k % len(built)].mixer(k)(x)
    tell(job, calls=int(calls), error=float((x[0] - mean).abs().max()))


def resume(job: Job, name: str, results: str) -> None:
    """Interrupted on one rank and taken up again; and taken up from the embedded engine.

    Tells whether the first is bit-identical with a run that was never stopped, and how far the
    second is from it, relative.
    """
    root = Path(results)
    changes = {"algorithm": "dmsgd", "beta": 0.9, "engine": name}
    if name == "horovod":
        changes |= {"algorithm": "psgd", "topology": "fully_connected"}
    run = run_of(job.size, **changes)
    source = on_embedded(run)
    execute(run, root / "whole", group=job)
    gradient = convex.Convex.gradient
    at_step(23, 1, job, lambda: signal.raise_signal(signal.SIGUSR1))
    _interrupted(run, root / "again", job)
    convex.Convex.gradient = gradient
    execute(run, root / "again", group=job)
    if job.rank == 0:
        at_step(17, 0, job, lambda: signal.raise_signal(signal.SIGUSR1))
        _interrupted(source, root / "other", None)
        convex.Convex.gradient = gradient
    job.exchange(None, "the checkpoint")
    execute(run, root / "other", group=job, saving=Saving(source=source.key))
    if job.rank == 0:
        whole, again, other = (store.load(run, root / w) for w in ("whole", "again", "other"))
        a, b = (one.final["error_workers"] for one in (whole, other))
        same = whole.models == again.models
        resumed = [one.resumed for one in (whole, again, other)]
        tell(job, same=same, resumed=resumed, difference=abs(a - b) / a)


def _interrupted(run: Run, root: Path, group: Job | None) -> None:
    try:
        with interruptible():
            execute(run, root, group=group)
        raise AssertionError("was not interrupted")
    except KeyboardInterrupt:
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1):
            signal.signal(number, signal.SIG_DFL)


def fetch(job: Job, log: str) -> None:
    """A data set that is nowhere yet, whose download takes a while and is noted."""
    fashion_mnist.DEBIAN_FOLDER = Path("/nowhere")

    def slow_download(scratch: Path) -> Path:
        with open(log, "a") as file:
            file.write("fetched\n")
        time.sleep(2)
        return fixture(scratch)

    fashion_mnist.FETCHERS = {"a slow server": slow_download}
    sizes = job.once_per_host(lambda: len(data.load("fashion_mnist").train_labels), "the data")
    tell(job, sizes=job.exchange(sizes, "sizes"))


def fixture(scratch: Path) -> Path:
    """The real files, as a download would leave them."""
    folder = scratch / "files"
    shutil.copytree(FOUND, folder)
    return folder


def start_late(job_seconds: str) -> None:
    """Rank 1 does not come to the start."""
    if launched_rank() == 1:
        time.sleep(float(job_seconds))
    with join() as job:
        tell(job, met=True)


def main() -> None:
    case, *words = sys.argv[1:]
    torch.set_num_threads(1)
    if case == "start_late":
        return start_late(*words)
    with join() as job:
        globals()[case](job, *words)


if __name__ == "__main__":
    main()
