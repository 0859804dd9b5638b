"""The environment variables of ours, checked before anything runs."""

import os

from expograph.cluster.launch import time_limit
from expograph.config import ConfigError

LOADERS = "EXPOGRAPH_LOADERS"  # threads that decode images
MOST_LOADERS = 1024


def check() -> None:
    """That every variable has a value that will be understood.

    Raises:
        ConfigError, JobError: in one line with the variable and what is allowed.
    """
    time_limit()
    loaders = os.environ.get(LOADERS, "")
    number = int(loaders) if loaders.isascii() and loaders.isdecimal() else 0
    if loaders and not 1 <= number <= MOST_LOADERS:
        raise ConfigError(f"{LOADERS}={loaders}: need a whole number from 1 to {MOST_LOADERS}")
