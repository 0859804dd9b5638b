"""Fetch data sets before a run needs them: python scripts/fetch_data.py [NAME ...]."""

import argparse
import sys

from expograph.data import DATASETS, DataUnavailable, load


def main() -> int:
    parser = argparse.ArgumentParser(description="Find or fetch data sets, and verify them.")
    parser.add_argument(
        "names",
        nargs="*",
        metavar="NAME",
        default=["fashion_mnist"],
        help=f"one of {', '.join(DATASETS)} (default: fashion_mnist)",
    )
    parser.add_argument("--root", help="folder of the data sets (default: $EXPOGRAPH_DATA, ./data)")
    args = parser.parse_args()
    try:
        for name in args.names:
            found = load(name, args.root)
            sizes = f"{len(found.train_labels)} train, {len(found.test_labels)} test"
            print(f"{name}: {sizes}, {found.source}")
    except ValueError as error:
        parser.error(str(error))
    except DataUnavailable as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
