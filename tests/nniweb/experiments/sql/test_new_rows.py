"""Rows stored with SQL that is put together once are those that Django's own way would store."""

from datetime import UTC, datetime

import pytest
from django.db import IntegrityError, transaction

from nniweb.experiments.models import Trial, TrialEvent, TrialParameters
from nniweb.experiments.sql.new_rows import AT_ONCE, insert

pytestmark = pytest.mark.django_db


def test_every_kind_of_value_comes_back_as_it_was_given(make_experiment) -> None:
    at = datetime(2026, 3, 4, 5, 6, 7, 891011, tzinfo=UTC)
    experiment = make_experiment()
    [trial] = insert([Trial(experiment=experiment, sequence_id=7, created_at=at, message="é\u2028'%s", taught=True,
                            tags=["a", {"b": None}], final_value="NaN", final_number=0.1, revision=2 ** 40)])
    insert([TrialParameters(trial=trial, index=0, parameter_id="seven", value={"x": [1, 2.5, None, "%"]})])
    found = Trial.objects.get(pk=trial.pk)
    for field in Trial._meta.concrete_fields:
        assert getattr(found, field.attname) == getattr(trial, field.attname), field.name
    assert found.created_at == at
    assert TrialParameters.objects.get(trial=trial).value == {"x": [1, 2.5, None, "%"]}
    trial.message = "saved, not stored twice"
    trial.save()
    assert Trial.objects.get().message == trial.message


def test_many_rows_get_their_keys_in_order(make_attempt) -> None:
    trial = make_attempt().trial
    number = 2 * AT_ONCE + 3
    rows = insert(TrialEvent(trial=trial, at=trial.created_at, kind=str(index)) for index in range(number))
    assert {row.pk: row.kind for row in rows} == dict(TrialEvent.objects.filter(trial=trial).values_list("pk", "kind"))
    assert [row.kind for row in rows] == [str(index) for index in range(number)]


def test_nothing_is_stored_of_rows_of_which_one_is_refused(make_experiment) -> None:
    experiment = make_experiment()
    at = datetime(2026, 1, 1, tzinfo=UTC)
    with pytest.raises(IntegrityError), transaction.atomic():
        insert(Trial(experiment=experiment, sequence_id=index // 2, created_at=at) for index in range(4))
    assert not Trial.objects.exists()
    assert insert([]) == []
