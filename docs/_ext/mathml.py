"""Formulas as MathML, made from LaTeX when the site is built: a browser sets them without any script."""

from __future__ import annotations

import re

from docutils import nodes
from latex2mathml.converter import convert
from sphinx.application import Sphinx
from sphinx.util import logging
from sphinx.writers.html5 import HTML5Translator

LOG = logging.getLogger(__name__)


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_html_math_renderer("mathml", inline_renderers=(inline, None), block_renderers=(block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def inline(writer: HTML5Translator, node: nodes.math) -> None:
    writer.body.append(_mathml(node, "inline"))
    raise nodes.SkipNode


def block(writer: HTML5Translator, node: nodes.math_block) -> None:
    writer.body.append(f'<div class="math">{_mathml(node, "block")}</div>\n')
    raise nodes.SkipNode


def _spaced(mathml: str) -> str:
    """Operators such as log and Var stand apart from what they apply to, and upright letters stay upright."""
    mathml = re.sub(
        r"(<mi[^>]*>[A-Za-z]{2,}</mi>)(?=<mi|<mn|<msu|<mrow|<mfrac|<mover)", r'\1<mspace width="0.17em"/>', mathml
    )
    return re.sub(r"<mi>&#x000(4[1-9A-F]|5[0-9A])", r'<mi mathvariant="normal">&#x000\1', mathml)


def _mathml(node: nodes.Element, display: str) -> str:
    latex = node.astext().strip()
    try:
        return _spaced(convert(latex, display=display))
    except Exception as error:
        LOG.warning("cannot set %s (%s: %s)", latex, type(error).__name__, error, location=node)
        return f"<code>{nodes.unescape(latex)}</code>"
