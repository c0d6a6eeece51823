"""Wang & Montanari 2026: thresholds of feature learning."""
