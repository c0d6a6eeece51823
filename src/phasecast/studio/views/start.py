"""The page on which a run is started: a form made from the spec of a recipe."""

from __future__ import annotations

import math
from typing import Any

import streamlit as st

from phasecast.core.errors import BadInput, PhasecastError
from phasecast.lab.recipe import Recipe, find_recipe, shipped
from phasecast.lab.runs import identify
from phasecast.studio import processes
from phasecast.studio.forms import CODE_HINT, LARGEST_EXACT, FormField, assignments, form_of, initial_values, spec_of
from phasecast.studio.inert import for_markdown
from phasecast.studio.views import parts

FIRST = "grokking"
PRESETS = ("defaults", "a small example")
COLUMNS = 3  # chosen: fields side by side that still show their names


def page() -> None:
    """Choose a recipe, fill in its form, start it."""
    parts.title("Start a run")
    with parts.one_line_errors():
        recipe = _recipe()
        if recipe is None:
            return
        parts.sentence(recipe.question)
        preset = PRESETS[0]
        if recipe.tiny:
            preset = st.radio("Start from", PRESETS, horizontal=True, help="the small example runs in seconds")
        fields = form_of(recipe.spec)
        values = _form(recipe, fields, initial_values(fields, recipe.tiny if preset == PRESETS[1] else None), preset)
        if values is not None:
            _start(recipe, fields, values)


def _recipe() -> Recipe | None:
    names = list(shipped())
    if parts.allow_code():
        own = st.text_input("Your own recipe", placeholder="package.module:RECIPE", help="imported from the folder in "
                            "which the studio was started")  # fmt: skip
        if own.strip():
            return find_recipe(own.strip())
    name = st.selectbox("Recipe", names, index=names.index(FIRST))
    return find_recipe(name) if name else None


def _form(recipe: Recipe, fields: list[FormField], first: dict[str, Any], preset: str) -> dict[str, Any] | None:
    """What was filled in, when the button is pressed."""
    blocked = [field.name for field in fields if field.is_code and field.required and not parts.allow_code()]
    with st.form(f"start-{recipe.name}-{preset}"):
        values = {}
        for row in (
            fields[place : place + COLUMNS] for place in range(0, len(fields), COLUMNS)
        ):  # in rows, so that their order stays on a narrow screen
            for column, field in zip(st.columns(COLUMNS, vertical_alignment="bottom"), row, strict=False):
                with column:
                    key = f"{recipe.name}-{preset}-{field.name}"
                    values[field.name] = _widget(field, first[field.name], key)
        pressed = st.form_submit_button("Start", type="primary", icon=":material/play_arrow:", disabled=bool(blocked))
    if blocked:
        parts.soft(f"This recipe needs {', '.join(blocked)}: {CODE_HINT}.")
    return values if pressed else None


def _widget(field: FormField, value: Any, key: str) -> Any:
    label, tip = for_markdown(field.name.replace("_", " ")), for_markdown(field.explanation) or None
    if field.kind == "choice":
        options = [*field.choices, *([None] if field.optional else [])]
        return st.selectbox(label, options, index=options.index(value) if value in options else 0, help=tip, key=key,
                            format_func=lambda option: "none" if option is None else str(option))  # fmt: skip
    if field.kind == "switch" and not field.optional:
        return st.toggle(label, value=bool(value), help=tip, key=key)
    if field.kind == "integer":
        low = None if field.low is None else max(int(field.low), -LARGEST_EXACT)
        high = None if field.high is None else min(int(field.high), LARGEST_EXACT)
        return st.number_input(label, low, high, value, step=1, help=tip, key=key)
    if field.kind == "number":
        low, high = (None if bound is None else float(bound) for bound in (field.low, field.high))
        return st.number_input(label, low, high, value, step=_step(value), format="%g", help=tip, key=key)
    closed = field.is_code and not parts.allow_code()
    tip = for_markdown(f"{field.explanation}; {CODE_HINT}") if closed else tip
    return st.text_input(label, str(value), max_chars=2000, help=tip, key=key, disabled=closed)


def _step(value: float | None) -> float:
    """What one press of + changes: a tenth of the decade."""
    return 10.0 ** (math.floor(math.log10(abs(value))) - 1) if value else 0.1


def _start(recipe: Recipe, fields: list[FormField], values: dict[str, Any]) -> None:
    try:
        words = assignments(fields, values)
        run = identify(recipe, spec_of(recipe.spec, words, allow_code=parts.allow_code()))
    except PhasecastError as error:
        parts.problem(error)
        return
    store = parts.store()
    folder = store.folder(run)
    status = folder.status() if folder.exists else None
    if status is None or status["status"] in ("interrupted", "failed"):
        try:
            processes.start_run(recipe.name, words, run, store)
            parts.expect_attempt(run, status["attempts"] + 1 if status else 1)
        except BadInput as error:
            parts.problem(error)
            return
    parts.open_in_page(run)  # one that is finished or running is shown, not computed again
