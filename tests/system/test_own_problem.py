"""A user's own factory and data: an edit is a new run, never a stale answer."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from phasecast.core.errors import BadInput
from phasecast.lab import DataFile, Factory, Spec, Store, fingerprint, run
from phasecast.lab.recipe import find_recipe
from phasecast.lab.runs import identify

MODEL = """
import numpy as np
from phasecast import Problem
import shapes

CENTRE = np.load("centre.npy")

def factory():
    offset = np.load("offset.npy")
    def loss(w):
        return shapes.bowl(w - CENTRE - offset)
    return Problem(loss, CENTRE + offset, name="mine")
"""
SHAPES = """
POWER = 2
def bowl(u):
    return (u[0] * u[1]) ** POWER
"""
SETTINGS = {"landscapes": (), "problem": "my_model:factory", "samples": 2000, "blocks": 20, "nodes": 128}


@pytest.fixture
def project(tmp_path, monkeypatch) -> Iterator[Path]:
    """A folder with a model of the user's own, as the working folder."""
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "my_model.py").write_text(MODEL)
    (folder / "shapes.py").write_text(SHAPES)
    np.save(folder / "centre.npy", np.zeros(2))
    np.save(folder / "offset.npy", np.zeros(2))
    monkeypatch.chdir(folder)
    monkeypatch.syspath_prepend(str(folder))
    yield folder
    for name in ("my_model", "shapes"):
        sys.modules.pop(name, None)


def identity() -> str:
    recipe = find_recipe("toy-landscapes")
    return identify(recipe, recipe.spec(**SETTINGS))


def test_the_same_code_and_data_are_the_same_run_in_every_process(project):
    script = (
        "from phasecast.lab.runs import identify; from phasecast.lab import find_recipe;"
        f"recipe = find_recipe('toy-landscapes'); print(identify(recipe, recipe.spec(**{SETTINGS!r})))"
    )
    seen = {
        subprocess.run(
            [sys.executable, "-c", script],
            env={**os.environ, "PYTHONHASHSEED": str(seed)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()
        for seed in (1, 2)
    }
    assert seen == {identity()}


@pytest.mark.parametrize(
    "edit",
    [
        lambda folder: (folder / "my_model.py").write_text(MODEL.replace("w - CENTRE", "2 * (w - CENTRE)")),
        lambda folder: (folder / "shapes.py").write_text(SHAPES.replace("POWER = 2", "POWER = 4")),
        lambda folder: np.save(folder / "offset.npy", np.array([1e-9, 0.0])),
    ],
    ids=["factory", "module it imports", "data the loss closes over"],
)
def test_an_edit_is_a_new_run(project, edit):
    before = identity()
    assert identity() == before
    edit(project)
    assert identity() != before


def test_data_read_at_import_is_seen_by_the_next_process(project):
    before = identity()
    np.save(project / "centre.npy", np.array([0.0, 1e-9]))
    sys.modules.pop("my_model")
    assert identity() != before


def test_an_edited_model_is_computed_anew_in_the_same_process(project, tmp_path):
    store = Store(tmp_path / "runs")
    first = run("toy-landscapes", SETTINGS, store=store, quiet=True)
    (project / "shapes.py").write_text(SHAPES.replace("POWER = 2", "POWER = 4"))
    second = run("toy-landscapes", SETTINGS, store=store, quiet=True)
    assert first.id != second.id
    values = [np.asarray(one.results()["quadrature/llc"])[0, -1] for one in (first, second)]
    assert values[0] == pytest.approx(0.475, abs=0.01)  # (xy)²: λ = ½, less 1/log nβ
    assert values[1] == pytest.approx(0.225, abs=0.02)  # (xy)⁴: λ = ¼


def test_a_resumed_run_whose_code_changed_is_refused(project, tmp_path):
    from phasecast.lab import resume

    store = Store(tmp_path / "runs")
    found = run("toy-landscapes", SETTINGS, store=store, quiet=True)
    status = found.path / "status.json"
    status.write_text(status.read_text().replace(f'"status": "{found.status}"', '"status": "interrupted"', 1))
    (project / "shapes.py").write_text(SHAPES.replace("POWER = 2", "POWER = 4"))
    with pytest.raises(BadInput, match="changed since it was started"):
        resume(found.id, store=store, quiet=True)


def test_a_file_enters_the_run_id_by_its_content(tmp_path):
    class WithData(Spec):
        data: DataFile
        model: Factory | None = None

    path = tmp_path / "data.csv"
    path.write_text("1,2")
    spec = WithData(data=str(path))
    before = spec.contents()
    path.write_text("1,3")
    assert set(before) == {"data"}
    assert spec.contents() != before
    with pytest.raises(BadInput, match="cannot be read"):
        WithData(data=str(tmp_path / "missing")).contents()


def test_closures_partials_methods_and_jitted_functions_are_told_apart(tmp_path, monkeypatch):
    (tmp_path / "kinds.py").write_text(
        textwrap.dedent("""
        import functools, jax, numpy as np
        from phasecast import Problem
        SCALE = 1.0
        class Model:
            def __init__(self, scale): self.scale = np.array([scale])
            def loss(self, w): return self.scale[0] * w @ w
        def plain(scale, w): return scale * (w @ w)
        def make(kind, scale):
            losses = {
                "partial": functools.partial(plain, scale),
                "method": Model(scale).loss,
                "jitted": jax.jit(lambda w: scale * (w @ w)),
                "default": (lambda w, scale=scale: scale * (w @ w)),
            }
            return Problem(losses[kind], np.zeros(2))
        """)
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    import hashlib

    import kinds  # pyright: ignore

    def print_of(kind: str, scale: float) -> str:
        problem = kinds.make(kind, scale)
        return hashlib.sha256(b"".join(fingerprint._values((problem.loss, problem.params)))).hexdigest()

    for kind in ("partial", "method", "jitted", "default"):
        assert print_of(kind, 1.0) == print_of(kind, 1.0)
        assert print_of(kind, 1.0) != print_of(kind, 2.0)


def test_a_module_imported_before_and_one_that_shares_an_edited_helper_are_read_anew(project, tmp_path):
    import my_model  # noqa: F401  # pyright: ignore

    (project / "shapes.py").write_text(SHAPES.replace("POWER = 2", "POWER = 4"))
    fourth = run("toy-landscapes", SETTINGS, store=tmp_path / "runs", quiet=True)
    assert np.asarray(fourth.results()["quadrature/llc"])[0, -1] == pytest.approx(0.225, abs=0.02)
    (project / "b_model.py").write_text(MODEL)
    (project / "shapes.py").write_text(SHAPES)
    second = run("toy-landscapes", {**SETTINGS, "problem": "b_model:factory"}, store=tmp_path / "runs", quiet=True)
    assert np.asarray(second.results()["quadrature/llc"])[0, -1] == pytest.approx(0.475, abs=0.01)
    sys.modules.pop("b_model")


LOSSES = {
    "vmap at module level": "square = jax.vmap(lambda x: x**2)\ndef loss(w): return square(w)[0] * square(w)[1]",
    "names from jax": "from jax import grad, vmap\ndef loss(w): return vmap(lambda x: x * x)(w).prod()",
    "jitted with a random key": "key = jax.random.key(3)\n@jax.jit\ndef loss(w): return (w[0] * w[1]) ** 2",
    "a set and a dictionary": "names = {'a', 'b', 'c'}\ndef loss(w): return (w[0] * w[1]) ** 2 * len(names) / 3",
    "a class with a table": (
        "class M:\n  table = np.ones(2)\n  def __call__(self, w): return (w[0] * w[1] * self.table[0]) ** 2\nloss = M()"
    ),
}


PRINTS = """
import json, sys
from phasecast.core.user_code import load_problem
from phasecast.lab import fingerprint
prints = {}
for name in sys.argv[1:]:
    factory = f"{name}:factory"
    prints[name] = [fingerprint.of_factory(factory)]
    problem = load_problem(factory)
    problem.value(problem.params + 1.0)
    prints[name].append(fingerprint.of_factory(factory))
print(json.dumps(prints))
"""


@pytest.fixture(scope="module")
def prints(tmp_path_factory):
    """By module, the prints of its loss in two processes with other hashes of strings, before and after its use."""
    folder = tmp_path_factory.mktemp("losses")
    names = {kind: f"loss_{number}" for number, kind in enumerate(LOSSES)}
    for kind, name in names.items():
        (folder / f"{name}.py").write_text(
            f"import jax, numpy as np\nfrom phasecast import Problem\n{LOSSES[kind]}\n"
            "def factory(): return Problem(loss, np.zeros(2))\n"
        )
    shown = [
        subprocess.run(
            [sys.executable, "-c", PRINTS, *list(names.values())[::order]],
            env={**os.environ, "PYTHONHASHSEED": str(seed)},
            cwd=folder,
            capture_output=True,
            text=True,
            check=True,
        )
        for seed, order in ((1, 1), (2, -1))
    ]
    found = [json.loads(process.stdout) for process in shown]
    return {kind: [one for process in found for one in process[name]] for kind, name in names.items()}


@pytest.mark.parametrize("kind", LOSSES)
def test_ordinary_losses_have_the_same_print_in_every_process_and_after_use(prints, kind):
    assert len(prints[kind]) == 4
    assert len(set(prints[kind])) == 1


def test_values_that_differ_have_different_prints():
    def print_of(value) -> bytes:
        return b"".join(fingerprint._values(value))

    from fractions import Fraction

    for one, other in (
        ([[1], 2], [[1, 2]]),
        ({"a": {}, "b": 1}, {"a": {"b": 1}}),
        (Fraction(1, 2), Fraction(1, 3)),
        (range(3), range(4)),
        ({1, 2}, {1, 3}),
        (np.float32(1), np.float64(1)),
        (np.zeros((2, 3)), np.zeros((3, 2))),
    ):
        assert print_of(one) != print_of(other)


def test_code_that_changes_while_a_run_waits_or_computes_is_not_stored_under_the_old_id(project, tmp_path):
    from phasecast.lab.runs import execute

    recipe = find_recipe("toy-landscapes")
    spec = recipe.spec(**SETTINGS)

    class Edit:
        def update(self, done, total, metric=None):
            if done == 3:
                (project / "shapes.py").write_text(SHAPES.replace("POWER = 2", "POWER = 4"))

        def say(self, line):
            return None

    with pytest.raises(BadInput, match="changed while the run was computed"):
        execute(recipe, spec, Store(tmp_path / "runs"), progress=Edit())
    assert [status["status"] for status in Store(tmp_path / "runs").statuses()] == ["failed"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("def factory(): return 3", "returned a int"),
        ("def factory(): raise RuntimeError('no GPU')", "raised RuntimeError: no GPU"),
        ("import nonexistent_package", "needs 'nonexistent_package'"),
        ("raise OSError('broken')", "importing 'my_model' raised OSError"),
        ("def other(): pass", "has no 'factory'"),
        ("factory = 3", "is a int, not a factory"),
        (
            "import numpy as np, phasecast as pc\ndef factory(): return pc.Problem(lambda w: w @ w, np.zeros(3))",
            "two parameters",
        ),
    ],
)
def test_a_factory_that_does_not_work_is_one_line_and_leaves_no_run(project, tmp_path, text, words):
    (project / "my_model.py").write_text(text)
    with pytest.raises(BadInput, match=words):
        run("toy-landscapes", SETTINGS, store=tmp_path / "runs", quiet=True)
    assert list(Store(tmp_path / "runs").statuses()) == []


def test_a_library_caller_keeps_its_path_and_its_compiled_files(project):
    import importlib.util

    import my_model  # noqa: F401  # pyright: ignore

    compiled = Path(importlib.util.cache_from_source(str(project / "my_model.py")))
    compiled.parent.mkdir(exist_ok=True)
    compiled.write_bytes(b"the user's own")
    path, finders = list(sys.path), list(sys.meta_path)
    identity()
    (project / "my_model.py").write_text(MODEL.replace("w - CENTRE", "2 * (w - CENTRE)"))
    identity()
    assert compiled.read_bytes() == b"the user's own"
    assert (sys.path, sys.meta_path) == (path, finders)


def test_a_library_caller_elsewhere_does_not_import_from_the_working_folder(project, monkeypatch):
    from phasecast.core.user_code import load_object, working_folder

    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if entry not in ("", str(project))])
    path = list(sys.path)
    with pytest.raises(BadInput, match="there is no module 'my_model'"):
        load_object("my_model:factory")
    with working_folder():  # what the command line does
        assert load_object("my_model:factory")().name == "mine"
    assert sys.path == path


def test_an_edit_of_the_same_size_within_the_same_second_is_seen(project):
    """Python itself would take the compiled file of the first version for current."""
    import py_compile

    from phasecast.core.user_code import load_object

    source = project / "shapes.py"
    py_compile.compile(str(source))
    stamp = source.stat()
    assert load_object("shapes:POWER") == 2
    source.write_text(SHAPES.replace("POWER = 2", "POWER = 4"))
    os.utime(source, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
    assert load_object("shapes:POWER") == 4
