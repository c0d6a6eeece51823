"""Pages one would send to a colleague: a run or a sweep as one HTML file; and the picture of two competing basins."""

from phasecast.report.competition import competing_basins
from phasecast.report.page import write
from phasecast.report.sweep_page import write_sweep

__all__ = ["competing_basins", "write", "write_sweep"]
