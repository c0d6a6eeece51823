"""What is λ here? Exact learning coefficients, ranks of Jacobians, and two ways to measure λ in small problems."""

from phasecast.coefficients.coefficient import Coefficient
from phasecast.coefficients.ladder import temperature_ladder
from phasecast.coefficients.linear import deep_linear, reduced_rank
from phasecast.coefficients.newton import ideal, newton
from phasecast.coefficients.quadratic import modular_addition, quadratic
from phasecast.coefficients.rank import Rank, feature_span, jacobian_rank, ntk_coefficient, rank_mod_prime
from phasecast.coefficients.theory import monomial, of_landscape, sum_of_powers
from phasecast.coefficients.volume import volume_scaling

__all__ = [
    "Coefficient",
    "Rank",
    "deep_linear",
    "feature_span",
    "ideal",
    "jacobian_rank",
    "modular_addition",
    "monomial",
    "newton",
    "ntk_coefficient",
    "of_landscape",
    "quadratic",
    "rank_mod_prime",
    "reduced_rank",
    "sum_of_powers",
    "temperature_ladder",
    "volume_scaling",
]
