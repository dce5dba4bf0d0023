"""Removal holds others up shortly: pieces of each kind of row go by the time that its last ones took."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

import pytest
from django.db import connection
from django.db.models import Model
from django.test.utils import CaptureQueriesContext

from nniweb.experiments.models import Attempt, Experiment, Metric, SettledTrials, Trial
from nniweb.experiments.results.best_so_far import improvements_of
from nniweb.experiments.results.settled_trials import settled_of, trial_counts
from nniweb.experiments.retention import removal
from nniweb.experiments.retention.removal import AIM_SECONDS, FEWEST_ROWS, FIRST_ROWS, MOST_ROWS, Pace, remove_rows


@pytest.mark.django_db
def test_each_kind_of_row_has_a_size_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = 0.0
    monkeypatch.setattr(removal.time, "monotonic", lambda: clock)
    pace = Pace(sleep=lambda seconds: None)

    def takes(model: type[Metric] | type[Trial] | None, seconds: float) -> None:
        nonlocal clock
        with pace.measured(model):
            clock += seconds

    for _ in range(10):
        takes(Metric, AIM_SECONDS / 10)
    assert (pace.most_of(Metric), pace.most_of(Trial), pace.rows) == (MOST_ROWS, FIRST_ROWS, FIRST_ROWS)
    takes(Trial, AIM_SECONDS * 2)
    assert (pace.most_of(Metric), pace.most_of(Trial), pace.rows) == (MOST_ROWS, FIRST_ROWS // 2, FIRST_ROWS)
    takes(Metric, AIM_SECONDS * 10)
    assert pace.most_of(Metric) == FEWEST_ROWS, "at once where a transaction took much too long"
    takes(None, AIM_SECONDS / 10)
    assert (pace.rows, pace.most_of(Trial)) == (FIRST_ROWS * 2, FIRST_ROWS // 2)


@pytest.mark.django_db
@pytest.mark.parametrize("model", [Trial, Attempt])
def test_what_refers_to_rows_is_looked_for_before_the_transaction(
        model: type[Trial] | type[Attempt], make_attempt: Callable[..., Attempt]) -> None:
    attempt = make_attempt()
    transactions: list[CaptureQueriesContext] = []

    class Watched(Pace):
        @contextlib.contextmanager
        def measured(self, model: type[Model] | None = None) -> Iterator[None]:
            with CaptureQueriesContext(connection) as captured:
                yield
            transactions.append(captured)

    assert remove_rows(model, Watched(), pk=attempt.trial_id if model is Trial else attempt.pk) == 1
    [statements] = transactions
    written = [query["sql"] for query in statements]
    assert [sql for sql in written if "SELECT" in sql.split()[:1]] == []
    assert any(sql.startswith("DELETE") for sql in written)
    assert not model._default_manager.exists()


@pytest.mark.django_db
def test_counts_do_not_read_improvements_of_which_there_may_be_thousands(
        make_experiment: Callable[..., Experiment]) -> None:
    experiment = make_experiment(next_sequence_id=3, optimize_mode="maximize")
    SettledTrials.objects.create(experiment=experiment, until=3, counts={"SUCCEEDED": 3}, revision=1,
                                 improvements=[[0, 0.5], [2, 0.75]])
    with CaptureQueriesContext(connection) as asked:
        assert trial_counts([experiment.pk]) == {experiment.pk: {"SUCCEEDED": 3}}
    assert [query["sql"] for query in asked if "improvements" in query["sql"]] == []
    assert settled_of([experiment.pk])[experiment.pk].improvements is None
    assert settled_of([experiment.pk], with_improvements=True)[experiment.pk].improvements == [(0, 0.5), (2, 0.75)]
    assert improvements_of([experiment.pk]) == {experiment.pk: [(0, 0.5), (2, 0.75)]}
