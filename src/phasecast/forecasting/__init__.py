"""When will it happen? Forecasts of a training in time, made before the outcome, with intervals and scores."""

from phasecast.forecasting.fan import fan
from phasecast.forecasting.forecast import forecast
from phasecast.forecasting.log import TrainingLog, read_log
from phasecast.forecasting.result import Forecast, Score

__all__ = ["Forecast", "Score", "TrainingLog", "fan", "forecast", "read_log"]
