"""``phasecast coefficient NAME …``: every closed form as a command, with the parameters of its function."""

from __future__ import annotations

import json as jsonlib
import sys
from typing import Annotated, Any, Literal

from cyclopts import App, Parameter

Numbers = Annotated[str, Parameter(help="whole numbers with commas between, like 5,3,4")]
Json = Annotated[bool, Parameter(negative=(), help="one JSON object on stdout and nothing else there")]
Debug = Annotated[bool, Parameter(negative=(), help="show tracebacks")]


def build_coefficient_app(meaning: str) -> App:
    """The group of commands, one for each closed form."""
    app = App(name="coefficient", help=meaning, help_format="plaintext", version_flags=[])
    networks = (deep_linear, reduced_rank, quadratic, modular_addition, tanh, relu)
    models = (mixture, factor_analysis, symmetric_factorisation, nmf)
    for command in (*networks, *models, monomial, newton, ideal):
        app.command(command, name=command.__name__.replace("_", "-"))
    return app


def deep_linear(*, widths: Numbers, rank: int, bias: bool = False, json: Json = False, debug: Debug = False) -> int:
    """λ of a linear network of any depth (Aoyagi); widths from input to output, a free output bias adds outputs/2."""
    from phasecast import coefficients

    return _show(coefficients.deep_linear(_numbers(widths), rank, bias), json)


def reduced_rank(
    *,
    inputs: int,
    hidden: int,
    outputs: int,
    rank: int,
    rank_a: int | None = None,
    rank_b: int | None = None,
    json: Json = False,
    debug: Debug = False,
) -> int:
    """λ of reduced rank regression (Aoyagi-Watanabe); with the ranks of both factors, the local value there."""
    from phasecast import coefficients

    return _show(coefficients.reduced_rank(inputs, hidden, outputs, rank, rank_a, rank_b), json)


def quadratic(
    *, inputs: int, outputs: int, width: int, bias: bool = False, json: Json = False, debug: Debug = False
) -> int:
    """λ of a two-layer network with squares as activation, at a generic true parameter."""
    from phasecast import coefficients

    return _show(coefficients.quadratic(inputs, outputs, width, bias), json)


def modular_addition(
    *,
    p: int,
    width: int,
    uncentred: bool = False,
    train: int | None = None,
    regime: Literal["feature", "lazy", "ntk"] = "feature",
    dead_v: int = 0,
    dead_both: int = 0,
    json: Json = False,
    debug: Debug = False,
) -> int:
    """λ of the quadratic network that learns addition modulo p.

    Parameters
    ----------
    width
        all hidden units, dead ones included
    train
        how many pairs; the full table by default
    dead_v
        units with V = 0 and w ≠ 0
    dead_both
        units with V = 0 and w = 0
    """
    from phasecast import coefficients

    found = coefficients.modular_addition(
        p, width, centred=not uncentred, train=train, regime=regime, dead_v=dead_v, dead_both=dead_both
    )
    return _show(found, json)


def monomial(*, powers: Numbers, prior: Numbers | None = None, json: Json = False, debug: Debug = False) -> int:
    """λ of a product of powers, under a prior that is one too; the powers are those of K itself."""
    from phasecast import coefficients

    return _show(coefficients.monomial(_numbers(powers), None if prior is None else _numbers(prior)), json)


def newton(polynomial: str, /, *, json: Json = False, debug: Debug = False) -> int:
    """λ of a polynomial K ≥ 0 at the origin, by its Newton polyhedron."""
    from phasecast import coefficients

    return _show(coefficients.newton(polynomial), json)


def ideal(*monomials: str, json: Json = False, debug: Debug = False) -> int:
    """λ of the sum of the squares of monomials, at the origin."""
    from phasecast import coefficients

    return _show(coefficients.ideal(*monomials), json)


def tanh(*, width: int, json: Json = False, debug: Debug = False) -> int:
    """λ of a sum of tanh units, one input and output, where the true function is zero."""
    from phasecast import coefficients

    return _show(coefficients.tanh(width), json)


def relu(
    *,
    groups: Annotated[list[str], Parameter(consume_multiple=True, help="inputs:hidden:outputs:rank:active|hinge …")],
    json: Json = False,
    debug: Debug = False,
) -> int:
    """λ of a layer of ReLU units, added up over groups that switch at the same place; see its restriction."""
    from phasecast import coefficients
    from phasecast.core.errors import BadInput

    found: list[Any] = []
    for text in groups:
        *numbers, where = text.split(":")
        if len(numbers) != 4:
            raise BadInput(f"'{text}' is not a group of units", "write inputs:hidden:outputs:rank:active or …:hinge")
        found.append((*_numbers(",".join(numbers)), where))
    return _show(coefficients.relu(found), json)


def mixture(*, components: int, true: int, dimension: int, json: Json = False, debug: Debug = False) -> int:
    """λ of a mixture of normals with known covariance."""
    from phasecast import coefficients

    return _show(coefficients.mixture(components, true, dimension), json)


def factor_analysis(*, observed: int, factors: int, true_factors: int, json: Json = False, debug: Debug = False) -> int:
    """λ of factor analysis without a free mean."""
    from phasecast import coefficients

    return _show(coefficients.factor_analysis(observed, factors, true_factors), json)


def symmetric_factorisation(*, size: int, factors: int, rank: int, json: Json = False, debug: Debug = False) -> int:
    """λ of a factorisation U Uᵀ."""
    from phasecast import coefficients

    return _show(coefficients.symmetric_factorisation(size, factors, rank), json)


def nmf(*, rows: int, columns: int, rank: int, true_rank: int, json: Json = False, debug: Debug = False) -> int:
    """An upper bound on λ of a nonnegative matrix factorisation."""
    from phasecast import coefficients

    return _show(coefficients.nmf(rows, columns, rank, true_rank), json)


def _show(found: Any, json: bool) -> int:
    if json:
        plain = found.plain()
        keys = ("name", "lambda", "lambda_float", "multiplicity", "kind", "regime", "source")
        text = jsonlib.dumps({key: plain[key] for key in keys}, ensure_ascii=False, allow_nan=False)
        print(text, file=sys.__stdout__, flush=True)
    else:
        print(found)
    return 0


def _numbers(text: str) -> list[int]:
    from phasecast.core.errors import BadInput

    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        raise BadInput(f"'{text}' is not a list of whole numbers", "write it like 5,3,4") from None
