"""Recipes about ``phasecast.features``."""
