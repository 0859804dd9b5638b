"""Parts of a user's own that a run names, made known to the packages that look them up."""

from collections.abc import Iterable

from expograph import algorithms, data, names, own, problems
from expograph.algorithms import Algorithm
from expograph.config import Run
from expograph.graphs import convert, topology
from expograph.looks import ATTRIBUTE, LOOKS, Look


def check(runs: Iterable[Run]) -> None:
    """Import what is the user's own in these runs, and build it once.

    Raises:
        ValueError: in one line, where something cannot be had or is not what it should be.
    """
    runs = list(runs)
    for run in {(r.topology, r.algorithm, r.nodes, r.seed): r for r in runs}.values():
        register(run)
        topology.build(run.topology, run.nodes, run.seed)
    for run in {(r.problem.model_dump_json(), r.ranks): r for r in runs}.values():
        dataset = getattr(run.problem, "dataset", "")
        if own.is_own(dataset):
            data.load(dataset)
        if run.problem.kind == "own":
            problems.build(run.problem, run.ranks, [0], run.seed)


def register(run: Run) -> dict[str, dict[str, str]]:
    """Import the topology and the algorithm of a run that are a user's own, in this process.

    Returns:
        How they look, by address, for the run's record.
    Raises:
        ValueError: in one line, where one cannot be had or has no such parameter.
    """
    if own.is_own(run.topology):
        convert.register(run.topology)
    if own.is_own(run.algorithm):
        _algorithm(run.algorithm)
    parts = [own.address(text) for text in (run.topology, run.algorithm) if own.is_own(text)]
    return {part: LOOKS[part]._asdict() for part in parts}


def _algorithm(text: str) -> None:
    address, _ = names.parse(text)
    if address not in algorithms.ALGORITHMS:
        factory = own.imported("algorithm", address)
        algorithms.ALGORITHMS[address] = factory
        LOOKS[address] = getattr(factory, ATTRIBUTE, Look())
    if not isinstance(algorithms.build(text), Algorithm):
        raise ValueError(f"algorithm {address!r}: the function returns no expograph.Algorithm")
