"""A store that is damaged or comes from somebody else gives the true answer or one line, and never writes elsewhere."""

from __future__ import annotations

import json
import os
import shutil
import tarfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import attacks
from phasecast.core.errors import BadInput, DamagedRun
from phasecast.lab import integrity, load, run, sweep

ARCHIVE = Path(__file__).parents[1] / "data" / "store-0.1.0.tar.xz"


@pytest.fixture(scope="module")
def original(tmp_path_factory) -> Path:
    """A store with one finished run, the same as a sweep of one run, and its page."""
    store = tmp_path_factory.mktemp("original") / "runs"
    sweep("walks:WALK", attacks.SPEC, seeds=[0], store=store, engine=_here, checkpoint_every=1e-9, quiet=True)
    return store


def _here(tasks):
    from phasecast.lab.engines import Outcome, compute

    return (Outcome(task, *compute(task)) for task in tasks)


@pytest.fixture
def copy(original, tmp_path) -> Path:
    """The folder of the run, in a store that may be damaged."""
    shutil.copytree(original, tmp_path / "runs")
    return next((tmp_path / "runs").glob("walks-WALK-*"))


def readers(folder: Path, tmp_path: Path) -> dict[str, list[object]]:
    """Every command that reads the results of a run."""
    words = ["walks:WALK", "--set", *(f"{name}={value}" for name, value in attacks.SPEC.items())]
    (listed,) = (folder.parent / "sweeps").iterdir()
    commands = {
        "run": ["run", *words],
        "run as JSON": ["run", *words, "--json"],
        "report": ["report", folder.name, "--allow-code"],
        "report of a sweep": ["report", listed.name, "--allow-code"],
        "export": ["runs", "export", folder.name, "--to", tmp_path / "out.csv"],
        "check": ["runs", "check", folder.name],
    }
    return {name: [*words, "--store", folder.parent] for name, words in commands.items()}


def chunks(folder: Path, array: str = "walk/place") -> list[Path]:
    return sorted(path for path in (folder / "results.zarr" / array / "c").rglob("*") if path.is_file())


def edit(path: Path, change: Callable[[dict], object]) -> None:
    content = json.loads(path.read_text())
    change(content)
    path.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n")


def flip(path: Path, share: float) -> None:
    content = bytearray(path.read_bytes())
    content[int(share * (len(content) - 1))] ^= 4
    path.write_bytes(bytes(content))


def exchange(one: Path, other: Path) -> None:
    mine, theirs = one.read_bytes(), other.read_bytes()
    one.write_bytes(theirs)
    other.write_bytes(mine)


def metadata(folder: Path, array: str = "walk/place") -> Path:
    return folder / "results.zarr" / array / "zarr.json"


DAMAGES: dict[str, Callable[[Path], object]] = {
    "one chunk is missing": lambda folder: chunks(folder)[1].unlink(),
    "all chunks are missing": lambda folder: shutil.rmtree(metadata(folder).parent / "c"),
    "a chunk is empty": lambda folder: chunks(folder)[0].write_bytes(b""),
    "a chunk is torn": lambda folder: chunks(folder)[0].write_bytes(chunks(folder)[0].read_bytes()[:-9]),
    "chunks are exchanged": lambda folder: exchange(*chunks(folder)[:2]),
    "chunk of another array": lambda folder: exchange(chunks(folder)[0], chunks(folder, "walk/step")[0]),
    "a coordinate is flipped": lambda folder: flip(chunks(folder, "walk/axis")[0], 0.5),
    "shape": lambda folder: edit(metadata(folder), lambda facts: facts.update(shape=[20, 3])),
    "longer": lambda folder: edit(metadata(folder), lambda facts: facts.update(shape=[60, 3])),
    "huge": lambda folder: edit(metadata(folder), lambda facts: facts.update(shape=[10**15, 3])),
    "type": lambda folder: edit(metadata(folder), lambda facts: facts.update(data_type="int64")),
    "fill value": lambda folder: edit(metadata(folder), lambda facts: facts.update(fill_value=1.0)),
    "codec": lambda folder: edit(metadata(folder), lambda facts: facts.update(codecs=[{"name": "bytes"}])),
    "names of axes": lambda folder: edit(metadata(folder), lambda facts: facts.pop("dimension_names")),
    "metadata is empty": lambda folder: metadata(folder).write_text(""),
    "an array is missing": lambda folder: shutil.rmtree(metadata(folder).parent),
    "a table is missing": lambda folder: shutil.rmtree(folder / "results.zarr" / "walk"),
    "an array was added": lambda folder: shutil.copytree(metadata(folder).parent, folder / "results.zarr/walk/more"),
    "results are missing": lambda folder: shutil.rmtree(folder / "results.zarr"),
    "a number of the summary": lambda folder: edit(
        folder / "status.json", lambda status: status["summary"]["answers"][0].update(distance=0.0)
    ),
    "the status": lambda folder: edit(folder / "status.json", lambda status: status.update(status="warning")),
    "the seal is lost": lambda folder: edit(folder / "status.json", lambda status: status.pop("seal")),
    "the digest is lost": lambda folder: edit(folder / "status.json", lambda status: status.pop("digest")),
    "both are lost": lambda folder: edit(
        folder / "status.json", lambda status: (status.pop("seal"), status.pop("digest"))
    ),
    **{f"flipped at {k} of 8": lambda folder, k=k: flip(chunks(folder)[0], k / 8) for k in range(9)},
}


def assert_one_line(result: tuple[int, str, str], *words: str) -> None:
    code, _, err = result
    assert code == 2, err
    assert err.startswith("phasecast: ")
    assert err.count("\n") == 1
    for word in ("unexpected", "Traceback"):
        assert word not in err
    for word in words:
        assert word in err


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_run_is_named_and_never_answers(command, copy, tmp_path, damage):
    truth = load(copy.name, store=copy.parent).summary
    DAMAGES[damage](copy)
    for name, words in readers(copy, tmp_path).items():
        code, out, err = command(*words)
        if name == "check":
            assert code == 2
            assert f"run {copy.name} is damaged" in out
        elif name == "run as JSON" and code == 0:  # reads nothing but the summary
            assert json.loads(out)["summary"] == truth
        else:
            assert_one_line((code, out, err), copy.name, "damaged", "runs rm")
    assert not list(tmp_path.glob("out*"))


def test_an_undamaged_run_is_answered_by_every_reader(command, copy, tmp_path):
    for words in readers(copy, tmp_path).values():
        code, out, err = command(*words)
        assert (code, err) == (0, "")
        assert out
    assert "sound" in command("runs", "check", "--all", "--store", copy.parent)[1]


def test_without_checksums_the_same_damage_is_not_noticed(tmp_path):
    """What the seal is for: a run of release 0.1.0 whose chunk is missing reads as zeros."""
    with tarfile.open(ARCHIVE) as archive:
        archive.extractall(tmp_path, filter="data")
    stored = load("toy", store=tmp_path / "store")
    before = np.asarray(stored.results()["ladder/llc"])
    for path in (stored.folder.results / "ladder" / "llc" / "c").rglob("*"):
        if path.is_file():
            path.unlink()
    assert stored.check() == "not sealed"
    assert np.asarray(stored.results()["ladder/llc"]).any() != before.any()


def test_a_damaged_run_is_computed_again_after_it_is_removed(command, copy):
    truth = np.asarray(load(copy.name, store=copy.parent).results()["walk/place"])
    chunks(copy)[0].unlink()
    assert command("runs", "rm", copy.name, "--store", copy.parent)[0] == 0
    again = run("walks:WALK", attacks.SPEC, store=copy.parent, quiet=True)
    assert again.id == copy.name
    np.testing.assert_array_equal(np.asarray(again.results()["walk/place"]), truth)


def test_the_library_raises_the_same_error_as_late_as_a_value_is_used(copy, monkeypatch):
    monkeypatch.setattr(integrity, "KEPT", 0)  # as for results that are too large to keep what was checked
    stored = load(copy.name, store=copy.parent)
    tree = stored.results()
    flip(chunks(copy)[0], 0.3)
    with pytest.raises(DamagedRun, match=r"walk/place/c/0/0 does not have its checksum"):
        np.asarray(tree["walk/place"])
    assert DamagedRun("a", "b").__reduce__() == (DamagedRun, ("a", "b"))


def test_what_was_checked_is_what_is_read(copy):
    """Damage after the check changes nothing the first time; a second reading opens the file and finds it."""
    stored = load(copy.name, store=copy.parent)
    truth = np.asarray(stored.results()["walk/place"])
    tree = stored.results()
    flip(chunks(copy)[0], 0.3)
    np.testing.assert_array_equal(np.asarray(tree["walk/place"]), truth)
    with pytest.raises(DamagedRun, match="checksum"):
        np.asarray(stored.results()["walk/place"])


def test_a_sweep_names_its_damaged_run_and_computes_the_others(copy):
    chunks(copy)[0].unlink()
    swept = sweep("walks:WALK", attacks.SPEC, seeds=2, store=copy.parent, engine=_here, quiet=True)
    assert [one.id == copy.name for one in swept.runs] == [False]
    assert copy.name in swept.errors[0]


@pytest.mark.parametrize("damage", ["missing", "torn", "metadata", "root"])
def test_rows_that_a_crash_tore_are_found_at_resume(copy, damage):
    truth = np.asarray(load(copy.name, store=copy.parent).results()["walk/place"])
    interrupted = run("walks:WALK", attacks.SPEC, store=copy.parent / "again", checkpoint_every=1e-9, quiet=True)
    edit(interrupted.path / "status.json", lambda status: status.update(status="interrupted"))
    first = chunks(interrupted.path)[0]
    if damage == "missing":
        first.unlink()
    elif damage == "torn":
        first.write_bytes(first.read_bytes()[:7])
    else:
        (metadata(interrupted.path) if damage == "metadata" else interrupted.folder.results / "zarr.json").write_text(
            "{"
        )
    again = run("walks:WALK", attacks.SPEC, store=copy.parent / "again", quiet=True)
    assert again.folder.events()[-2]["event"] == "restarted"
    np.testing.assert_array_equal(np.asarray(again.results()["walk/place"]), truth)


@pytest.mark.parametrize("seed", range(4))
def test_whatever_bytes_change_the_answer_is_the_true_one_or_a_refusal(copy, seed):
    tally = dict.fromkeys(("true", "refused"), 0)
    for done, outcome in attacks.mutated(copy, 60, seed):
        assert outcome in tally, (done, outcome)
        tally[outcome] += 1
    assert tally["refused"] > 40  # most bytes matter


def test_a_mutation_of_a_store_without_seals_is_noticed_by_the_test(copy):
    """The control of the test above: with checksums and seals ignored it finds wrong answers."""
    truth = attacks.answer(copy.parent, copy.name)
    edit(copy / "status.json", lambda status: (status.pop("seal"), status.pop("digest")))
    for path in (copy / "results.zarr").rglob("zarr.json"):
        facts = json.loads(path.read_text())
        if facts["node_type"] == "array":
            facts["codecs"].pop()
            path.write_text(json.dumps(facts))
            for chunk in path.parent.joinpath("c").rglob("*"):
                if chunk.is_file():
                    chunk.write_bytes(chunk.read_bytes()[:-4])
    unsealed = attacks.answer(copy.parent, copy.name)
    assert unsealed["export"] == truth["export"]
    assert unsealed["runs check"] != truth["runs check"]  # it says that there is no seal
    assert attacks.outcome(copy.parent, copy.name, unsealed) == "true"
    chunks(copy)[0].unlink()
    assert attacks.outcome(copy.parent, copy.name, unsealed) == "wrong"


PARTS = ("status.json", "spec.json", "log.jsonl", "lock", "report.html", "figures", "results.zarr", "checkpoint")


def snapshot(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


@pytest.mark.parametrize("part", [*PARTS, "results.zarr/walk", "results.zarr/walk/place/c", "."])
@pytest.mark.parametrize("kind", ["link", "dangling", "pipe", "other"])
def test_links_and_special_files_are_refused_and_nothing_outside_changes(command, copy, tmp_path, part, kind):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "mine.txt").write_text("mine")
    edit(copy / "status.json", lambda status: status.update(status="interrupted"))
    attacks.special(copy / part if part != "." else copy, kind, outside)
    before, began = snapshot(outside), time.monotonic()
    words = ["walks:WALK", "--set", *(f"{name}={value}" for name, value in attacks.SPEC.items())]
    for line in (["run", *words], ["runs", "resume", copy.name], ["report", copy.name, "--allow-code"]):
        code, _, err = command(*line, "--store", copy.parent)
        if part != "." or kind == "link":
            if kind == "other" and part.startswith("results.zarr/"):  # lost rows: computed again
                assert code in (0, 2)
            else:
                assert_one_line((code, "", err), copy.name)
    assert command("runs", "ls", "--store", copy.parent)[0] == 0
    assert snapshot(outside) == before
    assert not (outside / "nowhere").exists()
    assert time.monotonic() - began < 60  # a pipe would be waited for


def test_a_pipe_in_place_of_the_store_file_or_a_sweep_is_refused(command, copy):
    (listed,) = (copy.parent / "sweeps").iterdir()
    (listed / "sweep.json").unlink()
    os.mkfifo(listed / "sweep.json")
    assert_one_line(command("report", listed.name, "--store", copy.parent), "not a regular file")
    assert command("runs", "ls", "--store", copy.parent)[0] == 0
    (copy.parent / "store.json").unlink()
    os.mkfifo(copy.parent / "store.json")
    assert_one_line(command("runs", "ls", "--store", copy.parent), "not a regular file")


@pytest.mark.parametrize("name", ["/tmp/elsewhere", "../elsewhere", "..", ".", "a/b", "", "\0", "x" * 1000, "sweep-λ"])
@pytest.mark.parametrize("field", ["sweep", "runs"])
def test_ids_in_a_sweep_file_are_names_and_never_paths(command, copy, tmp_path, name, field):
    (listed,) = (copy.parent / "sweeps").iterdir()
    edit(listed / "sweep.json", lambda facts: facts.update({field: [name] if field == "runs" else name}))
    before = snapshot(tmp_path)
    for words in (["report", listed.name, "--allow-code"], ["runs", "show", listed.name]):
        assert_one_line(command(*words, "--store", copy.parent), "sweep.json")
    assert command("runs", "ls", "--store", copy.parent)[0] == 0
    assert snapshot(tmp_path) == before


def test_a_sweep_folder_that_is_a_link_is_not_followed(command, copy, tmp_path):
    (listed,) = (copy.parent / "sweeps").iterdir()
    shutil.move(listed, tmp_path / "outside")
    listed.symlink_to(tmp_path / "outside")
    before = snapshot(tmp_path / "outside")
    for words in (["report", listed.name, "--allow-code"], ["runs", "rm", listed.name]):
        assert_one_line(command(*words, "--store", copy.parent), "symbolic link")
    assert snapshot(tmp_path / "outside") == before


def test_code_that_a_store_names_is_not_imported_unless_it_is_allowed(command, copy, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "spy.py").write_text("import pathlib\npathlib.Path('imported').touch()\nfrom walks import WALK\n")
    request = json.loads((copy / "spec.json").read_text())
    request["recipe"] = "spy:WALK"
    from phasecast.lab.store import run_id

    identity = run_id("spy:WALK", request["recipe_version"], request["spec"], request["contents"])
    theirs = copy.rename(copy.with_name(identity))
    (theirs / "spec.json").write_text(json.dumps(request))
    folder = load(identity[:8], store=copy.parent).folder
    status = json.loads((theirs / "status.json").read_text())
    status.pop("digest")
    folder.write_status({**status, "run": identity, "recipe": "spy:WALK"})
    words = (["report", identity], ["runs", "show", identity], ["runs", "ls"], ["runs", "check", identity])
    for line in (*words, ["runs", "export", identity, "--to", "out.csv"]):
        code, _, err = command(*line, "--store", copy.parent)
        assert code == 0, err
        if line[0] == "report":  # it shows what is stored, and says so
            assert err.count("\n") == 1
            assert identity in err
            assert "--allow-code" in err
        assert not (tmp_path / "imported").exists()
    with pytest.raises(BadInput, match="allow_code=True"):
        load(identity, store=copy.parent).conclusion()
    command("report", identity, "--allow-code", "--store", copy.parent)
    assert (tmp_path / "imported").exists()


DEEP = "[" * 10_000 + "]" * 10_000
TEXTS = ["", "[]", "null", "3", '"text"', "{", "{}", DEEP, "\0", '"\\ud800"',
         '{"format": 1}', "NaN", "1" * 5000, '{"a": ' + DEEP + "}"]  # fmt: skip
CHANGES: dict[str, Callable[[dict], object]] = {
    "format is text": lambda content: content.update(format="1"),
    "format is false": lambda content: content.update(format=None),
    "recipe is a list": lambda content: content.update(recipe=["a"]),
    "recipe is missing": lambda content: content.pop("recipe"),
    "version is text": lambda content: content.update(recipe_version="one"),
    "version is missing": lambda content: content.pop("recipe_version"),
}
STATUS_CHANGES: dict[str, Callable[[dict], object]] = {
    **{f"{key} is missing": lambda status, key=key: status.pop(key)
       for key in ("run", "status", "done", "total", "created", "updated", "provenance", "summary", "attempts")},
    **{f"{key} is a list": lambda status, key=key: status.update({key: [1]})
       for key in ("run", "status", "done", "created", "updated", "provenance", "summary", "wall_seconds", "seal")},
    "unknown status": lambda status: status.update(status="excellent"),
    "sentence is missing": lambda status: status["summary"].pop("sentence"),
    "versions are missing": lambda status: status["provenance"].pop("versions"),
    "half a surrogate": lambda status: status["summary"].update(sentence="\ud800"),
    "time is infinite": lambda status: status.update(wall_seconds=float("inf")),
    "done is negative": lambda status: status.update(done=-1),
    "a path for an id": lambda status: status.update(run="../../etc"),
}  # fmt: skip
SPEC_CHANGES: dict[str, Callable[[dict], object]] = {
    **CHANGES,
    "spec is a list": lambda request: request.update(spec=[]),
    "spec is missing": lambda request: request.pop("spec"),
    "another spec": lambda request: request["spec"].update(steps=41),
    "another field": lambda request: request["spec"].update(stepps=41),
    "contents are missing": lambda request: request.pop("contents"),
    "no such recipe": lambda request: request.update(recipe="nowhere"),
}


def assert_listed_and_refused(command, folder: Path, name: str) -> None:
    lines = (["runs", "show", folder.name], ["report", folder.name, "--allow-code"],
             ["runs", "export", folder.name, "--to", folder.parent.parent / "out.csv"])  # fmt: skip
    for words in lines:
        code, _, err = command(*words, "--store", folder.parent)
        assert_one_line((code, "", err), folder.name)
    code, out, _ = command("runs", "ls", "--store", folder.parent)
    assert code == 0
    assert folder.name in out
    if name == "status.json":
        assert "damaged" in out


@pytest.mark.parametrize("name", ["status.json", "spec.json"])
@pytest.mark.parametrize("text", TEXTS, ids=lambda text: text[:10].encode("unicode_escape").decode())
def test_a_file_that_is_not_what_we_write_is_one_line(command, copy, name, text):
    (copy / name).write_text(text, encoding="utf-8")
    assert_listed_and_refused(command, copy, name)


@pytest.mark.parametrize(
    ("name", "change"),
    [*(("status.json", change) for change in STATUS_CHANGES), *(("spec.json", change) for change in SPEC_CHANGES)],
)
def test_a_file_with_another_content_is_one_line(command, copy, name, change):
    content = json.loads((copy / name).read_text())
    (STATUS_CHANGES if name == "status.json" else SPEC_CHANGES)[change](content)
    (copy / name).write_text(json.dumps(content, indent=2))
    assert_listed_and_refused(command, copy, name)


def test_an_old_run_with_text_that_cannot_be_printed_is_still_shown(command, tmp_path):
    with tarfile.open(ARCHIVE) as archive:
        archive.extractall(tmp_path, filter="data")
    folder = next((tmp_path / "store").glob("toy*"))
    edit(folder / "status.json", lambda content: content["summary"].update(sentence="\x1b[2J gone"))
    for words in (["ls"], ["show", folder.name]):
        code, out, _ = command("runs", *words, "--store", tmp_path / "store")
        assert code == 0
        assert "\x1b" not in out
    assert "[2J gone" in out
