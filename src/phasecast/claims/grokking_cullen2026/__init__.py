"""Cullen et al. 2026: grokking as a transition between basins."""
