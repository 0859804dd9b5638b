"""Configs: a TOML file -> an experiment, which is a list of fully resolved, frozen runs.

    name = "table2"             # where its results go: results/<name>/
    scale = "laptop"            # or "paper"; with `scale_of = "table2"` the same, larger
    step_sizes = "table2"       # an entry of step_sizes.toml, from which runs take their lr
    command = "make ..."        # what makes it; by default `expograph sweep <file>`
    [run]                       # what every run shares; keys of `Run`
    [[sweep]]                   # lists of values, all combinations; several blocks are joined
    topology = ["ring", "static_exponential"]
    seed = [0, 1, 2]
    "nodes, steps" = [[8, 100], [16, 400]]    # keys that go together
    [table]                     # what the runs become; keys of `Table`

Dotted keys ("problem.model") reach into the problem. Topologies and algorithms may have
parameters: `name(parameter=value)`. `epochs`, `warmup_epochs`, `decay_epochs` and
`evaluate_epochs` are turned into steps. Anything unknown, mistyped or impossible is one
`ConfigError` line that names the file and the key, before anything runs. Other TOML files in the
same folder say what they are: `kind = "claims"`, "cost_model", "published"
or "step_sizes".

Nothing here imports torch.
"""

from expograph.config.errors import ConfigError
from expograph.config.experiments import experiments, load
from expograph.config.facts import METRICS
from expograph.config.problem_settings import (
    Classification,
    Detection,
    LeastSquares,
    Logistic,
    Own,
    Problem,
)
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
    "Own",
    "Problem",
    "Run",
    "Table",
    "experiments",
    "load",
    "published_numbers",
    "read_toml",
]
