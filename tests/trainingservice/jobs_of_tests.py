"""Jobs that tests of several platforms use, and what each platform must bear with them."""

import time
from dataclasses import replace

from tests.fakes.ssh_machine import free_port
from trainingservice.shared_folder import direct_first
from trainingservice.trial_job_status import TrialJobStatus
from trialkeeper import contract


def lasting(bench, **more):
    """A job that notes its start and works until it is let go: form, file of starts, file to let it go."""
    starts, go = bench.witness / "starts", bench.witness / "go"
    form = bench.form(f'echo start >> "{starts}"; until [ -e "{go}" ]; do sleep 0.05; done; echo worked', **more)
    return form, starts, go


def maker_of_reporting_jobs(bench):
    """Makes a form of a job that reports a metric each 50 ms until its file appears; and that file."""
    script = """
import os, sys, time, nni
nni.get_next_parameter()
n = 0
while not os.path.exists(sys.argv[1]):
    nni.report_intermediate_result(n)
    n += 1
    time.sleep(0.05)
nni.report_final_result(n)
"""

    def make(**more):
        go = bench.witness / f"go{len(bench._forms)}"
        return bench.form(f'python3 trial.py "{go}"', script=script, **more), go
    return make


def assert_whole(bench, form) -> None:
    """Every metric of such a trial came exactly once, in order, and it was started once."""
    values = [entry["value"] for entry in bench.entries(form, "metric")]
    assert values == [str(number) for number in range(len(values) - 1)] + [values[-1]]
    assert values[-1] == str(len(values) - 1)
    assert len(bench.entries(form, "started")) == 1
    numbers = [entry["n"] for entry in bench.entries(form)]
    assert numbers == list(range(1, len(numbers) + 1))


def unreachable(form):
    """The same form for a machine from which the server's address cannot be reached."""
    return replace(form, keeper=replace(form.keeper, urls=(f"http://127.0.0.1:{free_port()}",), url_file=None))


def failed_with(bench, service, form):
    """The message with which a job that is submitted now fails."""
    service.submit_trial_job(form)
    return bench.wait_for_status(service, form, TrialJobStatus.FAILED).message


def check_that_a_stop_is_asked_for_again(bench, double, answer, is_stopped, *, method, part):
    """``answer`` meets the first request of this method and address; ``is_stopped(form)`` looks at the double."""
    double.held = True
    service = bench.open_service()
    form = bench.form("true")
    service.submit_trial_job(form)
    bench.wait("it is submitted", lambda: service.get_trial_job(form.job_name).url)
    double.script(answer, method=method, part=part)
    service.cancel_trial_job(form.job_name)
    bench.wait("it is told to stop again", lambda: is_stopped(form), patience=60)
    bench.wait_for_status(service, form, TrialJobStatus.USER_CANCELED)


def check_that_trials_go_on_while_the_cluster_is_away(bench, leave, come_back, words):
    """``leave`` and ``come_back`` stop and start the cluster's service; ``words`` say meanwhile what is wrong."""
    service = bench.open_service()
    form, starts, go = lasting(bench)
    service.submit_trial_job(form)
    bench.wait_for_file(starts)
    bench.wait_for_status(service, form, TrialJobStatus.RUNNING)
    leave()
    try:
        later = bench.form("echo came later")
        service.submit_trial_job(later)
        bench.wait("the trial says why it waits", lambda: words in service.get_trial_job(later.job_name).message,
                   patience=60)
        bench.wait("the cluster says so", lambda: words in service.trouble, patience=60)
        assert service.get_trial_job(form.job_name).status is TrialJobStatus.RUNNING
        go.touch()
        bench.wait("the trial has reported its end", lambda: bench.entries(form, contract.ENDED))
    finally:
        come_back()
    bench.wait_for_end(service, form)
    bench.wait_for_end(service, later)
    assert (starts.read_text(), bench.output(later)) == ("start\n", "came later\n")


def check_that_an_outage_of_a_minute_loses_nothing(bench, double):
    """``double``: closed and started again; its ``jobs`` are those it was given."""
    service = bench.open_service()
    form, starts, go = lasting(bench)
    service.submit_trial_job(form)
    bench.wait_for_file(starts)
    bench.wait_for_status(service, form, TrialJobStatus.RUNNING)
    double.close()
    later = bench.form("echo later")
    service.submit_trial_job(later)
    until = time.monotonic() + 60
    bench.wait("a minute is over", lambda: time.monotonic() > until, patience=90)
    assert service.get_trial_job(form.job_name).status is TrialJobStatus.RUNNING
    bench.wait("the cluster says so", lambda: "cannot be reached" in service.trouble, patience=60)
    double.start()
    go.touch()
    # it is asked again after a pause that has grown to a minute at most; a vendor's SDK has pauses of its own
    bench.wait("the second one has run", lambda: bench.output(later) == "later\n", patience=150)
    bench.wait_for_end(service, form)
    bench.wait_for_end(service, later)
    assert (starts.read_text(), len(double.jobs)) == ("start\n", 2)


def check_that_a_keeper_that_does_not_reach_the_server_is_fetched(bench, monkeypatch):
    monkeypatch.setattr(direct_first, "TAKE_OVER_AFTER", 1.0)
    monkeypatch.setattr(direct_first, "LOOK_EVERY", 0.2)
    service = bench.open_service()
    form = bench.form(script="import nni\nnni.get_next_parameter()\nnni.report_final_result(0.5)\n")
    service.submit_trial_job(unreachable(form))
    bench.wait_for_end(service, form)
    assert [entry["value"] for entry in bench.entries(form, contract.METRIC)] == ["0.5"]
    assert [entry["n"] for entry in bench.entries(form)] == list(range(1, len(bench.entries(form)) + 1))
