"""What a training did: its curves, transitions, decays and checkpoints, measured."""
