"""Every public name and where the site documents it: under the shortest path that users write."""

from __future__ import annotations

import functools
import importlib
import inspect

PACKAGES = {
    "phasecast": "The names that users import most",
    "phasecast.coefficients": "What is λ here?",
    "phasecast.torch": "What is λ̂ of a torch module?",
    "phasecast.posterior": "What will it generalise?",
    "phasecast.grokking": "When does it generalise?",
    "phasecast.features": "How much data does it need?",
    "phasecast.online": "How fast does it learn?",
    "phasecast.forecasting": "When will it happen?",
    "phasecast.lab": "How is an experiment stored, stopped, resumed and repeated?",
    "phasecast.claims": "What do the papers claim, and does it hold?",
    "phasecast.report": "How does a run look as a page?",
    "phasecast.models": "Which problems have a known answer?",
    "phasecast.sampling": "How do chains move?",
    "phasecast.core": "Which types does everything share?",
}
"""The packages of the reference, in the order of its pages, with the question that each answers."""


@functools.cache
def members(package: str) -> dict[str, object]:
    """The public names of a package that are documented on its page: all but those on a page before it."""
    module = importlib.import_module(package)
    before = list(PACKAGES)[: list(PACKAGES).index(package)]
    known = {id(value) for earlier in before for value in members(earlier).values()}
    own = {name: getattr(module, name) for name in sorted(module.__all__)}
    return {name: value for name, value in own.items() if not inspect.ismodule(value) and id(value) not in known}


@functools.cache
def public_names() -> dict[str, str]:
    """The full path of every documented name, by that path and by its last part."""
    paths = [f"{package}.{name}" for package in PACKAGES for name in members(package)]
    last = {path.rpartition(".")[2]: path for path in reversed(paths)}
    return {**last, **{path: path for path in paths}}
