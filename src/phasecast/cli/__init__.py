"""The command line: a thin layer over the library, which imports nothing heavy until a command runs.

Exit codes: 0 success, 1 a recipe failed, 2 bad input, 3 refused, 130 interrupted and resumable.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cyclopts import App

COMMANDS = {
    "demo": "train a network that groks, follow its λ̂ beside the exact values, and write a report (about a minute)",
    "coefficient": "exact learning coefficient λ and multiplicity of a network or a polynomial",
    "llc": "sampled learning coefficient λ̂ of your own model, with an error bar",
    "rlct": "learning coefficient of your own Bayesian model, from its tempered posteriors",
    "curve": "learning curve of a two-layer network on power-law data, with plateau, escape and slope",
    "threshold": "how many examples per dimension a network needs to see the hidden directions of a target",
    "run": "run a recipe; finished runs are returned, interrupted ones go on",
    "sweep": "run a recipe over a grid, values in step, or seeds",
    "runs": "list, show, resume, remove and export runs",
    "report": "write the HTML page of a run or a sweep",
    "recipes": "list the recipes; `recipes show NAME` prints a spec with its defaults",
    "claims": "what the papers claim and what we found; `claims verify ID` checks again",
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    if words in ([], ["--help"], ["-h"]):  # answered here, before anything is imported
        print(_help())
        return 0
    if words == ["--version"]:
        from phasecast import __version__

        print(__version__)
        return 0
    return _dispatch(words)


def _help() -> str:
    width = max(map(len, COMMANDS))
    lines = [f"  {name:<{width}}  {meaning}" for name, meaning in COMMANDS.items()]
    return "\n".join(
        [
            "phasecast forecasts and measures phase transitions in learning.",
            "",
            "usage: phasecast COMMAND [--json] [--debug] …",
            "",
            *lines,
            "",
            "`phasecast COMMAND --help` says more. With --json, stdout is the result as one JSON object.",
            "Runs are kept in --store, else $PHASECAST_STORE, else phasecast-runs/.",
        ]
    )


def _dispatch(words: list[str]) -> int:
    from cyclopts import CycloptsError

    from phasecast.cli.app import build_app
    from phasecast.core.errors import PhasecastError

    debug = "--debug" in words
    if words[0] not in COMMANDS and not words[0].startswith("-"):
        from phasecast.core.errors import unknown

        return _complain(unknown("command", words[0], COMMANDS), 2)
    app: App = build_app(COMMANDS)
    # a user's own code may print; with --json, stdout belongs to the result alone
    elsewhere = contextlib.redirect_stdout(sys.stderr) if "--json" in words else contextlib.nullcontext()
    try:
        with elsewhere:
            return int(app(words, exit_on_error=False, print_error=False, result_action="return_value") or 0)
    except CycloptsError as error:
        return _complain(_one_line(error), 2)
    except PhasecastError as error:
        if debug:
            raise
        return _complain(error, error.exit_code)
    except KeyboardInterrupt as error:
        return _complain(str(error) or "interrupted", 130)
    except BrokenPipeError:  # `phasecast runs ls | head`
        sys.stdout = None
        return 0
    except Exception as error:
        if debug:
            raise
        return _complain(f"unexpected {type(error).__name__}: {error}; --debug shows where", 1)


def _complain(message: Any, code: int) -> int:
    text = " ".join(str(message).split())
    print(f"phasecast: {text}", file=sys.stderr)
    return code


def _one_line(error: Any) -> str:
    """What cyclopts has to say, without its frame."""
    return str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
