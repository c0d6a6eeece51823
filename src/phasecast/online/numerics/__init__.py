"""Which numerical methods do the equations need? Gaussian averages in closed form and an integrator."""
