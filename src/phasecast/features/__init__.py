"""How much data to learn? The ratio n/d at which gradient descent starts to see the hidden directions."""
