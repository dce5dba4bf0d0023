"""What each case of the suites is for, in words: shown to the author of a platform when a case fails."""

from __future__ import annotations

#: Name of a case (without its parameters) -> the rule, and why there is one.
RULES: dict[str, str] = {
    "test_a_frozen_job_saves_a_checkpoint_and_the_next_job_goes_on_with_it":
        "Where keepers call the server, the job document's checkpoints reach the keeper, and what a trial saves goes "
        "on with it into the next job. A platform that removes its folders, or gives a job less time to end than "
        "longest_end of its form, loses work.",
    "test_unknown_metadata_is_refused_and_reads_as_empty":
        "set_cluster_metadata raises InvalidMetadata for a key the platform does not know, and get_cluster_metadata "
        "answers with an empty text. A slip in a key must be told to the person who set it, not be swallowed.",
    "test_metadata_reads_as_it_was_set":
        "What set_cluster_metadata took, get_cluster_metadata gives back, letter by letter. The host shows it. A key "
        "of NNI's (trial_config, machine_list) may say more than was set, because it says what the settings say.",
    "test_what_the_settings_say_can_be_read_and_set_as_metadata":
        "NNI's metadata keys say what the settings say: setting what was read changes nothing. People and programs "
        "written for NNI change settings in this way.",
    "test_metadata_that_no_settings_can_have_changes_nothing":
        "A value of NNI's keys that is no JSON, or has a field that nobody knows, raises InvalidMetadata, which names "
        "the key or the field, and the settings stay.",
    "test_a_job_runs_where_metadata_said_the_settings":
        "A service works with the settings that set_cluster_metadata has brought before run. What a constructor makes "
        "of its settings is made anew by use_settings; one that starts or opens something closes it in clean_up.",
    "test_a_rehearsal_on_an_object_that_never_ran_finds_nothing_wrong":
        "rehearse works on an object on which run was never called, does not raise, and blocks nothing where all is "
        "well. It is called before each launch, on an object made for that alone.",
    "test_a_job_runs_to_its_end_and_its_detail_tells_so":
        "A job that was submitted runs, and its detail says what became of it, when, and where. All that people see "
        "of a trial is made of this.",
    "test_the_same_job_name_twice_is_one_job":
        "submit_trial_job is idempotent: a known name gives the job that is there. The host submits again whenever an "
        "answer was lost, and a trial must not run twice.",
    "test_a_second_keeper_of_one_attempt_ends_by_itself":
        "A container that the platform starts a second time finds the attempt taken and ends. So its keeper needs the "
        "same job name and the same server as the first one.",
    "test_many_jobs_at_once_each_run_once":
        "Jobs that are submitted together all run, once each, and are listed in the order of submission.",
    "test_a_job_nobody_submitted_is_unknown":
        "Every method that names a job raises UnknownTrialJob where there is none. The host tells by it that a job is "
        "gone from one that cannot be asked about.",
    "test_a_trial_sees_its_parameters_ids_and_variables":
        "The job document reaches the keeper as trial_job.job_document makes it: parameters, ids, variables, no GPUs "
        "where gpu_number is 0. Trials written for NNI rely on each of them.",
    "test_the_token_is_on_no_command_line":
        "The keeper's token is on no command line: other users of a machine can read those. Give it as a variable, or "
        "as a file that only its owner can read.",
    "test_an_update_asks_the_platform_again":
        "update_trial_job asks the platform and returns what it says now, not what was known before.",
    "test_further_parameters_reach_the_running_trial_or_are_refused":
        "Where is_multi_phase_job_supported is True, a running trial gets further parameters, each index once; where "
        "it is False, update_trial_job raises Unsupported.",
    "test_the_working_directory_is_the_code_folder_and_nothing_else":
        "A trial finds itself in its code: every file, link and right, less what .nniignore names, and nothing else.",
    "test_two_trials_see_each_others_files_only_where_the_folder_is_shared":
        "Each trial has a copy of the code, unless shares_code_folder says otherwise. What one writes must not change "
        "what the next one runs.",
    "test_a_trial_with_a_variant_runs_the_changed_file_and_the_next_one_the_original":
        "Where takes_variants is True, the keeper gets the job's variant and a copy of the code archive, which it "
        "changes. The code folder, and what other trials run, stay as they are.",
    "test_the_command_is_shell_text":
        "The command is run by a shell as it is written: quotes, pipes, several lines. It must not pass through a "
        "second shell on its way.",
    "test_what_a_trial_wrote_is_listed_and_read_and_links_are_not_followed":
        "output_folder gives what the trial wrote, also from an object that never ran, or raises Unsupported. A trial "
        "may put links and pipes there: nothing is read through them. trainingservice/files/output_folder.py does it.",
    "test_two_nodes_of_a_trial_meet_and_rank_0_alone_reports":
        "Where the options are NodeOptions and the platform has room, a trial has one keeper on each node with the "
        "job's node, MASTER_ADDR leads to rank 0, and only rank 0's journal is the attempt's. platform_state has the "
        "ranks. Where takes_variants is True, each node has the trial's changes to the code.",
    "test_a_rank_that_fails_ends_the_trial_and_is_named":
        "A rank that fails ends all, and the job is FAILED with the reason rank_failed when no rank runs any more. "
        "trial_of_ranks decides it; the platform carries out what it says must be ended.",
    "test_a_trial_on_two_nodes_that_is_stopped_leaves_nothing":
        "stop_job ends all nodes, also those that were not started yet, and the job ends with the last of them.",
    "test_each_metric_is_heard_once_in_order_and_as_reported":
        "Listeners hear each metric once, in order, letter by letter as the trial reported it.",
    "test_metrics_that_a_script_prints_are_heard_as_those_that_are_reported":
        "The keeper reads the metrics of a script that does not import nni where JobApplicationForm.metrics says, and "
        "puts parameters into its command. The platform hands both to the keeper with the job, and does nothing else.",
    "test_listeners_come_and_go_and_may_fail":
        "A listener that was removed hears nothing more, one that was added twice hears once, and one that raises "
        "harms neither the service nor the others.",
    "test_output_of_both_streams_arrives":
        "What a trial prints arrives whole, on both streams. The keeper sees to it, so the platform must not end the "
        "keeper before it has delivered.",
    "test_the_exit_code_decides":
        "A command that ends with 0 SUCCEEDED, with anything else FAILED, and the code is the command's own: the "
        "keeper's last word goes before what the platform says of the keeper.",
    "test_a_job_whose_code_is_missing_fails_with_a_sentence":
        "A job that can never run is refused with PermanentError, or becomes FAILED, and says why.",
    "test_what_a_trial_leaves_in_the_background_ends_with_it":
        "When a trial has ended nothing of it goes on: what it left in the background would hold GPUs for ever.",
    "test_an_end_seen_before_the_last_report_loses_nothing":
        "A platform often sees an end before the last report has arrived. The keeper must be let live until it has "
        "delivered; nothing of the trial may be removed before that.",
    "test_a_job_canceled_at_once_does_not_do_its_work":
        "A cancel that comes right after the submission is obeyed, and submitting the same name again starts nothing.",
    "test_a_running_job_is_canceled_and_says_by_whom":
        "cancel_trial_job ends a running job; the first call decides between USER_CANCELED and EARLY_STOPPED. The "
        "keeper gets to tell that it was stopped: the platform does not kill it outright.",
    "test_a_cancel_after_the_end_changes_nothing":
        "An end is final: a cancel that comes too late is harmless and rewrites nothing.",
    "test_the_whole_process_tree_ends_even_if_it_does_not_want_to":
        "A canceled trial ends with all its descendants, also those that ignore TERM or left its session.",
    "test_a_trial_over_its_time_limit_is_stopped_early":
        "The limits of the form reach the keeper, which ends a trial that runs too long as EARLY_STOPPED.",
    "test_an_order_of_the_server_stops_a_trial":
        "Orders of the server reach the keeper, and the platform sees the end they make.",
    "test_trials_go_on_when_the_service_is_closed_and_are_found_again":
        "clean_up leaves trials alone, and the next object finds them by resume_trial_jobs. A server is restarted "
        "often, and trials run for days.",
    "test_an_end_while_nobody_looked_is_found":
        "A trial that ended while no service ran has its right end with the next one.",
    "test_a_job_whose_submission_was_not_noted_is_not_started_twice":
        "A job whose submission reached the platform, while the server was killed before it could note that, is found "
        "there and not started again.",
    "test_a_job_that_never_reached_the_platform_waits_to_be_submitted_again":
        "A job whose submission had begun and did not arrive is shown as WAITING until the host submits it again: "
        "neither lost, nor started by the service of its own accord.",
    "test_an_ended_job_stays_listed_as_it_was":
        "A job that has ended is taken over as it was: nothing is asked about it, and nothing of it changes.",
    "test_a_job_found_again_can_be_canceled":
        "What the next object needs to stop a job comes from the job's name and platform_state alone.",
    "test_a_cancel_that_was_asked_for_before_is_carried_out":
        "A cancel that an earlier object accepted is carried out by the next one: the server may have been killed in "
        "between.",
    "test_a_canceled_name_starts_nothing_under_another_object":
        "stop_job leaves something behind that another object finds, too. A worker that slept may submit a trial late "
        "that was canceled meanwhile.",
    "test_a_job_canceled_before_it_was_started_is_not_started_by_a_late_submission":
        "The same for a job that was canceled before anything of it reached the platform: the tombstone comes first.",
    "test_a_service_can_be_closed_twice_and_before_it_ran":
        "clean_up may be called twice, and on an object that never ran.",
    "test_ended_jobs_can_be_removed_and_nothing_that_runs_is_touched":
        "remove_ended_jobs removes what the platform still has of ended jobs, where keeps_ended_jobs says that it has "
        "something, and leaves folders alone. Of a job that still runs it removes nothing, and raises TemporaryError.",
    "test_cleaning_up_an_experiment_removes_all_of_it_and_nothing_else":
        "clean_up_experiment stops what runs and removes all that the experiment left on the platform, and nothing of "
        "any other experiment, nor of the user.",
    "test_each_metric_is_heard_once_in_order_and_before_its_job_is_shown_as_ended":
        "A service without keepers emits each metric once, in order, letter by letter, also where a listener was added "
        "twice, and reads a job's last metrics before it shows the job as ended. The trial ends with the results "
        "that were heard by then.",
    "test_a_listener_that_was_removed_hears_nothing":
        "A listener that was removed hears nothing more, and removing one that was never added is harmless.",
    "test_a_job_says_when_it_began_and_ended_and_how":
        "Without a keeper the job's detail is all that is known of its trial: status, start_time and end_time in "
        "seconds since 1970, and the exit code where the service knows it.",
    "test_a_job_that_is_canceled_ends_with_all_its_processes":
        "cancel_trial_job ends a running job with all its processes; the first call decides between USER_CANCELED and "
        "EARLY_STOPPED, and a later one is harmless.",
    "test_a_job_that_nobody_submitted_is_not_known":
        "Every method that names a job raises UnknownTrialJob where there is none. A job that had begun and is not "
        "known any more has ended.",
    "test_metrics_that_are_emitted_need_no_keeper":
        "keepers_report is False where the service runs commands itself: then the host waits for no keeper's word.",
}
#: What holds for cases of which nothing is said above.
OTHERWISE = "The case's name says the rule; the docstrings of TrainingService in trainingservice/base.py the reason."


def rule_of(case: str) -> str:
    """The rule behind a case: its function's name."""
    return RULES.get(case, OTHERWISE)
