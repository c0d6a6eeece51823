"""Every claim: its counterexample runs as printed, and its check finds what we say."""

from __future__ import annotations

import importlib
from dataclasses import replace

import numpy as np
import pytest

from phasecast import claims
from phasecast.claims import registry, verify_all
from phasecast.claims.seeds import check_generator, fresh_seeds, shifted
from phasecast.core import Claim, ClaimVerdict, RecipeCheck
from phasecast.core.errors import BadInput
from phasecast.lab import run

pytestmark = pytest.mark.usefixtures("full_optimisation")

ALL = claims.all_claims()


LONG_CHECKS = (
    "features/activations",
    "features/dmft",
    "features/easy-overlap",
    "features/gelu-six",
    "features/grokking",
    "features/hard-overlap",
    "features/predictive",
    "grokking/critical-data-size",
    "grokking/figure-4",
    "grokking/figures-1-2",
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
)  # each trains, solves or samples for more than ten seconds
SMALLER = {
    "features/easy-overlap": {"dimensions": (100, 200, 400, 800)},
    "features/hard-overlap": {"dimensions": (100, 200, 400, 800)},
    "grokking/figure-4": {"steps": 4000, "rates": (0.002, 0.0034, 0.0055, 0.0088, 0.0128, 0.02)},
}
"""Settings of long checks that take seconds, beside the check itself, which is slow; the judge is the same."""
MINUTES = {
    "grokking/critical-data-size": {"p": (23,)},
    "singular/table-2-estimates": {"datasets": 4, "chains": 2, "draws": 800, "warmup": 100},
}
"""What the test changes in the setting of a check that takes minutes; it keeps the judge."""


def judged(identity, smaller, store):
    check = claims.check_of(identity)
    assert isinstance(check, RecipeCheck)
    outcome = run(check.recipe, {**check.spec, **smaller}, store=store, quiet=True)
    return check.judge(outcome.conclusion().answers)


@pytest.mark.parametrize("identity", sorted(set(ALL) - set(LONG_CHECKS)))
def test_the_check_finds_what_we_say(identity, shared_store):
    verification = claims.verify(identity, store=shared_store, quiet=True)
    assert verification.confirmed, verification.finding.words


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("identity", sorted(set(LONG_CHECKS) - set(MINUTES)))
def test_the_long_check_finds_what_we_say(identity, shared_store):
    verification = claims.verify(identity, store=shared_store, quiet=True)
    assert verification.confirmed, verification.finding.words


@pytest.mark.parametrize("identity", SMALLER)
def test_a_long_check_finds_what_we_say_on_a_smaller_scale(identity, shared_store):
    finding = judged(identity, SMALLER[identity], shared_store)
    assert finding.verdict is ALL[identity].verdict, finding.words


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("identity", MINUTES)
def test_a_check_of_minutes_finds_what_we_say_on_a_smaller_scale(identity, shared_store):
    finding = judged(identity, MINUTES[identity], shared_store)
    assert finding.verdict is ALL[identity].verdict, finding.words


def test_a_criterion_chosen_when_results_were_known_is_stated_and_marked():
    exploratory = [claim for claim in ALL.values() if claim.exploratory]
    assert {"grokking/section-6.3", "features/predictive", "scaling/figure-6"} <= {claim.id for claim in exploratory}
    assert all(claim.criterion for claim in exploratory)
    with pytest.raises(BadInput, match="say what its check requires"):
        replace(exploratory[0], criterion="")


def test_a_blind_verification_draws_other_numbers_and_zero_the_usual_ones():
    usual, keyed = check_generator(3).random(), check_generator(18, 50, 2).random()
    assert usual == np.random.default_rng(3).random()
    assert keyed == np.random.default_rng([18, 50, 2]).random()
    with fresh_seeds(0):
        assert (check_generator(3).random(), shifted(3)) == (usual, 3)
    with fresh_seeds(1):
        first = check_generator(3).random(), check_generator(18, 50, 2).random(), shifted(3)
    with fresh_seeds(2):
        second = check_generator(3).random(), check_generator(18, 50, 2).random(), shifted(3)
    assert len({usual, keyed, *first[:2], *second[:2]}) == 6
    assert (first[2], second[2]) == (10_003, 20_003)


def test_a_blind_verification_is_a_run_of_its_own(tmp_path):
    rows = {seed: verify_all("survey/lambda-is-min", seed=seed, store=tmp_path, quiet=True)[0] for seed in (0, 5)}
    assert all(row.confirmed for row in rows.values())
    assert rows[0].run != rows[5].run
    assert [row.plain()["seed"] for row in rows.values()] == [0, 5]
    for seed in (-1, 2**32):
        with pytest.raises(BadInput, match="invalid seed"):
            verify_all("survey/", seed=seed, store=tmp_path, quiet=True)


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
