"""When does learning leave a plateau? From overlaps and settings, or from a loss alone."""

from phasecast.forecasting.escape.escape_clock import EscapeClock
from phasecast.forecasting.escape.lone_loss import forecast_escape_of_loss

__all__ = ["EscapeClock", "forecast_escape_of_loss"]
