"""The forecasts of runs: archived as they were made, and their record."""
