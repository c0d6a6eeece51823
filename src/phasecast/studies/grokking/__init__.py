"""Recipes about ``phasecast.grokking``."""
