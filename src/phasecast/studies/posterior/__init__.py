"""Recipes about ``phasecast.posterior``."""
