"""Reports of keepers become rows, each entry exactly once."""

import json
from datetime import timedelta
from typing import Any

import psycopg
import pytest
from django.db import InternalError, connection
from django.utils import timezone

from nniweb.experiments.ingest import reports
from nniweb.experiments.ingest.one_report import TOKEN_GRACE, Delivery
from nniweb.experiments.ingest.report_answers import Answer
from nniweb.experiments.ingest.resource_samples import MAX_READINGS
from nniweb.experiments.lifecycle.transitions import set_targets
from nniweb.experiments.models import Attempt, Metric, ResourceReading, Trial, TrialOutput, TrialParameters
from nniweb.experiments.models.account import hash_of
from nniweb.experiments.models.trial import TrialTarget
from nniweb.experiments.pubsub import doorbell
from nniweb.experiments.sql import database_health
from trainingservice.reasons import Reason
from trainingservice.receiver.report_reading import read_report

pytestmark = pytest.mark.django_db


def report(*entries: dict[str, Any], journal: str = "j1", sent_at: float | None = None, **more: Any) -> Any:
    return read_report({"keeper": {"version": 1, "journal_id": journal, **more.pop("keeper", {})},
                        "entries": list(entries), "sent_at": sent_at, **more})


def deliver(attempt: Attempt, *entries: dict[str, Any], token: str = "token", **more: Any) -> Answer:
    return reports.store([Delivery(attempt.job_name, hash_of(token), report(*entries, **more),
                                         timezone.now())])[0]


def started(n: int = 1) -> dict[str, Any]:
    return {"n": n, "at": 1.0, "type": "started", "pid": 7, "host": "box", "working_directory": "/w"}


def metric(n: int, value: str = "0.5", kind: str = "PERIODICAL", sequence: int = 0) -> dict[str, Any]:
    return {"n": n, "at": 1.0, "type": "metric", "kind": kind, "parameter_id": 0, "sequence": sequence, "value": value}


def ended(n: int, exit_code: int | None = 0, reason: str = "exited", **more: Any) -> dict[str, Any]:
    return {"n": n, "at": 1.0, "type": "ended", "exit_code": exit_code, "signal": None, "reason": reason,
            "message": "", "duration": 2.5, **more}


def output(n: int, text: str, stream: str = "stdout", offset: int = 0) -> dict[str, Any]:
    return {"n": n, "at": 1.0, "type": "output", "stream": stream, "offset": offset, "data": text}


def test_a_whole_life_of_a_trial_is_stored(make_attempt) -> None:
    attempt = make_attempt()
    answer = deliver(attempt, started(), metric(2, "0.1"), output(3, "hello\n"), metric(4, "0.9", "FINAL"), ended(5))
    assert (answer.status, answer.body["accepted"], answer.body["orders"]) == (200, 5, [])
    trial = Trial.objects.get()
    assert (trial.status, trial.final_value, trial.final_number) == ("SUCCEEDED", "0.9", 0.9)
    assert (trial.latest_number, trial.intermediate_count) == (0.1, 1)
    attempt.refresh_from_db()
    assert (attempt.stage, attempt.exit_code, attempt.duration, attempt.machine_name) == ("ended", 0, 2.5, "box")
    assert [event.kind for event in trial.events.order_by("pk")] == ["RUNNING", "SUCCEEDED"]
    assert TrialOutput.objects.get().data == b"hello\n"


@pytest.mark.django_db(transaction=True)
def test_a_report_calls_the_worker_only_where_something_follows_from_it(make_attempt, make_experiment) -> None:
    plain = make_attempt()
    assessed = make_attempt(make_experiment(assessor={"name": "Medianstop"}))
    with doorbell.listening(rounds_only=True) as worker, doorbell.listening() as page:
        for attempt in (plain, assessed):
            deliver(attempt, started())
            assert (worker.take(), page.take()) == (set(), {attempt.trial.experiment_id})
        deliver(plain, metric(2), metric(3, kind="FINAL"))
        assert (worker.take(), page.take()) == (set(), {plain.trial.experiment_id})
        deliver(assessed, metric(2))
        assert worker.take() == {assessed.trial.experiment_id}
        deliver(plain, ended(4))
        assert worker.take() == {plain.trial.experiment_id}


def test_a_repeated_report_changes_nothing(make_attempt) -> None:
    attempt = make_attempt()
    deliver(attempt, started(), metric(2), metric(3, sequence=1))
    before = list(Metric.objects.values())
    answer = deliver(attempt, started(), metric(2), metric(3, sequence=1))
    assert (answer.status, answer.body["accepted"]) == (200, 3)
    assert list(Metric.objects.values()) == before
    assert Trial.objects.get().intermediate_count == 2


def test_an_overlapping_report_adds_only_what_is_new(make_attempt) -> None:
    attempt = make_attempt()
    deliver(attempt, started(), metric(2))
    deliver(attempt, metric(2), metric(3, sequence=1))
    assert list(Metric.objects.order_by("n").values_list("n", flat=True)) == [2, 3]


def test_a_gap_is_refused_with_the_number_expected_and_nothing_changes(make_attempt) -> None:
    attempt = make_attempt()
    deliver(attempt, started())
    answer = deliver(attempt, metric(3))
    assert (answer.status, answer.body["error"], answer.body["expected"]) == (409, "gap", 2)
    attempt.refresh_from_db()
    assert (attempt.accepted, Metric.objects.count()) == (1, 0)


def test_the_first_journal_owns_the_attempt(make_attempt) -> None:
    attempt = make_attempt()
    deliver(attempt, started())
    answer = deliver(attempt, started(), journal="j2")
    assert (answer.status, answer.body["error"]) == (409, "claimed")
    attempt.refresh_from_db()
    assert attempt.journal_id == "j1"


def test_a_heartbeat_claims_nothing(make_attempt) -> None:
    attempt = make_attempt()
    assert deliver(attempt, journal="j2").status == 200
    assert deliver(attempt, started(), journal="j1").status == 200


@pytest.mark.parametrize("token", ["", "wrong"])
def test_a_wrong_token_is_refused_and_nothing_changes(make_attempt, token: str) -> None:
    attempt = make_attempt()
    answer = deliver(attempt, started(), token=token)
    assert (answer.status, answer.body["error"]) == (401, "token")
    attempt.refresh_from_db()
    assert (attempt.accepted, attempt.heard_at, Trial.objects.get().status) == (0, None, "WAITING")


def test_another_trials_token_is_refused(make_attempt) -> None:
    attempt, other = make_attempt(), make_attempt()
    Attempt.objects.filter(pk=other.pk).update(token_hashes=[hash_of("others")])
    assert deliver(attempt, started(), token="others").status == 401


def test_a_token_ends_some_time_after_the_attempt(make_attempt) -> None:
    attempt = make_attempt()
    deliver(attempt, started(), ended(2))
    assert deliver(attempt, started(), ended(2)).status == 200, "an answer may have been lost"
    Attempt.objects.update(end_received_at=timezone.now() - TOKEN_GRACE - timedelta(seconds=1))
    assert deliver(attempt, started(), ended(2)).status == 401


def test_an_unknown_job_is_not_found(make_attempt) -> None:
    attempt = make_attempt()
    attempt.job_name = "nosuchjob123"
    assert deliver(attempt, started()).status == 404


@pytest.mark.parametrize(("value", "number"), [
    ("0.25", 0.25), ("NaN", None), ("Infinity", None), ("1e308", 1e308), ("1e999", None),
    ('{"default": 0.7, "loss": 3}', 0.7), ('{"loss": 3}', None), ('"text"', None), ("true", None), ("null", None),
    ("not json at all", None), (json.dumps(list(range(20_000))), None), ("a\x00b", None), ("\ud800 lone", None),
    ('"\\u0000 and \\ud800"', None), ('{"default": NaN}', None), ("9" * 400, None)])
def test_a_metrics_value_is_stored_as_given(make_attempt, value: str, number: float | None) -> None:
    attempt = make_attempt()
    answer = deliver(attempt, started(), metric(2, value), metric(3, value, "FINAL"), ended(4))
    assert (answer.status, answer.body["rejected"]) == (200, [])
    for stored in Metric.objects.all():
        assert (stored.value, stored.number) == (value, number)
    trial = Trial.objects.get()
    assert (trial.final_value, trial.final_number, trial.latest_number) == (value, number, number)


def test_the_first_final_value_counts_and_later_ones_stay_visible(make_attempt) -> None:
    attempt = make_attempt()
    deliver(attempt, started(), metric(2, "1", "FINAL"), metric(3, "2", "FINAL"))
    deliver(attempt, metric(4, "3", "FINAL"))
    assert Trial.objects.get().final_value == "1"
    assert Metric.objects.count() == 3


def test_a_first_final_value_that_is_no_number_stays(make_attempt) -> None:
    attempt = make_attempt()
    deliver(attempt, started(), metric(2, "NaN", "FINAL"))
    deliver(attempt, metric(3, "2", "FINAL"))
    trial = Trial.objects.get()
    assert (trial.final_value, trial.final_number) == ("NaN", None)


def test_late_entries_fill_an_empty_final_value_but_never_change_a_status(make_attempt) -> None:
    attempt = make_attempt()
    deliver(attempt, started(), ended(2, exit_code=3))
    deliver(attempt, metric(3, "0.5", "FINAL"), ended(4, exit_code=0))
    trial = Trial.objects.get()
    assert (trial.status, trial.final_number) == ("FAILED", 0.5)


def test_a_wrong_entry_is_acknowledged_and_listed_without_blocking_those_behind(make_attempt) -> None:
    attempt = make_attempt()
    answer = deliver(attempt, started(), {"n": 2, "at": 1.0, "type": "metric", "kind": "NONSENSE"}, metric(3))
    assert (answer.status, answer.body["accepted"]) == (200, 3)
    assert [(bad["n"], bad["field"]) for bad in answer.body["rejected"]] == [(2, "kind")]
    assert Metric.objects.get().n == 3


@pytest.mark.django_db(transaction=True)
def test_an_entry_the_database_refuses_is_isolated(make_attempt) -> None:
    attempt, other = make_attempt(), make_attempt()
    begin, end = {
        "sqlite": ("CREATE TRIGGER poison BEFORE INSERT ON experiments_metric WHEN NEW.sequence = 666 "
                   "BEGIN SELECT RAISE(ABORT, 'poison'); END", "DROP TRIGGER poison"),
        "postgresql": ("ALTER TABLE experiments_metric ADD CONSTRAINT poison CHECK (sequence <> 666)",
                       "ALTER TABLE experiments_metric DROP CONSTRAINT poison"),
    }[connection.vendor]
    with connection.cursor() as cursor:
        cursor.execute(begin)
    try:
        answers = reports.store([
            Delivery(attempt.job_name, None, report(started(), metric(2), metric(3, sequence=666), metric(4)),
                            timezone.now()),
            Delivery(other.job_name, None, report(started(), metric(2)), timezone.now())])
    finally:
        with connection.cursor() as cursor:
            cursor.execute(end)
    assert [(answer.status, answer.body["accepted"]) for answer in answers] == [(200, 4), (200, 2)]
    assert [bad["n"] for bad in answers[0].body["rejected"]] == [3]
    assert sorted(Metric.objects.values_list("attempt__job_name", "n")) == sorted(
        [(attempt.job_name, 2), (attempt.job_name, 4), (other.job_name, 2)])


@pytest.mark.django_db(transaction=True)
def test_no_entry_is_rejected_for_what_is_wrong_with_the_database_itself(make_attempt) -> None:
    attempt, other = make_attempt(), make_attempt()
    damaged = "UPDATE sqlite_schema SET rootpage = {} WHERE name = 'experiments_metric'"
    with connection.cursor() as cursor:
        if connection.vendor == "sqlite":  # the table is damaged, as by a bad disk
            cursor.execute("SELECT max(rootpage) FILTER (WHERE name = 'experiments_metric'),"
                           " min(rootpage) FILTER (WHERE type = 'index') FROM sqlite_schema")
            [(root, of_an_index)] = cursor.fetchall()
            begin, end = (["PRAGMA writable_schema=ON", damaged.format(page), "PRAGMA writable_schema=RESET"]
                          for page in (of_an_index, root))
        else:  # it is missing, as after half a restore
            begin, end = (["ALTER TABLE experiments_metric RENAME TO away"],
                          ["ALTER TABLE away RENAME TO experiments_metric"])
    send = [Delivery(attempt.job_name, None, report(started(), metric(2), metric(3)), timezone.now()),
            Delivery(other.job_name, None, report(started()), timezone.now())]
    with connection.cursor() as cursor:
        for statement in begin:
            cursor.execute(statement)
    try:
        answers = reports.store(send)
    finally:
        with connection.cursor() as cursor:
            for statement in end:
                cursor.execute(statement)
    assert [answer.status for answer in answers] == [503, 200], "those that it can take are stored"
    assert [answer.status for answer in reports.store(send)] == [200, 200]
    assert sorted(Metric.objects.values_list("n", flat=True)) == [2, 3]


def test_a_failing_trial_says_why_with_its_last_words(make_attempt) -> None:
    attempt = make_attempt()
    deliver(attempt, started(), output(2, "Traceback...\nValueError: no such data\n\n", "stderr"))
    deliver(attempt, ended(3, exit_code=1))
    trial = Trial.objects.get()
    assert trial.status == "FAILED"
    assert trial.message == "The command ended with exit code 1. Last line of stderr: ValueError: no such data"


def test_a_wanted_stop_is_ordered_in_the_reply(make_attempt) -> None:
    attempt = make_attempt()
    deliver(attempt, started())
    Trial.objects.update(target="EARLY_STOPPED")
    assert deliver(attempt).body["orders"] == [{"order": "stop", "reason": "Stopped early."}]
    Trial.objects.update(message="The median of the others is better.")
    assert deliver(attempt).body["orders"] == [{"order": "stop", "reason": "The median of the others is better."}]
    deliver(attempt, ended(2, exit_code=0, reason="stopped"))
    assert Trial.objects.get().status == "EARLY_STOPPED"


def test_a_keeper_whose_attempt_has_ended_without_it_is_told_to_stop(make_attempt) -> None:
    attempt = make_attempt()
    deliver(attempt, started())
    Attempt.objects.update(stage="ended", ended_at=timezone.now())
    assert deliver(attempt).body["orders"][0]["order"] == "stop"


def test_later_parameters_are_ordered_until_the_keeper_holds_them(make_attempt, make_experiment) -> None:
    attempt = make_attempt(make_experiment(multi_phase=True))
    TrialParameters.objects.create(trial=attempt.trial, index=1, parameter_id=5, value={"x": 1})
    answer = deliver(attempt, started(), metric(2, "1", "REQUEST_PARAMETER"))
    assert [(order["order"], order["index"]) for order in answer.body["orders"]] == [("parameters", 1)]
    assert json.loads(answer.body["orders"][0]["text"])["parameters"] == {"x": 1}
    assert deliver(attempt, keeper={"parameter_index": 1}).body["orders"] == []


def test_a_keeper_is_asked_back_soon_while_parameters_are_due(make_attempt, make_experiment) -> None:
    attempt = make_attempt(make_experiment(multi_phase=True))
    assert deliver(attempt, started()).body["next_report_within"] == 10
    assert deliver(attempt, metric(2, "2", "REQUEST_PARAMETER")).body["next_report_within"] == 0.2
    TrialParameters.objects.create(trial=attempt.trial, index=1, parameter_id=5, value={"x": 1})
    assert deliver(attempt).body["next_report_within"] == 0.2, "those of index 2 are still due"
    assert deliver(attempt, keeper={"parameter_index": 2}).body["next_report_within"] == 10, "it holds them already"
    assert deliver(attempt).body["next_report_within"] == 0.2
    TrialParameters.objects.create(trial=attempt.trial, index=2, parameter_id=6, value={"x": 2})
    assert deliver(attempt).body["next_report_within"] == 10, "they are on their way"


@pytest.mark.parametrize("value", ["null", "", "-1", "1.5", "\u0663", "9" * 4000])
def test_a_request_for_parameters_without_a_right_index_harms_nobody(make_attempt, value: str) -> None:
    attempt = make_attempt()
    answer = deliver(attempt, started(), metric(2, value, "REQUEST_PARAMETER"))
    assert (answer.status, answer.body["accepted"], answer.body["next_report_within"]) == (200, 2, 10)


def test_a_heartbeat_of_another_journal_is_refused_once_the_attempt_is_claimed(make_attempt) -> None:
    attempt = make_attempt()
    deliver(attempt, {"n": 1, "at": 1.0, "type": "nonsense"})
    attempt.refresh_from_db()
    assert (attempt.journal_id, attempt.accepted) == ("j1", 1), "any entry taken claims, a rejected one too"
    heard_at = attempt.heard_at
    answer = deliver(attempt, journal="j2")
    assert (answer.status, answer.body["error"]) == (409, "claimed")
    attempt.refresh_from_db()
    assert attempt.heard_at == heard_at


def test_a_replica_hears_orders_and_touches_nothing(make_attempt) -> None:
    attempt = make_attempt()
    Trial.objects.update(target="USER_CANCELED")
    answer = deliver(attempt, keeper={"replica": 1})
    assert answer.body["orders"][0]["order"] == "stop"
    attempt.refresh_from_db()
    assert attempt.heard_at is None


def test_a_database_that_only_reads_now_takes_the_reports_later_and_blames_no_entry(make_attempt, caplog) -> None:
    attempt = make_attempt()

    def read_only(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        if sql.split(None, 1)[0].upper() in ("INSERT", "UPDATE", "DELETE"):
            raise InternalError("cannot execute UPDATE in a read-only transaction") \
                from psycopg.errors.ReadOnlySqlTransaction()
        return execute(sql, params, many, context)

    with connection.execute_wrapper(read_only):
        answer = deliver(attempt, started(), metric(2))
    assert (answer.status, answer.retry_after) == (503, 1)
    assert "read-only transaction" in database_health.write_trouble()
    assert [(record.levelname, record.exc_info) for record in caplog.records] == [("WARNING", None)]
    assert deliver(attempt, started(), metric(2)).body["accepted"] == 2, "nothing was rejected"
    assert database_health.write_trouble() == ""


def test_times_are_corrected_by_the_keepers_clock(make_attempt) -> None:
    attempt = make_attempt()
    an_hour_ahead = timezone.now().timestamp() + 3600
    deliver(attempt, started(), {**metric(2), "at": an_hour_ahead - 10}, sent_at=an_hour_ahead)
    age = (timezone.now() - Metric.objects.get().recorded_at).total_seconds()
    assert 9 < age < 15


def test_readings_are_thinned(make_attempt) -> None:
    attempt = make_attempt()
    for number in range(MAX_READINGS + 50):
        deliver(attempt, resources={"cpu_percent": number})
    kept = list(ResourceReading.objects.order_by("at").values_list("data__cpu_percent", flat=True))
    assert len(kept) <= MAX_READINGS
    assert (kept[0], kept[-1]) == (0, MAX_READINGS + 49)
    attempt.refresh_from_db()
    assert attempt.resources == {"cpu_percent": MAX_READINGS + 49}


def test_a_trial_that_was_unknown_is_running_again_when_it_is_heard(make_attempt) -> None:
    attempt = make_attempt()
    deliver(attempt, started())
    Trial.objects.update(status="UNKNOWN")
    deliver(attempt)
    assert Trial.objects.get().status == "RUNNING"


def test_every_change_carries_a_new_revision_of_its_experiment(make_attempt) -> None:
    attempt = make_attempt()
    deliver(attempt, started(), metric(2))
    first = Trial.objects.get().revision
    deliver(attempt, metric(3))
    trial = Trial.objects.select_related("experiment").get()
    assert first < trial.revision == trial.experiment.revision == Metric.objects.get(n=3).revision


def test_a_group_of_reports_costs_few_queries_per_report(make_attempt, django_assert_max_num_queries) -> None:
    attempts = [make_attempt() for _ in range(20)]
    for attempt in attempts:
        deliver(attempt, started())
    deliveries = [Delivery(attempt.job_name, hash_of("token"),
                                  report(*[metric(n, sequence=n) for n in range(2, 102)]), timezone.now())
                  for attempt in attempts]
    with django_assert_max_num_queries(10 + 3 * len(attempts)):
        reports.store(deliveries)
    assert Metric.objects.count() == 2000


def test_a_report_that_another_process_stored_meanwhile_changes_nothing_and_its_neighbours_are_stored(
        make_attempt, monkeypatch: pytest.MonkeyPatch) -> None:
    overtaken, neighbour = make_attempt(), make_attempt()
    read = reports.reporting_attempts

    def read_before_the_other_process_commits(names: Any) -> Any:
        found = read(names)
        Attempt.objects.filter(pk=overtaken.pk).update(accepted=7, journal_id="j1")
        return found

    monkeypatch.setattr(reports, "reporting_attempts", read_before_the_other_process_commits)
    answers = reports.store([Delivery(attempt.job_name, None, report(metric(1)), timezone.now())
                            for attempt in (overtaken, neighbour)])
    assert [(answer.status, answer.retry_after) for answer in answers] == [(503, 1), (200, None)]
    assert list(Metric.objects.values_list("attempt", "n")) == [(neighbour.pk, 1)]


def test_an_end_keeps_the_code_of_its_reason_with_the_arguments(make_attempt) -> None:
    attempt = make_attempt()
    deliver(attempt, started(), output(2, "no such file\n", "stderr"), ended(3, exit_code=3))
    trial = Trial.objects.get()
    assert (trial.reason, trial.reason_arguments) == ("exit_code", {"exit_code": 3, "last_words": "no such file"})


def test_a_stop_that_was_wanted_keeps_the_code_with_which_it_was_wanted(make_attempt) -> None:
    attempt = make_attempt()
    deliver(attempt, started())
    set_targets([attempt.trial], TrialTarget.EARLY_STOPPED, timezone.now(), revision=1, reason=Reason("time_limit"))
    deliver(attempt, ended(2, exit_code=-15, reason="stopped"))
    trial = Trial.objects.get()
    assert (trial.status, trial.reason, trial.message) == ("EARLY_STOPPED", "time_limit", Reason("time_limit"))


def test_a_stop_keeps_its_arguments(make_attempt) -> None:
    attempt = make_attempt()
    deliver(attempt, started())
    set_targets([attempt.trial], TrialTarget.USER_CANCELED, timezone.now(), revision=1,
                reason=Reason("refused", said="by somebody"))
    deliver(attempt, ended(2, exit_code=-15, reason="stopped"))
    assert Trial.objects.values_list("reason", "reason_arguments").get() == ("refused", {"said": "by somebody"})
