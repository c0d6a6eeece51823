"""What is learned by what: targets, activations, losses and the network."""
