"""Draw every figure from the committed results and the topologies alone; trains nothing."""

import argparse
import sys
from pathlib import Path

import pandas as pd

from expograph import results
from expograph.report import figures

CONSENSUS = (
    "ring",
    "grid",
    "torus",
    "half_random",
    "random_match",
    "static_exponential",
    "one_peer_exponential",
    "one_peer_exponential_uniform",
)
CURVES = {  # experiment -> its figure
    "table1": lambda curves: figures.relative_errors(curves, "error_workers", 1.5),
    "table2": lambda curves: figures.training_curves(
        curves, "accuracy_averaged", "test accuracy of the averaged model (%)"
    ),
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--results", type=Path, default=results.ROOT, help="default: results/")
    root = parser.parse_args().results
    folder = root / "figures"
    drawn = {
        "spectral_gap": figures.gap_against_nodes(),
        "consensus_error": figures.consensus_error(CONSENSUS),
    }
    for name, draw in CURVES.items():
        path = root / name / "curves.csv"
        if path.exists():
            drawn[f"{name}_curves"] = draw(pd.read_csv(path))
        else:
            print(f"{path} is not there: `make reproduce-table` makes it", file=sys.stderr)
    for name, figure in drawn.items():
        figures.save(figure, folder / name)
    print(f"{len(drawn)} figures in {folder}/ (PNG and SVG): {', '.join(drawn)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
