"""Things with a known answer: landscapes whose λ is known exactly, and networks that learn modular addition."""

from phasecast.models.landscapes import LANDSCAPES, Landscape
from phasecast.models.modular import fourier_solution, modular_table, quadratic_network

__all__ = ["LANDSCAPES", "Landscape", "fourier_solution", "modular_table", "quadratic_network"]
