"""CECA: exact consensus in ceil(log2 n) rounds for any n, with two models a rank.

Every rank has x and x_hat, equal at first, and sends one of them to one other rank a round, so
that no (n, n) matrix says what a round does: it is no topology that a rule could mix by, and has
neither S nor H. Here are its rounds, and the (2n, 2n) matrix that acts on all x over all x_hat.

With the bits d of n - 1 from the highest on, and e = 0 at first, rank i hears r from rank j(i):

    d = 1: r = x_j, x <- x/2 + r/2, x_hat <- e/(2e+1) x_hat + (e+1)/(2e+1) r
    d = 0: r = x_hat_j, x <- (e+1)/(2e+1) x + e/(2e+1) r, x_hat <- x_hat/2 + r/2;  e <- 2e + d

Ref: Ding et al. 2023, arXiv:2306.00256 (DSGD-CECA).
"""

from dataclasses import dataclass

import numpy as np
from scipy.sparse import block_array, csr_array, eye_array

from expograph.graphs.schedule import Undefined, ceil_log2

NAMES = {"ceca_1p": 1, "ceca_2p": 2}  # name -> ports: whether sending and hearing have one partner


@dataclass(frozen=True)
class Round:
    """One round: whom each rank hears, which model it is sent, and the weights.

    Attributes:
        heard: (n,) int, rank i hears rank heard[i].
        hat: whether x_hat is sent, or x.
        x, x_hat: weight of what is heard in the new x and x_hat.
    """

    heard: np.ndarray
    hat: bool
    x: float
    x_hat: float

    @property
    def matrix(self) -> csr_array:
        """(2n, 2n), acting on (x of all ranks, x_hat of all ranks)."""
        n = len(self.heard)
        I = eye_array(n, format="csr")
        P = csr_array((np.ones(n), (np.arange(n), self.heard)), shape=(n, n))
        a, b = self.x, self.x_hat
        if self.hat:
            blocks = [[(1 - a) * I, a * P], [None, (1 - b) * I + b * P]]
        else:
            blocks = [[(1 - a) * I + a * P, None], [b * P, (1 - b) * I]]
        return csr_array(block_array(blocks))


def rounds(n: int, ports: int = 2) -> list[Round]:
    """The rounds of a period, ceil(log2 n) of them; none for a rank alone.

    Args:
        n: number of ranks.
        ports: 2, a rank hears one rank and sends to another; 1, both are the same, and n is even.
    Raises:
        Undefined: for one port and odd n > 1.
    """
    if ports == 1 and n % 2 and n > 1:
        raise Undefined("pairs odd ranks with even ones: n must be even; ceca_2p takes any n")
    ranks, e, found = np.arange(n), 0, []
    for bit in reversed(range(ceil_log2(n))):
        d = (n - 1) >> bit & 1
        if ports == 2:
            heard = (ranks - e - d) % n
        else:
            heard = (ranks + np.where(ranks % 2, 1, -1) * (2 * e + 1)) % n
        more, less = (e + 1) / (2 * e + 1), e / (2 * e + 1)
        found.append(Round(heard, hat=not d, x=0.5 if d else less, x_hat=more if d else 0.5))
        e = 2 * e + d
    return found


def deviation(x: np.ndarray, ports: int = 2) -> float:
    """|x after a period - J x|_F / |x|_F, for starts x = x_hat (n, columns): 0 up to rounding."""
    both = np.concatenate([x, x])
    for one in rounds(len(x), ports):
        both = one.matrix @ both
    return float(np.linalg.norm(both[: len(x)] - x.mean(axis=0)) / np.linalg.norm(x))
