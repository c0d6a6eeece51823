"""What else is read from λ̂: grids, trainings, parts of a network, responses to data, and the evidence of a basin."""
