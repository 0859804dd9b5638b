"""How long one averaging step takes: measured, predicted, and against the wire.

    python scripts/bench_comm.py                     # this machine, 2, 4 and 8 ranks
    python scripts/bench_comm.py --testbed 1gbit     # 4 hosts of a virtual cluster (root)

Every rank averages a float32 vector. A contender's time in a round is that of its slowest rank;
rounds interleave the contenders in random order, five calls each in a row; the median is
reported. Horovod, whose thread never rests, comes after the others. alpha and beta are fitted to
plain messages (every rank to the next) measured in the same rounds; the predictions use nothing
else. Writes results/bench_comm/<where>/: table.md, table.csv, figure.png and figure.svg.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import torch

from expograph import engines
from expograph.analysis.cost_model.model import Link, fit, mean_step_seconds
from expograph.cluster.mpi_group import MpiGroup
from expograph.files import replace_text
from expograph.graphs.topology import build
from expograph.memory import keep_freed_memory
from expograph.report import figures, style
from expograph.runs import results
from expograph.runs.provenance import provenance

SIZES = [1_000, 10_000, 100_000, 1_000_000, 4_000_000]
CONTENDERS = {  # label: engine and topology
    "BlueFog allreduce": ("bluefog", "fully_connected"),
    "Horovod allreduce": ("horovod", "fully_connected"),
    "static exponential": ("bluefog", "static_exponential"),
    "one-peer exponential": ("bluefog", "one_peer_exponential"),
    "ring": ("bluefog", "ring"),
    "one-peer exponential, mpi4py": ("mpi", "one_peer_exponential"),
}
MESSAGE = "one message"  # every rank to the next: what alpha and beta are fitted to
STEP, BARE = "step", "bare neighbor_allreduce"  # by the engine; by hand; the one-peer graph
VISIT = 5  # calls of one contender in a row
FLAT, EACH, EACH_QUEUED = "one flat call", "a call a tensor", "a call a tensor, all queued"


def resnet20_shapes() -> list[tuple[int, ...]]:
    """Shapes of the 65 parameter tensors of ResNet-20 for CIFAR (He et al. 2016), 0.27 million."""
    shapes: list[tuple[int, ...]] = [(16, 3, 3, 3), (16,), (16,)]
    width = 16
    for stage in (16, 32, 64):
        for block in range(3):
            for inputs in (width if block == 0 else stage, stage):
                shapes += [(stage, inputs, 3, 3), (stage,), (stage,)]
        width = stage
    return [*shapes, (10, 64), (10,)]


# ---- one rank ----


def of_horovod(job: MpiGroup, size: int) -> dict[str, Callable[[int], object]]:
    """Horovod's contenders at one message size: label -> function of the round's number."""
    return averaging(job, size, {"horovod"})


def averaging(job: MpiGroup, size: int, libraries: set[str]) -> dict[str, Callable[[int], object]]:
    x = torch.randn(1, size)
    timed: dict[str, Callable[[int], object]] = {}
    for label, (name, topology) in CONTENDERS.items():
        if name in libraries:
            engine = engines.build(name, build(topology, job.size), job)
            timed[label] = lambda k, engine=engine: engine.mixer(k)(x)
    return timed


def of_the_others(job: MpiGroup, size: int) -> dict[str, Callable[[int], object]]:
    """All other contenders at one message size."""
    timed = averaging(job, size, {"bluefog", "mpi"})
    x = torch.randn(1, size)
    inbox, outbox = torch.empty(size), x[0].clone()

    def message(k: int) -> None:
        requests = [
            job.comm.Irecv(inbox.numpy(), (job.rank - 1) % job.size),
            job.comm.Isend(outbox.numpy(), (job.rank + 1) % job.size),
        ]
        for request in requests:
            job.wait(request.Test, MESSAGE)

    timed[MESSAGE] = message
    return timed


def step_and_bare(job: MpiGroup, size: int) -> dict[str, Callable[[int], object]]:
    """What an engine's averaging adds to BlueFog's call of the same bytes, and nothing between."""
    x = torch.randn(1, size)
    engine = engines.build("bluefog", build("one_peer_exponential", job.size), job)
    return {STEP: lambda k: engine.mixer(k)(x), BARE: bare(job, x)}


def bare(job: MpiGroup, x: torch.Tensor) -> Callable[[int], object]:
    """neighbor_allreduce as its documentation calls it, polled; the one-peer exponential graph."""
    import bluefog.torch as bf

    topology = build("one_peer_exponential", job.size)
    arguments = [
        {
            "self_weight": W.self_weight(job.rank),
            "src_weights": W.sources(job.rank),
            "dst_weights": W.destinations(job.rank),
            "enable_topo_check": False,
        }
        for W in map(topology.at, range(topology.period))
    ]

    def call(k: int) -> torch.Tensor:
        handle = bf.neighbor_allreduce_nonblocking(
            x[0], **arguments[k % len(arguments)], name="bare"
        )
        while not bf.poll(handle):
            time.sleep(20e-6)
        return bf.synchronize(handle)

    return call


def per_tensor(job: MpiGroup) -> dict[str, Callable[[int], object]]:
    """ResNet-20 averaged in one flat call, a call a tensor, and all tensors' calls queued."""
    import bluefog.torch as bf

    engine = engines.build("bluefog", build("one_peer_exponential", job.size), job)
    tensors = [torch.randn(shape) for shape in resnet20_shapes()]
    flat = torch.cat([tensor.flatten() for tensor in tensors]).unsqueeze(0)

    def start(k: int, i: int) -> int:
        part = engine.part(k % engine.topology.period)
        return bf.neighbor_allreduce_nonblocking(
            tensors[i],
            self_weight=part.self_weight,
            src_weights=part.sources,
            dst_weights=part.destinations,
            enable_topo_check=False,
            name=f"tensor.{i}",
        )

    def finish(handle: int) -> torch.Tensor:
        while not bf.poll(handle):
            time.sleep(20e-6)
        return bf.synchronize(handle)

    def queued(k: int) -> None:
        for handle in [start(k, i) for i in range(len(tensors))]:
            finish(handle)

    return {
        FLAT: lambda k: engine.mixer(k)(flat),
        EACH: lambda k: [finish(start(k, i)) for i in range(len(tensors))],
        EACH_QUEUED: queued,
    }


def time_rounds(job: MpiGroup, timed: dict[str, Callable], rounds: int) -> dict[str, float]:
    """Median seconds of the slowest rank, over rounds in which each contender has a turn.

    A turn is VISIT calls in a row, of which the first is not counted: the network's queues and
    windows are then those that the contender itself leaves, as in training.
    """
    seconds: dict[str, list[float]] = {label: [] for label in timed}
    labels = list(timed)
    shuffled = np.random.default_rng(0)  # the same order on every rank
    for turn in range(-(-rounds // (VISIT - 1)) + 1):
        for label in shuffled.permutation(labels).tolist():
            for k in range(VISIT):
                job.wait(job.comm.Ibarrier().Test, "a round")
                start = time.perf_counter()
                timed[label](turn * VISIT + k)
                own = torch.tensor([time.perf_counter() - start], dtype=torch.float64)
                slowest = float(job.gather(own, "a round").max())
                if turn and k:  # the first turn warms up
                    seconds[label].append(slowest)
    return {label: float(np.median(values)) for label, values in seconds.items()}


def worker(sizes: list[int], rounds: int, out: Path) -> None:
    """One rank of the measurement; rank 0 writes what was found as JSON."""
    torch.set_num_threads(1)
    keep_freed_memory()  # as training does
    with MpiGroup() as job:
        found: dict[int, dict[str, float]] = {size: {} for size in sizes}
        tensors = time_rounds(job, per_tensor(job), rounds)
        pairs = {size: time_rounds(job, step_and_bare(job, size), 3 * rounds) for size in sizes}
        for contenders in (of_the_others, of_horovod):
            for size in sizes:
                found[size] |= time_rounds(job, contenders(job, size), rounds)
        if job.rank == 0:
            content = {"ranks": job.size, "seconds": found, "tensors": tensors, "pairs": pairs}
            out.write_text(json.dumps(content))


# ---- the table ----


def table_of(found: dict, rate: float | None) -> pd.DataFrame:
    """One row a contender and size: measured, predicted, wire limit, in milliseconds."""
    n = found["ranks"]
    sizes = {int(size): seconds for size, seconds in found["seconds"].items()}
    messages = 4 * np.array(list(sizes))
    link = fit(messages, np.array([seconds[MESSAGE] for seconds in sizes.values()]))
    rows = []
    for size, seconds in sizes.items():
        for label, (_, name) in CONTENDERS.items():
            topology = build(name, n)
            rows.append(
                {
                    "ranks": n,
                    "elements": size,
                    "averaging": label,
                    "ms": 1e3 * seconds[label],
                    "predicted_ms": 1e3 * mean_step_seconds(topology, 4 * size, link),
                    "wire_ms": None if rate is None else 1e3 * wire_seconds(topology, size, rate),
                }
            )
        rows += [
            {"ranks": n, "elements": size, "averaging": label, "ms": 1e3 * value}
            for label, value in found["pairs"][str(size)].items()
        ]
        rows.append(
            {"ranks": n, "elements": size, "averaging": MESSAGE, "ms": 1e3 * seconds[MESSAGE]}
            | {"predicted_ms": 1e3 * (link.alpha + link.beta * 4 * size)}
        )
    for label, seconds in found["tensors"].items():
        rows.append({"ranks": n, "averaging": f"ResNet-20, {label}", "ms": 1e3 * seconds})
    frame = pd.DataFrame(rows)
    frame["alpha_ms"], frame["gbit"] = 1e3 * link.alpha, 8e-9 / link.beta
    return frame


def wire_seconds(topology, size: int, rate: float) -> float:
    """The least time in which the busiest link can carry a step, at `rate` bytes a second."""
    return mean_step_seconds(topology, 4 * size, Link(0.0, 1 / rate))


def ratios_of(frame: pd.DataFrame) -> pd.DataFrame:
    """The ratios that are promised, each with its target."""
    rows = []
    for n, at in frame.groupby("ranks"):
        ms = at.set_index(["averaging", "elements"])["ms"]
        for size in [s for s in sorted(at["elements"].dropna().unique()) if s >= 100_000]:
            one_peer, where = ms["one-peer exponential", size], f"{n} ranks, {int(size):,} elements"
            ratio = ms[STEP, size] / ms[BARE, size]
            rows.append((f"{where}: step / bare call", ratio, "<= 1.05"))
            wire = at.set_index(["averaging", "elements"])["wire_ms"]
            if size >= 1_000_000 and wire.notna().any():
                limit = wire["one-peer exponential", size]
                rows.append((f"{where}: one-peer / wire limit", one_peer / limit, "<= 1.15"))
                for other, target in (
                    ("BlueFog allreduce", ">= 2.5"),
                    ("Horovod allreduce", ""),
                    ("static exponential", ""),
                ):
                    ratio = ms[other, size] / one_peer
                    rows.append((f"{where}: {other} / one-peer", ratio, target))
        tensors = at.set_index("averaging")["ms"]
        for label in (EACH, EACH_QUEUED):
            ratio = tensors[f"ResNet-20, {label}"] / tensors[f"ResNet-20, {FLAT}"]
            target = ">= 3" if label == EACH else ""
            rows.append((f"{n} ranks, ResNet-20: {label} / {FLAT}", ratio, target))
    return pd.DataFrame(rows, columns=["measured", "value", "target"])


def write(frame: pd.DataFrame, where: str, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    replace_text(folder / "table.csv", frame.to_csv(index=False, float_format="%.5g"))
    machine = provenance()
    note = (
        f"{where}; {machine['cpu']}, {machine['cores']} cores, torch {machine['torch']}. "
        "Medians of interleaved rounds; predicted: alpha-beta model fitted to plain messages "
        "of the same rounds; wire: the bytes of the busiest link at its rate."
    )
    shown = frame[frame["elements"].notna()].copy()
    shown["elements"] = shown["elements"].astype(int).map("{:,}".format)
    columns = {"ms": "measured (ms)", "predicted_ms": "predicted (ms)", "wire_ms": "wire (ms)"}
    shown = shown[["ranks", "elements", "averaging", *columns]].rename(columns=columns)
    shown = shown.dropna(axis=1, how="all")
    for column in set(columns.values()) & set(shown):
        shown[column] = shown[column].map(lambda v: "" if pd.isna(v) else f"{v:.3g}")
    ratios = ratios_of(frame)
    ratios["value"] = ratios["value"].map("{:.2f}".format)
    links = frame.groupby("ranks")[["alpha_ms", "gbit"]].first()
    fitted = "; ".join(
        f"{n} ranks: alpha {link.alpha_ms:.2f} ms, 1/beta {link.gbit:.2f} Gbit/s"
        for n, link in links.iterrows()
    )
    text = (
        f"# Time of one averaging step\n\n{ratios.to_markdown(index=False)}\n\n"
        f"{shown.to_markdown(index=False, disable_numparse=True)}\n\nFitted: {fitted}.\n\n{note}\n"
    )
    replace_text(folder / "table.md", text)
    draw(frame, where, folder)
    print(ratios.to_string(index=False))


@style.styled
def draw(frame: pd.DataFrame, where: str, folder: Path) -> None:
    """Measured (lines) and predicted (crosses) time against the size of the message."""
    ranks = sorted(frame["ranks"].unique())
    figure, axes = style.new_figure(len(ranks), height=2.9)
    for axis, n in zip(axes, ranks, strict=True):
        at = frame[(frame["ranks"] == n) & frame["elements"].notna()].sort_values("elements")
        for label, (engine, topology) in CONTENDERS.items():
            if engine == "mpi":
                continue
            rows, colour = at[at["averaging"] == label], style.COLOURS[topology]
            line = {"color": colour, "linestyle": ":" if engine == "horovod" else "-"}
            axis.plot(rows["elements"], rows["ms"], marker="o", ms=3, label=label, **line)
            axis.plot(rows["elements"], rows["predicted_ms"], "x", ms=5, color=colour)
        rows = at[at["averaging"] == "one-peer exponential"]
        if rows["wire_ms"].notna().any():
            axis.plot(rows["elements"], rows["wire_ms"], "--", color="#777777", lw=1, label="wire")
        axis.plot([], [], "xk", ms=5, label="predicted")
        place = where.split(", ")[-1]  # what matters of it in a narrow panel
        axis.set(title=f"{n} ranks, {place}", xlabel="float32 elements", ylabel="ms a step")
        axis.set(xscale="log", yscale="log")
    style.legend_below(figure, axes[0])
    figures.save(figure, folder / "figure")


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--ranks", type=int, nargs="+", default=None, help="default: 2 4 8")
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES)
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--testbed", metavar="RATE", help="on virtual hosts with links of RATE")
    parser.add_argument("--results", type=Path, default=results.ROOT, help="default: results/")
    parser.add_argument("--worker", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker:
        worker(arguments.sizes, arguments.rounds, arguments.worker)
        return 0
    command = [sys.executable, str(Path(__file__).resolve()), "--rounds", str(arguments.rounds)]
    command += ["--sizes", *map(str, arguments.sizes)]
    frames = []
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder, "found.json")
        command += ["--worker", str(out)]
        if arguments.testbed:
            from expograph.cluster.testbed import Testbed, Unavailable

            try:
                for n in arguments.ranks or [4]:
                    with Testbed(n, arguments.testbed) as testbed:
                        if testbed.run(command).returncode:
                            return 1
                        rate = testbed.rate_bytes
                    frames.append(table_of(json.loads(out.read_text()), rate))
            except Unavailable as e:
                print(e, file=sys.stderr)
                return 2
            where = f"virtual cluster, one rank a host, {arguments.testbed}/s links"
            target = f"testbed_{arguments.testbed}"
        else:
            for n in arguments.ranks or [2, 4, 8]:
                print(f"{n} ranks ...", flush=True)
                if subprocess.run(["bfrun", "-np", str(n), *command]).returncode:
                    return 1
                frames.append(table_of(json.loads(out.read_text()), None))
            where, target = "one machine, shared memory", "one_machine"
    write(pd.concat(frames, ignore_index=True), where, arguments.results / "bench_comm" / target)
    return 0


if __name__ == "__main__":
    sys.exit(main())
