"""From what passed to a verdict: the one rule for the checks of all papers, as docs/claims.md states it."""

from __future__ import annotations

import pytest

from phasecast.claims.verdicts import exact_finding, finding, undecided, verdict_of
from phasecast.core import ClaimVerdict

RULE = [
    (True, None, False, ClaimVerdict.HOLDS),
    (True, True, False, ClaimVerdict.HOLDS),
    (True, False, True, ClaimVerdict.HOLDS),
    (False, True, False, ClaimVerdict.HOLDS_CORRECTED),
    (False, True, True, ClaimVerdict.HOLDS_CORRECTED),
    (False, False, False, ClaimVerdict.NOT_REPRODUCED),
    (False, False, True, ClaimVerdict.NOT_REPRODUCED),
    (False, None, False, ClaimVerdict.DOES_NOT_HOLD),
    (False, None, True, ClaimVerdict.NOT_REPRODUCED),
]


@pytest.mark.parametrize(("printed", "corrected", "experiment", "verdict"), RULE)
def test_a_verdict_follows_from_what_passed(printed, corrected, experiment, verdict):
    assert verdict_of(printed, corrected, experiment=experiment) is verdict
    assert finding("", printed=printed, corrected=corrected, experiment=experiment).verdict is verdict


def test_exact_numbers_decide_by_equality():
    assert exact_finding([("a", 3, 3), ("b", 4, 4)]).verdict is ClaimVerdict.HOLDS
    assert exact_finding([("a", 3, 3), ("b", 4, 5)]).verdict is ClaimVerdict.DOES_NOT_HOLD
    assert exact_finding([("a", 3, 2)], corrected=True).verdict is ClaimVerdict.HOLDS_CORRECTED
    assert "a: printed 3, exact 2" in exact_finding([("a", 3, 2)]).words


def test_a_check_that_cannot_decide_leaves_a_claim_open():
    assert undecided("too few points").verdict is ClaimVerdict.OPEN
