"""What do all pages share? The store, what is kept in memory, and the few ways in which they show text and figures."""

from __future__ import annotations

import os
import re
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import streamlit as st

from phasecast.core.errors import PhasecastError
from phasecast.lab.store import Store
from phasecast.studio.inert import for_html, for_markdown
from phasecast.studio.run_index import RunIndex
from phasecast.studio.server import ALLOW_CODE
from phasecast.studio.stored_curves import CurveReader

KEPT = 64  # results that a cache of a page keeps; chosen: a morning's sliders, a few MB
WIDE = 500.0  # points; the labels of figures that are wider would have less than 7 pixels on a phone
REFRESH = 2.0  # seconds between looks at a run that computes; checkpoints come every second at most

STYLE = """<style>
.pc-sentence { font-size: 1.05rem; line-height: 1.5; border-left: 4px solid #3b8fc4; background: rgba(100,130,160,.1);
               padding: .7rem 1rem; margin: 0 0 .6rem; overflow-wrap: anywhere; }
.pc-text { margin: 0 0 .4rem; overflow-wrap: anywhere; }
.pc-soft { opacity: .75; font-size: .9rem; margin: 0 0 .5rem; overflow-wrap: anywhere; }
.pc-mark { font-weight: 600; border-radius: .6rem; padding: .1rem .6rem; font-size: .92rem; white-space: nowrap; }
.pc-good { background: rgba(0,158,115,.18); } .pc-bad { background: rgba(213,94,0,.22); }
.pc-care { background: rgba(230,159,0,.25); } .pc-dull { background: rgba(120,130,140,.2); }
.pc-title { font-size: 1.7rem; font-weight: 650; line-height: 1.25; margin: 0 0 .3rem; overflow-wrap: anywhere; }
.pc-number { font-size: 2.1rem; font-weight: 600; line-height: 1.2; margin: 0; overflow-wrap: anywhere; }
.stMainBlockContainer { padding-top: 3.2rem; }
.katex-display > .katex { white-space: normal; } .katex-display .base { margin: .15em 0; }
.pc-scroll, [class*="st-key-pc-wide-"] { overflow-x: auto; }
.pc-table { border-collapse: collapse; width: 100%; font-size: .9rem; }
.pc-table .pc-mark { font-size: inherit; font-weight: 400; padding: .1rem .45rem; }
.pc-table th { font-weight: 400; opacity: .75; } .pc-table th[title]:not([title=""]) { cursor: help; }
.pc-table th, .pc-table td { text-align: left; vertical-align: top; padding: .35rem .6rem .35rem 0;
                             border-bottom: 1px solid rgba(120,130,140,.25); overflow-wrap: break-word; }
@media (max-width: 640px) { [class*="st-key-pc-wide-"] > * { min-width: 640px; } .pc-table { font-size: .8rem; }
                            .pc-table td:first-child { min-width: 6.5rem; }
                            .pc-table th, .pc-table td { padding-right: .35rem; }
                            .pc-table .pc-mark { padding: .1rem .2rem; white-space: normal; } }
</style>"""

MARKS = {
    "agrees": ("good", "✓"), "bound respected": ("good", "✓"), "ok": ("good", "✓"), "holds": ("good", "✓"),
    "holds with a correction": ("care", "≈"), "differs": ("bad", "✗"), "does not hold": ("bad", "✗"),
    "refused": ("bad", "✗"), "failed": ("bad", "✗"), "damaged": ("bad", "✗"), "warning": ("care", "!"),
    "interrupted": ("care", "‖"), "inconclusive": ("care", "?"), "not reproduced": ("care", "?"),
    "running": ("dull", "▶"),
}  # fmt: skip


@st.cache_resource(max_entries=4)
def _index(path: str) -> RunIndex:
    return RunIndex(Store(path))


@st.cache_resource(max_entries=1)
def curve_reader() -> CurveReader:
    """What reads logged curves, shared by all sessions."""
    return CurveReader()


def store() -> Store:
    """The store of this studio."""
    return Store()


def index() -> RunIndex:
    """The rows of its runs, shared by all sessions."""
    return _index(str(store().path))


def allow_code() -> bool:
    """Whether the studio was started with ``--allow-code``."""
    return bool(os.environ.get(ALLOW_CODE))


def is_dark() -> bool:
    """Whether this browser shows the dark theme."""
    return st.context.theme.type == "dark"


def title(text: object, mark: str = "") -> None:
    """The head of a page, with a status if it has one."""
    st.html(f'<p class="pc-title" role="heading" aria-level="1">{for_html(text, 200)} {_mark(mark)}</p>')


def sentence(text: object) -> None:
    """What was found, set apart."""
    st.html(f'<p class="pc-sentence">{for_html(text)}</p>')


def text(words: object) -> None:
    """A paragraph whose words may come from anywhere."""
    st.html(f'<p class="pc-text">{for_html(words)}</p>')


def soft(words: object) -> None:
    """A remark."""
    st.html(f'<p class="pc-soft">{for_html(words)}</p>')


def labelled_number(label: object, value: object, remark: object = "") -> None:
    """One number with its name above and a remark below."""
    below = f'<p class="pc-soft">{for_html(remark)}</p>' if remark else ""
    st.html(
        f'<p class="pc-soft" style="margin:0">{for_html(label)}</p><p class="pc-number">{for_html(value)}</p>{below}'
    )


def problem(error: object) -> None:
    """What is wrong and what would be right."""
    st.error(for_markdown(error), icon=":material/error:")


def remarks(reasons: Sequence[object], status: str = "warning") -> None:
    """The reasons behind a status that is not ok."""
    for reason in reasons:
        (st.error if status == "refused" else st.warning)(for_markdown(reason))


@contextmanager
def one_line_errors() -> Iterator[None]:
    """Show our own errors as one line on the page."""
    try:
        yield
    except PhasecastError as error:
        problem(error)


def svg(picture: str, caption: str = "") -> None:
    """A figure; as an image, in which nothing can run and from which nothing is loaded."""
    found = re.search(r'viewBox="0 0 ([\d.]+) ', picture[:2000])
    wide = found is not None and float(found[1]) > WIDE
    key = f"pc-wide-{zlib.crc32(picture.encode()):x}" if wide else None
    st.container(key=key).image(picture, width="stretch")
    if caption:
        soft(caption)


def whole_table(rows: Sequence[Mapping[str, str]], meanings: Mapping[str, str] | None = None) -> None:
    """A table whose words break into lines, so that it fits a narrow screen; its empty columns are left out."""
    names = [name for name in (rows[0] if rows else ()) if any(row[name] for row in rows)]
    head = "".join(f'<th title="{for_html((meanings or {}).get(name, ""))}">{for_html(name)}</th>' for name in names)
    body = "".join(f"<tr>{''.join(f'<td>{_cell(row[name])}</td>' for name in names)}</tr>" for row in rows)
    st.html(f'<div class="pc-scroll"><table class="pc-table"><tr>{head}</tr>{body}</table></div>')


def _cell(words: str) -> str:
    return _mark(words) if words in MARKS else for_html(words)


def open_in_page(run: str) -> None:
    """Go to the page of a run."""
    from phasecast.studio.views import open_run

    st.session_state["run"] = run
    st.switch_page(
        st.Page(open_run.page, title="One run", icon=":material/show_chart:", url_path="run"), query_params={"run": run}
    )


def expect_attempt(run: str, number: int) -> None:
    """Remember that a process was started which will make this attempt at a run."""
    st.session_state["expected"] = (run, number)


def is_expected(run: str, attempts: int) -> bool:
    """Whether such a process has not written its first status yet."""
    return st.session_state.get("expected") == (run, attempts + 1)


def _mark(word: str) -> str:
    if not word:
        return ""
    kind, sign = MARKS.get(word, ("dull", "…"))
    return f'<span class="pc-mark pc-{kind}">{sign} {for_html(word, 40)}</span>'
