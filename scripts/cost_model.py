"""The cost model against our own measurements and against the paper's hours, and beyond both.

    python scripts/cost_model.py

The study is `expograph.analysis.cost_model.study`; what it stands on is in configs/cost_model.toml
and results/bench_comm/. Writes results/cost_model/: table.json with its renderings, heatmap.csv
and figures.
"""

import argparse
import sys
from pathlib import Path

from rich.console import Console

from expograph.analysis.cost_model import study_tables
from expograph.analysis.cost_model.assumptions import read
from expograph.analysis.cost_model.left_out import LEFT_OUT
from expograph.analysis.cost_model.notes import map_title
from expograph.analysis.cost_model.study import DRAWN, study
from expograph.config import ConfigError
from expograph.files import DamagedFile, replace_text
from expograph.report import figures, rendering
from expograph.report.cost_figures import node_hours, speed_up_map
from expograph.report.screen import Screen, show
from expograph.runs import results
from expograph.runs.provenance import provenance


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--config", type=Path, default=Path("configs/cost_model.toml"))
    parser.add_argument("--results", type=Path, default=results.ROOT, help="default: results/")
    arguments = parser.parse_args()
    try:
        found = study(read(arguments.config), arguments.config, arguments.results)
    except (ConfigError, DamagedFile) as e:
        print(e, file=sys.stderr)
        return 2
    folder = arguments.results / "cost_model"
    tables = study_tables.tables_of(found, str(arguments.config), provenance())
    rendering.write(tables, folder)
    replace_text(folder / "heatmap.csv", found.grid.to_csv(index=False, float_format="%.6g"))
    styles = {"left out": "-", "predictive": "--"}
    others = {"no communication, left out": found.judgement("no communication", LEFT_OUT)}
    figures.save(node_hours(found.hours, styles, others), folder / "figure_hours")
    titled = {map_title(*key): found.maps[key] for key in DRAWN}
    nothing_gained = found.given.beyond.nothing_gained
    figures.save(speed_up_map(titled, nothing_gained), folder / "figure_heatmap")
    for name in ("hours", "left_out"):
        show(Console(), [Screen(tables[name])])
    print(f"written to {folder}/: table.json, table.md, heatmap.csv, figures")
    return 0


if __name__ == "__main__":
    sys.exit(main())
