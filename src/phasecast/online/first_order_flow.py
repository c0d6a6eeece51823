"""What do the equations of first order look like to an integrator of one's own?

:func:`~phasecast.online.dynamics.solve` integrates them with an explicit method; where the end of learning takes too
many of its steps, ``numerics/stabilised.py`` takes longer ones.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from phasecast.online.dynamics import TeacherCoordinates, first_moments, weight_coordinates, weight_rates
from phasecast.online.order_parameters import OrderParameters
from phasecast.online.spectrum import Spectrum


class Flow(NamedTuple):
    """The first-order equations of one start as they are: dJ/dα = slope(J), in NumPy."""

    J: np.ndarray  # (K, n): the weights at α = 0
    fixed: TeacherCoordinates
    lr: float

    def slope(self, J: np.ndarray) -> np.ndarray:
        return np.asarray(weight_rates(J, None, self.fixed, self.lr, "erf", 1)[0])

    def moments(self, J: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """R^(1), Q^(1) and T^(1)."""
        R1, Q1 = first_moments(J, None, self.fixed)
        return np.asarray(R1), np.asarray(Q1), np.asarray(self.fixed.T1)


def first_order_flow(order_parameters: OrderParameters, spectrum: Spectrum, lr: float) -> Flow:
    """What :func:`~phasecast.online.dynamics.solve` integrates to first order in η, for erf units."""
    J, several = weight_coordinates([order_parameters], [spectrum])
    only = {name: np.asarray(part)[0] for name, part in several._asdict().items() if part is not None}
    return Flow(J[0], several._replace(**only), lr)
