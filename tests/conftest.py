"""Fixtures that many tests share."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import settings

from phasecast.cli import main

HERE = Path(__file__).parent

settings.register_profile("suite", deadline=None, derandomize=True)  # the same examples everywhere, however slow
settings.load_profile("suite")

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # in a suite in the background; its processes would inherit it
    signal.signal(signal.SIGINT, signal.default_int_handler)

LONG = (
    "test_claims.py::test_the_check_finds_what_we_say[features/bulk]",
    "test_claims.py::test_the_check_finds_what_we_say[features/outlier-equation]",
    "test_claims.py::test_the_check_finds_what_we_say[scaling/eq-15]",
    "test_claims.py::test_the_check_finds_what_we_say[singular/eq-9]",
    "test_claims.py::test_the_counterexample_runs_as_printed[scaling/closure]",
    "test_curve_command.py::test_it_prints_the_curve_with_its_parts",
    "test_curve_command.py::test_the_spectrum_of_a_users_data",
    "test_curve_command.py::test_what_diverges_is_printed_as_refused[1]",
    "test_docs.py::test_the_examples_of_a_page_run_as_printed[features-studies.md]",
    "test_docs.py::test_the_examples_of_a_page_run_as_printed[features.md]",
    "test_docs.py::test_the_examples_of_a_page_run_as_printed[grokking-studies.md]",
    "test_docs.py::test_the_examples_of_a_page_run_as_printed[llc.md]",
    "test_docs.py::test_the_examples_of_a_page_run_as_printed[online.md]",
    "test_docs.py::test_the_examples_of_a_page_run_as_printed[posterior.md]",
    "test_engines.py::test_a_sweep_of_twelve_survives_a_killed_dask_worker",
    "test_engines.py::test_a_task_that_always_kills_its_process",
    "test_engines.py::test_each_worker_has_a_core_of_its_own[DaskEngine]",
    "test_engines.py::test_local_dask_and_plain_runs_give_the_same_arrays",
    "test_engines.py::test_one_failing_run_does_not_stop_the_others",
    "test_features_agreement.py::test_a_wide_network_is_that_of_quadrature_at_first[1]",
    "test_features_agreement.py::test_decoupled_descent_has_the_law_of_the_limit",
    "test_features_agreement.py::test_losses_and_norms_of_descent_at_d_800",
    "test_features_agreement.py::test_weights_at_two_times",
    "test_features_dynamics.py::test_half_of_the_runs",
    "test_features_spectrum.py::test_sampled_hessians_have_the_outlier",
    "test_features_spectrum.py::test_two_outliers_with_their_directions",
    "test_grokking_reference.py::test_a_power_law_and_an_exponential",
    "test_grokking_runs.py::test_the_learning_coefficient_is_sampled_on_the_training_rows",
    "test_grokking_studies.py::test_a_study_stores_what_the_library_computes",
    "test_grokking_studies.py::test_the_largest_coefficient_of_each_rate",
    "test_grokking_studies.py::test_the_transformer_of_figure_13_runs",
    "test_grokking_training.py::test_a_training_that_goes_on_from_a_stored_state_has_the_same_bits[adam-",
    "test_grokking_training.py::test_a_training_that_goes_on_from_a_stored_state_has_the_same_bits[adamw-8]",
    "test_grokking_training.py::test_a_training_that_goes_on_from_a_stored_state_has_the_same_bits[sgd-",
    "test_grokking_training.py::test_other_networks_learn_their_training_rows[tf]",
    "test_kernels.py::test_every_kernel_keeps_the_contract[mclmc]",
    "test_last_layers.py::test_hmc_has_the_moments",
    "test_last_layers.py::test_initial_weights_are_pytorchs",
    "test_linear.py::test_where_nothing_is_left_the_local_value",
    "test_llc.py::test_a_sweep_and_a_trajectory_draw_what_they_found",
    "test_llc.py::test_a_training_time_l2_is_sampled_and_not_counted",
    "test_llc.py::test_losses_of_single_rows_add_up",
    "test_llc.py::test_minibatches_are_taken",
    "test_llc.py::test_products_of_matrices_against_exact_gibbs_sampling[widths0",
    "test_llc.py::test_products_of_matrices_against_exact_gibbs_sampling[widths1",
    "test_llc.py::test_steps_that_bias_are_refused",
    "test_llc.py::test_the_free_energy_of_a_bowl_and_of_a_cross",
    "test_llc.py::test_the_intercept_in_one_over_log",
    "test_llc.py::test_the_same_seed_is_the_same_answer",
    "test_llc.py::test_x2y2_has_no_limit_to_read_off",
    "test_llc_runs.py::test_a_run_stopped_after_any_chunk_goes_on_to_the_same_bits[hmc]",
    "test_llc_runs.py::test_a_run_stopped_after_any_chunk_goes_on_to_the_same_bits[langevin]",
    "test_moments.py::test_a_kernel_has_the_moments_of_its_target_and_not_those_of_another[mclmc-skewed]",
    "test_moments.py::test_a_kernel_has_the_moments_of_its_target_and_not_those_of_another[nuts-skewed]",
    "test_moments.py::test_the_bias_on_a_skewed_target_has_the_order_of_the_method",
    "test_moments.py::test_the_bias_on_a_unit_gaussian",
    "test_newton.py::test_random_nondegenerate_polynomials_have_the_volume",
    "test_nothing_is_lost.py::test_a_crash_at_any_write_whatever",
    "test_nothing_is_lost.py::test_a_run_killed_at_twenty_random_moments",
    "test_nothing_is_lost.py::test_the_real_recipe_killed_three_times",
    "test_online_dynamics.py::test_a_curve_goes_on_from_its_final_state",
    "test_online_dynamics.py::test_a_linear_student_does_not_care",
    "test_online_dynamics.py::test_many_starts_at_once",
    "test_online_dynamics.py::test_mean_weights_and_fluctuations_have_the_overlaps[2-2",
    "test_online_dynamics.py::test_mean_weights_and_fluctuations_have_the_overlaps[3-2",
    "test_online_dynamics.py::test_the_reported_error_covers_the_numerical_one[2]",
    "test_online_forecast.py::test_a_forecast_has_all_its_parts",
    "test_online_forecast.py::test_the_mean_of_linear_draws",
    "test_online_forecast.py::test_what_cannot_be_forecast_is_bad_input[given2",
    "test_online_plateau.py::test_the_explicit_end_of_learning[2-64-64]",
    "test_online_plateau.py::test_the_length_of_a_plateau",
    "test_online_plateau.py::test_the_two_rates_are_in_the_jacobian[1]",
    "test_online_rederived.py::test_escape_rates_are_the_downhill_curvatures_of_the_plateau[2-3]",
    "test_online_sgd.py::test_a_rotated_covariance",
    "test_online_sgd.py::test_the_equations_are_near_sgd",
    "test_quadratic.py::test_biases_add_what_g1_and_g2_say[3]",
    "test_quadratic.py::test_biases_add_what_g1_and_g2_say[4]",
    "test_quadratic.py::test_modular_networks_on_the_full_table[True-5]",
    "test_quadratic.py::test_modular_networks_on_the_full_table[True-7]",
    "test_quadratic.py::test_the_rank_law_is_the_exact_rank_up_to_saturation[1-3]",
    "test_quadratic.py::test_the_rank_law_is_the_exact_rank_up_to_saturation[4-3]",
    "test_quadratic.py::test_the_rank_law_is_the_exact_rank_up_to_saturation[5-3]",
    "test_recipes.py::test_it_resumes_from_any_of_its_chunks_to_the_same_bits[grokking]",
    "test_recipes.py::test_it_resumes_from_any_of_its_chunks_to_the_same_bits[llc]",
    "test_threshold_command.py::test_a_wide_network_and_several_latents",
    "test_threshold_command.py::test_where_g_has_no_lower_bound",
    "test_torch.py::test_tensors_a_dataset_and_a_loader",
    "test_volume_scaling.py::test_a_law_that_is_approached_slowly_is_within_its_error_or_refused[1600000]",
)
"""What the suite has no time for on two cores; `make test-slow` runs it."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if any(name in item.nodeid for name in LONG):
            item.add_marker(pytest.mark.slow)


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """The path of a store that does not exist yet."""
    return tmp_path / "runs"


@pytest.fixture
def command(capfd: pytest.CaptureFixture[str]):
    """Run a command in this process: its exit code, stdout and stderr."""

    def run(*words: object) -> tuple[int, str, str]:
        capfd.readouterr()
        code = main([str(word) for word in words])
        out, err = capfd.readouterr()
        return code, out, err

    return run


@pytest.fixture
def command_json(command):
    """Run a command with --json: the object it prints."""

    def run(*words: object) -> dict:
        code, out, err = command(*words, "--json")
        assert out, f"exit code {code}: {err}"
        return json.loads(out)

    return run


def answer_of(outcome: dict, id: str, **where: object) -> dict:
    """The answer with this id and these parameters, of a run as --json prints it."""
    answers = outcome["summary"]["answers"]
    (chosen,) = [one for one in answers if one["id"] == id and where.items() <= one["where"].items()]
    return chosen


def start(*words: object, **more: object) -> subprocess.Popen[str]:
    """Start a phasecast command in a process of its own; test recipes can be imported in it."""
    environment = {**os.environ, "PYTHONPATH": str(HERE)}
    return subprocess.Popen(
        [sys.executable, "-m", "phasecast.cli", *map(str, words)],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **more,  # pyright: ignore
    )


@pytest.fixture(autouse=True)
def _importable_test_recipes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(HERE))
