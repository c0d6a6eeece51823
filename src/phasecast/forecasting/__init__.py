"""When will it happen? Forecasts of a training in time, made before the outcome, with intervals and scores."""
