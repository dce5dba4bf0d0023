"""How often an OpenPAI cluster may be asked: what its answers say is left, and how submissions are spread over it."""

import math
import time

import pytest

from tests.fakes.http_double import Answer
from tests.fakes.openpai.limits import Limiter
from tests.trainingservice.openpai.recordings import recorded
from trainingservice.openpai.submission_limit import Allowance, SubmissionLimit, pause_asked_for, why_it_waits
from trainingservice.rest.rest_client import RestAnswer
from trainingservice.trial_job_status import TrialJobStatus

SUBMIT = {"method": "POST", "part": "/v2/jobs"}


def answer(limit=60, remaining=59, resets_in=3600, status=202, **more):
    return RestAnswer(status, "{}", "", "OpenPAI", {
        "X-RateLimit-Limit": str(limit), "X-RateLimit-Remaining": str(remaining),
        "X-RateLimit-Reset": str(1_000_000 + resets_in), "Date": "Mon, 12 Jan 1970 13:46:40 GMT", **more})


def test_the_pause_is_what_is_left_of_the_window_by_the_servers_clock():
    refused = recorded("limits")[-1]
    found = RestAnswer(refused["status"], refused["body"], "", "OpenPAI",
                       {"X-RateLimit-Limit": refused["headers"]["x-ratelimit-limit"],
                        "X-RateLimit-Remaining": refused["headers"]["x-ratelimit-remaining"],
                        "X-RateLimit-Reset": refused["headers"]["x-ratelimit-reset"],
                        "Date": refused["headers"]["date"], "Retry-After": refused["headers"]["retry-after"]})
    assert pause_asked_for(found) == 3599.0
    assert pause_asked_for(answer(resets_in=40, status=429, **{"Retry-After": "3600"})) == 40.0


@pytest.mark.parametrize(("headers", "pause"), [
    ({"Retry-After": "7"}, 7.0), ({}, None), ({"X-RateLimit-Reset": "soon", "Retry-After": "7"}, 7.0)])
def test_without_such_headers_it_is_what_retry_after_says(headers, pause):
    assert pause_asked_for(RestAnswer(429, "", "", "OpenPAI", headers)) == pause


def test_a_window_that_should_be_over_is_given_a_second():
    assert pause_asked_for(answer(resets_in=-5)) == 1.0


@pytest.mark.parametrize("odd", [{"remaining": -1}, {"X-RateLimit-Reset": "9" * 400}, {"limit": "9" * 5000}])
def test_numbers_that_no_limit_has_say_nothing_of_it(odd):
    known = SubmissionLimit(lambda: 0.0)
    known.heard(answer(**odd))
    assert known.waits() is None
    assert pause_asked_for(answer(**odd, status=429, **{"Retry-After": "7"})) == 7.0


class Window:
    """A window of the server, and a clock."""

    def __init__(self, limit):
        self.now = 0.0
        self.limiter = Limiter(limit, 3600, lambda: 1_000_000 + self.now)
        self.known = SubmissionLimit(lambda: self.now)

    def submit(self):
        headers, refusal = self.limiter.counted("ada")
        self.known.heard(RestAnswer(429 if refusal else 202, "", "", "OpenPAI", headers))
        return refusal is None


@pytest.mark.parametrize("limit", [1, 2, 5, 60, 3600])
def test_an_hours_submissions_are_all_used_and_never_more(limit):
    window = Window(limit)
    times = []
    while True:
        turn = window.known.waits()
        window.now += turn[0] if turn is not None else 0.0
        if window.now >= 3600:
            break
        assert window.submit()
        times.append(window.now)
    assert len(times) == limit
    pauses = [later - earlier for earlier, later in zip(times[limit // 2 + 1:], times[limit // 2 + 2:], strict=False)]
    assert not pauses or max(pauses) < 2 * 3600 / limit + 1, "the second half is spread over the hour"
    assert times[:math.ceil(limit / 2)] == [0.0] * math.ceil(limit / 2), "the first half goes at once"
    assert window.submit(), "the next window is another one"


def test_who_submits_more_slowly_than_the_window_passes_never_waits():
    window = Window(60)
    for _ in range(55):
        assert window.known.waits() is None
        assert window.submit()
        window.now += 62.0


@pytest.mark.parametrize("other", [
    answer(remaining=0, status=401), answer(remaining=0, status=413), answer(remaining=0, status=404),
    answer(remaining=0, status=429, **{"Retry-After": "60"}), RestAnswer(202, "", "", "OpenPAI")])
def test_what_other_limits_say_is_not_taken_for_it(other):
    known = SubmissionLimit(lambda: 0.0)
    known.heard(other)
    assert known.waits() is None


def test_the_sentence_says_how_many_and_when():
    text = why_it_waits("OpenPAI at pai", "ada", 90.0, Allowance(60, 20, 1800.0))
    assert "accepts 60 submissions per hour from user ada; 20 of them are left for the next 30 minutes" in text
    assert "The next submission is sent in 90 s" in text
    assert "none is left for the next 60 s" in why_it_waits("OpenPAI", "ada", 60.0, Allowance(60, 0, 60.0))


def test_trials_beyond_the_limit_wait_for_their_turn_and_the_cluster_is_well(bench, cluster):
    cluster.limits["submit"] = Limiter(4, 3600)
    service = bench.open_service()
    forms = [bench.form("true") for _ in range(6)]
    for form in forms:
        service.submit_trial_job(form)

    def waiting():
        return [detail.message for detail in service.list_trial_jobs() if "submissions per hour" in detail.message]

    bench.wait("those beyond half of it wait", lambda: len(waiting()) == 4)
    assert all("accepts 4 submissions per hour from user ada; 2 of them are left" in message for message in waiting())
    assert all("The next submission is sent in" in message for message in waiting())
    assert service.trouble == ""
    assert cluster.count("POST", "/v2/jobs") == 2
    bench.wait("the others end", lambda: [detail.status for detail in service.list_trial_jobs()].count(
        TrialJobStatus.SUCCEEDED) == 2)


def nearly_over(limiter, caller):
    """A limiter whose one call is used up, two seconds before its window ends; and its clock, to be put forward."""
    now = [time.time()]
    full = Limiter(1, limiter.window, lambda: now[0])
    full.counted(caller)
    full.resets_at = now[0] + 2.0
    return full, now


def test_a_refused_submission_is_made_when_the_window_ends_and_not_a_window_later(bench, cluster):
    """Somebody else has used up what the account may submit."""
    cluster.limits["submit"], now = nearly_over(Limiter(1, 3600), cluster.user)
    service = bench.open_service()
    form = bench.form("echo done")
    service.submit_trial_job(form)
    bench.wait("it waits", lambda: "none is left for the next" in service.get_trial_job(form.job_name).message)
    assert service.trouble == ""
    now[0] += 3.0
    bench.wait_for_end(service, form)
    assert cluster.count("POST", "/v2/jobs") == 2


def test_a_job_whose_acceptance_was_lost_is_seen_before_its_turn_comes_again(bench, cluster):
    cluster.limits["submit"] = Limiter(1, 3600)
    cluster.script(Answer(502, "Bad Gateway", "text/html"), after=True, **SUBMIT)
    service = bench.open_service()
    form = bench.form("echo done")
    service.submit_trial_job(form)
    bench.wait_for_end(service, form)
    assert bench.output(form) == "done\n"
    assert cluster.count("POST", "/v2/jobs") == 2


def test_questions_that_are_refused_are_put_again_when_their_window_ends(bench, cluster):
    service = bench.open_service()
    forms = [bench.form("echo done") for _ in range(2)]
    cluster.held = True
    for form in forms:
        service.submit_trial_job(form)
    bench.wait("both are there", lambda: len(cluster.jobs) == 2)
    cluster.limits["list"], now = nearly_over(Limiter(1, 60), cluster.user)
    bench.wait("it is said", lambda: "limits the rate of requests" in service.trouble)
    assert "60 s" not in service.trouble
    cluster.limits["list"].limit, now[0] = 1000, now[0] + 3.0
    cluster.release()
    for form in forms:
        bench.wait_for_end(service, form)


def test_another_limit_on_submissions_is_kept_to_as_it_says(bench, cluster):
    cluster.script(Answer(429, "Too many", "text/html", {"Retry-After": "1"}), **SUBMIT)
    service = bench.open_service()
    form = bench.form("echo done")
    service.submit_trial_job(form)
    bench.wait("it waits", lambda: "limits the rate" in service.get_trial_job(form.job_name).message)
    bench.wait_for_end(service, form)
