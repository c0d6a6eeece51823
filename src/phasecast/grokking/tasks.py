"""What is there to learn? Small tables with a rule behind them: modular arithmetic, permutations, sparse parity.

A task is its full table: row i holds the tokens of the operands and the label of the answer. Networks are trained on
some of the rows, drawn by :func:`split`.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

import numpy as np

from phasecast.core.bounds import is_prime
from phasecast.core.errors import BadInput, unknown, whole_number

LARGEST_DEGREE = 5  # 120 permutations, 14400 rows
MOST_BITS = 16  # 65536 rows
MODULAR = ("addition", "subtraction", "multiplication", "division")
TASKS = (*MODULAR, "permutations", "sparse_parity")


@dataclass(frozen=True, eq=False)
class Task:
    """The full table of a rule.

    Parameters
    ----------
    name: the rule.
    tokens: (rows, places) the operands of each row as integers below ``operands``; bits for sparse parity.
    labels: (rows,) the answers as integers below ``classes``.
    operands, classes: the number of different operands and answers.
    """

    name: str
    tokens: np.ndarray
    labels: np.ndarray
    operands: int
    classes: int

    @property
    def rows(self) -> int:
        return len(self.labels)

    @property
    def places(self) -> int:
        """Operands per row: two, or the number of bits."""
        return self.tokens.shape[1]

    @property
    def inputs(self) -> int:
        """Length of a row as one-hot operands side by side, 2p for modular arithmetic."""
        return self.places * self.operands

    def one_hot(self) -> tuple[np.ndarray, np.ndarray]:
        """Inputs (rows, inputs) and targets (rows, classes), for formulas in matrices."""
        inputs = np.eye(self.operands)[self.tokens].reshape(self.rows, self.inputs)
        return inputs, np.eye(self.classes)[self.labels]


def task(name: str = "addition", p: int = 23, *, degree: int = 5, bits: int = 10, relevant: int = 3) -> Task:
    """The table of a rule, rows in the order of their operands.

    - ``addition``, ``subtraction``, ``multiplication``: a∘b mod p for all p² pairs;
    - ``division``: a/b mod p for b ≠ 0, p(p−1) pairs;
    - ``permutations``: (a∘b)(i) = a(b(i)) in the symmetric group of ``degree`` elements, at most 5;
    - ``sparse_parity``: the sum mod 2 of the first ``relevant`` of ``bits`` bits, all 2^bits rows.

    Multiplication and division need a prime p, so that every b ≠ 0 has an inverse and the table is that of a group.

    >>> table = task("division", 5)
    >>> table.tokens[4], table.labels[4]  # 1/1
    (array([1, 1]), np.int64(1))
    """
    if name == "permutations":
        return _permutations(whole_number("degree", degree, 2))
    if name == "sparse_parity":
        return _sparse_parity(whole_number("bits", bits, 2), whole_number("relevant", relevant, 1))
    if name not in TASKS:
        raise unknown("task", name, TASKS)
    whole_number("p", p, 3)
    if name in ("multiplication", "division") and not is_prime(p):
        raise BadInput(
            f"p = {p} is not prime, so {name} mod {p} has no inverses", f"use a prime, e.g. {_next_prime(p)}"
        )
    a, b = np.divmod(np.arange(p * p), p)
    if name == "division":
        a, b = a[b != 0], b[b != 0]
    inverses = np.array([pow(int(x), -1, p) if name == "division" and x else 0 for x in range(p)])
    answers = {"addition": a + b, "subtraction": a - b, "multiplication": a * b, "division": a * inverses[b]}
    return Task(name, np.stack([a, b], axis=1), answers[name] % p, p, p)


def split(task: Task, fraction: float, seed: int = 0, *, count: int | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Training and validation rows of a task: ⌊fraction · rows⌋ drawn without replacement, and the others.

    ``count`` sets the number of training rows instead of a fraction. Both lists are in increasing order.

    >>> train, validation = split(task("addition", 23), 0.4)
    >>> len(train), len(validation)
    (211, 318)
    """
    if count is None:
        if not 0 < fraction < 1:
            raise BadInput(f"fraction is {fraction:g}", "use a number between 0 and 1")
        count = math.floor(fraction * task.rows + 1e-9)  # 0.3 · 10 is 3
    if not 2 <= count < task.rows:
        raise BadInput(
            f"{count} of {task.rows} rows to train on", "train on at least 2 and leave at least 1 to validate on"
        )
    drawn = np.random.default_rng([seed, 0]).permutation(task.rows)
    return np.sort(drawn[:count]), np.sort(drawn[count:])


def _next_prime(p: int) -> int:
    return next(q for q in itertools.count(p) if is_prime(q))


def _permutations(degree: int) -> Task:
    if degree > LARGEST_DEGREE:
        raise BadInput(f"degree is {degree}", f"use at most {LARGEST_DEGREE}")
    elements = list(itertools.permutations(range(degree)))
    number = {element: place for place, element in enumerate(elements)}
    a, b = np.divmod(np.arange(len(elements) ** 2), len(elements))
    composed = np.array(elements)[a[:, None], np.array(elements)[b]]
    labels = np.array([number[tuple(row)] for row in composed.tolist()])
    return Task("permutations", np.stack([a, b], axis=1), labels, len(elements), len(elements))


def _sparse_parity(bits: int, relevant: int) -> Task:
    if bits > MOST_BITS:
        raise BadInput(f"{bits} bits make a table of 2^{bits} rows", f"use at most {MOST_BITS}")
    if relevant > bits:
        raise BadInput(f"relevant = {relevant} exceeds bits = {bits}", f"use at most {bits}")
    tokens = np.arange(2**bits)[:, None] >> np.arange(bits)[::-1] & 1
    return Task("sparse_parity", tokens, tokens[:, :relevant].sum(axis=1) % 2, 2, 2)
