"""Ordinary trained PyTorch models for benchmarks: an MLP and a CNN on digits, transformers on characters.

Data comes with scikit-learn and with Python itself, so nothing is downloaded. Each function trains for some seconds and
returns what ``pc.torch.llc`` takes.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy


class Trained(NamedTuple):
    """A module, its data and loss, the number of terms, and state dicts along its training."""

    module: nn.Module
    data: tuple[Tensor, Tensor]
    loss: Callable[..., Any]
    n: int
    checkpoints: dict[int, dict[str, Tensor]]


def digits(channels: bool = False) -> tuple[Tensor, Tensor]:
    from sklearn.datasets import load_digits

    images, labels = load_digits(return_X_y=True)
    inputs = torch.tensor(images / 16, dtype=torch.float32)
    return (inputs.view(-1, 1, 8, 8) if channels else inputs), torch.tensor(labels)


def mlp(seed: int = 0, steps: int = 300) -> Trained:
    """64-32-10 on digits: 2,410 parameters."""
    torch.manual_seed(seed)
    module = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))
    return _train(module, digits(), cross_entropy, steps, 1e-2)


def cnn(seed: int = 0, steps: int = 150) -> Trained:
    """Two convolutions with batch norm and dropout: 10,170 parameters."""
    torch.manual_seed(seed)
    module = nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Dropout(0.2), nn.Linear(128, 38), nn.ReLU(), nn.Linear(38, 10),
    )  # fmt: skip
    return _train(module, digits(channels=True), cross_entropy, steps, 1e-2, batch=256)


class Quadratic(nn.Module):
    """One hidden layer of squares, as in the studies of grokking."""

    def __init__(self, p: int, width: int) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(2 * p, width, bias=False), nn.Linear(width, p, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.second(self.first(x) ** 2)


def half_square(outputs: Tensor, targets: Tensor) -> Tensor:
    return ((outputs - targets) ** 2).sum(1).mean() / 2


def quadratic(seed: int = 0, p: int = 13, width: int = 64, steps: int = 3000) -> Trained:
    """A quadratic network on 60% of the table of addition modulo p: 2,496 parameters."""
    torch.manual_seed(seed)
    first, second = (part.flatten() for part in torch.meshgrid(torch.arange(p), torch.arange(p), indexing="ij"))
    inputs = torch.cat([nn.functional.one_hot(part, p) for part in (first, second)], dim=1).float()
    rows = torch.randperm(p * p, generator=torch.Generator().manual_seed(seed))[: round(0.6 * p * p)]
    targets = nn.functional.one_hot((first + second) % p, p).float()
    return _train(Quadratic(p, width), (inputs[rows], targets[rows]), half_square, steps, 3e-3, decay=1.0)


class Block(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down, self.heads = nn.Linear(width, 4 * width), nn.Linear(4 * width, width), heads

    def forward(self, x: Tensor) -> Tensor:
        rows, length, width = x.shape
        parts = self.qkv(self.first(x)).view(rows, length, 3, self.heads, width // self.heads).unbind(2)
        query, key, value = (part.transpose(1, 2) for part in parts)
        mixed = nn.functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).reshape(rows, length, width))
        return x + self.down(nn.functional.gelu(self.up(self.second(x))))


class CharTransformer(nn.Module):
    def __init__(self, symbols: int, width: int, layers: int, heads: int = 4, length: int = 32) -> None:
        super().__init__()
        self.embed, self.places = nn.Embedding(symbols, width), nn.Parameter(0.02 * torch.randn(length, width))
        self.blocks = nn.Sequential(*(Block(width, heads) for _ in range(layers)))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, symbols)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.head(self.norm(self.blocks(self.embed(tokens) + self.places)))


def per_token(outputs: Tensor, targets: Tensor) -> Tensor:
    return cross_entropy(outputs.flatten(0, 1), targets.flatten())


def characters(tokens: int, length: int = 32) -> tuple[Tensor, Tensor, int]:
    """Rows of the English text that comes with Python's help, as numbers of its characters."""
    import pydoc_data.topics as topics

    text = Path(topics.__file__).read_text(encoding="utf-8")
    kept = "".join(c for c in text if c.isascii() and (c.isalpha() or c in " .,\n'()"))
    kept = (kept * (1 + tokens // len(kept)))[: tokens + 1]
    symbols = {symbol: number for number, symbol in enumerate(sorted(set(kept)))}
    line = torch.tensor([symbols[c] for c in kept])
    rows = tokens // length
    return line[: rows * length].view(rows, length), line[1 : rows * length + 1].view(rows, length), len(symbols)


def transformer(seed: int = 0, tokens: int = 200_000, width: int = 64, layers: int = 2, steps: int = 400) -> Trained:
    """A transformer on characters; by default about 110,000 parameters and 200,000 tokens."""
    torch.manual_seed(seed)
    inputs, targets, symbols = characters(tokens)
    module = CharTransformer(symbols, width, layers)
    trained = _train(module, (inputs, targets), per_token, steps, 3e-3, batch=64)
    return trained._replace(n=inputs.numel())


def untrained_transformer() -> tuple[nn.Module, tuple[Tensor, Tensor], Callable[..., Any]]:
    """The transformer before its training, as a factory for ``phasecast run llc``."""
    return tuple(transformer(steps=0)[:3])  # pyright: ignore[reportReturnType]


def small_transformer(seed: int = 0, steps: int = 400) -> Trained:
    """A transformer of about 17,000 parameters on 60,000 tokens, where gradients of all rows are affordable."""
    return transformer(seed, tokens=60_000, width=24, steps=steps)


def small_untrained_transformer() -> tuple[nn.Module, tuple[Tensor, Tensor], Callable[..., Any]]:
    """A very small transformer before its training, as a factory."""
    return tuple(transformer(tokens=8_000, width=8, steps=0)[:3])  # pyright: ignore[reportReturnType]


def million(seed: int = 0, steps: int = 60) -> Trained:
    """A transformer of about a million parameters on about a million tokens."""
    return transformer(seed, tokens=1_000_000, width=176, layers=3, steps=steps)


def _train(
    module: nn.Module,
    data: tuple[Tensor, Tensor],
    loss: Callable[..., Any],
    steps: int,
    rate: float,
    batch: int = 0,
    decay: float = 0.0,
) -> Trained:
    optimiser = torch.optim.AdamW(module.parameters(), rate, weight_decay=decay)  # without decay it is Adam
    inputs, targets = data
    rng = torch.Generator().manual_seed(0)
    checkpoints = {}
    for step in range(steps + 1):
        if step % max(1, steps // 20) == 0:
            checkpoints[step] = {name: value.detach().clone() for name, value in module.state_dict().items()}
        rows = torch.randint(len(inputs), (batch,), generator=rng) if batch else slice(None)
        optimiser.zero_grad()
        loss(module(inputs[rows]), targets[rows]).backward()
        if step < steps:
            optimiser.step()
    return Trained(module, data, loss, len(inputs), checkpoints)
