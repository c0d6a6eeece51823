"""``phasecast forecast``: what strangers' files do to it."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

HEADER = "step,train_acc,val_acc,val_loss\n"
FALLING = "".join(
    f"{step},{min(step / 100, 1)},0.05,{0.48 + 0.0021 * step if step < 200 else 0.9 - 0.00014 * (step - 200):.6f}\n"
    for step in range(0, 2001, 20)
)

BAD = {
    "no-such-file": (None, "no file"),
    "empty": (b"", "empty"),
    "no-header": (b"0,0.1,0.1,0.5\n20,0.2,0.1,0.5\n", "no header"),
    "missing-column": (b"step,train_acc,val_acc\n0,0.1,0.1\n20,0.2,0.1\n", "no column for validation_loss"),
    "other-columns": (b"a,b,c\n1,2,3\n", "its columns are: a, b, c"),
    "one-row": ((HEADER + "0,0.1,0.1,0.5\n").encode(), "one row"),
    "no-row": (HEADER.encode(), "no row"),
    "steps-go-back": ((HEADER + "0,0.1,0.1,0.5\n40,0.2,0.1,0.5\n20,0.2,0.1,0.5\n").encode(), "go back from 40 to 20"),
    "nan": ((HEADER + "0,0.1,0.1,0.5\n20,0.2,0.1,nan\n").encode(), "validation_loss is nan at line 3"),
    "infinite": ((HEADER + "0,0.1,0.1,0.5\n20,0.2,0.1,inf\n").encode(), "inf at line 3"),
    "words": ((HEADER + "0,0.1,0.1,0.5\n20,0.2,0.1,low\n").encode(), "'low' at line 3"),
    "ragged": ((HEADER + "0,0.1,0.1\n").encode(), "3 cells"),
    "accuracy-150": ((HEADER + "0,0.1,0.1,0.5\n20,150,0.1,0.5\n").encode(), "150"),
    "accuracy-negative": ((HEADER + "0,0.1,-0.1,0.5\n20,0.5,0.1,0.5\n").encode(), "-0.1"),
    "utf-16": ((HEADER + FALLING).encode("utf-16"), "UTF-16"),
    "latin-1": (("größe," + HEADER).encode("latin-1"), "not UTF-8"),
    "binary": (bytes(range(256)) * 64, "not"),
    "zip": (b"PK\x03\x04\x14\x00\x00\x00" + bytes(3000), "not a text file"),
    "one-long-line": (b"x" * 3_000_000, "not a text file"),
    "quote": ((HEADER + '0,"0.1,0.1,0.5\n').encode(), "quotation mark"),
    "tensorboard-scalar": (b"Wall time,Step,Value\n1.5,0,0.1\n1.6,20,0.2\n", "one scalar"),
}


@pytest.mark.parametrize("kind", BAD)
def test_a_bad_file_is_one_line_and_exit_code_2(kind, command, tmp_path):
    content, words = BAD[kind]
    path = tmp_path / "log.csv"
    if content is not None:
        path.write_bytes(content)
    code, out, err = command("forecast", path, "--json")
    assert code == 2
    assert out == ""
    assert len(err.strip().splitlines()) == 1
    assert words in err


def test_a_folder_is_one_line_and_exit_code_2(command, tmp_path):
    code, _, err = command("forecast", tmp_path)
    assert code == 2
    assert "is a folder" in err


def test_json_has_the_promised_keys(command_json, tmp_path):
    path = tmp_path / "log.csv"
    path.write_text(HEADER + FALLING)
    made = command_json("forecast", path)
    low, high = made["interval"]
    assert low < made["value"] < high
    assert made["status"] == "ok"
    assert made["tier"] == "lone log"
    assert made["quantity"] == "val50"
    assert made["coverage"] == 0.8
    assert made["reasons"] == []


def test_a_wider_coverage_is_a_wider_interval(command_json, tmp_path):
    path = tmp_path / "log.csv"
    path.write_text(HEADER + FALLING)
    narrow, wide = (command_json("forecast", path, "--coverage", share)["interval"] for share in (0.5, 0.95))
    assert wide[0] < narrow[0] < narrow[1] < wide[1]


def test_a_refused_forecast_has_no_date_and_exit_code_3(command, tmp_path):
    path = tmp_path / "log.csv"
    path.write_text(HEADER + "".join(FALLING.splitlines(keepends=True)[:14]))
    code, out, _ = command("forecast", path)
    assert code == 3
    assert "no forecast" in out
    assert "not turned" in out


def test_the_figure_is_drawn(command, tmp_path):
    path, figure = tmp_path / "log.csv", tmp_path / "fan.svg"
    path.write_text(HEADER + FALLING)
    assert command("forecast", path, "--plot", figure)[0] == 0
    assert "<svg" in figure.read_text()


def test_a_million_rows_do_not_fill_the_memory(tmp_path):
    path = tmp_path / "long.csv"
    rows = np.arange(1_000_000)
    loss = np.where(rows < 200, 0.48 + 0.0021 * rows, 0.9 - 3e-7 * (rows - 200))
    with open(path, "w") as file:
        file.write(HEADER)
        file.writelines(
            f"{step},{min(step / 100, 1)},0.05,{value:.7f}\n"
            for step, value in zip(rows.tolist(), loss.tolist(), strict=True)
        )
    script = (
        "import resource, sys; from phasecast.forecasting.log import read_log; "
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss; log = read_log(sys.argv[1]); "
        "print(len(log), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)"
    )
    done = subprocess.run([sys.executable, "-c", script, str(path)], capture_output=True, text=True, check=True)
    count, more = map(int, done.stdout.split())
    assert count <= 2001
    assert more < 20_000  # kilobytes; the file has 25,000


SETTINGS = ("task=addition", "p=23", "n=231", "lr=0.002", "weight_decay=1e-4", "width=115")
SPEC = ("p=23", "width=115", "fraction=0.437", "lr=0.002", "steps=500", "llc=false")


def test_settings_bring_in_the_bank(command_json, tmp_path):
    path = tmp_path / "log.csv"
    path.write_text(HEADER + "".join(FALLING.splitlines(keepends=True)[:30]))
    made = command_json("forecast", path, "--set", *SETTINGS)
    assert made["tier"] == "log + settings + bank"
    assert made["runs"] > 25


@pytest.mark.parametrize("other", ["batch=100", "width=230", "beta2=0.99", "n=120", "lr=0.1"])
def test_what_the_bank_has_not_seen_is_left_to_the_log_alone(other, command_json, tmp_path):
    path = tmp_path / "log.csv"
    path.write_text(HEADER + FALLING)
    name = other.partition("=")[0]
    made = command_json(
        "forecast", path, "--set", *(word for word in SETTINGS if not word.startswith(f"{name}=")), other
    )
    assert made["tier"] == "lone log"
    assert "the log alone is used" in made["reasons"][-1]


def test_another_network_is_refused_because_its_loss_falls_in_another_way(command, tmp_path):
    path = tmp_path / "log.csv"
    path.write_text(HEADER + FALLING)
    code, out, _ = command("forecast", path, "--set", *SETTINGS, "network=mlp")
    assert code == 3
    assert "three finished runs" in " ".join(out.split())


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (("p=23",), "the settings lack task"),
        ((*SETTINGS, "colour=red"), "unknown setting"),
        ((*SETTINGS[:-1], "width=many"), "width is 'many'"),
        (("p",), "invalid setting"),
    ],
)
def test_bad_settings_are_one_line(words, problem, command, tmp_path):
    path = tmp_path / "log.csv"
    path.write_text(HEADER + FALLING)
    code, _, err = command("forecast", path, "--set", *words)
    assert code == 2
    assert problem in err
    assert len(err.strip().splitlines()) == 1


def test_a_run_is_forecast_before_and_while_it_trains(command, command_json, store):
    code, _, err = command("run", "grokking", "--store", store, "--set", *SPEC)
    assert code in (0, 3)
    lines = [line for line in err.splitlines() if line.startswith("forecast ")]
    assert lines[0].startswith("forecast before step 0")
    run = next(path.name for path in store.iterdir() if path.name.startswith("grokking-"))
    archived = (store / run / "forecasts.jsonl").read_text().splitlines()
    assert len(archived) >= 3
    assert command_json("forecast", run, "--store", store)["tier"] == "log + settings + bank"
    assert command_json("forecast", "scores", "--store", store)["runs"] == 1
    command("report", run, "--store", store)
    assert (store / run / "figures" / "forecasts.svg").exists()


def test_a_run_that_will_not_grok_says_so_before_it_starts(command, store):
    _, _, err = command("run", "grokking", "--store", store, "--set", "p=17", "width=85", "steps=40", "llc=false")
    first = next(line for line in err.splitlines() if line.startswith("forecast "))
    assert "unlikely to generalise" in first


def test_the_sparse_run_of_20000_steps_is_advised_to_use_more_rows():
    from phasecast.lab import find_recipe

    recipe = find_recipe("grokking")
    (made,) = recipe.foresee(recipe.spec(p=17, width=85, fraction=0.4, steps=20_000))
    assert "unlikely to generalise" in made.line()
    assert "use fraction ≥ 0.4" in made.line()


def test_a_run_in_progress_is_forecast(command_json, store, monkeypatch):
    import contextlib
    import itertools

    from phasecast import lab
    from phasecast.core.errors import RunInterrupted
    from phasecast.lab import driver

    class SoonSet:
        def __init__(self):
            self.asked = itertools.count()

        def is_set(self) -> bool:
            return next(self.asked) > 35  # twice per chunk, first to write a checkpoint

    monkeypatch.setattr(driver, "_stop_signals", lambda: contextlib.nullcontext(SoonSet()))
    values = {"p": 23, "width": 115, "fraction": 0.437, "lr": 0.002, "steps": 500, "llc": False}
    with pytest.raises(RunInterrupted) as stopped:
        lab.run("grokking", values, store=store, quiet=True)
    made = command_json("forecast", stopped.value.run, "--store", store)
    assert 0 < made["made_at"] < 500
    assert made["tier"] in ("log + settings + bank", "lone log")


@pytest.mark.parametrize(
    "words",
    [
        ("grokking", "--p", "23", "--lr", "0.002"),
        ("posterior", "--coefficient", "2.5", "--error", "0.1", "--sizes", "100", "1000", "--errors", "0.01"),
        ("feature", "--target", "z**2", "--dimension", "200"),
        ("curve", "--modes", "4", "--exponent", "1", "--lr", "0.5", "--draws", "1", "--eps", "0.01", "--up-to", "300"),
    ],
    ids=lambda words: words[0],
)
def test_a_plan_is_a_table_of_numbers_with_meanings(words, command_json):
    plan = command_json("plan", *words)
    assert all(line["meaning"] for line in plan["lines"])
    assert any(line["value"] is not None for line in plan["lines"])


def test_a_plan_outside_of_the_bank_is_refused(command):
    code, _, err = command("plan", "grokking", "--p", "97")
    assert code == 2
    assert "modulus" in err


def test_the_commands_of_the_page_run_as_printed(command, tmp_path, monkeypatch):
    page = (Path(__file__).parents[2] / "docs" / "forecasting.md").read_text()
    blocks = re.findall(r"^```bash\n(.*?)^```$", page, flags=re.DOTALL | re.MULTILINE)
    lines = [line for block in blocks for line in block.splitlines()]
    assert len(lines) >= 10
    monkeypatch.chdir(tmp_path)
    (tmp_path / "log.csv").write_text(HEADER + FALLING)
    for line in lines:
        code, _, err = command(*shlex.split(line)[1:])
        assert code in (0, 3), f"{line}: {err}"  # the made-up log is not of the kind that the settings say


def test_when_a_loss_leaves_its_plateau(command, command_json, tmp_path):
    steps = np.arange(0, 1360, 5)
    noise = 1 + 0.002 * np.random.default_rng(0).standard_normal(len(steps))
    loss = 0.3 / (1 + np.exp((steps - 1500) / 100)) * noise
    table = np.stack([steps, loss], axis=1)
    np.savetxt(tmp_path / "loss.csv", table, delimiter=",", header="alpha,eps", comments="")
    made = command_json("forecast", "escape", tmp_path / "loss.csv")
    assert made["quantity"] == "escape"
    assert made["interval"][0] < 1500
    assert made["interval"][1] is None
    np.savetxt(tmp_path / "flat.csv", table[:100], delimiter=",", header="alpha,eps", comments="")
    assert command("forecast", "escape", tmp_path / "flat.csv")[0] == 3
    code, _, err = command("forecast", "escape", tmp_path / "none.csv")
    assert code == 2
    assert "no file" in err
