"""Pages one would send to a colleague: a run or a sweep as one HTML file."""

from phasecast.report.page import write, write_sweep

__all__ = ["write", "write_sweep"]
