"""Rows read and changed by SQL put together once are those that Django's own way gives."""

from datetime import UTC, datetime
from typing import Any

import pytest

from nniweb.experiments.models import Experiment, Trial
from nniweb.experiments.sql.changed_rows import update
from nniweb.experiments.sql.selected_rows import is_any, select

pytestmark = pytest.mark.django_db


def test_every_kind_of_value_is_read_as_django_reads_it(make_experiment: Any) -> None:
    space = {"x": {"_type": "uniform", "_value": [0, 1.5]}}
    experiment = make_experiment(search_space=space, tags=["a", "b"], max_trial_duration=1.5)
    names = tuple(field.name for field in Experiment._meta.concrete_fields)
    [found] = select(Experiment, names, "WHERE id = %s", [experiment.pk])
    read = Experiment.objects.get(pk=experiment.pk)
    for field in Experiment._meta.concrete_fields:
        assert getattr(found, field.attname) == getattr(read, field.attname), field.name
    assert found.search_space == space
    found.name = "another"
    found.save()
    assert Experiment.objects.get().name == "another"


def test_fields_that_were_not_named_are_read_when_they_are_asked_for(
        make_attempt: Any, django_assert_num_queries: Any) -> None:
    trial = make_attempt().trial
    with django_assert_num_queries(1):
        [found] = select(Trial, ("status", "id"), "WHERE id = %s", [trial.pk])
        assert (found.pk, found.status) == (trial.pk, trial.status)
    with django_assert_num_queries(1):
        assert found.public_id == trial.public_id
    assert select(Trial, ("status", "id"), "WHERE id = %s", [-1]) == []


def test_a_field_that_the_model_has_not_is_named(make_attempt: Any) -> None:
    with pytest.raises(AssertionError, match="colour"):
        select(Trial, ("id", "colour"), "")


def test_every_kind_of_value_is_changed_to_what_was_given(make_attempt: Any) -> None:
    trial = make_attempt().trial
    at = datetime(2026, 3, 4, 5, 6, 7, 891011, tzinfo=UTC)
    values = {"ended_at": at, "message": "é'%s", "taught": True, "tags": ["a", {"b": None}], "final_number": 0.1,
              "final_value": None, "revision": 2 ** 40, "sequence_id": 7}
    assert update(Trial, "id = %s", [trial.pk], **values) == 1
    found = Trial.objects.get(pk=trial.pk)
    assert {name: getattr(found, name) for name in values} == values


def test_whether_there_is_any_row_is_one_statement(make_attempt: Any, django_assert_num_queries: Any) -> None:
    trial = make_attempt().trial
    with django_assert_num_queries(2):
        assert is_any(Trial, "id = %s", [trial.pk])
        assert not is_any(Trial, "id <> %s", [trial.pk])
