"""Changes of rows with statements put together once."""

import pytest

from nniweb.experiments.models import Attempt
from nniweb.experiments.sql.changed_rows import update_each

pytestmark = pytest.mark.django_db


def test_each_row_gets_its_own_values_and_those_that_meet_the_condition_are_counted(make_attempt) -> None:
    first, second, third = (make_attempt() for _ in range(3))
    Attempt.objects.filter(pk=second.pk).update(stage="ended")
    changed = update_each(Attempt, ["token_hashes", "working_directory"], "id = %s AND stage <> %s", [
        (["a"], "one", first.pk, "ended"), (["b"], "two", second.pk, "ended"),
        (["c", "d"], "three", third.pk, "ended")])
    assert changed == 2
    rows = dict(Attempt.objects.values_list("pk", "token_hashes"))
    assert (rows[first.pk], rows[third.pk]) == (["a"], ["c", "d"])
    assert rows[second.pk] != ["b"]
