"""The command line: a thin layer over the library that imports nothing heavy until a command runs.

Exit codes: 0 success, 1 a recipe or user code failed, 2 bad input, 3 refused, 130 interrupted and resumable.
"""

from __future__ import annotations

import contextlib
import gc
import sys
from collections.abc import Sequence

COMMANDS = {
    "demo": "train a network that groks, track its λ̂ beside the exact values, and write a report (about a minute)",
    "coefficient": "exact learning coefficient λ and multiplicity of a network or a polynomial",
    "llc": "sampled learning coefficient λ̂ of your own model, with an error bar",
    "rlct": "learning coefficient of your own Bayesian model, from its tempered posteriors",
    "curve": "learning curve of a two-layer network on power-law data, with plateau, escape and slope",
    "threshold": "how many examples per dimension a network needs to detect the hidden directions of a target",
    "forecast": "when a training in progress will generalise, from its log: a CSV file or a run",
    "plan": "how much data or time: `plan grokking`, `plan feature`, `plan curve`, `plan posterior`",
    "run": "run a recipe; a finished run is returned, an interrupted one is resumed",
    "sweep": "run a recipe over a grid, zipped values, or seeds",
    "runs": "list runs, with filters; show, resume, check, remove and export them",
    "sweeps": "list the sweeps of the store; show or remove one",
    "report": "write the HTML page of a run, finished or not, or of a sweep",
    "studio": "runs, theory with sliders, forecasts and claims in the browser, on this machine only",
    "recipes": "list the recipes; `recipes NAME` prints the spec of one with its defaults",
    "arena": "how often an answer that is ok is wrong, on random problems whose answer is known otherwise",
    "claims": "what the papers claim and what we found; `claims verify ID` checks again",
}


OBJECTS_BETWEEN_COLLECTIONS = 100_000
"""Imports and tracing make millions of objects that stay: looking for garbage every 700, as Python does, took about a
tenth of the time to import and to trace."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code; without ``arguments`` it is the only one of its process."""
    if arguments is None:
        gc.set_threshold(OBJECTS_BETWEEN_COLLECTIONS)
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
            "usage: phasecast COMMAND [--json] [--quiet] [--debug] …",
            "",
            *lines,
            "",
            "`phasecast COMMAND --help` lists its options. With --json, stdout is the result as one JSON object.",
            "Runs are stored in --store, which defaults to $PHASECAST_STORE, then phasecast-runs/.",
        ]
    )


def _dispatch(words: list[str]) -> int:
    from cyclopts import CycloptsError

    from phasecast.cli.app import build_app
    from phasecast.cli.options import Common
    from phasecast.compilation_cache import kept_programs
    from phasecast.core.errors import PhasecastError, unknown
    from phasecast.core.user_code import working_folder
    from phasecast.progress import heartbeat, quietly

    if words[0] not in COMMANDS:
        return _complain(unknown("command", words[0], COMMANDS), 2)
    options = Common()
    try:
        app = build_app(words[0], COMMANDS[words[0]])
        command, bound, _ = app.parse_args(words, exit_on_error=False, print_error=False)
        options = next((value for value in bound.arguments.values() if isinstance(value, Common)), options)
        # user code may print; with --json, stdout belongs to the result alone
        stdout = contextlib.redirect_stdout(sys.stderr) if options.json else contextlib.nullcontext()
        shown = quietly() if options.quiet else heartbeat(f"phasecast {words[0]}")
        # an installed command does not search the working folder by itself
        with stdout, shown, working_folder(), kept_programs():
            return int(command(*bound.args, **bound.kwargs) or 0)
    except CycloptsError as error:
        return _complain(error, 2)
    except PhasecastError as error:
        if options.debug:
            raise
        return _complain(error, error.exit_code)
    except KeyboardInterrupt as error:
        return _complain(str(error) or "interrupted", 130)
    except BrokenPipeError:  # `phasecast runs ls | head`
        sys.stdout = None
        return 0
    except Exception as error:
        if options.debug:
            raise
        return _complain(f"unexpected {type(error).__name__}: {error}; --debug shows where", 1)


def _complain(problem: BaseException | str, code: int) -> int:
    """One line on stderr, without the frame that cyclopts draws around its errors."""
    from cyclopts import CycloptsError

    from phasecast.progress import printable

    text = str(problem).strip()
    if isinstance(problem, CycloptsError):
        if problem.__cause__ is not None:
            text = _in_words(problem.__cause__) or text
        text = text.splitlines()[0] if text else type(problem).__name__
    print(f"phasecast: {printable(' '.join(text.split()))}", file=sys.stderr)
    return code


def _in_words(cause: BaseException) -> str:
    """What pydantic refused, whose own first line does not say it; nothing for other causes."""
    from pydantic import ValidationError

    from phasecast.lab.spec import first_problem

    return str(first_problem(cause)) if isinstance(cause, ValidationError) else ""
