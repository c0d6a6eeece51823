"""At which parameters is a rank the generic one? Random integers without zeros, so that ranks are exact."""

from __future__ import annotations

import numpy as np

from phasecast.claims.seeds import check_generator


def generic_integers(seed: int, *shape: int, largest: int = 11) -> np.ndarray:
    """Random integers from ±1 to ±``largest``; zeros are left out because they are special points."""
    rng = check_generator(seed)
    return rng.integers(1, largest + 1, shape) * rng.choice([-1, 1], shape)
