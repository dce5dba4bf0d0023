"""After a test whose transactions are real the tables are emptied, less those that hold the same in every test.

Django empties them, too, and has the signal sent that fills them again: content types and permissions of forty models,
a dozen transactions, nine tenths of the time.
"""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import Permission
from django.contrib.contenttypes.models import ContentType
from django.core.management.commands import flush

#: What migrations fill and no test changes.
KEPT = {Permission._meta.db_table, ContentType._meta.db_table}


def sql_of_flush(style: Any, connection: Any, reset_sequences: bool = True, allow_cascade: bool = False) -> list[str]:
    """As Django's, for the tables that tests write into."""
    tables = set(connection.introspection.django_table_names(only_existing=True, include_views=False)) - KEPT
    statements: list[str] = connection.ops.sql_flush(style, sorted(tables), reset_sequences=reset_sequences,
                                                     allow_cascade=allow_cascade)
    return statements


@pytest.fixture(scope="session", autouse=True)
def quick_flush() -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(flush, "sql_flush", sql_of_flush)
        patch.setattr(flush, "emit_post_migrate_signal", lambda *_args, **_more: None)
        yield
