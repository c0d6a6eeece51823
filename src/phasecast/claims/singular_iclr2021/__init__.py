"""'Deep learning is singular, and that's good', submitted to ICLR 2021."""
