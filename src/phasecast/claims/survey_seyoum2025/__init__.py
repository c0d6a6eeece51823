"""Seyoum 2025: a survey of singular learning theory."""
