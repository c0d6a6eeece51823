"""Models to try posteriors on: those with a known λ, and those of the papers."""
