"""Finding rows by a tag, in any database."""

from typing import TypeVar

from django.db.models import Model, QuerySet

from nniweb.experiments.sql.json_values import HasItem

M = TypeVar("M", bound=Model)


def with_tag(rows: QuerySet[M], tag: str) -> QuerySet[M]:
    """Rows whose JSON list ``tags`` holds exactly this one."""
    return rows.filter(HasItem("tags", tag))
