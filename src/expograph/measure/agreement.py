"""Do the engines give the same parameters? Every algorithm on every topology, on each engine.

Each combination trains from the same config and seed on the embedded engine and as a real MPI job
on BlueFog, mpi4py and, where it averages exactly, Horovod; some also with the ranks in servers of
two. Compared are the final parameters of every worker, |x - x_embedded| / |x_embedded|, the
largest over the workers, and the bytes counted.
"""

import itertools
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from expograph import algorithms, engines
from expograph.analysis.table_result import Cell, Column, Row, TableResult, Tables
from expograph.cluster.mpi_group import MpiGroup
from expograph.config import Run
from expograph.graphs.topology import names
from expograph.runs.assemble import assemble

STEPS, QUICK_STEPS = 100, 20
ON_SERVERS = ("static_exponential", "one_peer_exponential")
QUICK = "random_match"  # what a quick comparison trains with every algorithm
TOLERANCE = 1e-5
PROBLEM = {"kind": "classification", "dataset": "digits", "batch_size": 8, "partition": "label"}
LABELS = ("algorithm", "topology", "ranks", "local_size", "engine")


def combinations(n: int, seed: int, model: str, quick: bool = False) -> list[Run]:
    """A run of every algorithm on every topology that it is defined for, and some on servers."""
    rules = {name: algorithms.build(name) for name in algorithms.ALGORITHMS}
    chosen = [
        (name, topology, 1)
        for name, rule in rules.items()
        for topology in (("fully_connected",) if rule.exact else names())
        if not quick or topology == QUICK or name in ("psgd", "dmsgd")
    ]
    if n >= 4 and n % 2 == 0:
        chosen += [("psgd", "fully_connected", 2)]
        chosen += itertools.product(("dmsgd", "vanilla_dmsgd"), ON_SERVERS, (2,))
    return [
        Run.model_validate(
            {
                "problem": {**PROBLEM, "model": model, "weight_decay": 1e-3},
                "topology": topology,
                "nodes": n // local_size,
                "local_size": local_size,
                "algorithm": name,
                "steps": QUICK_STEPS if quick else STEPS,
                "lr": 0.02,
                "beta": 0.9 if rules[name].momentum else 0.0,
                "seed": seed,
                "record_every": STEPS,
            }
        )
        for name, topology, local_size in chosen
    ]


def worker(seed: int, model: str, quick: bool, out: Path) -> None:
    """One rank of the comparison; rank 0 writes a JSON list, an object a combination and engine."""
    torch.set_num_threads(1)
    compared: list[dict[str, Any]] = []
    with MpiGroup() as group:
        for run in combinations(group.size, seed, model, quick):
            models = _models(run, group)
            if group.rank == 0:
                compared += _compared(run, models)
        if group.rank == 0:
            out.write_text(json.dumps(compared), encoding="utf-8")


def _models(run: Run, group: MpiGroup) -> dict[str, tuple[torch.Tensor, int]]:
    """By engine: (n, d) parameters after training, and bytes sent by all ranks together."""
    models = {}
    for name in engines.ENGINES:
        if name == "horovod" and run.topology != "fully_connected":
            continue
        if name != "embedded" or group.rank == 0:
            on_engine = Run.model_validate({**run.model_dump(), "engine": name})
            assembly = assemble(on_engine, group)
            engine = assembly.engine
            *_, last = assembly.records()
            models[name] = engine.gather(last.x), int(engine.gather(engine.sent).sum())
    return models


def _compared(run: Run, models: dict[str, tuple[torch.Tensor, int]]) -> list[dict[str, Any]]:
    reference, counted = models["embedded"]
    labels = (run.algorithm, run.topology, run.ranks, run.local_size)
    return [
        dict(zip(LABELS, (*labels, name), strict=True))
        | {
            "difference": float(((x - reference).norm(dim=1) / reference.norm(dim=1)).max()),
            "bytes": sent,
            "bytes_embedded": counted,
        }
        for name, (x, sent) in models.items()
        if name != "embedded"
    ]


def tables_of(
    compared: Sequence[Mapping[str, Any]], seed: int, model: str, made: Mapping[str, Any]
) -> Tables:
    """Every comparison, and the worst over the topologies, which is what is shown."""
    agreement = TableResult(
        id="agreement",
        heading="Every comparison",
        labels=LABELS,
        columns=(
            Column(name="difference", format=".2e"),
            Column(name="bytes", format=".0f"),
            Column(name="bytes_embedded", format=".0f"),
        ),
        rows=tuple(
            Row(
                labels=tuple(row[key] for key in LABELS),
                cells=tuple(
                    Cell(mean=row[key]) for key in ("difference", "bytes", "bytes_embedded")
                ),
            )
            for row in compared
        ),
        shown=False,
    )
    topologies = len({row["topology"] for row in compared})
    return Tables(
        title="The engines agree",
        tables=(_worst(compared), agreement),
        notes=(
            f"Largest |x - x_embedded| / |x_embedded| over the workers and the {topologies} "
            f"topologies after {STEPS} steps of the {model} model (float32) on digits sorted by "
            f"label, seed {seed}; {len(compared)} comparisons, tolerance {TOLERANCE:g}. Horovod "
            "averages exactly: fully_connected only. On servers of two ranks: parallel SGD, DmSGD "
            "and vanilla DmSGD on the exponential graphs. Every combination is in table.json.",
            f"{made['cpu']}, {made['cores']} cores, torch {made['torch']}; `make engines-agree`",
        ),
        made={"seed": seed, "model": model, **made},
    )


def _worst(compared: Sequence[Mapping[str, Any]]) -> TableResult:
    """A row an algorithm, a column an engine and number of ranks."""
    worst: dict[tuple[str, str, int], float] = {}
    for row in compared:
        place = row["algorithm"], row["engine"], row["ranks"]
        worst[place] = max(row["difference"], worst.get(place, 0.0))
    columns = sorted({place[1:] for place in worst})
    return TableResult(
        id="worst",
        heading="Largest difference",
        labels=("algorithm",),
        columns=tuple(Column(name=f"{e}, {n} ranks", format=".1e") for e, n in columns),
        rows=tuple(
            Row(
                labels=(name,),
                cells=tuple(Cell(mean=worst.get((name, *column))) for column in columns),
            )
            for name in dict.fromkeys(row["algorithm"] for row in compared)
        ),
    )
