"""What the command platform makes of what a scheduler says, and does not say."""

import os
import signal
import subprocess
import sys

import pytest
from pydantic import ValidationError

from tests.fakes.tiny_scheduler import TinyScheduler
from tests.trainingservice.jobs_of_tests import (
    check_that_a_keeper_that_does_not_reach_the_server_is_fetched,
    failed_with,
)
from trainingservice.command.config import CommandClusterSettings, CommandTrialOptions
from trainingservice.command.scheduler import Scheduler
from trainingservice.errors import PermanentError, TemporaryError
from trainingservice.submit_host.host import ThisMachine, Unanswered
from trainingservice.trial_job_status import TrialJobStatus


def without_find(platform, monkeypatch):
    settings = platform.scheduler.settings
    monkeypatch.setattr(platform.scheduler, "settings", lambda **more: settings(**{**more, "find_command": None}))


def test_a_submission_that_was_not_answered_is_found_by_its_name_and_runs_once(bench, scheduler):
    scheduler.set("lose-answers")
    service = bench.open_service()
    form = bench.form("echo once")
    service.submit_trial_job(form)
    bench.wait_for_end(service, form)
    assert (bench.output(form), scheduler.names()) == ("once\n", [form.job_name])


def test_without_find_a_submission_that_was_not_answered_fails_and_the_job_does_nothing(bench, platform, monkeypatch):
    without_find(platform, monkeypatch)
    scheduler = platform.scheduler
    scheduler.set("held")
    scheduler.set("lose-answers")
    service = bench.open_service()
    witness = bench.witness / "worked"
    form = bench.form(f'touch "{witness}"')
    message = failed_with(bench, service, form)
    assert form.job_name in message
    assert "Without findCommand the server cannot look for it" in message
    pid = scheduler.pid(form.job_name)
    scheduler.set("held", False)
    bench.wait("the job has ended", lambda: not os.path.exists(f"/proc/{pid}"))
    assert not witness.exists()


def test_a_keeper_that_does_not_reach_the_server_is_fetched_from_the_folder(bench, monkeypatch):
    check_that_a_keeper_that_does_not_reach_the_server_is_fetched(bench, monkeypatch)


def test_a_job_that_waits_says_why_and_is_taken_out_of_the_queue_by_a_cancel(bench, scheduler):
    scheduler.set("held")
    service = bench.open_service()
    form = bench.form("true")
    service.submit_trial_job(form)
    bench.wait("it says why", lambda: service.get_trial_job(form.job_name).message == "for a node")
    pid = scheduler.pid(form.job_name)
    service.cancel_trial_job(form.job_name)
    bench.wait_for_status(service, form, TrialJobStatus.USER_CANCELED)
    bench.wait("the job has ended", lambda: not os.path.exists(f"/proc/{pid}"))


@pytest.mark.slow
def test_a_keeper_that_is_killed_leaves_a_trial_that_failed(bench, scheduler, lasting):
    service = bench.open_service()
    form, starts, go = lasting
    service.submit_trial_job(form)
    bench.wait_for_file(starts)
    os.kill(scheduler.pid(form.job_name), signal.SIGKILL)
    detail = bench.wait_for_status(service, form, TrialJobStatus.FAILED)
    assert "no longer has a job 1. Its keeper has not recorded" in detail.cause
    go.touch()
    bench.wait("the trial has ended by itself", lambda: not bench.trial_processes(form))


def test_a_scheduler_that_is_away_ends_nothing(bench, scheduler, lasting):
    service = bench.open_service()
    form, starts, go = lasting
    service.submit_trial_job(form)
    bench.wait_for_file(starts)
    bench.wait_for_status(service, form, TrialJobStatus.RUNNING)
    scheduler.set("away")
    bench.wait("the cluster says so", lambda: "cannot connect to the server" in service.trouble)
    assert service.get_trial_job(form.job_name).status is TrialJobStatus.RUNNING
    scheduler.set("away", False)
    go.touch()
    bench.wait_for_end(service, form)


@pytest.mark.slow
def test_a_trial_that_spoils_its_files_hides_no_other_trial(bench, scheduler, lasting):
    service = bench.open_service()
    spoiled, starts, go = lasting
    service.submit_trial_job(spoiled)
    bench.wait_for_file(starts)
    [output] = scheduler.shared.glob(f"nniweb/*/{spoiled.job_name}/job.out")
    output.unlink()
    output.mkdir()
    os.kill(scheduler.pid(spoiled.job_name), signal.SIGKILL)
    bench.wait("it is missed", lambda: service.trouble or service.get_trial_job(spoiled.job_name).status.is_end)
    other = bench.form("true")
    service.submit_trial_job(other)
    bench.wait_for_status(service, other, TrialJobStatus.SUCCEEDED)
    bench.wait_for_status(service, spoiled, TrialJobStatus.FAILED)
    assert service.trouble == ""
    go.touch()
    bench.wait("the trial has ended by itself", lambda: not bench.trial_processes(spoiled))


@pytest.mark.slow
def test_a_preparation_that_fails_is_the_reason_of_the_end(bench, platform, monkeypatch):
    monkeypatch.setattr(platform, "options", lambda: CommandTrialOptions(prepare_command="echo no module; false"))
    message = failed_with(bench, bench.open_service(), bench.form("true"))
    assert "It said: no module prepareCommand ended with status 1." in message


@pytest.fixture
def talk(tmp_path):
    """Makes a Scheduler with other commands."""
    tiny = TinyScheduler(tmp_path)

    def make(**commands):
        return Scheduler(tiny.settings(**commands), ThisMachine())

    make.tiny = tiny
    return make


@pytest.mark.parametrize(("said", "job_id"), [
    ("4242.pbs01.example.org", "4242.pbs01.example.org"), ("Job <77> is submitted to queue <normal>.", "77"),
    ('Your job 15 ("t00000000001") has been submitted', "15"), ("123.0 - 123.0", "123.0"), ("17[].pbs", "17[].pbs"),
])
def test_an_id_is_found_in_what_schedulers_print(talk, said, job_id):
    assert talk(submit_command=f"echo '{said}'").submit("t00000000001", "/x", {}) == job_id


def test_an_own_pattern_finds_the_id(talk):
    scheduler = talk(submit_command="echo '1 job(s) submitted to cluster 42.'", id_pattern=r"cluster (\d+)")
    assert scheduler.submit("t00000000001", "/x", {}) == "42"


def test_a_pattern_with_a_group_that_is_empty_gives_the_whole_match(talk):
    assert talk(submit_command="echo job 7", id_pattern=r"\d+(x?)").submit("t00000000001", "/x", {}) == "7"


def test_a_pattern_that_takes_years_in_python_is_answered_at_once(talk):
    """In a process of its own: what does not end cannot be left otherwise."""
    code = ("from trainingservice.given_expression import GivenExpression\n"
            "print(GivenExpression(r'((a|aa)+)+b|(x+x+)+y').first_in('a' * 5000 + 'x' * 5000))")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=90)
    assert (done.stdout, done.stderr) == ("None\n", "")
    scheduler = talk(submit_command=f"echo {'a' * 60}", id_pattern="(a+)+$|(a|a)+b|(a|aa)+c")
    assert scheduler.submit("t00000000001", "/x", {}) == "a" * 60
    with pytest.raises(Unanswered, match="contains no job id"):
        talk(submit_command=f"echo {'a' * 60}", id_pattern="(a|aa)+b").submit("t00000000001", "/x", {})


def test_an_answer_without_an_id_is_no_answer(talk):
    with pytest.raises(Unanswered, match='contains no job id: "thank you"'):
        talk(submit_command="echo thank you").submit("t00000000001", "/x", {})


def test_a_refusal_is_final_when_the_scheduler_answers_questions(talk):
    talk.tiny.set("refuse")
    scheduler = talk()
    for _ in range(2):
        with pytest.raises(TemporaryError, match="there is no queue of that name"):
            scheduler.submit("t00000000001", "/x", {})
    with pytest.raises(PermanentError, match=r"there is no queue of that name\. It was tried 3 times"):
        scheduler.submit("t00000000001", "/x", {})


def test_a_scheduler_that_is_away_refuses_nothing_for_good(talk):
    talk.tiny.set("away")
    scheduler = talk()
    for _ in range(5):
        with pytest.raises(TemporaryError, match="cannot connect"):
            scheduler.submit("t00000000001", "/x", {})


def test_a_command_that_is_not_there_is_named(talk):
    with pytest.raises(PermanentError, match="Correct submitCommand"):
        talk(submit_command="no-such-qsub x").submit("t00000000001", "/x", {})


def test_what_the_experiment_asks_for_comes_to_the_command_as_it_is(talk):
    scheduler = talk(submit_command='printf "7 %s" "$ARGUMENTS" >&2; echo 7; test "$ARGUMENTS" = "-q \'x\'; \\$(id)"')
    assert scheduler.submit("t00000000001", "/x", {"ARGUMENTS": "-q 'x'; $(id)"}) == "7"


def test_states_are_read_by_the_words_of_each_scheduler(talk):
    lines = "1 Q\n2 R\n3 F\n4 strange\n5 PEND waits for   GPUs\n9 R"
    settings = CommandClusterSettings.model_fields
    words = {name: settings[name].default for name in ("waiting_states", "running_states")}
    listed = talk(status_command=f"echo '{lines}'; exit 2", **words).listed(["1", "2", "3", "4", "5", "6"])
    assert not listed.is_whole
    assert {job_id: (seen.status, seen.message) for job_id, seen in listed.seen.items()} == {
        "1": ("WAITING", ""), "2": ("RUNNING", None),
        "3": ("FAILED", "The scheduler reports that the job has ended (F)."),
        "4": ("UNKNOWN", 'The scheduler reports the state "strange", which is in none of waitingStates, runningStates '
                         "and endedStates."), "5": ("WAITING", "waits for GPUs")}


def test_there_may_be_tabs_between_what_is_said_of_a_job(talk):
    listed = talk(status_command=r"printf '1\trunning\n\t2\twaiting \tfor a\tnode\n'").listed(["1", "2"])
    assert {job_id: (seen.status, seen.message) for job_id, seen in listed.seen.items()} == {
        "1": ("RUNNING", None), "2": ("WAITING", "for a node")}


def test_a_rehearsal_says_what_is_wrong(bench, platform, monkeypatch):
    def findings():
        service = platform.new_service(bench.context())
        found = {finding.check: finding for finding in service.rehearse()}
        service.clean_up()
        return found

    assert all(finding.ok for finding in findings().values())
    platform.scheduler.set("away")
    assert "cannot connect to the server" in findings()["connection"].message
    platform.scheduler.set("away", False)
    without_find(platform, monkeypatch)
    assert "There is no findCommand" in findings()["find"].message
    platform.scheduler.shared.rename(platform.scheduler.folder / "elsewhere")
    assert "Create it, or correct workingFolder" in findings()["folder"].message


@pytest.mark.parametrize("wrong", [
    {"id_pattern": "("}, {"id_pattern": r"(a)\1"}, {"id_pattern": "a" * 1001}, {"id_pattern": "(a{1000}){1000}"},
    {"id_pattern": "\ud800"}, {"working_folder": "relative"}, {"submit_command": " "}])
def test_settings_that_cannot_work_are_refused(tmp_path, wrong):
    with pytest.raises(ValidationError):
        TinyScheduler(tmp_path).settings(**wrong)


def test_only_administrators_lend_the_servers_shell(tmp_path):
    assert "shell" in TinyScheduler(tmp_path).settings().borrowed_from_the_server()
