"""Networks with Bayesian last layers, and what that does to generalisation."""
