"""One-peer graphs made for servers of several ranks, which average among themselves in turn.

Any other graph can connect servers too: `schedule.hierarchical`, the key `local_size` of a config.
"""

import math

import numpy as np

from expograph.graphs.forms import OnePeer, pairing
from expograph.graphs.mixing import Mixing
from expograph.graphs.schedule import Topology, Undefined, at_least, ceil_log2, cyclic, floor_log


def inner_outer_exponential(n: int, *, local: int = 4) -> Topology:
    """Servers of `local` ranks: in turn one rank of each hears another server, the rest their own.

    At step k the ranks of place k mod `local` average with the same place 2^t servers before,
    t = k mod (1 + floor(log2(servers - 1))); the others with the rank 2^t places before in their
    server, t = k mod (1 + floor(log2(local - 2))), the place that is out not counted. Weights 1/2.
    A rank never exchanges with all servers where the two turns have a common factor.

    Args:
        n: number of ranks, a multiple of `local`.
        local: ranks of a server, at least 3.
    Raises:
        Undefined: for other n, or a single server.
    Ref: BlueFog's GetInnerOuterExpo2DynamicSendRecvRanks.
    """
    at_least(3, local=local)
    if n % local or n == local:
        raise Undefined(f"needs a multiple of local = {local} ranks, two servers or more")
    servers = n // local
    outer, inner = 1 + floor_log(servers - 1, 2), 1 + floor_log(local - 2, 2)
    server, place = np.divmod(np.arange(n), local)

    def at(k: int) -> Mixing:
        out = k % local
        hop = np.full(n, 2 ** (k % inner))
        hop += hop >= (place - out) % local  # the rank that is out is passed over
        inside = server * local + (place - hop) % local
        outside = (server - 2 ** (k % outer)) % servers * local + place
        return OnePeer(np.where(place == out, outside, inside))

    return cyclic("inner_outer_exponential", [at(k) for k in range(math.lcm(local, outer, inner))])


def alternating_exp_ring(n: int) -> Topology:
    """AER: nodes that differ in bit i average in pairs, half of the pairs a step before the rest.

    n = 2^t nodes, which are servers where `local_size` is above 1, and average inside while their
    pair waits. Exact after its period of 2 t steps.

    Args:
        n: number of nodes, a power of two.
    Raises:
        Undefined: for other n.
    Ref: Wang et al., ICLR 2025, arXiv:2410.11998; Decent-DP's alternating-exp-ring.
    """
    if n & (n - 1):
        low = 1 << floor_log(n, 2)
        raise Undefined(f"needs a power of two of nodes: {low} and {2 * low} are the nearest")
    steps, paired = [], 0
    for bit in range(ceil_log2(n)):
        first = np.arange(n)[(np.arange(n) >> bit) & 1 == 0]
        pairs = np.stack([first, first + 2**bit], axis=1)
        odd = (paired + np.arange(len(pairs))) % 2 == 1
        steps += [pairing(n, pairs[odd]), pairing(n, pairs[~odd])]
        paired += len(pairs)
    return cyclic("alternating_exp_ring", steps or [pairing(1, np.empty((0, 2), int))])
