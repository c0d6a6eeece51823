"""Every claim: its counterexample runs as printed, and its check finds what we say."""

from __future__ import annotations

import os

import pytest

from phasecast import claims
from phasecast.core import Claim, ClaimVerdict, Finding
from phasecast.core.errors import BadInput

ALL = claims.all_claims()


LONG_CHECKS = (
    "features/activations",
    "features/bulk",
    "features/dmft",
    "features/easy-overlap",
    "features/gelu-six",
    "features/grokking",
    "features/hard-overlap",
    "features/outlier-equation",
    "features/predictive",
    "features/spectrum",
    "features/sub-optimal",
    "grokking/biases",
    "grokking/critical-data-size",
    "grokking/figure-4",
    "grokking/figures-1-2",
    "grokking/section-6.2",
    "grokking/section-6.3",
    "grokking/sgld-settings",
    "scaling/eq-12",
    "scaling/eq-15",
    "scaling/eq-17",
    "scaling/figure-1",
    "scaling/figure-2",
    "scaling/figure-3",
    "scaling/figure-4",
    "scaling/figure-5",
    "scaling/figure-6",
    "scaling/figure-10",
    "scaling/figure-12",
    "scaling/figure-13",
    "scaling/figure-14",
    "scaling/figure-15",
    "scaling/figure-16",
    "scaling/figure-17",
    "scaling/figure-18",
    "scaling/figure-19",
    "scaling/figure-20",
    "scaling/forty-units",
    "singular/eq-9",
    "singular/lemma-a1",
    "singular/table-1",
    "singular/table-1-script",
    "singular/table-2",
    "singular/table-2-estimates",
    "singular/table-3",
    "singular/table-4",
    "survey/eq-1-rates",
    "survey/eq-2",
)  # they train, solve or sample; all others are formulas


@pytest.fixture(scope="module")
def shared_store(tmp_path_factory):
    """Checks of the same experiment share its run; in the whole test run, whichever process computes it."""
    base = tmp_path_factory.getbasetemp()
    return (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "claims"


@pytest.mark.parametrize("identity", sorted(set(ALL) - set(LONG_CHECKS)))
def test_the_check_finds_what_we_say(identity, shared_store):
    verification = claims.verify(identity, store=shared_store, quiet=True)
    assert verification.confirmed, verification.finding.found


@pytest.mark.slow
@pytest.mark.parametrize("identity", LONG_CHECKS)
def test_the_long_check_finds_what_we_say(identity, shared_store):
    verification = claims.verify(identity, store=shared_store, quiet=True)
    assert verification.confirmed, verification.finding.found


@pytest.mark.parametrize("identity", [name for name, claim in ALL.items() if claim.counterexample])
def test_the_counterexample_runs_as_printed(identity, capsys):
    example = ALL[identity].counterexample
    assert example is not None
    exec(compile(example, identity, "exec"), {"__name__": "__main__"})
    assert capsys.readouterr().out.strip()


@pytest.mark.bare
def test_ids_name_the_paper():
    papers = ("grokking", "survey", "features", "singular", "scaling")
    assert all(identity.split("/")[0] in papers for identity in ALL)


@pytest.mark.bare
@pytest.mark.parametrize("identity", ["survey/lambda-is-min", "grokking/ridge-coefficient", "scaling/closure"])
def test_checks_need_no_extra(identity, tmp_path):
    assert claims.verify(identity, store=tmp_path, quiet=True).confirmed


def test_two_claims_cannot_share_an_id(monkeypatch):
    from phasecast.claims.grokking_cullen2026 import landscapes as module

    monkeypatch.setattr(module, "CLAIMS", (*module.CLAIMS, module.CLAIMS[0]))
    with pytest.raises(ValueError, match="two claims are called"):
        claims.all_claims()


def test_a_claim_against_a_paper_needs_a_counterexample_of_ten_lines_at_most():
    def make(**words):
        return Claim(
            "x/y", "somewhere", "1 = 2", ClaimVerdict.DOES_NOT_HOLD, "it does not",
            lambda: Finding(ClaimVerdict.DOES_NOT_HOLD, "no"), **words,
        )  # fmt: skip

    with pytest.raises(BadInput, match="without showing it"):
        make()
    with pytest.raises(BadInput, match="too long"):
        make(ours="1 = 1", counterexample="\n".join(["print(1)"] * 11))
    assert make(ours="1 = 1", counterexample="assert 1 != 2").ours == "1 = 1"
