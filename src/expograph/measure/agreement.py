"""Do the engines give the same parameters? Every algorithm on every topology, on each engine.

Each combination trains from the same config and seed on the embedded engine and as real jobs: of
MPI on BlueFog, mpi4py and, where it averages exactly, Horovod; of torch.distributed over gloo. Some
also with the ranks in servers of two. Compared are the final parameters of every worker,
|x - x_embedded| / |x_embedded|, the largest over the workers, and the bytes counted.
"""

import itertools
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from expograph import algorithms, cluster
from expograph.algorithms import Algorithm
from expograph.analysis.table_result import Cell, Column, Row, TableResult, Tables
from expograph.cluster.group import Group
from expograph.config import Run
from expograph.config.facts import ENGINES
from expograph.graphs.checks import ScheduleError, check_schedule
from expograph.graphs.topology import Topology, build, names
from expograph.runs.assemble import assemble

STEPS, QUICK_STEPS = 100, 20
ON_SERVERS = ("static_exponential", "one_peer_exponential")
RULES_ON_SERVERS = ("dmsgd", "vanilla_dmsgd", "gossip_pga")
QUICK = ("random_match", "ring")  # a quick comparison trains every algorithm on the first it allows
QUICK_THREE = (*QUICK, "star", "static_exponential")  # and over four ranks on three of these
CODED = ("choco_int", "choco_topk")
PARAMETERS = {  # of rules that would do nothing of their own in so few steps
    "gossip_pga": "every=5",
    "local_sgd": "every=5, outer_lr=0.7, outer_beta=0.5",
    "slowmo": "every=5",
    "diloco": "every=5, outer_beta=0.5",
    "noloco": "every=5",
    "sparta": "fraction=0.1",
}
STEP_SIZE = {"accum_adam": 0.001, "diloco": 0.001, "noloco": 0.001}  # others: LR
LR = 0.02
TOLERANCE = 1e-5
PROBLEM = {"kind": "classification", "dataset": "digits", "batch_size": 8, "partition": "label"}
IN_DOUBLE = {"kind": "logistic", "dim": 100, "heterogeneity": 1.0}
LABELS = ("algorithm", "topology", "ranks", "local_size", "engine")


def combinations(n: int, seed: int, model: str, quick: bool = False) -> list[Run]:
    """A run of every algorithm on every topology that it is defined for, and some on servers."""
    rules = {name: algorithms.build(name) for name in algorithms.ALGORITHMS}
    graphs = {topology: build(topology, n, seed) for topology in names(n)}
    chosen = []
    for name, rule in rules.items():
        found = [topology for topology, graph in graphs.items() if allowed(rule, graph)]
        if quick and name not in ("psgd", "dmsgd"):
            wanted, count = (QUICK_THREE, 3) if n == 4 else (QUICK, 1)
            found = [topology for topology in wanted if topology in found][:count]
        chosen += [(name, topology, 1) for topology in found]
    if n >= 4 and n % 2 == 0:
        chosen += [("psgd", "fully_connected", 2)]
        chosen += itertools.product(RULES_ON_SERVERS, ON_SERVERS, (2,))
    return [
        Run.model_validate(
            {
                # a rounding of float32 that moves a code by a unit shows in the models
                "problem": IN_DOUBLE
                if name in CODED
                else {**PROBLEM, "model": model, "weight_decay": 1e-3},
                "topology": topology,
                "nodes": n // local_size,
                "local_size": local_size,
                "algorithm": f"{name}({PARAMETERS.get(name, '')})",
                "steps": QUICK_STEPS if quick else STEPS,
                "lr": STEP_SIZE.get(name, LR),
                "beta": 0.9 if rules[name].momentum else 0.0,
                "seed": seed,
                "record_every": STEPS,
            }
        )
        for name, topology, local_size in chosen
    ]


def allowed(rule: Algorithm, graph: Topology) -> bool:
    """Whether a rule is defined over a graph."""
    try:
        check_schedule(graph, rule.stochastic, rule.needs)
    except ScheduleError:
        return False
    return not rule.exact or graph.name == "fully_connected"


def worker(carrier: str, seed: int, model: str, quick: bool, out: Path) -> None:
    """One rank of the comparison; rank 0 writes a JSON list, an object a combination and engine."""
    torch.set_num_threads(1)
    compared: list[dict[str, Any]] = []
    with cluster.join(carrier) as group:
        for run in combinations(group.size, seed, model, quick):
            models = _models(run, group, carrier)
            if group.rank == 0:
                compared += _compared(run, models)
        if group.rank == 0:
            out.write_text(json.dumps(compared), encoding="utf-8")


def _models(run: Run, group: Group, carrier: str) -> dict[str, tuple[torch.Tensor, int]]:
    """By engine: (n, d) parameters after training, and bytes sent by all ranks together."""
    models = {}
    for name, facts in ENGINES.items():
        if facts.ranks not in ("one", carrier):
            continue
        if facts.exact and (run.topology != "fully_connected" or run.algorithm in CODED):
            continue
        if facts.ranks != "one" or group.rank == 0:
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
            f"label, seed {seed}, coded messages of logistic regression in float64 instead; "
            f"{len(compared)} comparisons, tolerance {TOLERANCE:g}. Horovod "
            "averages exactly: fully_connected only. On servers of two ranks: parallel SGD, DmSGD, "
            "vanilla DmSGD and Gossip-PGA on the exponential graphs. Every combination is in "
            "table.json.",
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
