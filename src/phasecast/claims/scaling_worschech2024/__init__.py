"""Worschech & Rosenow 2024: scaling laws of two-layer networks."""
