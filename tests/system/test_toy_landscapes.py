"""The study of toy landscapes: answers by id, and runs stored under the former name of a method."""

from __future__ import annotations

import pytest
import xarray as xr

from phasecast import Comparison, Verdict
from phasecast.core.errors import BadInput
from phasecast.lab import run
from phasecast.lab.recipe import find_recipe
from phasecast.lab.spec import make_spec

RECIPE = find_recipe("toy-landscapes")
SETTINGS = {"landscapes": ("x²+y²", "x²y²"), "samples": 1000, "blocks": 20, "nodes": 256}


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    return run(RECIPE, SETTINGS, store=tmp_path_factory.mktemp("runs"), quiet=True)


def test_an_answer_is_addressed_by_landscape_and_method(finished):
    answers = finished.conclusion().answers
    assert len(answers) == 4
    exact = answers.comparison("coefficient", landscape="x²y²", method="quadrature")
    assert exact.verdict is Verdict.AGREES
    assert all(isinstance(answer.result, Comparison) for answer in answers.select("coefficient", method="volume"))
    with pytest.raises(BadInput, match="2 answers match"):
        answers.result("coefficient", landscape="x²y²")


def test_a_run_stored_under_the_former_name_of_the_quadrature_is_still_read(finished):
    spec = make_spec(RECIPE.spec, {**SETTINGS, "methods": ["volume", "ladder"]})
    assert spec == finished.spec
    nodes = {name: node.to_dataset() for name, node in finished.results().children.items()}
    stored = xr.DataTree.from_dict({"/ladder": nodes["quadrature"], "/volume": nodes["volume"]})
    assert list(RECIPE.conclude(spec, stored).answers) == list(finished.conclusion().answers)
    assert set(RECIPE.figures(spec, stored)) == {"coefficients", "quadrature", "volumes"}


def test_a_result_records_the_policy_that_judged_it(finished):
    volume = finished.conclusion().answers.measurement("coefficient", landscape="x²+y²", method="volume")
    assert volume.policy["name"] == "VolumePolicy"
    assert volume.error_kind == "jackknife"
