"""What is λ here? Exact values (``exact``), measurements for small problems (``small_problems``), λ̂ (``llc``)."""

from phasecast.coefficients.exact.coefficient import Coefficient
from phasecast.coefficients.exact.jacobian_rank import (
    Rank,
    feature_span,
    jacobian_rank,
    ntk_coefficient,
    rank_mod_prime,
)
from phasecast.coefficients.exact.known_models import (
    catalogue,
    factor_analysis,
    mixture,
    nmf,
    relu,
    symmetric_factorisation,
    tanh,
)
from phasecast.coefficients.exact.linear_networks import deep_linear, reduced_rank
from phasecast.coefficients.exact.monomials import monomial, of_landscape, sum_of_powers
from phasecast.coefficients.exact.newton_polyhedra import ideal, newton
from phasecast.coefficients.exact.point_bounds import Bounds, bounds
from phasecast.coefficients.exact.quadratic_networks import modular_addition, quadratic
from phasecast.coefficients.exact.reparametrisation import reparametrise
from phasecast.coefficients.free_energy import (
    Basin,
    add,
    critical_sample_size,
    free_energy,
    generalisation_error,
    product,
    union,
)
from phasecast.coefficients.sgd_temperature import sgd_temperature
from phasecast.coefficients.small_problems.temperature_quadrature import temperature_ladder, temperature_quadrature
from phasecast.coefficients.small_problems.volume_scaling import volume_scaling

__all__ = [
    "Basin",
    "Bounds",
    "Coefficient",
    "Rank",
    "add",
    "bounds",
    "catalogue",
    "critical_sample_size",
    "deep_linear",
    "factor_analysis",
    "feature_span",
    "free_energy",
    "generalisation_error",
    "ideal",
    "jacobian_rank",
    "mixture",
    "modular_addition",
    "monomial",
    "newton",
    "nmf",
    "ntk_coefficient",
    "of_landscape",
    "product",
    "quadratic",
    "rank_mod_prime",
    "reduced_rank",
    "relu",
    "reparametrise",
    "sgd_temperature",
    "sum_of_powers",
    "symmetric_factorisation",
    "tanh",
    "temperature_ladder",
    "temperature_quadrature",
    "union",
    "volume_scaling",
]
