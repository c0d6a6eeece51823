"""Recipes about ``phasecast.online``."""
