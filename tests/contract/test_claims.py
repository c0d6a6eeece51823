"""Every claim: its counterexample runs as printed, and its check finds what we say."""

from __future__ import annotations

import importlib
import subprocess
import sys

import pytest

from phasecast import claims
from phasecast.claims import registry
from phasecast.core import Claim, ClaimVerdict, RecipeCheck
from phasecast.core.errors import BadInput

ALL = claims.all_claims()


DEAR = (
    "scaling/eq-12",
    "scaling/eq-17",
    "scaling/figure-1",
    "scaling/forty-units",
    "grokking/biases",
    "features/bulk",
    "features/outlier-equation",
    "features/predictive",
    "features/sub-optimal",
    "singular/lemma-a1",
    "singular/table-2",
    "singular/table-2-estimates",
    "survey/eq-1-rates",
    "survey/eq-2",
)
QUICK = tuple(f"scaling/figure-{number}" for number in (7, 8, 9, 11))  # closed forms; other figures solve or simulate


def marked(some: dict[str, Claim]) -> list:
    """Every claim; those whose check trains or solves much take longer than the suite allows."""

    def slow(name: str, claim: Claim) -> bool:
        studies = ("feature", "generalisation", "grokking", "rlct")
        trains = isinstance(check := claims.check_of(name), RecipeCheck) and check.recipe.startswith(studies)
        return trains or name in DEAR or (name.startswith("scaling/figure-") and name not in QUICK)

    return [pytest.param(name, marks=pytest.mark.slow if slow(name, claim) else ()) for name, claim in some.items()]


@pytest.mark.parametrize("identity", marked(ALL))
def test_the_check_finds_what_we_say(identity, tmp_path):
    verification = claims.verify(identity, store=tmp_path, quiet=True)
    assert verification.confirmed, verification.finding.found


@pytest.mark.parametrize("identity", marked({name: claim for name, claim in ALL.items() if claim.counterexample}))
def test_the_counterexample_runs_as_printed(identity):
    shown = subprocess.run(
        [sys.executable, "-c", ALL[identity].counterexample], capture_output=True, text=True, check=False
    )
    assert shown.returncode == 0, shown.stderr
    assert shown.stdout.strip()


@pytest.mark.bare
def test_ids_name_the_paper():
    papers = ("grokking", "survey", "features", "singular", "scaling")
    assert all(identity.split("/")[0] in papers for identity in ALL)


@pytest.mark.bare
@pytest.mark.parametrize("identity", ["survey/lambda-is-min", "grokking/ridge-coefficient", "scaling/closure"])
def test_checks_need_no_extra(identity, tmp_path):
    assert claims.verify(identity, store=tmp_path, quiet=True).confirmed


def test_two_claims_cannot_share_an_id(monkeypatch, tmp_path):
    for paper in ("one", "two"):
        (tmp_path / paper).mkdir()
        (tmp_path / paper / "claims.toml").write_text(
            '[paper]\nname = "x"\ncite = "X"\nchecks = []\n'
            '[[claim]]\nid = "x/y"\nplace = "p"\nstatement = "s"\nverdict = "holds"\nwhy = "w"\n'
        )
    monkeypatch.setattr(registry, "FOLDER", tmp_path)
    registry._papers.cache_clear()
    try:
        with pytest.raises(BadInput, match="two claims have the id"):
            registry.all_claims.__wrapped__()
    finally:
        registry._papers.cache_clear()


def test_every_claim_has_a_check_and_every_check_a_claim():
    checks = [claims.check_of(identity) for identity in ALL]
    assert all(callable(check) or isinstance(check, RecipeCheck) for check in checks)
    for folder, content in registry._papers():
        modules = [importlib.import_module(f"phasecast.claims.{folder.name}.{m}") for m in content["paper"]["checks"]]
        assert {identity for module in modules for identity in module.CHECKS} == {one["id"] for one in content["claim"]}


def test_a_claim_against_a_paper_needs_a_counterexample_of_ten_lines_at_most():
    def make(**words):
        return Claim(
            "x/y", "somewhere", "1 = 2", ClaimVerdict.DOES_NOT_HOLD, "it does not",
            **words,
        )  # fmt: skip

    with pytest.raises(BadInput, match="without showing it"):
        make()
    with pytest.raises(BadInput, match="too long"):
        make(ours="1 = 1", counterexample="\n".join(["print(1)"] * 11))
    assert make(ours="1 = 1", counterexample="assert 1 != 2").ours == "1 = 1"
