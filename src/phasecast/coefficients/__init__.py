"""What is λ here? Exact learning coefficients, and two ways to measure them in small problems."""

from phasecast.coefficients.coefficient import Coefficient
from phasecast.coefficients.ladder import temperature_ladder
from phasecast.coefficients.theory import monomial, of_landscape, sum_of_powers
from phasecast.coefficients.volume import volume_scaling

__all__ = ["Coefficient", "monomial", "of_landscape", "sum_of_powers", "temperature_ladder", "volume_scaling"]
