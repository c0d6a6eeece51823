"""Do forecasts hold? Random trainings, forecast on the way, and when it happened."""
