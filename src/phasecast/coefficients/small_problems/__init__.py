"""λ of problems with a few parameters, measured without chains: volume scaling and quadrature in temperature."""
