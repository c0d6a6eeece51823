"""What tests of PyTorch modules share; torch must be installed where it is imported."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    """The same bits on every machine; imported by a module of tests, it holds for all of them."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def seeded(build: Callable[[], Any], seed: int = 0) -> Any:
    """What ``build`` makes from a seed, with the global generator as it was."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return build()


def half_square(outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """Half the mean square, the negative log-likelihood of unit noise."""
    return ((outputs - targets) ** 2).sum(-1).mean() / 2
