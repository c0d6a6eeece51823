"""Whatever the spec of a recipe already tells is refused when it is made: nothing is computed, one line says why."""

from __future__ import annotations

import pytest

from phasecast.core.errors import BadInput
from phasecast.lab import RECIPES, find_recipe
from phasecast.lab.spec import make_spec

REFUSED = {
    "too few sizes": ("grokking-data", {"ratios": (1.5, 2.0, 2.5, 3.0, 3.5)}, "at least 8"),
    "sizes that are the same": ("grokking-data", {"p": (5,), "ratios": (2.0,) * 9}, "do not locate a change"),
    "an even p with frequencies": ("grokking", {"p": 24}, "use an odd p, or llc=false"),
    "a batch larger than the data": ("grokking", {"batch": 5000}, "larger than the"),
    "a rule that needs a prime": ("grokking", {"task": "division", "p": 9}, "prime"),
    "too few rates for a law": ("grokking-severity", {"rates": (1e-3, 2e-3, 5e-3, 1e-2)}, "at least 5"),
    "too few λ̂ to correlate": ("grokking-mirror", {"checkpoints": 4}, "more checkpoints"),
    "too few steps to correlate": ("grokking-mirror", {"steps": 5}, "more checkpoints"),
    "a modulus without theory": ("grokking-coefficient", {"p": (9,)}, "not prime"),
    "inputs that do not fit": ("learning-curves", {"inputs": 64, "modes": (7,)}, "cannot be shared out"),
    "a rate beyond the limit": ("learning-curves", {"lr": 50.0}, "above the stability limit; use η <"),
    "SGD that diverges": ("linear-features", {"lr": 50.0}, "at which SGD diverges; use η <"),
    "more features than there are": ("linear-features", {"trained": (300,)}, "at most as many"),
    "no hard direction, success": ("feature-success", {"target": "z"}, "no hard direction"),
    "no hard direction, spectrum": ("feature-spectrum", {"target": "z**3 - 3*z"}, "no hard direction"),
    "no hard direction, grokking": ("feature-grokking", {"target": "z"}, "no hard direction"),
    "no hard direction, overlap": ("feature-overlap", {"target": "z"}, "no hard direction"),
    "no hard direction, scan": ("feature-scan", {"targets": ("z",)}, "no hard direction"),
    "a rate that does not matter": ("feature-diagram", {"axis": "lr", "values": ("0.1",)}, "t = 0"),
    "a rank that does not fit": ("rlct-linear", {"widths": (2, 2), "rank": 3}, "rank ≤ 2"),
    "more units than there are": ("rlct-relu", {"true_units": (6,)}, "between 3 and 5"),
    "figure without its data": ("scaling-figure", {"figure": 14}, "needs data"),
    "thresholds in the wrong order": ("toy-landscapes", {"epsilon_min": 0.5, "epsilon_max": 0.1}, "below epsilon_max"),
    "sizes that do not rise": ("generalisation", {"sizes": (30, 20, 40)}, "increasing"),
    "levels that do not rise": ("grokking-bank", {"lr": (2e-3, 1e-3, 5e-3)}, "increasing"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_a_spec_tells_is_refused_when_it_is_made(case):
    recipe, values, expected = REFUSED[case]
    with pytest.raises(BadInput) as refusal:
        make_spec(find_recipe(recipe).spec, values)
    assert expected in str(refusal.value)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize(
    ("recipe", "values"),
    [("grokking", {"p": 24, "llc": False}), ("grokking", {"p": 24, "network": "mlp"}), ("grokking", {"p": 23}),
     ("grokking-coefficient", {"p": (5,), "widths": (8,)}), ("feature-success", {"dimensions": (100,)}),
     ("learning-curves", {"lr": 50.0, "students": 3, "teachers": 2})],
)  # fmt: skip
def test_what_can_be_answered_is_not_refused(recipe, values):
    make_spec(find_recipe(recipe).spec, values)


WITH_DEFAULTS = [name for name in RECIPES if name not in ("llc", "claim-check")]  # these two need arguments


@pytest.mark.parametrize("name", WITH_DEFAULTS)
def test_the_defaults_of_every_recipe_are_a_spec(name):
    kind = find_recipe(name).spec
    make_spec(kind, {})
    if "scale" in kind.model_fields:
        make_spec(kind, {"scale": "paper"})
