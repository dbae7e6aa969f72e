"""What `make test` leaves to `make test-long`; CI runs both, so that nothing is looked at less often there.

A test is long where it opens a browser (by its fixtures), starts a cluster, compiles kernels in processes of its own, plays a GPU,
or takes more than a second or so for another reason. All of them together take twice as long as the other 4,500. A name
stands for all its cases, a name with brackets for one, EVERY for a file.
"""

FIXTURES = frozenset({"browser", "cluster"})
EVERY = "*"

LONG = {
    # kernels compiled and loaded again, in real processes
    "house/test_kernel_cache": (
        "test_after_the_command_compile_no_command_compiles",
        "test_a_changed_kernel_changes_its_callers_and_another_setting_makes_all_anew",
        "test_without_a_place_of_its_own_there_is_one_line_and_no_cache",
        "test_folders_of_other_versions_go_when_nobody_uses_them",
        "test_processes_that_fill_an_empty_cache_at_once_and_with_other_types",
        "test_compiled_and_loaded_kernels_give_the_same_bits",
        "test_after_an_interrupt_inside_a_compile_the_next_call_works",
        "test_an_interrupt_while_a_command_compiles",
    ),
    "house/test_install": ("test_the_library_runs_with_numpy_scipy_and_numba_alone",),
    "engines/closed/test_quadrature": ("test_an_exact_audit_of_laplace_noise_loads_no_scipy",),
    # clusters
    "engines/montecarlo/test_cluster": (
        "test_same_bits_by_address",
        "test_a_scheduler_that_dies_ends_the_job_with_one_line_and_its_checkpoint",
    ),
    # a GPU played by the processor
    "engines/montecarlo/test_gpu": ("test_backends_agree_on_hierarchies",),
    # the paper, examples and commands at full size
    "golden/test_golden": ("test_what_is_shown[paper]",),
    "paper/test_reproduction": (EVERY,),
    "cli/test_help": tuple(f"test_the_example_runs[{verb}]" for verb in ("plan", "sweep", "allocate", "paper")),
    "house/test_examples": (EVERY,),
    "house/test_docs": tuple(
        f"test_python_examples_run_and_print_what_is_shown[{page}.md]" for page in ("api", "hierarchies")
    ),
    "fuzz/test_inputs": ("test_nothing_breaks[option sets-16]", "test_nothing_breaks[binary files-12]"),
    "fuzz/test_answers": tuple(f"test_every_answer_lies_within_its_stated_accuracy[{part}]" for part in (0, 1, 3)),
    "engines/test_magnitudes": ("test_inside_the_meant_magnitudes_there_is_an_answer_or_a_refusal",),
    "io/test_any_bytes": ("test_a_million_rows",),
    "cli/test_commands": (
        "test_ctrl_c_ends_with_the_intervals_reached_and_the_same_command_goes_on",
        "test_on_a_terminal_there_is_colour_and_progress",
        "test_exact_work_is_not_called_simulation_and_a_terminal_of_80_columns_is_kept",
    ),
    "release/test_commands": (
        "test_sigterm_ends_a_release_in_order",
        "test_levels_from_the_shell_and_no_true_count_leaves",
    ),
    "release/test_noise": ("test_processes_share_the_draws_of_a_large_table",),
    "release/test_protocol": ("test_whoever_waits_for_a_lock_ends_with_one_line_that_names_the_holder",),
    "release/test_amounts": ("test_20000_random_decimals_the_scale_never_promises_more_than_it_keeps",),
    "report/test_newcomer": (
        "test_a_page_with_fewer_rows_than_entities_says_how_many_are_left",
        "test_the_lines_of_a_curve_find_its_numbers[plan]",
    ),
    "cli/test_ended_writers": tuple(
        f"test_a_command_that_is_ended_while_it_writes[{verb}]"
        for verb in ("demo", "plan", "allocate", "project", "check")
    ),
    "results/test_check": ("test_a_true_hypothesis_is_rejected_as_often_as_the_level_says",),
    "explore/test_requests": (
        "test_the_plan_is_the_librarys",
        "test_an_interpolated_picture_is_marked_near_and_replaced",
    ),
    "cli/test_surroundings": ("test_a_live_page_in_the_background_of_a_script_outlives_ctrl_c",),
    "cli/test_progress": ("test_the_bar_of_an_audit_integrates_or_counts_runs",),
    "engines/test_cancel": ("test_groups_are_dealt_to_threads_that_know_the_token",),
    # slow oracles: enumeration, brute force, coverage over many seeds; quick cases of the same stay
    "rules/test_affine": ("test_feasible_and_infeasible_systems_are_told_apart_as_by_linear_programming",),
    "results/test_estimate": (
        "test_intervals_cover_every_entity_as_often_as_promised[discrete-gaussian]",
        "test_the_plug_in_and_its_stated_error[pos-threshold]",
    ),
    "hierarchy/test_rules": (
        "test_the_guide_table_draws_the_bits_of_the_stream[0.05]",
        "test_seven_nodes_by_enumeration",
        "test_a_target_below_the_rounding_of_the_largest_entry_ends",
    ),
    "hierarchy/test_total_first": (
        "test_the_projection_of_a_family_meets_the_conditions_of_optimality",
        "test_pooled_cells_take_the_variances_of_their_estimates_as_weights",
        "test_cells_are_what_a_plain_simulation_shows",
        "test_two_children_and_two_cells_by_enumeration",
        "test_the_controls_gain_and_where_they_do_not_they_cost_little",
        "test_standard_errors_are_what_other_seeds_show",
    ),
    "engines/montecarlo/test_estimates": ("test_coverage_where_the_pair_is_known",),
    "cli/test_options": ("test_an_option_matters[allocate---postprocess]",),
    "results/test_plan": ("test_several_targets_are_met_at_the_least_of_what_each_allows",),
    "engines/closed/test_programme_base": ("test_districts_with_a_noisy_base", "test_few_entities_whatever_the_panels"),
    "problems/test_noisy_payments": (
        "test_intervals_cover[by group-plain]",
        "test_intervals_cover[by group-held]",
        "test_intervals_cover_and_are_some_deviations_of_the_payment_wide[2.0-8]",
        "test_intervals_cover_and_are_some_deviations_of_the_payment_wide[50.0-12]",
        "test_ranges_hold_at_every_corner_and_inside[True-both]",
        "test_ranges_hold_at_every_corner_and_inside[False-both]",
    ),
    "problems/test_sharing": ("test_floors_by_mean_field_and_by_simulation",),
    "results/test_schemas": ("test_real_documents_pass_and_have_no_key_that_is_not_published[plan]",),
}


def is_long(file: str, function: str, name: str, fixtures: frozenset[str]) -> bool:
    """Whether a test is one of them."""
    names = LONG.get(file, ())
    return not FIXTURES.isdisjoint(fixtures) or EVERY in names or function in names or name in names


def unknown(file: str, names: frozenset[str]) -> list[str]:
    """Those listed for a file that none of its tests is called."""
    return [name for name in LONG.get(file, ()) if name not in names and name != EVERY]
