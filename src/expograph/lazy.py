"""The public names of the package, each imported when it is first used.

`import expograph` alone imports nothing else of ours, so neither torch nor scipy. What the names
stand for is repeated for editors and type checkers in `__init__.pyi`; a test holds the two
together.
"""

import importlib
from importlib import metadata
from typing import Any

PACKAGE = __name__.rpartition(".")[0]
MODULES = ("algorithms", "config", "data", "engines", "graphs", "networks", "problems")
NAMES = {  # name -> the module of the package that has it
    "topology": "graphs.convert",
    "Topology": "graphs.topology",
    "Mixing": "graphs.mixing",
    "ScheduleError": "graphs.checks",
    "named": "looks",
    "mixing": "api.graphs",
    "spectral_gap": "api.graphs",
    "contraction": "api.graphs",
    "averages_exactly": "api.graphs",
    "S": "api.graphs",
    "H": "api.graphs",
    "Algorithm": "algorithms.base",
    "Embedded": "engines.embedded",
    "Supervised": "problems.supervised",
    "Problem": "problems.problem",
    "train": "api.training",
    "Trained": "api.training",
    "Averager": "averager.averager",
    "load": "api.loading",
    "Results": "api.loading",
    "Experiment": "config.schema",
    "ConfigError": "config.errors",
}
PUBLIC = ["__version__", *MODULES, *NAMES]


def __getattr__(name: str) -> Any:
    """What a public name of the package stands for."""
    if name == "__version__":
        return _version()
    if name in MODULES:
        return importlib.import_module(f"{PACKAGE}.{name}")
    if name in NAMES:
        return getattr(importlib.import_module(f"{PACKAGE}.{NAMES[name]}"), name)
    raise AttributeError(f"module {PACKAGE!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(PUBLIC)


def _version() -> str:
    try:
        return metadata.version(PACKAGE)
    except metadata.PackageNotFoundError:  # a source tree that is not installed
        return "0+unknown"
