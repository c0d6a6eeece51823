"""Recipes about ``phasecast.coefficients``."""
