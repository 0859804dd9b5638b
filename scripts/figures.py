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
CURVES = {  # experiment -> (metric, axis label, logarithmic axes)
    "table1": ("error_workers", "1/n sum of |x_i - x*|^2", True),
    "table2": ("accuracy_averaged", "test accuracy of the averaged model (%)", False),
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
    for name, (metric, label, log) in CURVES.items():
        path = root / name / "curves.csv"
        if path.exists():
            drawn[f"{name}_curves"] = figures.training_curves(pd.read_csv(path), metric, label, log)
        else:
            print(f"{path} is not there: `make reproduce-table` makes it", file=sys.stderr)
    for name, figure in drawn.items():
        figures.save(figure, folder / name)
    print(f"{len(drawn)} figures in {folder}/ (PNG and SVG): {', '.join(drawn)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
