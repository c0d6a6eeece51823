"""How fast does it learn? Exact learning curves of two-layer networks on streams of data with any spectrum."""

from phasecast.online.asymptotic_decay import (
    asymptotic_curve,
    asymptotic_rates,
    decay_rates,
    max_learning_rate,
    scaling_exponent,
)
from phasecast.online.curve import CurveForecast, curve
from phasecast.online.curve_result import Curve, mean_curve
from phasecast.online.dynamics import generalisation_error, solve, solve_many
from phasecast.online.feature_scaling import (
    feature_floor,
    integral_curve,
    power_law_window,
    rotated_curve,
    rotated_floor,
)
from phasecast.online.linear import (
    general_curve,
    linear_curve,
    secular_weights,
    sgd_curve,
    sgd_stability_limit,
    small_rate_curve,
    stability_limit,
)
from phasecast.online.order_parameters import OrderParameters, draw_weights, moment_variance
from phasecast.online.own_data.committee import Committee, committee_curve_of
from phasecast.online.own_data.labelled import LabelledCurve, curve_of
from phasecast.online.own_data.loading import load_data, load_labelled
from phasecast.online.plateau import (
    Plateau,
    equal_escape_time,
    equal_plateau,
    escape_rates,
    escape_time,
    plateau,
    plateaus_of_draws,
)
from phasecast.online.plateau_length import PlateauLength, measured_length, plateau_length
from phasecast.online.sgd import simulate, simulate_data
from phasecast.online.spectrum import ExponentFit, Spectrum

__all__ = [
    "Committee",
    "Curve",
    "CurveForecast",
    "ExponentFit",
    "LabelledCurve",
    "OrderParameters",
    "Plateau",
    "PlateauLength",
    "Spectrum",
    "asymptotic_curve",
    "asymptotic_rates",
    "committee_curve_of",
    "curve",
    "curve_of",
    "decay_rates",
    "draw_weights",
    "equal_escape_time",
    "equal_plateau",
    "escape_rates",
    "escape_time",
    "feature_floor",
    "general_curve",
    "generalisation_error",
    "integral_curve",
    "linear_curve",
    "load_data",
    "load_labelled",
    "max_learning_rate",
    "mean_curve",
    "measured_length",
    "moment_variance",
    "plateau",
    "plateau_length",
    "plateaus_of_draws",
    "power_law_window",
    "rotated_curve",
    "rotated_floor",
    "scaling_exponent",
    "secular_weights",
    "sgd_curve",
    "sgd_stability_limit",
    "simulate",
    "simulate_data",
    "small_rate_curve",
    "solve",
    "solve_many",
    "stability_limit",
]
