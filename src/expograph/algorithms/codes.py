"""Vectors as fewer bytes: what a row of a message becomes, and what it stands for again.

Either code is a contraction, |x - decode(encode(x))| < |x| for x != 0, which is what error
feedback asks of it. All bytes of a row are in the wire, those of scales and places too.
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor


class Code(NamedTuple):
    """Two functions over rows.

    Attributes:
        encode: (R, d) -> (R, b) uint8; b depends on d and the type of number alone.
        decode: ((m, b) uint8, like) -> (m, d), with d and the type of number of `like` (R, d).
    """

    encode: Callable[[Tensor], Tensor]
    decode: Callable[[Tensor, Tensor], Tensor]


def integers(bits: int) -> Code:
    """Each row as whole multiples of max |x| / (2^(bits-1) - 1), the nearest; 8 // bits a byte."""
    per, offset = 8 // bits, 2 ** (bits - 1)
    shifts = torch.arange(0, 8, bits)

    def encode(x: Tensor) -> Tensor:
        unit = x.abs().amax(dim=1, keepdim=True) / (offset - 1)
        levels = torch.where(unit > 0, x / unit, 0).round() + offset
        levels = torch.nn.functional.pad(levels, (0, -x.shape[1] % per)).to(torch.uint8)
        packed = (levels.reshape(len(x), -1, per) << shifts.to(x.device)).sum(dim=2)
        return torch.cat([unit.view(torch.uint8), packed.to(torch.uint8)], dim=1)

    def decode(wire: Tensor, like: Tensor) -> Tensor:
        head = like.element_size()
        unit = _numbers(wire[:, :head], like.dtype)
        levels = (wire[:, head:].unsqueeze(2) >> shifts.to(wire.device)) % 2**bits
        values: Tensor = levels.flatten(1)[:, : like.shape[1]].to(like.dtype) - offset
        return values * unit

    return Code(encode, decode)


def largest(fraction: float) -> Code:
    """The `fraction` of each row that is largest in modulus, at least one; places are int32."""

    def encode(x: Tensor) -> Tensor:
        places = x.abs().topk(max(1, round(fraction * x.shape[1])), dim=1, sorted=False).indices
        values = x.gather(1, places)
        return torch.cat([places.int().view(torch.uint8), values.view(torch.uint8)], dim=1)

    def decode(wire: Tensor, like: Tensor) -> Tensor:
        count = wire.shape[1] // (4 + like.element_size())
        places = _numbers(wire[:, : 4 * count], torch.int32).long()
        values = _numbers(wire[:, 4 * count :], like.dtype)
        return like.new_zeros(len(wire), like.shape[1]).scatter_(1, places, values)

    return Code(encode, decode)


def _numbers(wire: Tensor, dtype: torch.dtype) -> Tensor:
    """Columns of a wire as the numbers that they are the bytes of."""
    return wire.new_empty(wire.shape).copy_(wire).view(dtype)
