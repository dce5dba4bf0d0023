"""A few trials on a real Slurm: from the queue to the end, and what the cluster refuses."""

from tests.trainingservice.jobs_of_tests import failed_with, lasting
from trainingservice.trial_job_status import TrialJobStatus


def test_a_trial_runs_as_a_batch_job_with_what_it_asked_for(bench, cluster):
    bench.platform.more_options = {"trial_cpu_number": 2, "partition": "main", "time_limit": "10"}
    service = bench.open_service()
    form = bench.form('echo "$SLURM_CPUS_PER_TASK CPUs"; echo "$SLURM_JOB_NAME"')
    service.submit_trial_job(form)
    detail = bench.wait_for_end(service, form)
    assert bench.output(form) == f"2 CPUs\nnniweb-{form.job_name}\n"
    assert (detail.exit_code, detail.machine) == (0, cluster.name)


def test_a_trial_that_slurm_holds_says_why_and_can_be_stopped(bench, cluster):
    bench.platform.more_options = {"sbatch_lines": ("--hold",)}
    service = bench.open_service()
    form = bench.form("true")
    service.submit_trial_job(form)
    bench.wait("the reason is told", lambda: "you hold it" in service.get_trial_job(form.job_name).message)
    assert service.get_trial_job(form.job_name).status is TrialJobStatus.WAITING
    service.cancel_trial_job(form.job_name)
    bench.wait_for_status(service, form, TrialJobStatus.USER_CANCELED)
    assert bench.entries(form) == []


def test_what_slurm_can_never_give_fails_the_trial_with_slurms_words(bench):
    bench.platform.more_options = {"partition": "moon"}
    service = bench.open_service()
    assert "Invalid partition name specified" in failed_with(bench, service, bench.form("true"))


def test_a_preparation_that_fails_is_told_with_what_the_job_printed(bench):
    bench.platform.more_options = {"prepare_command": 'echo "no such module" >&2; (exit 7)'}
    service = bench.open_service()
    said = failed_with(bench, service, bench.form("true"))
    assert "prepareCommand ended with status 7" in said
    assert "no such module" in said


def test_somebody_elses_scancel_ends_the_trial_and_says_so(bench, cluster):
    service = bench.open_service()
    form, starts, _ = lasting(bench)
    service.submit_trial_job(form)
    bench.wait_for_file(starts)
    bench.wait_for_status(service, form, TrialJobStatus.RUNNING)
    cluster.command("scancel", bench.platform.job_of(form))
    detail = bench.wait_for_status(service, form, TrialJobStatus.SYS_CANCELED)
    assert "canceled on the cluster by somebody else" in detail.message


def test_a_signal_that_a_job_asks_for_reaches_its_trial(bench, cluster):
    service = bench.open_service()
    form = bench.form(f"trap 'touch {bench.witness}/heard; exit 3' USR1; echo yes >{bench.witness}/works; "
                      "while true; do sleep 0.05; done")
    service.submit_trial_job(form)
    bench.wait_for_file(bench.witness / "works")
    cluster.command("scancel", "--batch", "--signal=USR1", bench.platform.job_of(form))  # as --signal=B:USR1@60 does
    assert bench.wait_for_status(service, form, TrialJobStatus.FAILED).exit_code == 3
    assert (bench.witness / "heard").exists()
