"""Tensors of a model as flat vectors, as messages carry them.

A `Row` is what a rank's row of x is in `x <- W x`: one vector for each type that the tensors have.
"""

from collections.abc import Callable, Iterable, Sequence
from itertools import groupby
from typing import NamedTuple, TypeVar

import torch
from torch import Tensor

Item = TypeVar("Item")
HALVES = (torch.float16, torch.bfloat16)


class Piece(NamedTuple):
    """Tensors that travel in one vector.

    Attributes:
        tensors: of one type and device, of any strides.
        wire: the type in which they travel. Half-precision tensors are averaged in single
            precision and rounded once.
    """

    tensors: list[Tensor]
    wire: torch.dtype


class Row:
    """Some tensors and the flat vectors that stand for them, a `Piece` each."""

    def __init__(self, tensors: Iterable[Tensor], wire: torch.dtype | None = None) -> None:
        """Sort the tensors by type and device.

        Args:
            tensors: floating-point, each once.
            wire: the type in which those of single precision travel; None for their own.
        """
        found = [list(group) for _, group in groupby(sorted(tensors, key=_kind), _kind)]
        self.pieces = [Piece(one, (_single(one) and wire) or one[0].dtype) for one in found]

    @property
    def wires(self) -> list[torch.dtype]:
        """The type in which each vector travels."""
        return [piece.wire for piece in self.pieces]

    def pack(self) -> list[Tensor]:
        """The tensors' values, in new flat vectors."""
        return [
            torch.cat([t.detach().reshape(-1) for t in piece.tensors]).to(_working(piece))
            for piece in self.pieces
        ]

    @torch.no_grad()
    def unpack(self, flats: Sequence[Tensor]) -> None:
        """Give the tensors these values; strides stay."""
        self._each(torch._foreach_copy_, flats)

    @torch.no_grad()
    def add(self, flats: Sequence[Tensor]) -> None:
        """Add these values to the tensors."""
        self._each(torch._foreach_add_, flats)

    def _each(self, operation: Callable[..., object], flats: Sequence[Tensor]) -> None:
        for piece, flat in zip(self.pieces, flats, strict=True):
            parts = torch.split(flat, [t.numel() for t in piece.tensors])
            shaped = [p.view(t.shape) for p, t in zip(parts, piece.tensors, strict=True)]
            operation(piece.tensors, shaped)


def in_buckets(items: Iterable[Item], size: Callable[[Item], int], most: float) -> list[list[Item]]:
    """The items in their order, in buckets of at most `most` bytes, or one item."""
    buckets: list[list[Item]] = []
    room = 0.0
    for item in items:
        if not buckets or size(item) > room:
            buckets.append([])
            room = most
        buckets[-1].append(item)
        room -= size(item)
    return buckets


def _kind(tensor: Tensor) -> tuple[str, str]:
    return str(tensor.dtype), str(tensor.device)


def _single(tensors: list[Tensor]) -> bool:
    return tensors[0].dtype == torch.float32


def _working(piece: Piece) -> torch.dtype:
    dtype = piece.tensors[0].dtype
    return torch.float32 if dtype in HALVES else dtype
