"""What a script says happens to a job, happens to it, and the platform's base class makes the right thing of it."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from trainingservice import platforms
from trainingservice.errors import PermanentError
from trainingservice.testing.behaviour import Behaviour, ScriptedClusterSettings
from trainingservice.testing.bench import PlatformUnderTest
from trainingservice.testing.scripted import ScriptedAtOnceTrainingService, ScriptedTrainingService
from trainingservice.trial_job_status import TrialJobStatus
from trialkeeper import contract
from trialkeeper.attempt_folder import read_object


class Scripted(PlatformUnderTest):
    service_class = ScriptedTrainingService
    script = {}

    def new_service(self, context):
        return self.service_class(ScriptedClusterSettings.model_validate(
            {"folder": str(self.folder), "behaviours": self.script}), context)

    def left_behind(self, experiment_id):
        return []


@pytest.fixture
def platform(tmp_path):
    return Scripted(tmp_path / "platform")


@pytest.fixture
def play(bench):
    """Submit one job that is treated as written; ``command`` is given a file it may wait for."""
    def play(command="true", **behaviour):
        bench.platform.script = {"*": behaviour}
        service = bench.open_service()
        form = bench.form(command)
        service.submit_trial_job(form)
        return service, form

    return play


UNTIL_GO = 'echo start >> "{0}/starts"; until [ -e "{0}/go" ]; do sleep 0.05; done; echo worked'


def test_a_delayed_start_leaves_the_job_waiting(bench, play):
    service, form = play(startDelay=0.6)
    bench.wait("the cluster says why it waits", lambda: service.get_trial_job(form.job_name).message)
    assert "queue" in service.get_trial_job(form.job_name).message
    detail = bench.wait_for_end(service, form)
    assert detail.start_time - detail.submit_time >= 0.5


@pytest.mark.parametrize("service_class", [ScriptedTrainingService, ScriptedAtOnceTrainingService])
def test_a_refused_submission_is_tried_again_until_it_is_taken(bench, play, service_class):
    bench.platform.service_class = service_class
    service, form = play("echo once", refusals=3)
    bench.wait_for_end(service, form)
    assert bench.output(form) == "once\n"


def test_a_job_that_can_never_run_fails_with_the_sentence(bench, play):
    service, form = play(refusedForEver="No machine has 4 GPUs.")
    assert bench.wait_for_status(service, form, TrialJobStatus.FAILED).message == "No machine has 4 GPUs."


def test_at_once_a_job_that_can_never_run_is_refused_in_the_call(bench, play):
    bench.platform.service_class = ScriptedAtOnceTrainingService
    with pytest.raises(PermanentError, match="No machine"):
        play(refusedForEver="No machine has 4 GPUs.")


def test_an_end_is_shown_before_the_last_report(bench, play):
    service, form = play("echo done; exit 3", endShownBeforeLastReport=True)
    bench.wait_for_status(service, form, TrialJobStatus.FAILED)
    assert not bench.entries(form, contract.OUTPUT)
    bench.wait("the rest comes later", lambda: bench.entries(form, contract.ENDED))
    assert bench.output(form) == "done\n"


def test_a_restarted_container_does_not_run_the_trial_twice(bench, play):
    service, form = play(UNTIL_GO.format(bench.witness), restartAfter=0)
    second = bench.platform.folder / "jobs" / form.job_name / "run-1-again"
    bench.wait("the second keeper was told that the attempt is taken", (second / contract.EXIT_FILE).exists)
    bench.wait_for_status(service, form, TrialJobStatus.RUNNING)
    (bench.witness / "go").touch()
    bench.wait_for_end(service, form)
    assert (bench.witness / "starts").read_text() == "start\n"


def test_a_requeued_job_waits_again_and_its_second_keeper_finds_the_attempt_taken(bench, play):
    service, form = play(UNTIL_GO.format(bench.witness), requeueAfter=0.2, requeueDelay=0.4)
    bench.wait_for_status(service, form, TrialJobStatus.RUNNING)
    bench.wait_for_status(service, form, TrialJobStatus.WAITING)
    detail = bench.wait_for_status(service, form, TrialJobStatus.FAILED)
    assert "another keeper" in detail.message
    assert (bench.witness / "starts").read_text() == "start\n"
    bench.wait("no process of the trial is left", lambda: not bench.trial_processes(form))


def test_a_lost_machine_takes_keeper_and_trial_with_it(bench, play):
    service, form = play("sleep 120", lostAfter=0.2)
    assert "lost" in bench.wait_for_status(service, form, TrialJobStatus.FAILED).message
    assert not bench.entries(form, contract.ENDED)
    bench.wait("no process of the trial is left", lambda: not bench.trial_processes(form))


def test_a_job_deleted_by_somebody_else_is_canceled_by_the_system(bench, play):
    service, form = play("sleep 120", deletedAfter=0.2)
    detail = bench.wait_for_status(service, form, TrialJobStatus.SYS_CANCELED)
    assert "somebody else" in detail.message
    bench.wait("its keeper says the end", lambda: bench.entries(form, contract.ENDED))


def test_while_the_platform_says_nothing_the_last_answer_stays(bench, play):
    speak = bench.witness / "speak"
    service, form = play(UNTIL_GO.format(bench.witness), silentAfter=0, silentUntil=str(speak))
    state = bench.platform.folder / "jobs" / form.job_name / "state.json"
    bench.wait("the cluster has seen it run", lambda: (read_object(str(state)) or {}).get("running_since"))
    (bench.witness / "go").touch()
    bench.wait("the trial is over", lambda: bench.entries(form, contract.ENDED))
    assert not service.get_trial_job(form.job_name).status.is_end
    speak.touch()
    bench.wait_for_end(service, form)


def test_a_script_can_name_single_trials():
    settings = ScriptedClusterSettings.model_validate(
        {"behaviours": {"3": {"refusals": 1}, "tname": {"refusals": 2}, "*": {"refusals": 3}}})
    assert [settings.behaviour_of(*job).refusals for job in (("tother", 3), ("tname", 3), ("tother", 4))] == [1, 2, 3]
    assert ScriptedClusterSettings().behaviour_of("tname", 0) == Behaviour()


def test_it_can_be_registered_by_name_and_by_the_environment(monkeypatch):
    target = "trainingservice.testing.scripted:ScriptedTrainingService"
    platforms.register("scripted", target)
    try:
        assert platforms.load_platform("scripted") is ScriptedTrainingService
    finally:
        platforms.unregister("scripted")
    monkeypatch.setenv(platforms.EXTRA_PLATFORMS_VARIABLE, f"scripted={target}")
    assert platforms.load_platform("scripted") is ScriptedTrainingService


HOST = """
import sys, threading, time
from pathlib import Path
from trainingservice.base import ServiceContext
from trainingservice.testing.behaviour import ScriptedClusterSettings
from trainingservice.testing.scripted import ScriptedTrainingService
from trainingservice.trial_job import HyperParameters, JobApplicationForm, KeeperAccess
folder, url, token, name, experiment, command = sys.argv[1:]
service = ScriptedTrainingService(ScriptedClusterSettings(folder=folder), ServiceContext("c", Path(folder) / "state"))
service.resume_trial_jobs([])
threading.Thread(target=service.run, daemon=True).start()
service.submit_trial_job(JobApplicationForm(name, name, experiment, 0, HyperParameters("{}"), command,
                                            KeeperAccess((url,), token)))
time.sleep(120)
"""


def test_trials_outlive_a_killed_host_and_the_next_one_finds_them(bench, tmp_path):
    form = bench.form(UNTIL_GO.format(bench.witness), code=None)
    host = subprocess.Popen([sys.executable, "-c", HOST, str(bench.platform.folder), bench.server.url,
                             form.keeper.token, form.job_name, form.experiment_id, form.command],
                            cwd=Path(__file__).parents[3], env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)})
    try:
        bench.wait_for_file(bench.witness / "starts")
    finally:
        host.send_signal(signal.SIGKILL)
        host.wait()
    from trainingservice.trial_job import ResumedJob, TrialJobDetail
    begun = TrialJobDetail(form.job_name, TrialJobStatus.WAITING, form, submit_time=1.0)
    service = bench.open_service([ResumedJob(begun, submitted=False)])
    service.submit_trial_job(form)
    bench.wait_for_status(service, form, TrialJobStatus.RUNNING)
    (bench.witness / "go").touch()
    bench.wait_for_end(service, form)
    assert (bench.witness / "starts").read_text() == "start\n"
