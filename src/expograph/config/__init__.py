"""Configs: TOML files -> experiments, which are lists of fully resolved, frozen runs.

Anything unknown, mistyped or impossible is one `ConfigError` line that names the file and the
key, before anything runs. Nothing here imports torch.
"""

from expograph.config.errors import ConfigError
from expograph.config.expand import load
from expograph.config.experiments import experiments
from expograph.config.facts import METRICS
from expograph.config.problem_settings import Classification, Detection, LeastSquares, Logistic
from expograph.config.schema import Experiment, Run, Table
from expograph.config.toml import published_numbers, read_toml

__all__ = [
    "METRICS",
    "Classification",
    "ConfigError",
    "Detection",
    "Experiment",
    "LeastSquares",
    "Logistic",
    "Run",
    "Table",
    "experiments",
    "load",
    "published_numbers",
    "read_toml",
]
