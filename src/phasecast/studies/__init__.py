"""The recipes we ship, one module each with a ``RECIPE``, in folders that mirror the science packages."""

RECIPES: dict[str, str] = {
    "arena": "phasecast.studies.arena.study",
    "feature-diagram": "phasecast.studies.features.diagram",
    "feature-grokking": "phasecast.studies.features.late_generalisation",
    "feature-overlap": "phasecast.studies.features.overlap",
    "feature-scan": "phasecast.studies.features.scan",
    "feature-spectrum": "phasecast.studies.features.spectrum",
    "feature-success": "phasecast.studies.features.success",
    "generalisation": "phasecast.studies.posterior.generalisation",
    "grokking": "phasecast.studies.grokking.training",
    "grokking-bank": "phasecast.studies.grokking.bank",
    "grokking-coefficient": "phasecast.studies.grokking.coefficient",
    "grokking-data": "phasecast.studies.grokking.data",
    "grokking-mirror": "phasecast.studies.grokking.mirror",
    "grokking-sampler": "phasecast.studies.grokking.sampler",
    "grokking-severity": "phasecast.studies.grokking.severity",
    "grokking-width": "phasecast.studies.grokking.width",
    "learning-curves": "phasecast.studies.online.learning_curves",
    "linear-features": "phasecast.studies.online.linear_features",
    "llc": "phasecast.studies.coefficients.llc",
    "rlct-linear": "phasecast.studies.posterior.rlct_linear",
    "rlct-relu": "phasecast.studies.posterior.rlct_relu",
    "scaling-figure": "phasecast.studies.online.paper_figures.scaling_figure",
    "toy-landscapes": "phasecast.studies.coefficients.toy_landscapes",
}
"""The recipes by name; a module is imported when its recipe is needed."""
