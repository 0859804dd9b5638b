"""python -m expograph"""

import sys

from expograph.cli import main

if __name__ == "__main__":
    sys.exit(main())
