"""The operations of kernels in PyTorch, and random keys for it. A key is an integer, and a draw is a function of it."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch

from phasecast.sampling.kernels.kernel import Array, Number, State

_APART = 0xA5A5_5A5A_C3C3_3C3C  # keeps the keys of a split from those of a fold
_ALL_BITS = 2**64 - 1


class TorchOps:
    """:class:`~phasecast.sampling.kernels.kernel.Ops` in PyTorch."""

    def split(self, key: int, count: int) -> list[int]:
        return [fold(key ^ _APART, number) for number in range(count)]

    def normal(self, key: int, like: Array) -> Array:
        return torch.randn(like.shape, generator=generator(key, like.device), dtype=like.dtype, device=like.device)

    def uniform(self, key: int, like: Array) -> Array:
        return torch.rand(like.shape, generator=generator(key, like.device), dtype=like.dtype, device=like.device)

    def same_for_all(self, key: int) -> float:
        return fold(key, 0) / 2**64

    def repeat(self, count: Number, body: Callable[[int, State], State], state: State, key: int) -> State:
        for number in range(math.floor(count)):
            state = body(fold(key, number), state)
        return state

    def where(self, chains: Array, new: Array, old: Array) -> Array:
        return torch.where(chains.reshape(chains.shape + (1,) * (new.ndim - 1)), new, old)

    def exp(self, x: Array) -> Array:
        return math.exp(x) if isinstance(x, float) else x.exp()

    def sqrt(self, x: Array) -> Array:
        return math.sqrt(x) if isinstance(x, float) else x.sqrt()

    def clip(self, x: Array, low: float, high: float) -> Array:
        return x.clamp(low, high)

    def finite(self, x: Array) -> Array:
        return x.isfinite()

    def zeros_like(self, x: Array) -> Array:
        return torch.zeros_like(x)


def fold(key: int, number: int) -> int:
    """A key for each number, by the mixing function of SplitMix64 (Steele, Lea & Flood 2014)."""
    mixed = (key + (number + 1) * 0x9E37_79B9_7F4A_7C15) & _ALL_BITS
    mixed = ((mixed ^ (mixed >> 30)) * 0xBF58_476D_1CE4_E5B9) & _ALL_BITS
    mixed = ((mixed ^ (mixed >> 27)) * 0x94D0_49BB_1331_11EB) & _ALL_BITS
    return mixed ^ (mixed >> 31)


def generator(key: int, device: torch.device) -> torch.Generator:
    """The generator whose draws belong to a key."""
    return torch.Generator(device).manual_seed(key >> 1)  # seeds are signed
