"""Where in the network? λ̂ of every part of a model on its own, while the others stay at w*.

The restricted λ̂ of a component is that of :func:`phasecast.llc` with ``only``: chains move in its parameters alone. It
counts the directions of the component that the loss feels, given the rest of the network.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np

from phasecast.coefficients.llc.estimate import Estimator
from phasecast.coefficients.llc.options import LLCKeywords, LLCOptions
from phasecast.coefficients.llc.problems import TorchProblem, as_problem, on_backend
from phasecast.coefficients.llc.report import ProgressOption
from phasecast.coefficients.llc.result import LLC
from phasecast.coefficients.llc.studies.sweep import drawable, not_ok
from phasecast.core.display import Displayed, grid_html
from phasecast.core.errors import BadInput
from phasecast.core.problem import Problem
from phasecast.core.results import Status, show
from phasecast.core.types import PyTree
from phasecast.figures.style import styled
from phasecast.sampling.backends.selection import Only, entries_that_move

if TYPE_CHECKING:
    import pandas as pd
    from torch import nn

    from phasecast.figures.drawing import Drawing


def llc_components(
    loss: Callable[..., Any] | Problem,
    params: PyTree = None,
    data: PyTree = None,
    components: Mapping[str, Only] | None = None,
    *,
    progress: ProgressOption = True,
    **options: Unpack[LLCKeywords],
) -> LLCComponents:
    """λ̂ restricted to each component, the others at w*.

    ``components`` maps labels to what ``only`` takes: patterns for names, or masks. By default a component is a group
    of parameters whose names agree up to the last dot, such as ``blocks.0.attn``. The other options are those of
    :func:`phasecast.llc`, for each component, ``seconds`` too. Without ``gamma`` each component has the γ of its own
    size and weights, the same relative neighbourhood; give it to compare all of them at the same localisation. Ctrl-C
    returns the components done so far.

    >>> bowl = lambda w: (w["a"] ** 2).sum() / 2 + (w["b"] ** 2).sum() / 2
    >>> parts = llc_components(bowl, {"a": np.zeros(2), "b": np.zeros(6)}, nbeta=100, gamma=1.0, progress=False)
    >>> parts.labels, parts.sizes, bool(parts["a"].value < parts["b"].value)
    (('a', 'b'), (2, 6), True)
    """
    return of_components(as_problem(loss, params, data, options.get("n")), components, options, progress)


def of_components(
    problem: Problem | TorchProblem,
    components: Mapping[str, Only] | None,
    options: LLCKeywords,
    progress: ProgressOption = True,
    *,
    device: Any = None,
) -> LLCComponents:
    """λ̂ of a problem restricted to each component."""
    if "only" in options:
        raise BadInput("llc_components has no option only", "give components={label: only}")
    shapes = _shapes(problem)
    components = groups(shapes) if components is None else components
    if not components:
        raise BadInput("there are no components", "give {label: patterns or masks}")
    if isinstance(problem, TorchProblem):  # a loader is read once for all components
        from phasecast.sampling.backends.torch_data import read_examples

        problem = replace(problem, data=read_examples(problem.data))
    chosen = {label: LLCOptions(**{**options, "only": only}) for label, only in components.items()}
    for only in components.values():
        entries_that_move(only, shapes)  # refuses what fits no parameter before the first component is sampled
    results, sizes = [], []
    try:
        for label, settings in chosen.items():
            sampled = on_backend(problem, settings, device=device)
            estimator = Estimator(replace(sampled, name=label), settings)
            results.append(estimator.run(progress))
            sizes.append(sampled.backend.size)
            if estimator.interrupted:
                break
    except KeyboardInterrupt:
        if not results:
            raise
    return LLCComponents(tuple(components)[: len(results)], tuple(results), tuple(sizes))


def _shapes(problem: Problem | TorchProblem) -> dict[str, tuple[int, ...]]:
    """The parameters that can move."""
    if not isinstance(problem, TorchProblem):
        from phasecast.sampling.backends.jax_trees import parameter_shapes

        return parameter_shapes(problem.params)
    from phasecast.sampling.backends.torch_module import uncompiled

    parameters = uncompiled(problem.module).named_parameters()
    return {name: tuple(one.shape) for name, one in parameters if one.requires_grad}


def groups(names: Iterable[str]) -> dict[str, list[str]]:
    """Names that agree up to the last dot; one without a dot is a group of its own.

    >>> groups(["embed.weight", "blocks.0.attn.weight", "blocks.0.attn.bias", "scale"])
    {'embed': ['embed.weight'], 'blocks.0.attn': ['blocks.0.attn.weight', 'blocks.0.attn.bias'], 'scale': ['scale']}
    """
    together: dict[str, list[str]] = {}
    for name in names:
        together.setdefault(name.rpartition(".")[0] or name, []).append(name)
    return together


def heads(module: nn.Module, name: str, heads: int, output: str | None = None) -> dict[str, dict[str, np.ndarray]]:
    """The attention heads of a fused layer, as components for ``llc_components``: ``{"NAME[0]": masks, …}``.

    The layer ``name`` maps to queries, keys and values at once: its weight (3d, inputs) and bias (3d,) hold d rows of
    queries, then d of keys, then d of values, and in each the rows of head h are the h-th d/heads of them. This is the
    layout of ``nn.MultiheadAttention`` and of ``nn.Linear(d, 3 * d)`` followed by ``split(d)`` and a view as
    (heads, d/heads). A layout with heads outside and q, k, v inside needs masks of your own.

    Parameters
    ----------
    name: an ``nn.Linear`` or an ``nn.MultiheadAttention`` in the module.
    output: the layer after the heads, an ``nn.Linear(d, outputs)``; its columns are split as well, its bias is shared
        and stays.
    """
    shapes = {key: tuple(parameter.shape) for key, parameter in module.named_parameters()}
    fused = [f"{name}.{part}" for part in ("weight", "bias", "in_proj_weight", "in_proj_bias")]
    fused = [key for key in fused if key in shapes]
    if not fused:
        raise BadInput(f"no layer is called '{name}'", f"use the name of one of {', '.join([*groups(shapes)][:8])}")
    rows = shapes[fused[0]][0]
    if not isinstance(heads, int) or heads < 1 or rows % (3 * heads):
        raise BadInput(f"{rows} rows cannot be q, k and v of {heads} heads", "give a fused layer and its heads")
    width, own = rows // 3, rows // (3 * heads)
    masks: dict[str, dict[str, np.ndarray]] = {}
    for head in range(heads):
        of_head = (np.arange(rows) % width) // own == head
        chosen = {
            key: np.broadcast_to(of_head.reshape(-1, *[1] * (len(shapes[key]) - 1)), shapes[key]) for key in fused
        }
        if output is not None:
            key = f"{output}.weight"
            if key not in shapes or shapes[key][1:] != (width,):
                raise BadInput(f"'{output}' is not a layer of {width} inputs", "give the layer after the heads")
            chosen[key] = np.broadcast_to(np.arange(width) // own == head, shapes[key])
        masks[f"{name}[{head}]"] = chosen
    return masks


@dataclass(frozen=True)
class LLCComponents(Displayed):
    """λ̂ of parts of a model: ``results[i]`` of ``labels[i]``, which has ``sizes[i]`` parameters that move."""

    labels: tuple[str, ...]
    results: tuple[LLC, ...]
    sizes: tuple[int, ...]

    def __getitem__(self, label: str) -> LLC:
        try:
            return self.results[self.labels.index(label)]
        except ValueError:
            raise BadInput(f"no component is called '{label}'", f"use one of {', '.join(self.labels[:8])}") from None

    def __str__(self) -> str:
        """A table: component, parameters, λ̂ ± error, status."""
        width = max(map(len, self.labels))
        lines = ["restricted λ̂"]
        for label, size, result in zip(self.labels, self.sizes, self.results, strict=True):
            value = show(result.estimate, result.error)
            lines.append(f"  {label:<{width}}  {size:>9} parameters  {value:>16}  {result.status}")
        reasons = {reason for result in self.results for reason in result.reasons if result.status is Status.REFUSED}
        return "\n".join([*lines, *(f"  refused: {reason}" for reason in sorted(reasons)[:4])])

    def _html_table(self) -> str:
        triples = zip(self.labels, self.sizes, self.results, strict=True)
        rows = [(label, str(size), show(one.estimate, one.error), str(one.status)) for label, size, one in triples]
        return grid_html("restricted λ̂", ("component", "parameters", "λ̂", "status"), rows)

    def table(self) -> pd.DataFrame:
        """One line per component: how many parameters move, λ̂ as ``estimate`` with its error, status."""
        import pandas as pd

        rows = [
            (size, float(one.estimate), float(one.error), str(one.status))
            for size, one in zip(self.sizes, self.results, strict=True)
        ]
        index = pd.Index(self.labels, name="component")
        return pd.DataFrame(rows, columns=["parameters", "estimate", "error", "status"], index=index)

    def plain(self) -> dict[str, Any]:
        """For other programs."""
        pairs = zip(self.labels, self.sizes, self.results, strict=True)
        return {"components": [{"label": label, "size": size, **result.plain()} for label, size, result in pairs]}

    @styled
    def figure(self) -> Drawing:
        """A bar for each component, with its standard error; hollow where the result is not ok."""
        from phasecast.figures.drawing import COLOURS, blank

        values, errors = drawable(self.results)
        places = np.arange(len(values))
        figure, ((axes,),) = blank(width=6.4, height=max(1.8, 0.8 + 0.3 * len(values)))
        for hollow, face in ((False, COLOURS[0]), (True, "none")):
            part = np.array(not_ok(self.results)) == hollow
            if part.any():
                axes.barh(
                    places[part], np.array(values)[part], xerr=np.array(errors)[part], height=0.7, color=face,
                    edgecolor=COLOURS[0], capsize=2, label="not ok" if hollow else None,
                    error_kw={"lw": 1, "ecolor": "#333333"},
                )  # fmt: skip
        axes.set_yticks(places, self.labels, fontsize=8)
        axes.invert_yaxis()
        axes.set_xlabel("restricted λ̂")
        if any(not_ok(self.results)):
            axes.legend(frameon=False, fontsize=8)
        return figure

    plot = figure
