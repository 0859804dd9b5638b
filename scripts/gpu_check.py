"""Does a GPU give the numbers of the CPU, and how fast? Some minutes; writes nothing.

Exit status 0 if all are equal, 1 if some are not, 2 if it is untried: torch sees no CUDA device.
"""

import argparse
import sys

import torch
from rich.console import Console
from rich.table import Table

from expograph.measure import gpu


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=32)
    arguments = parser.parse_args()
    if not torch.cuda.is_available():
        print("gpu-check: untried: torch sees no CUDA device", file=sys.stderr)
        return 2
    table = Table("run", "difference", "CPU ms/step", "CUDA ms/step", "times as fast")
    compared = list(gpu.compare(nodes=arguments.nodes))
    for one in compared:
        difference = f"{one.difference:.1e}" + ("" if one.equal else f" > {gpu.TOLERANCE:g}")
        times = f"{1e3 * one.cpu:.1f}", f"{1e3 * one.device:.1f}", f"{one.cpu / one.device:.1f}"
        table.add_row(one.what, difference, *times)
    Console().print(torch.cuda.get_device_name(), table)
    return int(not all(one.equal for one in compared))


if __name__ == "__main__":
    sys.exit(main())
