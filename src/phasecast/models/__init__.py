"""Problems with a known answer: landscapes and products of matrices whose λ is known exactly, and modular addition."""

from phasecast.models.landscapes import LANDSCAPES, Landscape
from phasecast.models.matrix_products import matrix_product
from phasecast.models.modular import fourier_solution, modular_table, quadratic_network

__all__ = [
    "LANDSCAPES",
    "Landscape",
    "fourier_solution",
    "matrix_product",
    "modular_table",
    "quadratic_network",
]
