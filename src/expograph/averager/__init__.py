"""Decentralized averaging in a training loop of one's own: `Averager`."""

from expograph.averager.averager import Averager

__all__ = ["Averager"]
