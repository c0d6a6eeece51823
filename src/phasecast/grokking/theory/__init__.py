"""What theory says about grokking: exact λ along training, ridge solutions, gradient signal, competing basins."""
