"""The API server breaks in every way it can: no trial is lost or doubled, and nobody pesters it."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.fakes.kubernetes.api import TOKEN
from tests.trainingservice import jobs_of_tests
from tests.trainingservice.jobs_of_tests import assert_whole
from trainingservice.kubernetes_base import mirror
from trainingservice.trial_job_status import TrialJobStatus


@pytest.fixture
def lasting(bench):
    return jobs_of_tests.maker_of_reporting_jobs(bench)


def running(bench, service, lasting):
    form, go = lasting()
    service.submit_trial_job(form)
    bench.wait_for_status(service, form, TrialJobStatus.RUNNING)
    bench.wait("it reports", lambda: bench.entries(form, "metric"))
    return form, go


def count(cluster, verb: str, plural: str = "jobs") -> int:
    return cluster.verbs[verb, plural]


@contextmanager
def not_pestered(service, each_second: float = 5.0) -> Iterator[None]:
    """Meanwhile the API server is asked no more often than this: the slower the machine, the easier it is to keep."""
    asked, began = service.api.requests, time.monotonic()
    yield
    assert service.api.requests - asked <= 40 + each_second * (time.monotonic() - began)


def test_the_api_server_goes_away_and_trials_go_on(bench, cluster, lasting) -> None:
    service = bench.open_service()
    form, go = running(bench, service, lasting)
    with not_pestered(service):
        cluster.go_away()
        bench.wait("the service has noticed", lambda: service._trials.problem)
        assert "cannot be reached" in service._trials.problem
        late, late_go = lasting()
        service.submit_trial_job(late)
        late_go.touch()
        go.touch()
        bench.wait("the trial has reported its end", lambda: bench.entries(form, "ended"))
        assert service.get_trial_job(form.job_name).status is TrialJobStatus.RUNNING
        bench.wait("the other one says why it waits", lambda: "cannot be reached" in
                   service.get_trial_job(late.job_name).message)
        cluster.come_back()
    for each in (form, late):
        bench.wait_for_end(service, each)
        assert_whole(bench, each)
    assert len(cluster.store.all("jobs")) == 2


#: What may be wrong for a whole minute: what brings it about, and what ends it.
TROUBLES = {
    "away": (lambda cluster: cluster.go_away(), lambda cluster: cluster.come_back()),
    "500": (lambda cluster: cluster.faults.append({"status": 500, "times": 10**9}),
            lambda cluster: cluster.faults.clear()),
    "429": (lambda cluster: cluster.faults.append({"status": 429, "times": 10**9, "retry_after": 2}),
            lambda cluster: cluster.faults.clear()),
    "410": (lambda cluster: setattr(cluster, "watches_are_too_old", True),
            lambda cluster: setattr(cluster, "watches_are_too_old", False)),
    "expired token": (lambda cluster: cluster.tokens.clear(), lambda cluster: cluster.tokens.add(TOKEN)),
}


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("trouble", TROUBLES)
def test_in_a_minute_of_trouble_the_api_server_is_asked_once_a_second_at_most(bench, cluster, lasting, monkeypatch,
                                                                              trouble: str) -> None:
    monkeypatch.setattr(mirror, "PAUSES", (0.5, 30.0))
    service = bench.open_service()
    form, go = running(bench, service, lasting)
    begin, end = TROUBLES[trouble]
    begin(cluster)
    cluster.break_connections()
    late, late_go = lasting()
    service.submit_trial_job(late)
    asked = service.api.requests
    go.touch()
    assert not threading.Event().wait(60)  # what is counted is what happens in a minute
    assert 0 < service.api.requests - asked < 60
    end(cluster)
    late_go.touch()
    for each in (form, late):
        bench.wait("its end is seen", lambda each=each: service.get_trial_job(each.job_name).status.is_end, 120)
        bench.wait_for_end(service, each)
        assert_whole(bench, each)
    assert len(cluster.store.all("jobs")) == 2


@pytest.mark.parametrize("seconds", [0.3, pytest.param(1.0, marks=pytest.mark.slow)],
                         ids=["three times a second", "every second"])
def test_watches_that_are_cut_all_the_time_lose_nothing(bench, cluster, lasting, seconds: float) -> None:
    cluster.cut_watches_after = seconds
    service = bench.open_service()
    with not_pestered(service, 2 / seconds + 3):  # one watch of Jobs and one of pods
        forms = [running(bench, service, lasting) for _ in range(2)]
        before = count(cluster, "watch")
        bench.wait("some watches were cut", lambda: count(cluster, "watch") > before + 3)
        for form, go in forms:
            go.touch()
            bench.wait_for_end(service, form)
            assert_whole(bench, form)
    assert count(cluster, "list") <= 2 + count(cluster, "watch") // 10


def test_watches_that_end_at_once_with_a_bookmark_are_no_reason_to_hurry(bench, cluster, lasting) -> None:
    service = bench.open_service()
    form, go = running(bench, service, lasting)
    real, cluster._watch = cluster._watch, lambda plural, namespace, query: iter([
        {"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": query["resourceVersion"]}}}])
    before, began = count(cluster, "watch"), time.monotonic()
    cluster.break_connections()
    bench.wait("it has watched five times", lambda: count(cluster, "watch") >= before + 5)
    assert time.monotonic() - began >= 0.5 * (0.1 + 0.2 + 0.4 + 0.8)  # pauses that grow; chance takes at most a half
    cluster._watch = real
    go.touch()
    bench.wait_for_end(service, form)
    assert_whole(bench, form)


@pytest.mark.slow
def test_bookmarks_keep_a_quiet_watch_from_growing_too_old(bench, cluster, lasting, monkeypatch) -> None:
    monkeypatch.setattr(mirror, "WATCH_SECONDS", 1)
    service = bench.open_service()
    form, go = running(bench, service, lasting)
    cluster.store.create("jobs", "default", {  # somebody else's: only a bookmark tells of the new version
        "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "foreign"}, "spec": {"suspend": True}})
    version = int(cluster.store.get("jobs", "default", "foreign")["metadata"]["resourceVersion"])

    def watches() -> list[int]:
        found = [re.search(r"/jobs\?.*resourceVersion=(\d+).*watch=true", path) for _, path, _ in cluster.requests]
        return [int(match[1]) for match in found if match]

    bench.wait("it watches from there", lambda: watches()[-1] >= version)
    lists = count(cluster, "list")
    cluster.store.compacted = version
    before = len(watches())
    bench.wait("it watches again", lambda: len(watches()) > before + 1)
    assert count(cluster, "list") == lists
    go.touch()
    bench.wait_for_end(service, form)
    assert_whole(bench, form)


def test_connections_that_break_are_made_again(bench, cluster, lasting) -> None:
    service = bench.open_service()
    form, go = running(bench, service, lasting)
    for _ in range(3):
        before = count(cluster, "watch")
        cluster.break_connections()
        bench.wait("it watches again", lambda before=before: count(cluster, "watch") > before)
    go.touch()
    bench.wait_for_end(service, form)
    assert_whole(bench, form)


def test_a_past_that_is_forgotten_means_one_new_list(bench, cluster, lasting) -> None:
    service = bench.open_service()
    form, go = running(bench, service, lasting)
    lists = count(cluster, "list")
    cluster.watches_are_too_old = True
    cluster.break_connections()
    bench.wait("it lists again", lambda: count(cluster, "list") > lists)
    cluster.watches_are_too_old = False
    go.touch()
    bench.wait_for_end(service, form)
    assert_whole(bench, form)


@pytest.mark.slow
def test_a_storm_of_410_is_no_storm_of_lists(bench, cluster, lasting, monkeypatch) -> None:
    monkeypatch.setattr(mirror, "PAUSES", (0.2, 30.0))
    service = bench.open_service()
    form, go = running(bench, service, lasting)
    cluster.watches_are_too_old = True
    cluster.break_connections()
    before, began = count(cluster, "list"), time.monotonic()
    with not_pestered(service):
        bench.wait("it has listed four times", lambda: count(cluster, "list") >= before + 4)
    assert time.monotonic() - began >= 0.5 * (0.2 + 0.4 + 0.8)  # pauses that grow; chance takes at most a half
    cluster.watches_are_too_old = False
    go.touch()
    bench.wait_for_end(service, form)
    assert_whole(bench, form)


@pytest.mark.parametrize("status", [429, pytest.param(500, marks=pytest.mark.slow),
                                    pytest.param(503, marks=pytest.mark.slow)])
def test_refused_requests_are_made_again_after_a_while(bench, cluster, status) -> None:
    service = bench.open_service()
    cluster.faults += [{"status": status, "times": 2, "verb": "create", "path": "/jobs", "retry_after": 1},
                       {"status": status, "times": 1, "verb": "create", "path": "/secrets", "retry_after": 0}]
    form = bench.form("echo once")
    service.submit_trial_job(form)
    bench.wait_for_end(service, form)
    assert bench.output(form) == "once\n"
    assert [code for method, path, code in cluster.requests if method == "POST" and path.endswith("/jobs")] == \
        [status, status, 201]


@pytest.mark.parametrize(("verb", "status"), [("watch", 429), ("list", 500), *(
    pytest.param(*case, marks=pytest.mark.slow) for case in (("list", 429), ("watch", 500), ("watch", 503)))])
def test_refused_watches_and_lists_are_asked_for_again_when_the_server_says(bench, cluster, lasting, verb: str,
                                                                           status: int) -> None:
    service = bench.open_service()
    form, go = running(bench, service, lasting)
    told = 1 if status == 429 else None
    cluster.faults.append({"status": status, "times": 2, "verb": verb, "path": "/jobs", "retry_after": told})
    cluster.watches_are_too_old = verb == "list"  # so that it lists
    began = time.monotonic()
    cluster.break_connections()
    bench.wait("it was refused twice", lambda: cluster.faults[0]["times"] == 0)
    cluster.watches_are_too_old = False
    go.touch()
    bench.wait_for_end(service, form)
    assert_whole(bench, form)
    assert time.monotonic() - began >= 2 * (told or 0)
    refused = [code for _, path, code in cluster.requests if code == status]
    assert refused == [status, status]


def test_an_answer_that_is_lost_on_its_way_makes_no_second_job(bench, cluster) -> None:
    service = bench.open_service()
    real = cluster._create
    lost = []

    def create(plural, namespace, item):
        made = real(plural, namespace, item)
        if plural == "jobs" and not lost:
            lost.append(made)
            cluster.break_connections()
        return made

    cluster._create = create
    form = bench.form("echo once")
    service.submit_trial_job(form)
    bench.wait_for_end(service, form)
    assert bench.output(form) == "once\n"
    assert len(cluster.store.all("jobs")) == 1


def test_a_token_that_expires_is_read_again(bench, cluster, lasting) -> None:
    service = bench.open_service()
    form, go = running(bench, service, lasting)
    with not_pestered(service):
        cluster.expire_token("another-token")
        cluster.break_connections()
        late = bench.form("echo late")
        service.submit_trial_job(late)
        bench.wait_for_end(service, late)
        go.touch()
        bench.wait_for_end(service, form)
    assert_whole(bench, form)
    refused = [code for _, _, code in cluster.requests].count(401)
    assert 1 <= refused <= 10


def test_credentials_that_are_refused_are_no_end_of_trials(bench, cluster, lasting) -> None:
    service = bench.open_service()
    form, go = running(bench, service, lasting)
    good, cluster.tokens = cluster.tokens, set()
    cluster.break_connections()
    with not_pestered(service):
        bench.wait("the service says so", lambda: "does not accept the server's credentials" in service._trials.problem)
        go.touch()
        bench.wait("the trial has reported its end", lambda: bench.entries(form, "ended"))
        assert service.get_trial_job(form.job_name).status is TrialJobStatus.RUNNING
    cluster.tokens = good
    bench.wait_for_end(service, form)


def test_nothing_is_asked_about_trials_that_only_run(bench, cluster, lasting) -> None:
    service = bench.open_service()
    form, go = running(bench, service, lasting)
    before = len(cluster.requests)
    reports = len(bench.entries(form, "metric"))
    bench.wait("it has reported for a while", lambda: len(bench.entries(form, "metric")) > reports + 30)
    assert len(cluster.requests) == before
    go.touch()
    bench.wait_for_end(service, form)


def test_what_no_watch_ever_told_is_found_by_the_next_list(bench, cluster, lasting, monkeypatch) -> None:
    monkeypatch.setattr(mirror, "RELIST_EVERY", 0.5)
    cluster.cut_watches_after = 0.5
    service = bench.open_service()
    form, _ = running(bench, service, lasting)
    name = f"nni{form.job_name}"
    with cluster.store.changed:  # gone, and nobody is told
        job = cluster.store._objects["jobs"].pop(("default", name))
    detail = bench.wait_for_status(service, form, TrialJobStatus.SYS_CANCELED)
    assert "by somebody else" in detail.message
    assert job["metadata"]["name"] == name
