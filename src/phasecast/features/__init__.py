"""How much data to learn? The ratio n/d at which gradient descent starts to see the hidden directions."""

from phasecast.features.algorithmic import algorithmic_threshold
from phasecast.features.decoupled import decoupled
from phasecast.features.dmft import Trajectory, dmft
from phasecast.features.fixed_point import FixedPoint, fixed_point
from phasecast.features.forecast import threshold
from phasecast.features.functions import activation, loss
from phasecast.features.law import CurvatureLaw
from phasecast.features.mean_field import WideTrajectory, wide_dmft
from phasecast.features.neuron import Network
from phasecast.features.quadrature import initial_laws, one_step_laws
from phasecast.features.result import Threshold
from phasecast.features.simulate import (
    Data,
    Descent,
    Extremes,
    descend,
    draw_data,
    lowest_curvatures,
    over_draws,
    simulate,
)
from phasecast.features.spectrum import HessianSpectrum, Outlier, density, hessian_spectrum, stieltjes
from phasecast.features.success import finite_size, half_success, successes
from phasecast.features.targets import PRESETS, Target, target
from phasecast.features.thresholds import outlier_set, scalar_threshold

__all__ = [
    "PRESETS",
    "CurvatureLaw",
    "Data",
    "Descent",
    "Extremes",
    "FixedPoint",
    "HessianSpectrum",
    "Network",
    "Outlier",
    "Target",
    "Threshold",
    "Trajectory",
    "WideTrajectory",
    "activation",
    "algorithmic_threshold",
    "decoupled",
    "density",
    "descend",
    "dmft",
    "draw_data",
    "finite_size",
    "fixed_point",
    "half_success",
    "hessian_spectrum",
    "initial_laws",
    "loss",
    "lowest_curvatures",
    "one_step_laws",
    "outlier_set",
    "over_draws",
    "scalar_threshold",
    "simulate",
    "stieltjes",
    "successes",
    "target",
    "threshold",
    "wide_dmft",
]
