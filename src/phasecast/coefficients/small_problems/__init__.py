"""What is λ of a problem with few parameters? Measured without chains: volume scaling, temperature quadrature."""
