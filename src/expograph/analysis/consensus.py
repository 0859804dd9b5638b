"""Pure averaging: how fast ranks agree that only mix."""

import numpy as np
import torch

from expograph.engines.embedded import Embedded
from expograph.graphs.topology import Topology


def consensus_errors(topology: Topology, steps: int, dim: int) -> np.ndarray:
    """|x(k) - x_bar| / |x(0) - x_bar| for k = 0 ... steps from N(0, 1) rows; 1e-16 is exact.

    Of the embedded engine, with models of `dim` numbers; (steps + 1,).
    """
    x = torch.from_numpy(np.random.default_rng(0).standard_normal((topology.n, dim)))
    engine, errors = Embedded(topology), []
    for k in range(steps + 1):
        errors.append(float((x - x.mean(dim=0)).norm()))
        x = engine.mixer(k)(x)
    return np.maximum(np.array(errors) / errors[0], 1e-16)
