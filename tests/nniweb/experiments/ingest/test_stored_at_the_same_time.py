"""Several processes store reports of one experiment at the same time: none waits for another, and readers miss nothing.

Each process is a thread with a connection of its own here, whose transaction stays open as long as a test wants.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from django.db import connection, transaction
from django.utils import timezone

from nniweb.experiments.ingest import reports
from nniweb.experiments.ingest.one_report import Delivery
from nniweb.experiments.models import Attempt, Experiment, Metric, Trial, TrialOutput
from nniweb.experiments.pubsub.drawn_revisions import ExperimentsRows
from nniweb.experiments.pubsub.revisions import next_revision
from nniweb.experiments.queries.present_revisions import present, revisions_as_read
from nniweb.live import frames
from tests.nniweb.at_once import at_once
from trainingservice.receiver.report_reading import read_report

pytestmark = pytest.mark.django_db(transaction=True)

#: Seconds within which what waits for nobody is done.
PATIENCE = 30.0


@pytest.fixture(autouse=True)
def several_writers() -> None:
    if connection.vendor != "postgresql":
        pytest.skip("SQLite has one writer at a time")


@pytest.fixture
def make_running(make_attempt: Callable[..., Attempt]) -> Callable[..., Attempt]:
    def make(experiment: Experiment | None = None) -> Attempt:
        attempt = make_attempt(experiment, status="RUNNING")
        Attempt.objects.filter(pk=attempt.pk).update(started_at=timezone.now())
        return attempt

    return make


def metric(n: int) -> dict[str, Any]:
    return {"n": n, "at": 1.0, "type": "metric", "kind": "PERIODICAL", "parameter_id": 0, "sequence": n, "value": "1"}


def output(n: int) -> dict[str, Any]:
    return {"n": n, "at": 1.0, "type": "output", "stream": "stdout", "offset": 10 * n, "data": "line", "skipped": 0}


def ended(n: int) -> dict[str, Any]:
    return {"n": n, "at": 1.0, "type": "ended", "exit_code": 0, "signal": None, "reason": "exited", "message": "",
            "duration": 1.0}


def store(attempt: Attempt, *entries: dict[str, Any]) -> None:
    [answer] = reports.store([Delivery(attempt.job_name, None, read_report(
        {"keeper": {"version": 1, "journal_id": f"of {attempt.pk}"}, "entries": list(entries)}), timezone.now())])
    assert answer.status == 200, answer


@contextmanager
def under_way(attempt: Attempt, *entries: dict[str, Any]) -> Iterator[None]:
    """While it lasts another process has stored these entries and not committed them yet."""
    is_stored, goes_on = threading.Event(), threading.Event()

    def work() -> None:
        try:
            with transaction.atomic():
                store(attempt, *entries)
                is_stored.set()
                goes_on.wait(PATIENCE)
        finally:
            connection.close()

    thread = threading.Thread(target=work)
    thread.start()
    try:
        assert is_stored.wait(PATIENCE)
        yield
    finally:
        goes_on.set()
        thread.join(PATIENCE)
    assert not thread.is_alive()


def begins_to_wait(work: Callable[[], None]) -> Callable[[], None]:
    """Begin ``work``, which waits for a lock by now. What is returned waits for its end."""
    def run() -> None:
        try:
            work()
        finally:
            connection.close()

    thread = threading.Thread(target=run)
    thread.start()
    deadline = time.monotonic() + PATIENCE
    with connection.cursor() as cursor:
        waiting = 0
        while not waiting:
            assert thread.is_alive(), "it waited for nobody"
            assert time.monotonic() < deadline
            cursor.execute("SELECT count(*) FROM pg_locks WHERE NOT granted")
            [(waiting,)] = cursor.fetchall()

    def end() -> None:
        thread.join(PATIENCE)
        assert not thread.is_alive()

    return end


def nobody_waits() -> bool:
    with connection.cursor() as cursor:
        cursor.execute("SET lock_timeout = '1s'")
        cursor.execute("SELECT count(*) FROM pg_locks WHERE NOT granted")
        return cursor.fetchone() == (0,)


def revision_of(experiment: Experiment) -> int:
    found = present(experiment.pk)
    assert found is not None
    return found.revision


def test_reports_of_trials_of_one_experiment_do_not_wait_for_each_other(
        make_running: Callable[..., Attempt]) -> None:
    here = make_running()
    there = make_running(here.trial.experiment)
    with under_way(here, metric(1), output(2)):
        assert nobody_waits()
        store(there, metric(1), output(2))
        assert Metric.objects.count() == 1
    assert Metric.objects.count() == TrialOutput.objects.count() == 2


def test_nobody_is_told_a_revision_while_a_smaller_one_may_still_be_committed(
        make_running: Callable[..., Attempt]) -> None:
    here = make_running()
    experiment = here.trial.experiment
    there = make_running(experiment)
    with under_way(here, metric(1)):
        store(there, metric(1))
        later = Trial.objects.get(pk=there.trial_id).revision
        seen = frames.experiment_frame(experiment.pk, 0)
        assert seen is not None
        assert seen["revision"] < later
        assert revisions_as_read([Experiment.objects.get(pk=experiment.pk)]) == {experiment.pk: seen["revision"]}
        of_trial = frames.trial_frame(there.trial_id, 0)
        assert of_trial is not None
        assert (of_trial["revision"], of_trial["metrics"]) == (seen["revision"], [])
    earlier = Trial.objects.get(pk=here.trial_id).revision
    assert seen["revision"] < earlier < later
    assert revision_of(experiment) == later
    now = frames.experiment_frame(experiment.pk, seen["revision"])
    assert now is not None
    assert {row["id"] for row in now["trials"]} == {here.trial.public_id, there.trial.public_id}
    for attempt in (here, there):
        frame = frames.trial_frame(attempt.trial_id, seen["revision"])
        assert frame is not None
        assert (frame["revision"], len(frame["metrics"])) == (later, 1)


def test_reports_of_another_experiment_hold_nobody_up(make_running: Callable[..., Attempt],
                                                      make_experiment: Callable[..., Experiment]) -> None:
    here, there = make_running(), make_running(make_experiment(name="another"))
    with under_way(here, metric(1)):
        store(there, metric(1))
        assert revision_of(there.trial.experiment) == Trial.objects.get(pk=there.trial_id).revision


def test_output_alone_is_shown_by_the_trial_and_is_not_shown_twice(make_running: Callable[..., Attempt]) -> None:
    attempt = make_running()
    store(attempt, metric(1))
    seen = frames.trial_frame(attempt.trial_id, 0)
    assert seen is not None
    store(attempt, output(2))
    now = frames.trial_frame(attempt.trial_id, seen["revision"])
    assert now is not None
    assert (len(now["output"]), now["metrics"]) == (1, [])
    assert now["revision"] > seen["revision"]
    again = frames.trial_frame(attempt.trial_id, now["revision"])
    assert again is not None
    assert (again["revision"], again["output"], again["metrics"]) == (now["revision"], [], [])


def test_a_change_of_another_kind_waits_for_reports_under_way_and_comes_after_them(
        make_running: Callable[..., Attempt]) -> None:
    attempt = make_running()
    taken: list[int] = []

    def change() -> None:
        with transaction.atomic():
            taken.append(next_revision(attempt.trial.experiment_id))

    with under_way(attempt, metric(1)):
        is_done = begins_to_wait(change)
    is_done()
    assert taken[0] > Trial.objects.get().revision > 0
    assert revision_of(attempt.trial.experiment) == taken[0]


def test_the_end_of_a_trial_waits_for_reports_under_way_of_its_experiment(make_running: Callable[..., Attempt]) -> None:
    here = make_running()
    there = make_running(here.trial.experiment)
    with under_way(here, metric(1)):
        is_done = begins_to_wait(lambda: store(there, metric(1), ended(2)))
    is_done()
    assert set(Trial.objects.values_list("status", flat=True)) == {"RUNNING", "SUCCEEDED"}


def test_a_reader_that_follows_gets_every_metric_once(make_running: Callable[..., Attempt]) -> None:
    first = make_running()
    attempts = [first, make_running(first.trial.experiment), make_running(first.trial.experiment)]
    rounds = 25
    seen: dict[int, list[int]] = {attempt.trial_id: [] for attempt in attempts}
    since = dict.fromkeys(seen, 0)
    is_over = threading.Event()

    def follow() -> None:
        for trial_pk in seen:
            frame = frames.trial_frame(trial_pk, since[trial_pk])
            assert frame is not None
            seen[trial_pk] += [each["sequence"] for each in frame["metrics"]]
            since[trial_pk] = frame["revision"]

    def read(number: int) -> None:  # noqa: ARG001
        deadline = time.monotonic() + 2 * PATIENCE
        while not is_over.is_set() and time.monotonic() < deadline:
            follow()

    def write(attempt: Attempt) -> Callable[[int], None]:
        def work(number: int) -> None:  # noqa: ARG001
            for n in range(1, rounds + 1):
                store(attempt, metric(n))
            if Metric.objects.count() == rounds * len(attempts):
                is_over.set()

        return work

    at_once(read, *(write(attempt) for attempt in attempts))
    follow()
    assert seen == {trial_pk: list(range(1, rounds + 1)) for trial_pk in seen}


def test_the_experiments_row_follows_once_a_second_and_is_never_ahead(make_running: Callable[..., Attempt]) -> None:
    here = make_running()
    experiment = here.trial.experiment
    there = make_running(experiment)
    clock = [0.0]
    rows = ExperimentsRows(lambda: clock[0])
    revisions = []
    for attempt in (here, there):
        store(attempt, metric(1))
        revisions.append(Trial.objects.get(pk=attempt.trial_id).revision)
    Experiment.objects.update(revision=0, changed_at=None)
    rows.note({experiment.pk: revisions[0]})
    rows.bring_up_to_date()
    rows.note({experiment.pk: revisions[1]})
    rows.bring_up_to_date()
    row = Experiment.objects.get()
    assert row.revision == revisions[0]
    assert row.changed_at is not None
    clock[0] = 1.5
    rows.bring_up_to_date()
    assert Experiment.objects.get().revision == revisions[1]
    with under_way(here, metric(2)):
        store(there, metric(2))
        rows.note({experiment.pk: Trial.objects.get(pk=there.trial_id).revision})
        clock[0] = 3.0
        rows.bring_up_to_date()
        assert Experiment.objects.get().revision < Trial.objects.get(pk=there.trial_id).revision
    clock[0] = 5.0
    rows.bring_up_to_date()
    assert Experiment.objects.get().revision == Trial.objects.get(pk=there.trial_id).revision


def test_what_is_there_already_stays_and_the_rest_of_the_group_is_stored(make_running: Callable[..., Attempt]) -> None:
    attempt = make_running()
    store(attempt, metric(1), output(2))
    before = Metric.objects.get()
    Attempt.objects.update(accepted=0)  # as if its count had been lost
    store(attempt, {**metric(1), "value": "2"}, output(2), metric(3))
    assert Metric.objects.get(n=1).value == before.value == "1"
    assert sorted(Metric.objects.values_list("n", flat=True)) == [1, 3]
    assert TrialOutput.objects.count() == 1
