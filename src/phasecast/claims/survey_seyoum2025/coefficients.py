"""What the survey states about λ itself, and what exact ranks and volumes say."""

from __future__ import annotations

from phasecast.claims.grokking_cullen2026.landscapes import _check_min_not_max
from phasecast.claims.grokking_cullen2026.networks import _check_definition_4, _check_depth_two

CHECKS = {
    "survey/lambda-is-min": _check_min_not_max,
    "survey/definition-4": _check_definition_4,
    "survey/depth-two": _check_depth_two,
}
"""The check of each claim; ``claims.toml`` has the statements."""
