"""What did a training do? Its curves, transitions, decays and checkpoints, measured."""
