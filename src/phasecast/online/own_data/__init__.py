"""The user's rows and labels: read from files, and learned by a linear student."""
