"""Jobs that tests of several platforms use, and what each platform must bear with them."""

import time

from trainingservice.trial_job_status import TrialJobStatus


def lasting(bench, **more):
    """A job that notes its start and works until it is let go: form, file of starts, file to let it go."""
    starts, go = bench.witness / "starts", bench.witness / "go"
    form = bench.form(f'echo start >> "{starts}"; until [ -e "{go}" ]; do sleep 0.05; done; echo worked', **more)
    return form, starts, go


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
