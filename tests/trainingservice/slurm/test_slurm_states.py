"""Every state of a job becomes a status and a sentence, on what a real squeue and a real sacct printed."""

from dataclasses import replace

import pytest

from tests.trainingservice.slurm.recordings import recorded
from trainingservice.polling.job_record import Observation
from trainingservice.slurm.queue_rows import JobRow, account_rows, queue_rows
from trainingservice.slurm.states import observed, with_last_word
from trainingservice.slurm.why_a_job_waits import why_it_waits
from trainingservice.trial_job_status import TrialJobStatus

WAITING = {row.name: row for row in queue_rows(recorded("queue_of_waiting.txt"))}
ENDED = {row.name: row for row in queue_rows(recorded("queue_of_ended.txt"))}
ACCOUNTS = {row.name: row for row in account_rows(recorded("accounts.txt"))}

#: The states that squeue's and sacct's manual pages name.
ALL_STATES = [
    "BOOT_FAIL", "CANCELLED", "COMPLETED", "CONFIGURING", "COMPLETING", "DEADLINE", "FAILED", "LAUNCH_FAILED",
    "NODE_FAIL", "OUT_OF_MEMORY", "PENDING", "POWER_UP_NODE", "PREEMPTED", "RECONFIG_FAIL", "RUNNING",
    "RESV_DEL_HOLD", "REQUEUE_FED", "REQUEUE_HOLD", "REQUEUED", "RESIZING", "REVOKED", "SIGNALING", "SPECIAL_EXIT",
    "STAGE_OUT", "STOPPED", "SUSPENDED", "TIMEOUT",
]


def row_in(state: str, **more) -> JobRow:
    return JobRow("7", state, "nniweb-t1", **more)


def told(status: TrialJobStatus, **more) -> Observation:
    return Observation(status, message="said by the keeper", end_time=200.0, **more)


# --- rows ------------------------------------------------------------------------------------


def test_a_job_that_runs_is_read_with_its_node_and_times():
    row = WAITING["nniweb-timeout"]
    assert (row.job_id, row.state, row.node, row.restarts) == ("25", "RUNNING", "n1", 0)
    assert (row.start, row.end) == (1795267441.0, 1795267501.0)


def test_exit_codes_and_signals_are_told_apart_in_both_programs():
    assert (ENDED["nniweb-exit3"].exit_code, ENDED["nniweb-exit3"].signal) == (3, 0)
    assert (WAITING["nniweb-sig"].exit_code, WAITING["nniweb-sig"].signal) == (0, 9)
    assert (ACCOUNTS["nniweb-exit3"].exit_code, ACCOUNTS["nniweb-exit3"].signal) == (3, 0)
    assert ACCOUNTS["nniweb-sig"].signal == 9


def test_a_job_that_slurm_queued_again_says_how_often():
    assert (ENDED["nniweb-requeued"].state, ENDED["nniweb-requeued"].restarts) == ("PENDING", 1)


def test_who_canceled_a_job_is_no_part_of_its_state():
    assert "CANCELLED by 0|" in recorded("accounts.txt")
    assert ACCOUNTS["nniweb-canceled"].state == "CANCELLED"
    assert ACCOUNTS["nniweb-canceled"].start is None
    assert ACCOUNTS["nniweb-canceled"].node == ""


def test_lines_that_are_no_rows_are_left_out():
    banner = "Welcome to the cluster!\nMaintenance | on | Monday | at | 8 | - | please | log | out\n"
    assert queue_rows(banner + recorded("queue_of_ended.txt")) == queue_rows(recorded("queue_of_ended.txt"))
    assert account_rows(banner) == []


# --- states ----------------------------------------------------------------------------------


@pytest.mark.parametrize(("row", "status", "words"), [
    (ENDED["nniweb-ok"], TrialJobStatus.SUCCEEDED, ""),
    (ENDED["nniweb-exit3"], TrialJobStatus.FAILED, "exit code 3"),
    (ENDED["nniweb-oom"], TrialJobStatus.FAILED, "memory"),
    (ENDED["nniweb-nodefail"], TrialJobStatus.FAILED, "node failed"),
    (ENDED["nniweb-preempted"], TrialJobStatus.SYS_CANCELED, "preemption"),
    (ENDED["nniweb-held"], TrialJobStatus.SYS_CANCELED, "scancel"),
    (ENDED["nniweb-timeout2"], TrialJobStatus.RUNNING, ""),
    (*queue_rows(recorded("queue_without_folder.txt")), TrialJobStatus.FAILED, "does not have workingFolder"),
    (ACCOUNTS["nniweb-nodefail"], TrialJobStatus.FAILED, "node failed"),
    (ACCOUNTS["nniweb-preempted"], TrialJobStatus.SYS_CANCELED, "preemption"),
    (ACCOUNTS["nniweb-canceled"], TrialJobStatus.SYS_CANCELED, "scancel"),
    (next(row for row in account_rows(recorded("accounts.txt")) if row.job_id == "25"), TrialJobStatus.FAILED,
     "timeLimit"),
], ids=lambda value: value.name if isinstance(value, JobRow) else None)
def test_what_was_recorded_means_what_happened(row, status, words):
    seen = observed(row)
    assert seen.status is status
    assert words in (seen.message or "")


@pytest.mark.parametrize("state", ALL_STATES)
def test_every_state_of_the_manual_is_known(state):
    assert observed(row_in(state)).status is not TrialJobStatus.UNKNOWN


@pytest.mark.parametrize("state", ["", "HIBERNATING"])
def test_a_state_nobody_knows_is_no_end(state):
    seen = observed(row_in(state))
    assert seen.status is TrialJobStatus.UNKNOWN
    assert (state or "none") in (seen.message or "")


@pytest.mark.parametrize("state", ["TIMEOUT", "OUT_OF_MEMORY", "NODE_FAIL", "BOOT_FAIL", "PREEMPTED", "DEADLINE"])
def test_what_the_cluster_did_is_told_as_the_cause(state):
    seen = observed(row_in(state))
    assert seen.cause == seen.message != ""


# --- the keeper's last word ------------------------------------------------------------------


def test_a_trial_that_succeeded_did_so_even_if_its_job_was_ended_a_moment_later():
    word = told(TrialJobStatus.SUCCEEDED, ended_by_itself=True, exit_code=0)
    seen = with_last_word(observed(row_in("TIMEOUT")), word)
    assert (seen.status, seen.cause, seen.exit_code) == (TrialJobStatus.SUCCEEDED, "", 0)


def test_a_trial_killed_for_its_memory_keeps_its_exit_code_and_says_why():
    seen = with_last_word(observed(row_in("OUT_OF_MEMORY")), told(TrialJobStatus.FAILED, ended_by_itself=True,
                                                                  exit_code=137))
    assert (seen.status, seen.exit_code) == (TrialJobStatus.FAILED, 137)
    assert (seen.message or "").startswith("said by the keeper ")
    assert "trialMemorySize" in seen.cause


@pytest.mark.parametrize(("state", "status"), [("TIMEOUT", TrialJobStatus.FAILED),
                                               ("PREEMPTED", TrialJobStatus.SYS_CANCELED)])
def test_a_trial_whose_keeper_was_told_to_end_ended_as_slurm_says(state, status):
    seen = with_last_word(observed(row_in(state, start=100.0)), told(TrialJobStatus.SYS_CANCELED))
    assert seen.status is status
    assert seen.message == seen.cause != ""
    assert (seen.start_time, seen.end_time) == (100.0, 200.0)


def test_a_scancel_by_somebody_else_says_so():
    seen = with_last_word(observed(row_in("CANCELLED")), told(TrialJobStatus.SYS_CANCELED))
    assert "somebody else" in (seen.message or "")


def test_a_trial_that_met_the_signal_before_its_keeper_was_canceled_all_the_same():
    seen = with_last_word(observed(row_in("CANCELLED")), told(TrialJobStatus.FAILED, ended_by_itself=True))
    assert (seen.status, seen.ended_by_itself) == (TrialJobStatus.SYS_CANCELED, False)


def test_without_a_last_word_slurm_s_own_stays():
    seen = observed(row_in("FAILED", exit_code=69))
    assert with_last_word(seen, None) == replace(seen)
    assert seen.exit_code == 69


# --- reasons ---------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "words"), [
    ("nniweb-resources", "in use"), ("nniweb-begin", "begin time"), ("nniweb-held", "you hold it"),
    ("nniweb-priority", "never start"),
])
def test_why_a_recorded_job_waits_is_a_sentence_with_slurms_own_word(name, words):
    seen = observed(WAITING[name])
    assert seen.status is TrialJobStatus.WAITING
    assert words in (seen.message or "")
    assert f"(Slurm: {WAITING[name].reason})" in (seen.message or "")


@pytest.mark.parametrize(("code", "words"), [
    ("QOSMaxJobsPerUserLimit", "limit of its quality of service for jobs is reached"),
    ("QOSMaxCpuPerUserLimit", "limit of its quality of service for CPUs is reached"),
    ("QOSGrpGRES", "GPUs"),
    ("AssocGrpCpuLimit", "limit of its account for CPUs is reached"),
    ("AssocGrpCPURunMinutesLimit", "limit of its account for CPUs is reached"),
    ("AssocMaxJobsLimit", "limit of its account for jobs is reached"),
    ("AssocMaxCpuPerJobLimit", "ask for less"),
    ("QOSMaxWallDurationPerJobLimit", "ask for less"),
    ("MaxMemoryPerAccount", "limit of its account for memory is reached"),
])
def test_limits_are_told_by_what_is_limited_and_whose_they_are(code, words):
    assert words in why_it_waits(code)
    assert code in why_it_waits(code)


def test_a_reason_that_nobody_knows_is_shown_as_it_is():
    assert why_it_waits("MoonPhase") == "Waits in Slurm's queue: MoonPhase."


def test_details_behind_a_reason_stay():
    said = why_it_waits("ReqNodeNotAvail, UnavailableNodes:n[3-4]")
    assert "down, drained or reserved" in said
    assert "UnavailableNodes:n[3-4]" in said


def test_reasons_that_are_sentences_lose_their_underscores():
    code = "Nodes_required_for_job_are_DOWN,_DRAINED_or_reserved_for_jobs_in_higher_priority_partitions"
    assert "nodes required for job are DOWN" in why_it_waits(code)


def test_a_job_nobody_looked_at_yet_says_that():
    assert why_it_waits("None") == why_it_waits("") == why_it_waits("(None)")
