"""Which numbers decide about a threshold, and why?"""

from __future__ import annotations

from dataclasses import dataclass

from phasecast.core.policy import Policy, rule


@dataclass(frozen=True)
class FeaturesPolicy(Policy):
    """What is accepted, doubted or refused on the way from a target to δ*."""

    largest_quadrature_error: float = rule(
        0.01, "chosen, not derived: relative to δ*, between the default and a coarser grid"
    )
    largest_drift: float = rule(
        0.05, "chosen, not derived: relative to δ*; the drift between the last two times that is worth a warning"
    )
    unbounded_fall: float = rule(
        0.1, "chosen, not derived: relative fall of the least G from 10 to 40 standard deviations; a G that is linear "
        "in one of its arguments falls by a factor of four"
    )  # fmt: skip
    diverged: float = rule(1e12, "chosen, not derived: forces and curvatures of a run that converges are of order one")
    most_memory: float = rule(4e9, "bytes of the tangents of the mean-field equations; chosen for a laptop of 8 GB")
    unsolved: float = rule(1e-7, "residual of the fixed-point equations; chosen below the error of the nodes, 1e-4")
    unsettled: float = rule(1e-6, "residual of V + (α/δ)f = W for one example; chosen, the solver reaches 1e-11")
    least_information: float = rule(
        1e-6, "E(E[z²−1|y])² treated as zero; chosen, not derived: the rounding of the cells is below it"
    )
    fewest_margins: int = rule(3, "a line through two margins has no residual; fewer cannot rule out a longer search")


POLICY = FeaturesPolicy()


@dataclass(frozen=True)
class SimulationPolicy(Policy):
    """How runs of gradient descent in d dimensions are read."""

    most_memory: float = rule(6e9, "bytes of the examples; chosen for a laptop of 8 GB")
    pointing: float = rule(
        0.05, "overlap² from which an eigenvector counts as pointing to the hard directions; chosen: a random one has "
        "r/d, some 0.005 at d = 200"
    )  # fmt: skip
    along_weights: float = rule(
        0.2, "overlap² with the weights themselves from which a vector belongs to the other block; chosen, not derived"
    )
    clipped_quantile: float = rule(
        1e-3, "to which G is raised where it has no lower bound; chosen: the lowest of about a thousand examples"
    )
    crossing_resolution: float = rule(
        10.0, "a crossing between two δ of a grid is known to their spacing over this; chosen: the error of the line"
    )
    sharpest_width: float = rule(
        0.25, "of the rise of success, in spacings of the grid; chosen: a sharper one is not resolved"
    )
    fewest_dimensions: int = rule(4, "two lines with two unknowns each are extrapolated; fewer points fit both")
    largest_chi_squared: float = rule(
        3.0, "per degree of freedom and once more; chosen: about three standard deviations for one degree"
    )


SIMULATION = SimulationPolicy()
