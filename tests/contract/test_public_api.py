"""The public names, written down: a change here is a change for every user."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

import phasecast as pc

pytestmark = pytest.mark.bare

NAMES = {
    "phasecast": "BadInput Comparison Forecast LLC Measurement PhasecastError Prediction Problem Refused Status "
    "Verdict arena claims coefficients core demo features forecast forecasting grokking lab llc llc_components "
    "llc_sweep llc_trajectory local_free_energy models online posterior report sampling torch",
    "phasecast.core": "Claim ClaimVerdict Comparison Finding Measurement Prediction Problem RecipeCheck Result Status "
    "Verdict float64",
    "phasecast.models": "LANDSCAPES Landscape fourier_solution matrix_product modular_table quadratic_network",
    "phasecast.sampling": "Fixed KERNELS Kernel Tuning from_blackjax gibbs_coefficient hmc langevin mala mclmc nuts "
    "rmsprop_sgld sgld sgnht",
    "phasecast.coefficients": "Basin Bounds Coefficient Rank add bounds catalogue critical_sample_size deep_linear "
    "factor_analysis feature_span free_energy generalisation_error ideal jacobian_rank mixture modular_addition "
    "monomial newton nmf ntk_coefficient of_landscape product quadratic rank_mod_prime "
    "reduced_rank relu reparametrise sgd_temperature sum_of_powers symmetric_factorisation tanh temperature_ladder "
    "temperature_quadrature union volume_scaling",
    "phasecast.features": "CurvatureLaw Data Descent Extremes FixedPoint HessianSpectrum Network Outlier PRESETS "
    "Target Threshold ThresholdTable Trajectory WideTrajectory activation algorithmic_threshold decoupled density "
    "descend dmft draw_data finite_size fixed_point half_success hessian_spectrum initial_laws loss lowest_curvatures "
    "one_step_laws outlier_set over_draws "
    "scalar_threshold simulate stieltjes successes target threshold threshold_table wide_dmft",
    "phasecast.grokking": "Architecture Network Piece Task checkpoint_steps crossings effective_width "
    "grokking_severity mlp quadratic split task train transformer",
    "phasecast.online": "Committee Curve CurveForecast ExponentFit LabelledCurve OrderParameters Plateau PlateauLength "
    "Spectrum asymptotic_curve asymptotic_rates committee_curve_of curve curve_of decay_rates draw_weights "
    "equal_escape_time equal_plateau escape_rates escape_time feature_floor general_curve generalisation_error "
    "integral_curve linear_curve load_data load_labelled max_learning_rate mean_curve measured_length moment_variance "
    "plateau plateau_length plateaus_of_draws power_law_window rotated_curve rotated_floor scaling_exponent "
    "secular_weights sgd_curve sgd_stability_limit simulate simulate_data small_rate_curve solve solve_many "
    "stability_limit",
    "phasecast.posterior": "Criteria GridModel Model RLCT Ranking Scores Setting Training bic compare criteria "
    "deep_linear effective_parameters exact flat_minimum_entropy free_energy from_arviz from_numpyro "
    "generalisation_curves learning_errors linear linear_data mixture monomial network_data new_data_losses "
    "polygon_network power_model prior_losses reduced_rank rescale rescaling rlct scaling_direction score "
    "singular_fluctuation singularity table_setting temperature_grid tempered two_layer wbic wbic_beta",
    "phasecast.claims": "Claim ClaimVerdict Finding RecipeCheck StoredVerification Verification all_claims check_of "
    "find verify verify_all",
    "phasecast.lab": "Answer Answers Captioned Chunk Conclusion DataFile Factory ListedRun LocalEngine RECIPES Recipe "
    "Run RunFilter Spec Store Sweep Swept Table find_recipe list_runs load make_sweep read_sweep resume run sweep "
    "tabulate",
    "phasecast.torch": "Problem heads llc llc_components llc_trajectory load",
    "phasecast.forecasting": "Forecast Score TrainingLog fan forecast read_log",
    "phasecast.forecasting.escape": "EscapeClock forecast_escape_of_loss",
    "phasecast.report": "competing_basins write write_sweep",
}

SIGNATURES = {
    "Problem": "(loss, params, data=None, n=None, name='your problem')",
    "Prediction": "(value, regime='', source='', systematic=0.0, kind='exact', name='')",
    "Measurement": "(estimate, error, status=<Status.OK: 'ok'>, diagnostics=<factory>, *, error_kind='mcse', "
    "reasons=(), name='', policy=<factory>)",
    "Comparison": "(prediction, measurement, tolerance=3.0, name='', scale=None)",
    "arena": "(families=None, *, seed=0, quick=False, problem=None, store=None, quiet=False)",
    "demo": "(*, store=None, quiet=False)",
    "lab.run": "(recipe, spec=None, *, store=None, checkpoint_every=None, quiet=False)",
    "lab.resume": "(run, *, store=None, checkpoint_every=None, quiet=False)",
    "lab.load": "(run, *, store=None, allow_code=False)",
    "lab.sweep": "(recipe, fixed=None, *, grid=None, zipped=None, seeds=None, engine=None, store=None, "
    "checkpoint_every=None, quiet=False)",
    "lab.make_sweep": "(recipe, fixed=None, *, grid=None, zipped=None, seeds=None)",
    "coefficients.monomial": "(powers, prior=None)",
    "coefficients.sum_of_powers": "(powers)",
    "coefficients.deep_linear": "(widths, rank, bias=False)",
    "coefficients.reduced_rank": "(inputs, hidden, outputs, rank, rank_a=None, rank_b=None)",
    "coefficients.quadratic": "(inputs, outputs, width, bias=False)",
    "coefficients.modular_addition": "(p, width, centred=True, train=None, regime='feature', dead_v=0, dead_both=0)",
    "coefficients.newton": "(polynomial)",
    "coefficients.ideal": "(*monomials)",
    "coefficients.sgd_temperature": "(loss, params, data, lr, batch)",
    "grokking.task": "(name='addition', p=23, *, degree=5, bits=10, relevant=3)",
    "grokking.split": "(task, fraction, seed=0, *, count=None)",
    "grokking.quadratic": "(task, width, activation='square')",
    "grokking.mlp": "(task, width, depth=2, activation='relu')",
    "grokking.transformer": "(task, width, layers=2, heads=4)",
    "grokking.train": "(task, network, *, steps, fraction=0.4, count=None, lr=0.001, weight_decay=0.0001, batch=None, "
    "optimiser='adam', seeds=0, log_every=20, checkpoints=(), state=None)",
    "online.curve": "(students=2, teachers=2, *, modes=None, exponent=None, spectrum=None, lr, sigma=0.01, "
    "inputs=None, draws=5, seed=0, alphas, order=2, activation='erf', simulate=0, progress=True)",
    "online.solve": "(order_parameters, spectrum, lr, alphas, activation='erf', order=1, *, rtol=1e-08, step=None)",
    "online.linear_curve": "(modes, exponent, lr, sigma, alphas, trained=None)",
    "online.plateau": "(T1)",
    "features.threshold": "(target, activation='gelu', loss='pseudo-huber', *, lr=0.5, time=0, width=1, a=1.0, b=0.0, "
    "initial_norm=1.0, noise=0.0, latents=None, delta=None, simulate=None, seeds=8, samples=20000, up_to=64.0, "
    "curves=False, progress=True)",
    "features.target": "(choice, *, latents=None, noise=0.0)",
    "features.hessian_spectrum": "(law, delta)",
    "posterior.Model": "(log_likelihood, log_prior, init, predict=None, observed=None, summarise=None, loss=None, "
    "gibbs=None, live_units=None, truth=None, name='your model')",
    "posterior.rlct": "(model, data, betas='auto', *, method='variance', sampler='auto', chains=4, draws=2000, "
    "warmup=1000, swap=True, seed=0, target=None, seconds=None, progress=True)",
    "posterior.tempered": "(model, data, betas=(1.0,), *, sampler='auto', chains=4, draws=1000, warmup=1000, thin=10, "
    "swap=True, pointwise=False, seed=0, progress=True)",
    "llc": "(loss, params=None, data=None, *, n=None, nbeta=None, gamma=None, radius=0.3, prior=None, "
    "only=None, sampler='auto', chains=None, target=0.05, max_grads=None, seconds=60.0, seed=0, progress=True)",
    "torch.llc": "(module, data, loss=None, *, n=None, nbeta=None, gamma=None, radius=0.3, prior=None, "
    "only=None, sampler='auto', chains=None, target=0.05, max_grads=None, seconds=60.0, seed=0, progress=True, "
    "device=None)",
    "llc_components": "(loss, params=None, data=None, components=None, *, progress=True, **options)",
    "torch.llc_components": "(module, data, loss=None, components=None, *, progress=True, device=None, **options)",
    "torch.heads": "(module, name, heads, output=None)",
    "torch.load": "(module, path)",
    "claims.verify": "(identity, *, store=None, quiet=False)",
    "report.write": "(run)",
}


@pytest.mark.parametrize("module", NAMES)
def test_public_names_are_those_written_down(module):
    found = __import__(module, fromlist=["__all__"])
    assert sorted(found.__all__) == sorted(NAMES[module].split())
    for name in found.__all__:
        assert getattr(found, name) is not None


@pytest.mark.parametrize("path", SIGNATURES)
def test_signatures_are_those_written_down(path):
    target: Any = pc
    for part in path.split("."):
        target = getattr(target, part)
    signature = inspect.signature(target)
    bare = signature.replace(
        parameters=[p.replace(annotation=inspect.Parameter.empty) for p in signature.parameters.values()],
        return_annotation=inspect.Signature.empty,
    )
    assert str(bare) == SIGNATURES[path]


def test_the_demo_is_a_function_however_often_it_is_asked_for():
    assert callable(pc.demo)
    assert callable(pc.demo)


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'llamas'"):
        _ = pc.llamas
    assert "coefficients" in dir(pc)
