"""What goes wrong between the server and a real Slurm, and on it: no trial runs twice, none is lost."""

from __future__ import annotations

import shutil
from dataclasses import replace

import pytest

from tests.trainingservice.jobs_of_tests import (
    check_that_a_keeper_that_does_not_reach_the_server_is_fetched,
    check_that_trials_go_on_while_the_cluster_is_away,
    lasting,
)
from trainingservice.errors import TemporaryError
from trainingservice.slurm import service as service_module
from trainingservice.slurm.service import name_on_cluster
from trainingservice.testing.cases.returning import as_stored
from trainingservice.trial_job_status import TrialJobStatus
from trialkeeper import contract

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]

#: A controller that stands still is given up soon.
SLURM = {"MessageTimeout": "3", "KillWait": "2"}


def folder_of(bench, form):
    return bench.platform.shared / "nniweb" / form.experiment_id / form.job_name


def test_a_submission_whose_answer_is_lost_is_found_and_not_made_twice(bench, cluster):
    service = bench.open_service()
    form, starts, go = lasting(bench)
    cluster.freeze_controller()
    try:
        service.submit_trial_job(form)
        bench.wait("nobody knows what came of it",
                   lambda: "It is not known" in service.get_trial_job(form.job_name).message, patience=60)
    finally:
        cluster.thaw_controller()
    bench.wait_for_file(starts)
    bench.wait_for_status(service, form, TrialJobStatus.RUNNING)
    assert len(bench.platform.job_of(form).split()) == 1
    go.touch()
    bench.wait_for_end(service, form)
    assert starts.read_text() == "start\n"


def test_while_the_controller_is_away_trials_go_on_and_new_ones_wait(bench, cluster):
    check_that_trials_go_on_while_the_cluster_is_away(bench, cluster.stop_controller, cluster.start_controller,
                                                      "Slurm does not answer")


def test_of_two_jobs_for_one_trial_one_runs_it(bench, cluster):
    service = bench.open_service()
    form, starts, go = lasting(bench)
    service.submit_trial_job(form)
    bench.wait_for_file(starts)
    first = bench.platform.job_of(form)
    script = bench.witness / "script"
    cluster.command("scontrol", "write", "batch_script", first, str(script))
    output = bench.witness / "output"
    # with another name, so that the service does not end it before it starts
    cluster.command("sbatch", "--wait", f"--output={output}", "--chdir=/", str(script), check=False)
    assert f"Slurm job {first} runs this trial" in output.read_text()
    held = cluster.command("sbatch", "--parsable", "--hold", f"--job-name={name_on_cluster(form.job_name)}",
                           "--chdir=/", str(script)).strip()
    bench.wait("what waits to be the second one is removed from the queue",
               lambda: held not in cluster.command("squeue", "-h", "-o", "%A").split())
    go.touch()
    bench.wait_for_end(service, form)
    assert starts.read_text() == "start\n"


def test_a_trial_whose_node_fails_says_so(bench, cluster):
    service = bench.open_service()
    form, starts, _ = lasting(bench)
    service.submit_trial_job(form)
    bench.wait_for_file(starts)
    bench.wait_for_status(service, form, TrialJobStatus.RUNNING)
    cluster.command("scontrol", "update", f"nodename={cluster.name}", "state=down", "reason=test")
    try:
        detail = bench.wait_for_status(service, form, TrialJobStatus.FAILED)
        assert "node failed" in detail.message
        assert detail.cause == "The job's node failed, or Slurm lost contact with it."
    finally:
        cluster.command("scontrol", "update", f"nodename={cluster.name}", "state=resume", check=False)
        bench.wait("the node is back", lambda: "idle" in cluster.command("sinfo", "-h", "-o", "%t"), patience=120)


def test_a_trial_that_slurm_queues_again_waits_and_is_run_from_its_beginning(bench, cluster):
    bench.platform.more_options = {"requeue": True}
    service = bench.open_service()
    form, starts, go = lasting(bench)
    service.submit_trial_job(form)
    bench.wait_for_file(starts)
    bench.wait_for_status(service, form, TrialJobStatus.RUNNING)
    job = bench.platform.job_of(form)
    cluster.command("scontrol", "requeue", job)
    bench.wait("it is seen as suspended", lambda: service.get_trial_job(form.job_name).suspended)
    detail = service.get_trial_job(form.job_name)
    assert (detail.status, detail.start_time) == (TrialJobStatus.WAITING, None)
    assert "Slurm ended the job and queued it again" in detail.message
    # the server closes the books of the first run; then the second may report
    bench.server.forget(form.job_name)
    bench.server.expect(form, platform="slurm")
    token = bench.server.access_for(form.job_name).token
    (folder_of(bench, form) / "token").write_text(token)
    cluster.let_begin(job)
    bench.wait("it has begun again", lambda: starts.read_text() == "start\nstart\n", patience=120)
    bench.wait_for_status(service, form, TrialJobStatus.RUNNING)
    go.touch()
    bench.wait_for_end(service, form)
    assert bench.output(form) == "worked\n"
    assert (folder_of(bench, form) / "before-1" / contract.JOURNAL_FILE).is_file()


def test_a_keeper_that_does_not_reach_the_server_is_fetched_from_the_folder(bench, monkeypatch):
    check_that_a_keeper_that_does_not_reach_the_server_is_fetched(bench, monkeypatch)


def test_all_trials_are_asked_about_in_one_question(bench, tmp_path):
    service = bench.open_service()
    forms = [bench.form("sleep 600") for _ in range(5)]
    for form in forms:
        service.submit_trial_job(form)
    details = [bench.wait_for_status(service, form, TrialJobStatus.RUNNING) for form in forms]
    programs, calls = tmp_path / "programs", tmp_path / "calls"
    programs.mkdir()
    for name in ("squeue", "sacct", "scancel", "scontrol", "sbatch"):
        (programs / name).write_text(f'#!/bin/sh\necho {name} >>"{calls}"\nexec {shutil.which(name)} "$@"\n')
        (programs / name).chmod(0o755)
    settings = bench.platform.settings().model_copy(update={"program_folder": str(programs)})
    other = service_module.SlurmTrainingService(settings, replace(bench.context(), state_folder=tmp_path / "other"))
    answers = other.observe_jobs(details)
    assert {name: answer and answer.status for name, answer in answers.items()} == {
        form.job_name: TrialJobStatus.RUNNING for form in forms}
    assert calls.read_text().split() == ["squeue"]


def test_a_double_that_slurm_does_not_end_hides_no_other_trial(bench, cluster, tmp_path):
    service = bench.open_service()
    forms = [bench.form("sleep 600") for _ in range(2)]
    for form in forms:
        service.submit_trial_job(form)
    details = [bench.wait_for_status(service, form, TrialJobStatus.RUNNING) for form in forms]
    programs = tmp_path / "programs"
    programs.mkdir()
    (programs / "squeue").symlink_to(shutil.which("squeue"))
    (programs / "scancel").write_text("#!/bin/sh\necho Access denied >&2\nexit 1\n")
    (programs / "scancel").chmod(0o755)
    settings = bench.platform.settings().model_copy(update={"program_folder": str(programs)})
    other = service_module.SlurmTrainingService(settings, replace(bench.context(), state_folder=tmp_path / "other"))
    bench.close_service(service)  # it would end the double
    cluster.command("sbatch", "--hold", f"--job-name={name_on_cluster(forms[0].job_name)}", "--wrap=true")
    with pytest.raises(TemporaryError, match="Access denied"):
        other.observe_jobs(details)
    assert [answer.status for answer in other.observe_jobs(details).values()] == [TrialJobStatus.RUNNING]
    bench.open_service([as_stored(detail) for detail in details])
