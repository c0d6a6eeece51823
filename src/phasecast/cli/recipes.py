"""``phasecast recipes``: what can be run, and the spec of each recipe as TOML to start from."""

from __future__ import annotations

import json as jsonlib

from cyclopts import App

from phasecast.cli.options import Common
from phasecast.cli.output import emit, table

app = App(name="recipes", help_format="plaintext", version_flags=[])


@app.default
def recipes(name: str | None = None, /, *, options: Common = Common()) -> int:
    """List the recipes, or show one.

    Parameters
    ----------
    name
        a recipe, or package.module:RECIPE
    """
    return ls(options=options) if name is None else show(name, options=options)


@app.command
def ls(*, options: Common = Common()) -> int:
    """List the recipes."""
    from phasecast.lab import RECIPES, find_recipe

    every = [find_recipe(name) for name in RECIPES]
    content = {"recipes": [{"name": r.name, "version": r.version, "question": r.question} for r in every]}
    emit(content, table(("recipe", "answers"), [(r.name, r.question) for r in every]), options)
    return 0


@app.command
def show(name: str, /, *, options: Common = Common()) -> int:
    """Print the question a recipe answers and its spec with the defaults, as TOML that `phasecast run` takes.

    Parameters
    ----------
    name
        a recipe, or package.module:RECIPE
    """
    from phasecast.lab import find_recipe

    recipe = find_recipe(name)
    lines = [f"# {recipe.question}", f'recipe = "{recipe.name}"', f"version = {recipe.version}", "", "[set]"]
    defaults = {}
    for key, info in recipe.spec.model_fields.items():
        comment = f"  # {info.description}" if info.description else ""
        if info.is_required():
            lines.append(f"# {key} = …  # required; {info.description or ''}")
        else:
            defaults[key] = value = info.get_default(call_default_factory=True)
            lines.append(f"# {key} = …{comment}" if value is None else f"{key} = {_toml(value)}{comment}")
    content = {"name": recipe.name, "version": recipe.version, "question": recipe.question, "spec": defaults}
    emit({**content, "schema": recipe.spec.model_json_schema()}, "\n".join(lines), options)
    return 0


def _toml(value: object) -> str:
    if isinstance(value, tuple | list):
        return f"[{', '.join(map(_toml, value))}]"
    return jsonlib.dumps(value, ensure_ascii=False)
