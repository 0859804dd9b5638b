"""Every laptop run of every config for 3 steps, in a temporary folder: does all still run?"""

import sys
import tempfile
from pathlib import Path

from expograph.measure.smoke import runs_of
from expograph.runs.pool import sweep


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        outcome = sweep(runs_of(Path("configs")), Path(folder))
    print(f"smoke: {outcome.describe()}")
    for run, cause in outcome.failed:
        print(f"failed: {run.label}: {cause}", file=sys.stderr)
    return 1 if outcome.failed or outcome.diverged else 0


if __name__ == "__main__":
    sys.exit(main())
