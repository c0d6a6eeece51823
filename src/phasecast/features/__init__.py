"""How much data to learn? The ratio n/d at which gradient descent starts to see the hidden directions."""

from phasecast.features.algorithmic import algorithmic_threshold
from phasecast.features.curvature.curvature_law import CurvatureLaw
from phasecast.features.curvature.decoupled import decoupled
from phasecast.features.curvature.dmft import Trajectory, dmft
from phasecast.features.curvature.fixed_point import FixedPoint, fixed_point
from phasecast.features.curvature.quadrature import initial_laws, one_step_laws
from phasecast.features.curvature.wide_dmft import WideTrajectory, wide_dmft
from phasecast.features.hessian_spectrum import HessianSpectrum, Outlier, density, hessian_spectrum, stieltjes
from phasecast.features.outliers import outlier_set, scalar_threshold
from phasecast.features.setting.functions import activation, loss
from phasecast.features.setting.network import Network
from phasecast.features.setting.target import PRESETS, Target, target
from phasecast.features.simulation.descent import (
    Data,
    Descent,
    Extremes,
    descend,
    draw_data,
    lowest_curvatures,
    over_draws,
)
from phasecast.features.simulation.descent import (
    simulate_descent as simulate,
)
from phasecast.features.simulation.success import finite_size, half_success, successes
from phasecast.features.threshold import threshold
from phasecast.features.threshold_result import Threshold
from phasecast.features.threshold_table import ThresholdTable, threshold_table

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
    "ThresholdTable",
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
    "threshold_table",
    "wide_dmft",
]
