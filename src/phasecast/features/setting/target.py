"""What is to be learned? Labels y = h(z) + noise·ε of a few latents z = Θ*ᵀx, and which of them are hard to learn.

A subspace U of the latents is hard if :math:`\\mathbb E[P_U z \\mid y, P_U^\\perp z] = 0`: first-order information
carries nothing about it (Wang & Montanari 2026, "Structural decomposition").
"""

from __future__ import annotations

import difflib
import math
from dataclasses import dataclass, field
from functools import cached_property, lru_cache

import numpy as np

from phasecast.core.bounds import check_bounds
from phasecast.core.errors import BadInput, unknown
from phasecast.core.types import Array
from phasecast.features.curvature.compiled import evaluate_batched
from phasecast.features.setting.decomposition import Split, split_latents
from phasecast.features.setting.expressions import HOW, MOST_LATENTS, Link, parse_link

PRESETS = {
    "phase-retrieval": "z**2",
    "clipped-phase-retrieval": "minimum(z**2, 3)",
    "saturated-phase-retrieval": "tanh(z)**2",
    "two-layer": "gelu(z1) + gelu(z2)",
    "two-layer-even": "(tanh(z1)**2 + tanh(z2)**2)/2",
    "halfspaces": "(z1 > 0)*(z2 > 0)",
    "product": "z1*z2",
    "symmetric-polynomial": "z1 + z2 + z1*z2",
}
"""The kinds of target on the slides "Examples of multi-index models" and "Examples"."""


@dataclass(frozen=True)
class Target:
    """A multi-index target.

    Parameters
    ----------
    link: h, from latents (..., k) to labels (...), in JAX.
    latents: k, from 1 to 3.
    noise: standard deviation of the Gaussian noise added to h.
    name: the expression it was made from.
    """

    link: Link = field(repr=False)
    latents: int
    noise: float = 0.0
    name: str = "your target"

    def labels(self, z: Array, eps: Array | float = 0.0) -> Array:
        """y = h(z) + noise·ε for z of shape (..., k) and standard normal ε of shape (...)."""
        return self.link(z) + self.noise * eps

    @cached_property
    def split(self) -> Split:
        """The easy and hard directions, and the smallest signal that the numerical test resolves."""
        return split_latents(self.link, self.latents)

    @property
    def hard(self) -> np.ndarray:
        """Orthonormal basis of the hard subspace, shape (k, r)."""
        return self.split.hard

    @property
    def easy(self) -> np.ndarray:
        """Orthonormal basis of the easy subspace, shape (k, k − r)."""
        return self.split.easy

    def __hash__(self) -> int:
        return hash((id(self.link), self.latents, self.noise, self.name))


def target(choice: str | Link | Target, *, latents: int | None = None, noise: float = 0.0) -> Target:
    """A target from an expression (``"z**2"``, ``"z1*z2"``), the name of a preset, or a JAX function of (..., k).

    Expressions are parsed, never run as code. ``latents`` is needed for a function only.

    >>> target("z1 + z2 + z1*z2").hard.round(4).T.tolist()
    [[0.7071, -0.7071]]
    >>> target("phase-retrieval").latents
    1
    """
    if isinstance(choice, Target):
        if noise not in (0.0, choice.noise) or latents not in (None, choice.latents):
            raise BadInput(
                f"the target '{choice.name}' has noise {choice.noise:g} and {choice.latents} latents already",
                "set them where it is made, in target(…)",
            )
        return choice
    if not (isinstance(noise, int | float) and math.isfinite(noise) and noise >= 0):
        raise BadInput(f"the noise is {noise}", "give its standard deviation, ≥ 0")
    check_bounds(noise=noise)
    if isinstance(choice, str):
        parsed = _from_text(choice, float(noise))
        if latents not in (None, parsed.latents):
            raise BadInput(f"{latents} latents for '{choice}'", f"it has {parsed.latents}")
        return parsed
    if not callable(choice):
        raise BadInput(f"the target is a {type(choice).__name__}", HOW)
    if latents is None:
        raise BadInput("the number of latents of the function is missing", "pass latents=1, 2 or 3")
    if isinstance(latents, bool) or not isinstance(latents, int) or not 1 <= latents <= MOST_LATENTS:
        raise BadInput(f"{latents} latents", f"use 1 to {MOST_LATENTS}")
    how = f"take latents of shape (…, {latents}) and give labels of shape (…), like lambda z: z[..., 0] ** 2"
    return _checked(Target(choice, latents, float(noise), getattr(choice, "__name__", "your target")), how)


@lru_cache(maxsize=64)
def _from_text(text: str, noise: float) -> Target:
    """The same object for the same text, so that what is compiled for a target is compiled once."""
    try:
        link, latents = parse_link(PRESETS.get(text, text))
    except BadInput:
        if difflib.get_close_matches(text, PRESETS):
            raise unknown("target", text, PRESETS) from None
        raise
    return _checked(Target(link, latents, noise, text), HOW)


def _checked(one: Target, how: str) -> Target:
    """Bad input unless h gives one finite number per point and is not constant."""
    z = np.random.default_rng(0).normal(size=(257, one.latents))
    try:
        values = evaluate_batched(one.link, "", z)
    except Exception as error:
        raise BadInput(f"the target '{one.name}' fails ({type(error).__name__}: {error})", how) from error
    if values.shape != (257,):
        raise BadInput(f"the target '{one.name}' gives shape {values.shape} for 257 points", how)
    if not np.isfinite(values).all():
        raise BadInput(f"the target '{one.name}' is not finite everywhere", "give a function defined for every z")
    if np.ptp(values) < 1e-9:
        raise BadInput(f"the target '{one.name}' is not a function of z (it is constant)", how)
    return one
