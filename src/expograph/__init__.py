"""expograph: decentralized deep training over exponential graphs, reproduced and measured.

    import expograph as eg

    graph = eg.topology("one_peer_exponential", 16)     # or edges, a networkx graph, matrices, ...
    eg.averages_exactly(graph), eg.S(graph)             # what it implies
    problem = eg.Supervised(module, loss, inputs, targets)
    eg.train(problem, "dsgd_atc", graph, steps=1000, lr=0.1).curve

docs/api.md has all names. To read the source, begin with `graphs.topology`, `algorithms`,
`engines.embedded`, `runs.train`.
"""

from expograph.lazy import PUBLIC
from expograph.lazy import __dir__ as __dir__
from expograph.lazy import __getattr__ as __getattr__

__all__ = PUBLIC
