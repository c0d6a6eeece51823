"""The twenty figures of Worschech & Rosenow 2024, computed again."""
