"""`expograph train` for launchers that start a script.

bfrun -np 8 python scripts/train.py configs/table2.toml engine=bluefog
"""

import sys

from expograph.cli import main

if __name__ == "__main__":
    sys.exit(main(["train", *sys.argv[1:]]))
