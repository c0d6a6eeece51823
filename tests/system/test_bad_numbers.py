"""Numbers, files and expressions beyond what a machine can do are one line, at once, before anything is allocated."""

from __future__ import annotations

import io
import time
import zipfile

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from phasecast.coefficients import ideal, modular_addition, newton
from phasecast.coefficients.exact.newton_polyhedra import _entry_of_block, entry
from phasecast.core import bounds
from phasecast.core.errors import BadInput, whole_number
from phasecast.studies.coefficients.user_weights import read_arrays

LARGE = ("18446744073709551616", "99999999999999999999999", "1000000000000000")
CURVE = ("curve", "--modes", "4", "--exponent", "0.5", "--lr", "0.1", "--alphas", "1:10:3")
THRESHOLD = ("threshold", "--target", "z**2")
CASES = [
    *(
        (*CURVE, f"--{option}={number}")
        for option in (
            "students",
            "teachers",
            "modes",
            "inputs",
            "draws",
            "seed",
            "simulate",
            "lr",
            "sigma",
            "exponent",
        )
        for number in (LARGE if option != "seed" else LARGE[:2])
    ),
    *((*CURVE[:-1], alphas) for alphas in ("1:10:1000000000000", "1:1e30:5", "1:10:" + "9" * 5000, "1:1e400:3")),
    *(
        (*THRESHOLD, f"--{option}={number}")
        for option in (
            "time",
            "simulate",
            "seeds",
            "samples",
            "noise",
            "a",
            "b",
            "lr",
            "initial-norm",
            "delta",
            "up-to",
        )
        for number in LARGE
    ),
    (*THRESHOLD, "--noise=1e200"),
    (*THRESHOLD, "--time=1e30"),
    (*THRESHOLD, "--time=" + "1" * 5000),
    (*THRESHOLD, "--simulate=90000", "--delta=1000"),
    *(
        ("llc", "walks:bowl", f"--{option}={number}")
        for option in ("chains", "seed", "gamma", "nbeta", "radius", "target", "max-grads", "seconds", "n")
        for number in (
            "-1",
            "nan",
            "x",
            "-inf",
            "99999999999999999999999" if option in ("chains", "seed", "n") else "inf",
        )
    ),
    *(
        ("sweep", "walks:WALK", "--engine", engine, f"--workers={number}")
        for engine in ("local", "dask")
        for number in ("-3", "0", "1000000000000")
    ),
    *(("run", "walks:WALK", f"--threads={number}") for number in ("-1", "0", "1000000000000")),
    *(
        ("run", "walks:WALK", "--set", f"{field}={value}")
        for field in ("seed", "steps", "ballast")
        for value in (
            "-1",
            "1e400",
            "9" * 5000,
            "[" * 1000 + "]" * 1000,
            "nan",
            "[1]",
            "{a = 1}",
            "18446744073709551616.5",
        )
    ),
    *(
        ("coefficient", "newton", text)
        for text in (
            "(((9**100)**100)**100)**100*x**2",
            "1e400*x**2",
            "9" * 5000 + "*x",
            "x**101",
            "x**100*x**100*x**100",
            "(" * 1000 + "x" + ")" * 1000,
            "-" * 3000 + "x",
            "x**" * 500 + "2",
        )
    ),
    *(
        ("coefficient", "modular-addition", f"--p={p}", "--width=3")
        for p in ("1000000000000000005", "99999999999999999999999", "-7")
    ),
    *(("llc", "walks:bowl", f"--seed={number}") for number in LARGE[:2]),
    *((*CURVE, f"--{option}=0") for option in ("students", "teachers")),
    *(
        ("plan", "posterior", "--coefficient", "2", f"--{option}")
        for option in ("sizes=0", "errors=1e-400", "sizes=nan")
    ),
    *(("plan", "grokking", "--p", "23", f"--fraction={number}") for number in ("nan", "0", "1.1", "1" * 5000)),
    ("forecast", "x" * 1000),
    *(("runs", *words, "--store", "/etc/passwd/x") for words in (["ls"], ["check", "--all"])),
    *(("runs", "show", name) for name in ("x" * 1000, "..", "/etc/passwd", "a\nb", "λ")),
    *(
        ("run", "walks:WALK", "--store", place)
        for place in ("/etc/passwd/x", "/dev/null", "/dev/zero/x", "/" + "x" * 300)
    ),
]


@pytest.mark.parametrize("words", CASES, ids=lambda words: " ".join(words)[:60].encode("ascii", "replace").decode())
def test_a_number_out_of_bounds_is_one_line_at_once(command, tmp_path, monkeypatch, words):
    monkeypatch.chdir(tmp_path)
    began = time.process_time()
    code, out, err = command(*words)
    assert (code, out, err.count("\n")) == (2, "", 1), err[-300:]
    assert "unexpected" not in err
    assert time.process_time() - began < 5
    assert not list(tmp_path.iterdir())


def test_numbers_within_the_bounds_are_taken():
    """The control of the table above."""
    bounds.check_bounds(**{name: bound.most for name, bound in bounds.OPTIONS.items()})
    bounds.check_memory(1000, "a little", "")
    assert whole_number("n", np.int64(7), 1) == 7
    with pytest.raises(BadInput, match=r"this needs 1.07e\+09 GiB"):
        bounds.check_memory(2.0**60, "this", "use less")


@given(st.lists(st.lists(st.integers(0, 4), min_size=4, max_size=4), min_size=1, max_size=6))
@settings(max_examples=150)
def test_blocks_and_corners_never_change_where_the_diagonal_enters(points):
    points = [tuple(point) for point in points if any(point)]
    if not points or not all(any(point[i] for point in points) for i in range(4)):
        return
    assert entry(points) == _entry_of_block(points, [10**9])


WORDS = ["x", "y", "z1", "2", "9**99", "1e308", "**", "*", "+", "-", "/", "(", ")", "3", "0", "sin"]


@given(st.lists(st.sampled_from(WORDS), min_size=1, max_size=12).map("".join))
@settings(max_examples=300)
def test_any_text_is_a_polynomial_or_bad_input_within_seconds(text):
    began = time.process_time()
    try:
        newton(text)
    except BadInput as error:
        assert "\n" not in str(error)  # noqa: PT017
    assert time.process_time() - began < 5


def test_sums_of_many_variables_are_answered():
    assert newton("+".join(f"x{i}**2" for i in range(26))).value == 13
    assert ideal(*(f"x{i}*x{i + 1}" for i in range(24))).multiplicity == 1
    assert modular_addition(1000000000000000003, 3).value > 0
    with pytest.raises(BadInput, match="takes too long"):
        ideal(*(f"x{i}*x{j}" for i in range(25) for j in range(i)))


def test_primes_are_those_of_trial_division():
    for p in range(3000):
        assert bounds.is_prime(p) == (p > 1 and all(p % q for q in range(2, int(p**0.5) + 1)))
    assert not bounds.is_prime(3215031751)  # a strong pseudoprime to the bases 2, 3, 5 and 7


def huge_header() -> bytes:
    header = "{'descr': '<f8', 'fortran_order': False, 'shape': (8000000000000,), }".ljust(117) + "\n"
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header.encode()


def archive(content: bytes, *, corrupt: bool = False) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("w.npy", content)
    whole = bytearray(buffer.getvalue())
    if corrupt:
        whole[45] ^= 255
    return bytes(whole)


def plain(array: np.ndarray) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array)
    return buffer.getvalue()


FILES = {
    "empty.npz": b"",
    "text.npz": b"not an archive",
    "huge.npz": archive(huge_header()),
    "corrupt.npz": archive(plain(np.arange(500.0)), corrupt=True),
    "cut.npz": archive(plain(np.arange(500.0)))[:-30],
    "empty.safetensors": b"",
    "huge.safetensors": (2**62).to_bytes(8, "little") + b"{}",
    "nonsense.safetensors": (2).to_bytes(8, "little") + b"[]",
    "type.safetensors": (60).to_bytes(8, "little") + b'{"w": {"dtype": "X9", "shape": [2], "data_offsets": [0, 8]}}',
}


@pytest.mark.parametrize("name", FILES)
def test_a_file_of_weights_that_lies_is_bad_input(tmp_path, name):
    path = tmp_path / name
    path.write_bytes(FILES[name])
    with pytest.raises(BadInput, match="cannot be read"):
        read_arrays(path)


def test_a_device_is_not_read_for_ever_and_a_sound_file_is_read(tmp_path):
    (tmp_path / "zero.npz").symlink_to("/dev/zero")
    with pytest.raises(BadInput, match="there is no file"):
        read_arrays(tmp_path / "zero.npz")
    np.savez(tmp_path / "w.npz", w=np.arange(3.0))
    assert read_arrays(tmp_path / "w.npz")["w"].tolist() == [0, 1, 2]
