"""``phasecast curve``: what it prints, what it refuses, and that it is the library's answer."""

from __future__ import annotations

import json

import numpy as np
import pytest

from phasecast import online

SETTING = ("--modes", 4, "--exponent", 1, "--lr", 0.5, "--inputs", 64, "--draws", 2, "--alphas", "1:40:5")


@pytest.mark.slow
def test_it_prints_the_curve_with_its_parts(command_json, tmp_path):
    figure = tmp_path / "curve.svg"
    found = command_json("curve", *SETTING, "--simulate", 2, "--plot", figure)
    assert found["status"] == "ok"
    assert found["alpha"] == np.linspace(1, 40, 5).tolist()
    again = online.curve(modes=4, exponent=1.0, lr=0.5, inputs=64, draws=2, order=2, alphas=np.linspace(1, 40, 5))
    np.testing.assert_allclose(found["eps"], again.eps)
    assert found["eps"] == found["value"] == found["estimate"]
    assert len(found["spread"]) == len(found["error"]) == 5
    assert again.plateau is not None
    assert found["plateau"]["eps"] == pytest.approx(again.plateau["eps"])
    assert found["escape"]["tau_of_eps"] == pytest.approx(found["escape"]["tau"] / 2)
    assert found["slope"]["predicted"] == -0.5
    assert found["slope"]["window"] is None
    assert found["slope"]["reason"]
    assert found["escape"]["left_at"] is None
    assert "escape time" in found["escape"]["reason"]
    assert found["simulation"]["seeds"] == 2
    assert found["simulation"]["largest_relative_gap"] < 0.5
    assert found["spectrum"]["modes"] == 4
    assert figure.read_text().lstrip().startswith("<?xml")


def test_it_prints_a_table_for_people(command):
    code, out, _ = command("curve", *SETTING, "--activation", "linear")
    assert code == 0
    assert "ε(1)" in out
    assert "plateau" not in out
    code, out, _ = command("curve", *SETTING)
    assert "plateau ε*" in out
    assert "escape time τ of r" in out
    assert "left at" not in out  # five points show no plateau
    assert "not seen: " in out


@pytest.mark.slow
def test_the_spectrum_of_a_users_data(command_json, tmp_path):
    rng = np.random.default_rng(0)
    scale = np.sqrt(online.Spectrum.power_law(16, 0.5).eigenvalues)
    np.save(tmp_path / "data.npy", rng.normal(size=(5000, 16)) * scale)
    found = command_json(
        "curve", "--spectrum-of", tmp_path / "data.npy", "--lr", 0.1, "--alphas", "1:20:3", "--draws", 1,
        "--students", 1, "--teachers", 1,
    )  # fmt: skip
    assert found["spectrum"]["modes"] == 16
    assert found["spectrum"]["exponent"] == pytest.approx(0.5, abs=0.15)
    assert found["plateau"] is None


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (("--lr", 5.0), "stability limit"),
        (("--lr", 2.0, "--activation", "linear"), "stability limit"),
        (("--lr", -1.0), "η > 0"),
        (("--inputs", 63), "multiple of 4"),
        (("--exponent", -1), "β > 0"),
        (("--alphas", "5:1:10"), "does not increase"),
        (("--alphas", "1:5"), "start:stop:count"),
        (("--order", 3), "order 3"),
        (("--sigma", -1), "standard deviation"),
        (("--students", 0), "students is 0"),
        (("--draws", 0), "draws is 0"),
        (("--spectrum-of", "nowhere.npy"), "no file"),
        (("--plot", "curve.txt"), ".svg"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(command, change, words):
    given = dict(zip(SETTING[::2], SETTING[1::2], strict=True))
    given.update(zip(change[::2], change[1::2], strict=True))
    code, out, err = command("curve", *[word for pair in given.items() for word in pair], "--json")
    assert code == 2
    assert out == ""
    assert words in err
    assert len(err.strip().splitlines()) == 1


@pytest.mark.slow
@pytest.mark.parametrize("order", [1, 2])
def test_what_diverges_is_printed_as_refused(command, order):
    """For other numbers of students than teachers no limit is known beforehand; ε itself stays bounded.

    The equations to first order do not see it: their ε falls to nothing, which is why the second order is asked too.
    """
    setting = ("--students", 3, "--teachers", 2, *SETTING[:4], "--lr", 40, *SETTING[6:-1], "1:60:5", "--order", order)
    code, out, _ = command("curve", *setting, "--json")
    found = json.loads(out)
    assert code == 3
    assert found["status"] == "refused"
    assert found["value"] is None
    assert (found["estimate"][-1] > 1e-3) == (order == 2)
    assert "weights run away" in found["reasons"][0]


def test_a_linear_student_on_my_rows_and_my_labels(command, command_json, tmp_path):
    rng = np.random.default_rng(0)
    rows = rng.exponential(size=(80, 3))
    np.savez(tmp_path / "mine.npz", X=rows, y=rows[:, 0])
    words = ("curve", "--data", tmp_path / "mine.npz", "--lr", 0.3, "--alphas", "1:20:3")
    found = command_json(*words, "--simulate", 4, "--plot", tmp_path / "mine.svg")
    again = online.curve_of(rows, rows[:, 0], lr=0.3, alphas=[1, 10.5, 20], sigma=0.01, simulate=4)
    np.testing.assert_allclose(found["value"], again.eps)
    assert found["simulation"]["orders"] == 4
    assert (tmp_path / "mine.svg").exists()
    assert command(*words, "--students", 3)[0] == 2
    np.savez(tmp_path / "rows.npz", X=rows)
    code, _, err = command("curve", "--data", tmp_path / "rows.npz", "--lr", 0.3, "--alphas", "1:20:3")
    assert code == 2
    assert "numpy.savez" in err


def test_a_committee_and_trained_directions_on_my_rows_and_my_labels(command, command_json, tmp_path):
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(200, 4)) * [2, 1, 1, 0.5]
    labels = rows[:, 0] + 0.3 * rng.normal(size=200)
    np.savez(tmp_path / "mine.npz", X=rows, y=labels)
    words = ("curve", "--data", tmp_path / "mine.npz", "--lr", 0.3, "--alphas", "1:20:3")
    found = command_json(*words, "--committee", "--students", 2, "--teachers", 1, "--draws", 3)
    units = online.Committee(students=2, teachers=1, sigma=0.01, draws=3)
    again = online.committee_curve_of(rows, labels, units, lr=0.3, alphas=[1, 10.5, 20])
    np.testing.assert_allclose(found["value"], again.eps)
    assert found["status"] == "warning"
    fewer = command_json(*words, "--trained", 2)
    np.testing.assert_allclose(
        fewer["value"], online.curve_of(rows, labels, lr=0.3, alphas=[1, 10.5, 20], sigma=0.01, trained=2).eps
    )
    for wrong in (("--committee", "--trained", 2), ("--committee", "--modes", 4), ("--students", 3)):
        assert command(*words, *wrong)[0] == 2
    code, _, err = command("curve", "--committee", "--lr", 0.1, "--modes", 4, "--exponent", 1, "--alphas", "1:20:3")
    assert (code, "--data" in err) == (2, True)
