"""How do results become JSON? Exactly (``encode``/``decode``), or plainly for other programs (``plain``).

The exact form puts what JSON cannot express into one-key objects: ``{"$fraction": "7/2"}``, ``{"$float": "nan"}``,
``{"$array": …, "dtype": "float32", "shape": […]}``, ``{"$tuple": […]}``, ``{"$complex": […]}``; a dictionary
with other than string keys, or with a key that starts with ``$``, becomes ``{"$dict": [[key, value], …]}``.
"""

from __future__ import annotations

import math
from enum import Enum
from fractions import Fraction
from typing import Any

import numpy as np

from phasecast.core.errors import BadInput
from phasecast.core.types import PyTree

_ARRAY_KINDS = "biufcU"


def encode(value: PyTree) -> Any:
    """A tree of JSON types from which :func:`decode` makes the same value again, bit for bit."""
    if value is None or (isinstance(value, bool | str) and not isinstance(value, Enum)):
        return value
    if isinstance(value, Enum):
        return encode(value.value)
    if isinstance(value, np.generic):
        return _encode_array(np.asarray(value))
    if isinstance(value, int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else {"$float": repr(value)}
    if isinstance(value, complex):
        return {"$complex": [encode(value.real), encode(value.imag)]}
    if isinstance(value, Fraction):
        return {"$fraction": str(value)}
    if isinstance(value, tuple):
        return {"$tuple": [encode(item) for item in value]}
    if isinstance(value, list):
        return [encode(item) for item in value]
    if isinstance(value, dict):
        if all(isinstance(key, str) and not key.startswith("$") for key in value):
            return {key: encode(item) for key, item in value.items()}
        return {"$dict": [[encode(key), encode(item)] for key, item in value.items()]}
    if hasattr(value, "__array__"):
        return _encode_array(np.asarray(value))
    raise BadInput(
        f"a {type(value).__name__} cannot be stored as JSON",
        "use numbers, strings, Fractions, arrays, or lists, tuples and dicts of them",
    )


def decode(tree: PyTree) -> Any:
    """The value from which :func:`encode` made this tree."""
    if isinstance(tree, list):
        return [decode(item) for item in tree]
    if not isinstance(tree, dict):
        return tree
    if "$float" in tree:
        return float(tree["$float"])
    if "$complex" in tree:
        return complex(*(decode(part) for part in tree["$complex"]))
    if "$fraction" in tree:
        return Fraction(tree["$fraction"])
    if "$tuple" in tree:
        return tuple(decode(item) for item in tree["$tuple"])
    if "$dict" in tree:
        return {decode(key): decode(item) for key, item in tree["$dict"]}
    if "$array" in tree:
        return np.array(decode(tree["$array"]), dtype=tree["dtype"]).reshape(tree["shape"])
    return {key: decode(item) for key, item in tree.items()}


def plain(value: PyTree) -> Any:
    """JSON for other programs: arrays as lists, Fractions as ``"7/2"``, NaN and infinities as null."""
    if isinstance(value, Enum):
        return plain(value.value)
    if isinstance(value, Fraction):
        return str(value)
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, complex):
        return [plain(value.real), plain(value.imag)]
    if hasattr(value, "__array__"):
        return plain(np.asarray(value).tolist())
    return value


def _encode_array(array: np.ndarray) -> dict[str, Any]:
    if array.dtype.kind not in _ARRAY_KINDS:
        raise BadInput(f"an array of {array.dtype} cannot be stored as JSON", "use numbers, booleans or strings")
    if (array.dtype.itemsize > 8 and array.dtype.kind == "f") or (
        array.dtype.itemsize > 16 and array.dtype.kind == "c"
    ):
        raise BadInput(f"an array of {array.dtype} cannot be stored exactly", "convert it to float64 first")
    return {
        "$array": encode(array.ravel().tolist()),
        "dtype": array.dtype.str,
        "shape": list(array.shape),
    }
