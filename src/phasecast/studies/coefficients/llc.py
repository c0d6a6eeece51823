"""What is λ̂ of my model, and how does it move during training? The sampled coefficient as a run that can be stopped.

One problem, in JAX or PyTorch, at its own parameters or at each of a list of checkpoints. It runs the same estimator as
:func:`phasecast.llc`; every chunk of every chain can be resumed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from pydantic import Field

from phasecast.coefficients.llc.options import LLCOptions, Patterns, StorableSampler
from phasecast.core.answers import Answer
from phasecast.core.results import Measurement, Status, show
from phasecast.lab.recipe import Captioned, Chunk, Conclusion, Recipe
from phasecast.lab.spec import DataFile, Factory, Spec
from phasecast.lab.tables import Table
from phasecast.studies.coefficients.user_weights import load_weights, read_arrays

if TYPE_CHECKING:
    import xarray as xr

    from phasecast.coefficients.llc.estimate import Estimator
    from phasecast.coefficients.llc.problems import TorchProblem
    from phasecast.coefficients.llc.result import LLC
    from phasecast.core.problem import Problem

LONGEST_REASONS = 2000  # bytes of a row that hold the reasons: about ten of them
DRAWS = 256  # kept of each chain, for figures and ArviZ
NUMBERS = (
    "value", "error", "value_min", "value_var", "gamma", "radius", "nbeta", "rhat", "ess", "acceptance", "divergences",
    "stein", "gradients",
)  # fmt: skip


class LocalCoefficient(Spec, LLCOptions):
    """Which problem, at which parameters, and the options of λ̂."""

    problem: Factory = Field(
        description="package.module:factory of phasecast.Problem(loss, params, data), or of (module, data, loss)"
    )
    checkpoints: tuple[DataFile, ...] = Field(
        default=(),
        description="weights along a training, .npz, .safetensors or (PyTorch) .pt; [] for the problem's own",
    )
    only: Patterns = Field(default=None, description='patterns for the names of the parameters that move, "layers.0.*"')  # pyright: ignore[reportIncompatibleVariableOverride]
    sampler: StorableSampler = Field(default="auto", description="how the chains move")  # pyright: ignore[reportIncompatibleVariableOverride]
    chains: int | None = Field(default=None, ge=1, le=256, description="number of chains; defaults to 1 to 8 by size")
    target: float = Field(default=0.05, gt=0, lt=1, description="standard error to reach, relative to λ̂")
    seconds: float | None = Field(
        default=None, gt=0, description="time for each checkpoint; with a limit the answer depends on the machine"
    )


def work(spec: LocalCoefficient, state: Any) -> Iterator[Chunk]:
    """A chunk of steps of all chains at one checkpoint after another."""
    from phasecast.coefficients.llc.estimate import Estimator
    from phasecast.coefficients.llc.problems import load_sampled_problem, on_backend
    from phasecast.coefficients.llc.studies.trajectory import with_common_gamma

    problem = load_sampled_problem(spec.problem)
    total = max(1, len(spec.checkpoints))
    state = state or {"index": 0, "done": 0, "estimator": {}, "start": {}}
    done = int(state["done"])
    origin = on_backend(problem, spec)
    options: LLCOptions = spec
    if spec.checkpoints:
        last = origin.backend.moved_to(_weights(spec.checkpoints[-1], problem))
        options = with_common_gamma(last.centre_as_numpy, spec)
    for index in range(int(state["index"]), total):
        sampled = origin
        if spec.checkpoints:
            sampled = replace(origin, backend=origin.backend.moved_to(_weights(spec.checkpoints[index], problem)))
        start = state["start"]
        estimator = Estimator(sampled, options, state=state["estimator"] or None, start=start or None)
        while estimator.advance():
            metric = ("λ̂", estimator.latest) if np.isfinite(estimator.latest) else None
            done += 1
            now = {"index": index, "done": done, "estimator": estimator.state(), "start": start}
            yield Chunk(now, {}, done, None, metric)
        measured = estimator.conclude()
        done += 1
        state = {"index": index + 1, "done": done, "estimator": {}, "start": _start_of_next(estimator, measured)}
        metric = ("λ̂", float(np.asarray(measured.estimate)))
        row = _row(measured, spec, estimator.backend.loss_at_centre)
        yield Chunk(state, {"llc": row}, done, done if index + 1 == total else None, metric)


def _start_of_next(estimator: Estimator, measured: LLC) -> dict[str, Any]:
    """Where chains of the next checkpoint begin: where these ended, unless they were lost."""
    return {} if measured.status is Status.REFUSED else estimator.last_state or {}


def _weights(path: str, problem: Problem | TorchProblem) -> Any:
    """The weights of a checkpoint, as the back-end of the problem takes them."""
    from phasecast.coefficients.llc.problems import TorchProblem

    if not isinstance(problem, TorchProblem):
        return load_weights(path, problem.params)
    from phasecast.torch import read_weights

    return read_arrays(Path(path)) if path.endswith(".npz") else read_weights(path)


def _row(measured: LLC, spec: LocalCoefficient, loss: float) -> dict[str, Any]:
    """A result as one row of numbers."""
    from phasecast.coefficients.llc.policy import POLICY

    numbers = {name: float(getattr(measured, "estimate" if name == "value" else name)) for name in NUMBERS}
    curve = np.full((POLICY.most_levels, 4), np.nan)
    curve[: len(measured.curve)] = measured.curve
    draws = np.full((DRAWS, spec.chains or POLICY.adjusted_chains), np.nan)
    excess = measured.traces["excess"]
    thinned = excess[:: max(1, len(excess) // DRAWS)][:DRAWS]
    draws[: len(thinned), : thinned.shape[1]] = thinned
    words = "\n".join(measured.reasons).encode()[:LONGEST_REASONS]
    reasons = np.zeros(LONGEST_REASONS, dtype=np.uint8)
    reasons[: len(words)] = np.frombuffer(words, dtype=np.uint8)
    return {
        **{name: np.array([value]) for name, value in numbers.items()},
        "loss": np.array([loss]),
        "status": np.array([tuple(Status).index(measured.status)]),
        "reasons": reasons[None],
        "curve": curve[None],
        "excess": draws[None],
    }


def layout(spec: LocalCoefficient) -> Mapping[str, Table]:
    names = [Path(path).stem for path in spec.checkpoints] or ["params"]
    return {
        "llc": Table(
            "checkpoint",
            {
                **dict.fromkeys(NUMBERS, ()),
                "loss": (),
                "status": (),
                "reasons": ("byte",),
                "curve": ("level", "column"),
                "excess": ("draw", "chain"),
            },
            {"checkpoint": names, "column": ["gamma", "value", "error", "value_var"]},
            {"value": "λ̂", "status": "0 ok, 1 warning, 2 refused", "excess": "draws of nβ(L − L*)"},
            {"reasons": "uint8", "status": "int64"},
            rows_per_chunk=1,
        )
    }


def conclude_run(spec: LocalCoefficient, results: xr.DataTree) -> Conclusion:
    answers = [
        Answer("llc", measured, f"λ̂ at {name}", {"checkpoint": name, "number": number})
        for number, (name, measured) in enumerate(_measurements(results))
    ]
    sentences = [f"{m.name} is {show(m.estimate, m.error)} ({m.status})" for _, m in _measurements(results)][:4]
    return Conclusion(answers, "; ".join(sentences) + ".")


def _measurements(results: xr.DataTree) -> Iterator[tuple[str, Measurement]]:
    table = results["llc"].to_dataset()
    for index, name in enumerate(map(str, table["checkpoint"].values)):
        row = table.isel(checkpoint=index)
        words = bytes(row["reasons"].values[row["reasons"].values > 0]).decode(errors="ignore")
        yield (
            name,
            Measurement(
                float(row["value"]),
                float(row["error"]),
                tuple(Status)[int(row["status"])],
                {name: float(row[name]) for name in NUMBERS[2:]},
                error_kind="mcse",
                reasons=words.split("\n") if words else [],
                name=f"λ̂ at {name}",
            ),
        )


def figures(spec: LocalCoefficient, results: xr.DataTree) -> Mapping[str, Captioned]:
    from phasecast.figures.drawing import COLOURS, blank, legend, points

    table = results["llc"].to_dataset()
    names = [name for name, _ in _measurements(results)]
    measured = [one for _, one in _measurements(results)]
    drawn: dict[str, Captioned] = {}
    if len(measured) > 1:
        figure, ((above,), (axes,)) = blank(2, 1, width=7.0, height=4.6)
        above.plot(table["loss"].values, ".-", lw=1, ms=4, color=COLOURS[1])
        above.set_ylabel("loss")
        values = [float(np.asarray(one.estimate)) for one in measured]
        errors = [float(one.error) if np.isfinite(one.error) else 0.0 for one in measured]
        hollow = [one.status is Status.REFUSED for one in measured]
        points(axes, range(len(values)), values, errors, number=0, hollow=hollow)
        every = max(1, len(names) // 12)
        axes.set_xticks(range(0, len(names), every), names[::every], rotation=30, ha="right", fontsize=8)
        axes.set_ylabel("λ̂")
        shown = [value for value, one in zip(values, measured, strict=True) if one.status is not Status.REFUSED]
        if shown:
            axes.set_ylim(min(0.0, 1.3 * min(shown)), 1.3 * max(*shown, 1e-300))
        drawn["trajectory"] = Captioned(
            figure,
            "The loss over the data, and λ̂ relative to it, at each checkpoint with its standard error. Hollow: "
            "refused; such a point may lie outside the picture.",
        )
    figure, ((left, right),) = blank(1, 2, width=7.0, height=3.4)
    for number, name in enumerate(names[:6]):
        gamma, value, error = (table["curve"].values[number, :, column] for column in range(3))
        points(left, gamma, value, error, number=number, label=name)
    left.set_xscale("log")
    left.set_xlabel("localisation γ")
    left.set_ylabel("nβ E[L − L*]")
    if len(names) > 1:
        legend(left)
    right.plot(table["excess"].values[-1], lw=0.5, alpha=0.8)
    right.set_xlabel("draw")
    right.set_ylabel("nβ (L − L*)")
    drawn["levels"] = Captioned(
        figure, "Left: λ̂ at each γ that was sampled. Right: the chains at the last γ of the last checkpoint."
    )
    return drawn


RECIPE = Recipe(
    name="llc",
    version=6,
    question="What is the sampled learning coefficient of my model, at its end or along its training?",
    spec=LocalCoefficient,
    work=work,
    layout=layout,
    conclude=conclude_run,
    figures=figures,
    tiny={"problem": "phasecast.models.matrix_products:small_product", "nbeta": 100.0, "gamma": 10.0, "target": 0.3},
)
