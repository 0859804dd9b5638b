"""Randomness by address: a draw is named by (seed, stream, ...), not by what was drawn before.

A rank of an MPI job, a row of the embedded engine and a resumed run therefore see the same
numbers: `generator(seed, BATCHES, rank, epoch)` is the same generator wherever it is asked for.
"""

import numpy as np

# the streams; a new one goes to the end
(
    INITIAL,
    PARTITION,
    BATCHES,
    NOISE,
    TOPOLOGY,
    PROBLEM,
    AUGMENT,
    LAYERS,
    SCENES,
    HELD_OUT,
    COORDINATES,
) = range(11)


def generator(seed: int, stream: int, *address: int) -> np.random.Generator:
    """The generator at one address; equal arguments give equal draws on every machine.

    Args:
        seed: the run's seed, 0 <= seed < 2^32.
        stream: what the draws are for, one of this module's constants.
        address: further integers >= 0, such as rank and step.
    """
    # spawn_key, not a longer entropy: there (1,) and (1, 0) would be the same address
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(stream, *address)))
