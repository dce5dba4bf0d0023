"""Filters in words find the trials they say, and tell where they are not understood."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import transaction

from nniweb.experiments.models import Attempt, Cluster, Experiment, Trial, TrialParameters, User
from nniweb.experiments.trial_filter import FilterInvalid, fitting_trials
from nniweb.experiments.trial_filter.language import parse
from nniweb.experiments.trial_filter.parameter_names import parameter_names

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


@pytest.fixture(scope="module")
def rows(django_db_setup: None, django_db_blocker: Any) -> Iterator[int]:
    """The experiment's, made once: each test goes back to them."""
    with django_db_blocker.unblock(), transaction.atomic():
        yield six_trials().pk
        transaction.set_rollback(True)


@pytest.fixture
def six(rows: int, db: None) -> Experiment:
    return Experiment.objects.get(pk=rows)


def six_trials() -> Experiment:
    """Two that succeeded, a failed one, one that runs for an hour, one that waits, one that ran before without a
    keeper's word of how long.
    """
    experiment = Experiment.objects.create(
        name="six", owner=User.objects.create_user("grace"), created_at=NOW, status="RUNNING", seed=1,
        cluster=Cluster.objects.create(name="of six", platform="local"), trial_command="true", trial_concurrency=2,
        max_trial_number=10, tuner={"name": "Random"}, optimize_mode="minimize", next_sequence_id=6,
        search_space={"lr": {}, "batch": {}, "act": {}, "status": {}, "layer": {}})
    trials: list[tuple[dict[str, Any], dict[str, Any], dict[str, Any]]] = [
        ({"status": "SUCCEEDED", "final_number": 0.9, "tags": ["good", "Näher"], "message": "",
          "started_at": NOW - timedelta(days=2), "ended_at": NOW - timedelta(days=2)},
         {"lr": 0.1, "batch": 32, "act": "tanh", "status": "hot", "layer": {"_name": "conv", "kernel size": 3}},
         {"machine_name": "alpha", "gpu_indices": [0, 1], "exit_code": 0, "duration": 50.0}),
        ({"status": "SUCCEEDED", "final_number": 0.5, "tags": ["good"], "source": "rerun",
          "started_at": NOW - timedelta(hours=5), "ended_at": NOW - timedelta(hours=4)},
         {"lr": 0.001, "batch": 64, "act": "relu", "layer": {"_name": "none"}},
         {"machine_name": "beta", "gpu_indices": [1], "exit_code": 0, "duration": 700.0}),
        ({"status": "FAILED", "message": "No 100% data, it said \"gone\"", "started_at": NOW - timedelta(hours=2),
          "ended_at": NOW - timedelta(hours=2)},
         {"lr": 1, "batch": "big", "act": True}, {"machine_name": "beta", "exit_code": 137, "duration": 0.25}),
        ({"status": "RUNNING", "latest_number": 0.25, "intermediate_count": 3, "started_at": NOW - timedelta(hours=1)},
         {"lr": 1e-5, "act": None}, {"machine_name": "alpha", "gpu_indices": []}),
        ({"status": "WAITING", "message": "The trial waits for a free slot."}, {"lr": 0.02, "act": "3"}, {}),
        ({"status": "USER_CANCELED", "started_at": NOW - timedelta(hours=9), "ended_at": NOW - timedelta(hours=6)},
         {"lr": 0.03}, {"machine_name": "alpha"}),
    ]
    for number, (fields, parameters, attempt) in enumerate(trials):
        trial = Trial.objects.create(experiment=experiment, sequence_id=number, created_at=NOW, **fields)
        TrialParameters.objects.create(trial=trial, parameter_id=trial.ask_number, value=parameters)
        Attempt.objects.create(trial=trial, job_name=trial.public_id, created_at=NOW, stage=Attempt.Stage.SUBMITTED,
                               **attempt)
    tried_again = Trial.objects.get(sequence_id=1)  # its first attempt was elsewhere, and says nothing any more
    Attempt.objects.create(trial=tried_again, number=2, job_name="again", created_at=NOW, machine_name="gamma",
                           exit_code=0, duration=700.0, gpu_indices=[1])
    return experiment


def fitting(experiment: Experiment, text: str) -> list[int]:
    trials = fitting_trials(Trial.objects.filter(experiment=experiment), text, experiment, NOW)
    return sorted(trials.values_list("sequence_id", flat=True))


@pytest.mark.parametrize(("text", "expected"), [
    ("status = FAILED", [2]), ("status = failed", [2]), ("status != FAILED", [0, 1, 3, 4, 5]),
    ("status in (RUNNING, waiting)", [3, 4]), ("status not in (SUCCEEDED, FAILED)", [3, 4, 5]),
    ("status ~ cancel", [5]),
    ("number = 3", [3]), ("number >= 4 or number = 0", [0, 4, 5]), ("sequence_id in (1, 2)", [1, 2]),
    ("result > 0.4 and result <= 0.5", [1]), ("result = none", [2, 3, 4, 5]), ("result != 0.5", [0]),
    ("not result = 0.5", [0, 2, 3, 4, 5]), ("latest = 0.25", [3]), ("intermediates > 2", [3]),
    ("machine = beta", [2]), ("machine ~ AM", [1]), ("machine = none", [4]), ("machine != alpha", [1, 2]),
    ("machine in (alpha, gamma)", [0, 1, 3, 5]), ("gpu = 1", [0, 1]), ("gpu = 0", [0]), ("gpu = none", [2, 3, 4, 5]),
    ("gpu != none", [0, 1]), ("exit_code = 137", [2]), ("exit_code != 0", [2]), ("exit_code = none", [3, 4, 5]),
    ("attempt > 1", [1]), ("tag = good", [0, 1]), ("tag = goo", []), ("tag ~ GOO", [0, 1]), ("tag = Näher", [0]),
    ("tag != good", [2, 3, 4, 5]), ("tag = none", [2, 3, 4, 5]), ("tag in (Näher, other)", [0]),
    ("message contains data", [2]), ("message ~ \"100% data\"", [2]), ("message = none", [0, 1, 3, 5]),
    ("source = rerun", [1]), ("duration < 1", [2]), ("duration > 10m", [1, 3, 5]), ("duration = 50", [0]),
    ("duration = 3h", [5]), ("duration = none", [4]), ("duration != 50", [1, 2, 3, 5]),
    ("started > 2h ago", [3]), ("started >= 2026-03-01T10:00", [2, 3]), ("started < 2026-02-28", [0]),
    ("started = 2026-02-27", [0]), ("started >= 2026-03-01T12:00+02:00", [2, 3]), ("ended = none", [3, 4]),
    ("ended != 2026-02-27", [1, 2, 5]), ("lr < 0.01", [1, 3]), ("lr >= 0.1", [0, 2]), ("lr = 1", [2]),
    ("lr = 1.0", [2]), ("lr in (0.1, 1e-5)", [0, 3]), ("batch = 64", [1]), ("batch > 1", [0, 1]), ("batch = big", [2]),
    ("batch = none", [3, 4, 5]), ("batch != 64", [0, 2]), ("act = tanh", [0]), ("act = true", [2]), ("act = True", [2]),
    ("act = 3", [4]), ("act ~ EL", [1]), ("act = none", [3, 5]), ("layer._name = conv", [0]),
    ("layer.\"kernel size\" = 3", [0]), ("\"layer\".'kernel size' < 4", [0]), ("parameters.status = hot", [0]),
    ("\"status\" = hot", [0]), ("status = FAILED and lr < 0.01", []),
    ("status = FAILED or lr < 0.01 and act = relu", [1, 2]),
    ("(status = FAILED or lr < 0.01) and not act = relu", [2, 3]), ("NOT (lr < 0.01 OR lr > 0.05)", [4, 5]),
    ("4", [4]), ("tanh", [0]), ("'free slot'", [4]), ("not tanh", [1, 2, 3, 4, 5]), ("lr<.01", [1, 3]),
])
def test_a_filter_finds_what_it_says(six: Experiment, text: str, expected: list[int]) -> None:
    assert fitting(six, text) == expected


@pytest.mark.parametrize(("text", "place", "sentence"), [
    ("statis = FAILED", "statis", "a parameter nor a metric of this experiment; did you mean status?"),
    ("number = 1 and lrr < 3", "lrr", "did you mean lr?"), ("layer.kernel = 3", "layer.kernel", "kernel size"),
    ("status = FAILD", "FAILD", "did you mean FAILED?"), ("result = high", "high", "compared with a number"),
    ("number = 1.5", "1.5", "whole number"), ("status < FAILED", "status < FAILED", "only by = != ~ or in"),
    ("machine > a", "machine > a", "only by"), ("lr > fast", "fast", "compared with a number"),
    ("duration > long", "long", "number without a unit"), ("started > yesterday", "yesterday", "2h ago"),
    ("result ~ 3", "result ~ 3", "~ (contains)"), ("gpu > 1", "gpu > 1", "only by"), ("result = nan", "nan", "number"),
    ("status FAILED", "FAILED", "a comparison such as"), ("lr <", "", "ends too early"), ("(lr < 1", "", "')'"),
    ("lr = \"abc", "\"", "is not closed"), ("lr ! 3", "!", "not expected"), ("a = 1 xor b = 2", "xor", "'and', 'or'"),
    ("", "", "ends too early"), ("lr in 3", "3", "'('"), ("x = 1 and " * 50 + "x = 1", None, "more than 50"),
    ("x" * 3000, None, "longer than 2000"), ("started in (1, 2)", "started in (1, 2", "only by"),
])
def test_a_filter_that_is_not_understood_names_the_place(six: Experiment, text: str, place: str | None, sentence: str
                                                         ) -> None:
    with pytest.raises(FilterInvalid) as refused:
        fitting(six, text)
    assert sentence in str(refused.value)
    assert place is None or text[refused.value.start:refused.value.end] == place


@pytest.mark.parametrize(("text", "expected"), [
    ("duration > 1e12", []), ("duration < 99999999999999", [0, 1, 2, 3, 5]), ("duration > -1e12", [0, 1, 2, 3, 5]),
    ("duration = 1e13", []), ("duration != 1e13", [0, 1, 2, 3, 5]), ("started < 9999-12-31", [0, 1, 2, 3, 5]),
    ("started = 9999-12-31", []), ("started = 20260227", [0]),
])
def test_a_time_or_a_duration_may_be_as_far_away_as_it_can_be_written(six: Experiment, text: str, expected: list[int]
                                                                      ) -> None:
    assert fitting(six, text) == expected


@pytest.mark.parametrize("time", ["0001-01-01T00:00+14:00", "9999-12-31T23:59-10:00"])
def test_a_time_that_is_outside_of_the_calendar_in_utc_is_not_a_time(six: Experiment, time: str) -> None:
    with pytest.raises(FilterInvalid, match="is not a time"):
        fitting(six, f"started > {time}")


def test_a_parameter_that_only_an_old_trial_has_is_found(six: Experiment, make_attempt: Callable[..., Attempt]) -> None:
    first = make_attempt(six)
    first.trial.parameter_sets.update(value={"own": {"0": {"a.b": 7}}})
    for _ in range(25):
        make_attempt(six)
    assert "own.0.a.b" not in parameter_names(six)
    assert fitting(six, "own.0.\"a.b\" = 7") == [first.trial.sequence_id]


def test_names_of_parameters_are_those_that_can_be_compared(six: Experiment) -> None:
    names = parameter_names(six)
    nested = {"layer._name", "layer.kernel size"}
    assert set(names) == {"lr", "batch", "act", "status", *nested}
    first = min(names.index(name) for name in nested)  # PostgreSQL has an order of its own
    assert set(names[first:first + 2]) == nested, "what belongs together stands together"


def test_however_deep_brackets_and_nots_are_nested_the_server_stands(six: Experiment) -> None:
    assert fitting(six, "(" * 900 + "lr = 1" + ")" * 900) == [2]
    assert fitting(six, "not " * 490 + "lr = 1") == [2]
    assert fitting(six, "not (lr = 1 or " * 10 + "lr = 1" + ")" * 10) == []
    with pytest.raises(FilterInvalid, match="more than 10 deep"):
        fitting(six, "not (lr = 1 or " * 11 + "lr = 1" + ")" * 11)


def test_keywords_are_words_where_no_keyword_is_expected() -> None:
    assert str(parse("in = and")).count("text='and'") == 1
    assert str(parse("android ~ ago")).count("text='ago'") == 1
