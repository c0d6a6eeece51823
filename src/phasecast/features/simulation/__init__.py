"""Gradient descent in d dimensions, its Hessian and its successes."""
