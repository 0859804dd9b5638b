"""expograph: decentralized deep training over exponential graphs, reproduced and measured.

Read in this order: `topology`, `algorithms`, `engines.embedded`, `train`.
"""
