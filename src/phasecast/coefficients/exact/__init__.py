"""Learning coefficients in closed form, exact ranks of Jacobians, and exact bounds."""
