"""S/n and H/n, what decides a graph, by topology and number of ranks."""

from collections.abc import Callable

from expograph.analysis.table_result import Cell, Column, Row, TableResult
from expograph.graphs.disagreement import H, S
from expograph.graphs.topology import Topology, build

SIZES = (16, 32, 64, 256, 1024, 4096)
LARGEST = {  # topology -> ranks up to which it takes seconds: no modes, or a dense eigensolver
    "one_peer_exponential": 4096,
    "one_peer_exponential(order=uniform)": 256,
    "static_exponential": 4096,
    "one_peer_hypercube": 4096,
    "hypercube": 4096,
    "random_match": 64,
    "half_random": 1024,
    "torus": 4096,
    "grid": 1024,
    "ring": 4096,
    "star": 1024,
}


def disagreement_tables() -> tuple[TableResult, TableResult]:
    """The tables "noise", S/n, and "pull", H/n."""
    return (
        _table("noise", "S / n: what gradient noise leaves of disagreement", S),
        _table("pull", "H / n: what unlike data leave of disagreement", H),
    )


def _table(id: str, heading: str, number: Callable[[Topology], float]) -> TableResult:
    def cell(name: str, n: int) -> Cell:
        return Cell() if n > LARGEST[name] else Cell(mean=number(build(name, n)) / n)

    return TableResult(
        id=id,
        heading=heading,
        labels=("topology",),
        columns=tuple(
            Column(name=f"{n:,} nodes", key="nodes", value=n, format=".3g") for n in SIZES
        ),
        rows=tuple(
            Row(labels=(name,), cells=tuple(cell(name, n) for n in SIZES)) for name in LARGEST
        ),
    )
