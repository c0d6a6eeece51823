"""Things with a known answer: landscapes whose learning coefficient is known exactly."""

from phasecast.models.landscapes import LANDSCAPES, Landscape

__all__ = ["LANDSCAPES", "Landscape"]
