"""The recipe of the twenty figures: what it needs, that every figure has a plan, and a user's data through it."""

from __future__ import annotations

import re

import numpy as np
import pytest

from phasecast.core.answers import Answers
from phasecast.core.errors import BadInput
from phasecast.core.results import Verdict
from phasecast.lab import run
from phasecast.studies.online.paper_figures.lines import (
    NUMBERS,
    PREDICTED,
    PRINTED,
    SGD,
    SOLVED,
    Line,
    Panel,
    Plan,
    Quantity,
    Settings,
    answers_of,
)
from phasecast.studies.online.paper_figures.scaling_figure import (
    TITLES,
    ScalingFigure,
    figures_of_the_paper,
    plan_of,
)
from phasecast.studies.online.paper_figures.trained_features import trained_of

pytestmark = pytest.mark.bare


@pytest.fixture
def data(tmp_path):
    """Rows that are far from Gaussian: products of exponential causes."""
    rng = np.random.default_rng(0)
    rows = (rng.exponential(size=(600, 12)) - 1) @ (rng.normal(size=(12, 12)) * np.arange(1, 13.0)[:, None] ** -0.7)
    np.save(tmp_path / "rows.npy", rows)
    return tmp_path / "rows.npy"


@pytest.mark.parametrize("scale", ["small", "paper"])
@pytest.mark.parametrize("figure", sorted(TITLES))
def test_every_figure_has_a_plan(figure, scale, data):
    spec = ScalingFigure(figure=figure, scale=scale, data=str(data) if figure == 14 else None)
    plan = plan_of(spec, 12)
    assert plan.panels
    assert plan.pieces
    labels = [quantity.label for quantity in plan.numbers]
    assert len(set(labels)) == len(labels)
    addresses = [(quantity.id, *sorted(quantity.where.items())) for quantity in plan.numbers]
    assert len(set(addresses)) == len(addresses)


@pytest.mark.parametrize("scale", ["small", "paper"])
@pytest.mark.parametrize("figure", range(1, 21))
def test_every_figure_states_its_parameters(figure, scale):
    plan = figures_of_the_paper()[figure](Settings(scale == "paper", 0, "x.npy" if figure == 14 else None, 12))
    for words in ("β" if figure != 14 else "N = 12", "η", "L = " if figure != 14 else "N", "SGD"):
        assert words in plan.setting
    sgd = figure in (1, 2, 3, 14, 15)
    assert sgd == bool(re.search(r"runs? of SGD", plan.setting))


def test_the_table_has_every_figure_once():
    assert sorted(figures_of_the_paper()) == sorted(TITLES) == list(range(1, 21))


@pytest.mark.parametrize("figure", [7, 8, 9, 10, 11, 12, 13])
def test_lines_have_their_places(figure):
    plan = plan_of(ScalingFigure(figure=figure), 0)
    for line in (line for piece in plan.pieces for line in piece()):
        names = plan.numbers if line.panel == NUMBERS else plan.panels[line.panel].groups
        assert 0 <= line.group < len(names)
        if line.compared and line.panel != NUMBERS:
            assert plan.panels[line.panel].quantity(line.group).id
        assert np.size(line.x) == np.size(line.y) <= plan.points


def test_a_users_data_have_their_spectrum_and_their_curves(data, tmp_path):
    outcome = run("scaling-figure", {"figure": 14, "data": str(data)}, store=tmp_path / "runs", quiet=True)
    data.unlink()  # what a run concludes comes from what it stored
    answers = outcome.conclusion().answers
    curves = answers.select("curve", figure=14, inputs="data", theory="ours")
    assert [answer.where["trained"] for answer in curves] == list(trained_of(12))
    assert len(answers.comparisons()) == 3
    assert all(one.verdict is Verdict.AGREES for one in answers.comparisons())
    assert answers.measurement("fitted-exponent").estimate > 0


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({"figure": 14}, "give data=PATH"),
        ({"figure": 8, "data": "rows.npy"}, "is not about data"),
        ({"figure": 21}, "less than or equal to 20"),
        ({"figure": 2, "scale": "huge"}, "'small' or 'paper'"),
        ({"figure": 14, "data": "nowhere.npy"}, "nowhere.npy"),
    ],
)
def test_what_cannot_be_is_bad_input(spec, words, tmp_path):
    with pytest.raises(BadInput, match=words):
        run("scaling-figure", spec, store=tmp_path, quiet=True)


def test_a_prediction_is_compared_with_sgd_first_and_a_wrong_one_differs():
    panel = Panel("curves", "α", "ε", ("a",), id="curve", where=({"beta": 1.0},))
    plan = Plan((panel,), (), 2, (Quantity("slope", "slope at the end"),))
    x = [1.0, 2.0]
    lines = [
        Line(0, 0, PREDICTED, x, np.array([1.0, 0.5]), systematic=np.zeros(2), compared=True),
        Line(0, 0, PRINTED, x, np.array([2.0, 0.5]), systematic=np.zeros(2), compared=True),
        Line(0, 0, SGD, x, np.array([1.01, 0.49]), error=np.full(2, 0.01), compared=True),
        Line(NUMBERS, 0, SOLVED, [0.0], np.array([-0.5]), error=np.array([0.1])),
    ]
    answers = Answers(answers_of(plan, lines, figure=0))
    ours = answers.comparison("curve", figure=0, beta=1.0, theory="ours")
    assert ours.verdict is Verdict.AGREES
    assert ours.measurement.error_kind == "seeds"
    assert answers.comparison("curve", beta=1.0, theory="printed").verdict is Verdict.DIFFERS
    assert answers.measurement("slope").estimate == -0.5
    assert [answer.label for answer in answers] == ["curves, a", "curves, a (as printed)", "slope at the end"]
