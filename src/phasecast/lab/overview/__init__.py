"""What is in a store, at a glance: lists of runs and sweeps, and answers as they were stored, without their recipes."""
