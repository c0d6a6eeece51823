"""What kind of loss did the user give? A look at few rows, before anything is sampled.

Let the loss of rows A and of rows B be L(A) and L(B). If the loss is a mean over counted targets, c(A) of them in A,
then L(A ∪ B) = (c(A) L(A) + c(B) L(B)) / (c(A) + c(B)), and the loss of all rows follows from blocks of them. If it
is a sum, L(A ∪ B) = L(A) + L(B). Which counts fit is found by trying.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np
import torch
from torch import Tensor

from phasecast.core.errors import BadInput
from phasecast.sampling.backends.loss_probe import FEW, SUMMED, probe
from phasecast.sampling.backends.torch_data import MASK, NOT_COUNTED
from phasecast.sampling.backends.torch_module import ModuleLoss, Rows, field_of, untouched_randomness
from phasecast.sampling.backends.torch_ops import TorchOps, fold

MOST_MEMORY = 2**26
"""Bytes of activations held at once. More is slower, because it leaves the caches: a gradient of a transformer of
110,000 parameters took 0.22 s with 64 MiB, 0.24 s with 256 MiB, 0.28 s with 16 MiB."""

ASIDE = 0.03  # of the size of the weights: how far from w*, where the loss may vanish, sums and means are told apart
FORWARD = 1 / 3  # of the cost of a gradient


class Kind(StrEnum):
    """How the loss of many rows follows from the losses of blocks of them."""

    MEAN = "mean"
    SUM = "sum"
    WHOLE = "whole"
    """It does not follow: the loss compares rows, or the module takes no other number of them."""


@dataclass(frozen=True, eq=False)
class Probe:
    """What is known about a loss. ``counts`` are the counted targets of each row, None if all rows count alike;
    ``terms`` the number of terms in the mean, None for a population loss; ``value`` the loss of a few rows at w*;
    ``few`` how many they are; ``bytes_per_row`` what a chain keeps for each row between loss and gradient; ``cost``
    what looking took, in gradients of all rows."""

    kind: Kind = Kind.MEAN
    counts: Tensor | None = None
    terms: int | None = None
    note: str = ""
    notes: tuple[str, ...] = ()
    value: float = math.nan
    few: int = FEW
    bytes_per_row: int = 1
    cost: float = 0.0


def look(loss: ModuleLoss) -> Probe:
    """Evaluate the loss on few rows at w* and a little aside; bad input if it cannot be evaluated."""
    data = loss.data
    if data is None:
        value = loss.settle(loss.first, None)
        return Probe(value=value, bytes_per_row=loss.bytes_per_row(None), cost=2 * FORWARD + 1)
    rows, few = len(data[0]), 2
    try:
        loss.settle(loss.first, few_rows(data, few))
    except BadInput:  # its cause, or a module that insists on its number of rows
        few = rows
        loss.settle(loss.first, data)
    bytes_per_row = loss.bytes_per_row(few_rows(data, few))
    few = max(few, min(FEW, rows, MOST_MEMORY // bytes_per_row))
    with torch.no_grad():
        value = loss.number(loss.first, few_rows(data, few))
    candidates = list(_candidates(loss, data))
    first, second = _two_groups(rows, max(1, few // 4), candidates)
    spent = few + 4 * (len(first) + len(second))
    aside = loss.first + ASIDE * float(loss.first.abs().mean() + 1e-3) * TorchOps().normal(fold(1, 0), loss.first)
    kind, counts = Kind.MEAN, None
    if len(first):
        kind, counts = _kind(loss, aside, (first, second), candidates)
    terms, note, notes = _terms(loss, aside, torch.cat([first, second]) if len(first) else None, kind, counts)
    if counts is not None and not bool(counts.all()):  # a block of such rows alone would have no mean
        kept = counts.nonzero()[:, 0]
        loss.data, counts = loss.chosen(kept), counts[kept]
        notes = (*notes, f"{rows - len(kept):,} rows have no counted targets and are left out")
    return Probe(kind, counts, terms, note, notes, value, few, bytes_per_row, FORWARD * spent / rows)


def try_loss(loss: ModuleLoss, few: int) -> float:
    """Refuse a loss that chains cannot sample, by a few rows; all rows confirm a refusal. What it took, in gradients
    of all rows."""
    some = few_rows(loss.data, few)
    spent, rows = 0.0, 1 if loss.data is None else len(loss.data[0])

    def at(offset: np.ndarray) -> Tensor:
        return loss.first + torch.as_tensor(offset).to(loss.first)

    def value(offset: np.ndarray, data: Rows) -> float:
        nonlocal spent
        spent += FORWARD * (1 if data is None else len(data[0]) / rows)
        with torch.no_grad():
            return loss.number(at(offset), data)

    def slope(offset: np.ndarray, data: Rows) -> np.ndarray:
        nonlocal spent
        spent += 1 if data is None else len(data[0]) / rows
        with torch.enable_grad():
            place = at(offset).requires_grad_()
            (gradient,) = torch.autograd.grad(loss(loss.parts(place), data), place)
        return gradient.double().cpu().numpy()

    def judge(data: Rows) -> None:
        centre = loss.first.double().cpu().numpy()
        double = loss.dtype == torch.float64
        with untouched_randomness(loss.device):  # around all of them, so that two evaluations draw anew
            probe(lambda offset: value(offset, data), lambda offset: slope(offset, data), centre, double=double)

    try:
        judge(some)
    except BadInput:
        if some is loss.data:
            raise
        judge(loss.data)
    return spent


def few_rows(data: tuple[Tensor, ...] | None, few: int) -> tuple[Tensor, ...] | None:
    """So many rows at most, from all over the data."""
    if data is None or len(data[0]) <= few:
        return data
    chosen = torch.linspace(0, len(data[0]) - 1, few, device=data[0].device).long()
    return tuple(part.index_select(0, chosen) for part in data)


def _candidates(loss: ModuleLoss, data: tuple[Tensor, ...]) -> Iterator[Tensor | None]:
    """What a mean may count in each row, the likeliest first; None for every row alike."""
    labels, masks = _labels(loss, data), list(_masks(loss, data))
    wholes: list[Tensor] = []
    if labels is not None:
        wholes += [labels != value for value in _ignored(labels)]
        wholes += [(labels != NOT_COUNTED) & (labels != value) for value in _ignored(labels) if value != NOT_COUNTED]
    counted = labels != NOT_COUNTED if labels is not None else None
    for mask in masks:
        if counted is not None and counted.shape == mask.shape:
            wholes.append(mask & counted)
        wholes.append(mask)
    likely = labels is not None and bool((labels == NOT_COUNTED).any())
    if not likely:
        yield None
    for whole in wholes:
        for part in (whole, whole[:, 1:]):  # a language model may count all but the first token
            counts = part.flatten(1).sum(1)
            if int(counts.max()) > int(counts.min()):
                yield counts
    if likely:
        yield None


def _labels(loss: ModuleLoss, data: tuple[Tensor, ...]) -> Tensor | None:
    """The targets that are whole numbers, several for each row: tokens, or pixels."""
    for number in loss.layout.numbers_of_targets():
        part = data[number]
        if part.ndim >= 2 and not part.is_floating_point() and not part.is_complex() and part.dtype != torch.bool:
            return part
    return None


def _masks(loss: ModuleLoss, data: tuple[Tensor, ...]) -> Iterator[Tensor]:
    number = loss.layout.number_of(MASK)
    chosen = [] if number is None else [number]
    chosen += [other for other in loss.layout.numbers_of_targets() if data[other].dtype == torch.bool]
    for each in chosen:
        if data[each].ndim >= 2:
            yield data[each].bool()


def _ignored(labels: Tensor) -> list[int]:
    """Targets that a loss may leave out: those of torch and nanoGPT, and what rows are padded with."""
    padding = int(labels[:, -1].flatten().mode().values)
    return list(dict.fromkeys(value for value in (NOT_COUNTED, -1, 0, padding) if bool((labels == value).any())))


def _two_groups(rows: int, most: int, candidates: list[Tensor | None]) -> tuple[Tensor, Tensor]:
    """Two groups of rows, one with few and one with many counted targets where that differs; empty for one row."""
    uneven = [counts for counts in candidates if counts is not None]
    half = min(most, rows // 2)
    if not uneven:
        return torch.arange(half), torch.arange(half, 2 * half)
    order = torch.argsort(uneven[0].cpu(), stable=True)
    order = order[torch.stack([counts.cpu()[order] > 0 for counts in uneven]).all(0)]
    half = min(half, len(order) // 2)
    return order[:half], order[len(order) - half :]


def _kind(
    loss: ModuleLoss, place: Tensor, groups: tuple[Tensor, Tensor], candidates: list[Tensor | None]
) -> tuple[Kind, Tensor | None]:
    """How blocks of rows make up the loss, and what they count."""
    first, second = groups
    try:
        with torch.no_grad():
            here, there, both, twice = (
                loss.number(place, loss.chosen(rows))
                for rows in (first, second, torch.cat([first, second]), torch.cat([first, first]))
            )
    except Exception:  # a module may insist on its number of rows
        return Kind.WHOLE, None
    if not all(math.isfinite(value) for value in (here, there, both, twice)):
        return Kind.MEAN, None  # nothing can be told; what is not finite at w* is refused later
    exact = (1e-9 if loss.dtype == torch.float64 else 3e-5) * max(abs(value) for value in (here, there, both))
    if abs(twice - 2 * here) <= exact < abs(here) and abs(both - here - there) <= exact:
        return Kind.SUM, None
    for counts in candidates:
        share = (
            0.5
            if counts is None
            else float(counts[first.to(counts.device)].sum())
            / float(counts[torch.cat([first, second]).to(counts.device)].sum())
        )
        if abs(both - share * here - (1 - share) * there) <= exact:
            return Kind.MEAN, counts
    return Kind.WHOLE, None


def _terms(
    loss: ModuleLoss, place: Tensor, rows: Tensor | None, kind: Kind, counts: Tensor | None
) -> tuple[int, str, tuple[str, ...]]:
    """The number of terms in the mean, a sentence that says so, and what the user should know about the loss."""
    data = loss.data
    assert data is not None
    total, labels = len(data[0]), _labels(loss, data)
    if kind is Kind.SUM:
        return total, f"n = {total:,} rows", (SUMMED,)
    if labels is None:
        return total, f"n = {total:,} rows", () if rows is None else _scaled(_scale(loss, place, rows)[0])
    per_row = labels[0].numel()
    if counts is not None:
        terms = int(counts.sum())
        return terms, f"n = {terms:,} counted targets of {total:,} rows", ()
    if len({int(count) for count in (labels != NOT_COUNTED).flatten(1).sum(1).unique()}) > 1:
        return total, f"n = {total:,} rows: each counts alike, however many targets it has", ()
    scale, shifted = (math.nan, False) if rows is None else _scale(loss, place, rows)
    if per_row > 1 and abs(scale / per_row - 1) < 1e-3:
        return total, f"n = {total:,} rows: the loss is the sum over the {per_row} targets of a row", ()
    each = per_row - per_row // labels.shape[1] if shifted else per_row
    unit = "tokens" if labels.ndim == 2 else "targets"
    terms = total * each
    note = f"n = {total:,} rows" if each == 1 else f"n = {terms:,} {unit} ({total:,} rows × {each})"
    return terms, note, _scaled(scale)


def _scaled(scale: float) -> tuple[str, ...]:
    """A word on a loss that is a multiple of the cross-entropy."""
    if not math.isfinite(scale) or abs(scale - 1) < 1e-3:
        return ()
    word = f"the loss is {scale:.4g} times the mean cross-entropy of the same targets"
    return (f"{word}: use the mean itself, or give the nbeta that you mean",)


def _scale(loss: ModuleLoss, place: Tensor, rows: Tensor) -> tuple[float, bool]:
    """The loss as a multiple of the mean cross-entropy, and whether that is of the next token; NaN where it is none."""
    data = loss.chosen(rows)
    targets = [data[number] for number in loss.layout.numbers_of_targets()]
    if len(targets) != 1 or targets[0].is_floating_point() or targets[0].dtype == torch.bool:
        return math.nan, False
    labels, half = targets[0], len(rows) // 2
    try:
        with torch.no_grad():
            outputs = loss.outputs(place, data)
            logits = outputs if isinstance(outputs, Tensor) else field_of(outputs, "logits")
            values = [loss.number(place, loss.chosen(part)) for part in (rows[:half], rows[half:])]
            for shifted in (False, True):
                parts = (slice(half), slice(half, None))
                means = [_cross_entropy(logits[part], labels[part], shifted) for part in parts]
                one, other = (value / mean for value, mean in zip(values, means, strict=True))
                if abs(one - other) < 1e-3 * abs(one):
                    return (one + other) / 2, shifted
    except Exception:  # the outputs cannot be logits of these targets
        return math.nan, False
    return math.nan, False


def _cross_entropy(logits: Any, labels: Tensor, shifted: bool) -> float:
    """The mean cross-entropy of targets; shifted, of each next token."""
    if labels.shape == logits.shape[:-1]:
        logits = logits.movedim(-1, 1)
    if shifted:
        logits, labels = logits[:, :, :-1], labels[:, 1:]
    return float(torch.nn.functional.cross_entropy(logits, labels.long()))
