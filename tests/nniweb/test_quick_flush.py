"""Tests with transactions of their own leave nothing to the next one, and what every test finds stays."""

from collections.abc import Callable

import pytest
from django.contrib.auth.models import Permission
from django.contrib.contenttypes.models import ContentType
from django.core.management import call_command
from django.db import connection

from nniweb.experiments.models import Attempt
from tests.quick_flush import KEPT


@pytest.mark.django_db(transaction=True)
def test_what_a_test_wrote_is_gone_and_permissions_are_there(make_attempt: Callable[..., Attempt]) -> None:
    permissions, types = Permission.objects.count(), ContentType.objects.count()
    assert permissions > 100
    make_attempt()
    call_command("flush", interactive=False, verbosity=0)
    with connection.cursor() as cursor:
        for table in set(connection.introspection.django_table_names(only_existing=True, include_views=False)) - KEPT:
            cursor.execute(f'SELECT count(*) FROM "{table}"')
            assert cursor.fetchone() == (0,), table
    assert (Permission.objects.count(), ContentType.objects.count()) == (permissions, types)
