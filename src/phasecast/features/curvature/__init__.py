"""The law of the curvature at time t, by every method that computes it."""
