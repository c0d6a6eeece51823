"""How well will it predict? Criteria from draws, free energies, and comparisons of models."""
