"""Finding rows by a tag, in any database."""

import json
from typing import TypeVar

from django.db import connections
from django.db.models import BooleanField, Model, QuerySet
from django.db.models.expressions import RawSQL

M = TypeVar("M", bound=Model)


def with_tag(rows: QuerySet[M], tag: str) -> QuerySet[M]:
    """Rows whose JSON list ``tags`` holds exactly this one."""
    if connections[rows.db].features.supports_json_field_contains:
        return rows.filter(tags__contains=[tag])
    table = rows.model._meta.db_table
    return rows.filter(RawSQL(f"EXISTS (SELECT 1 FROM json_each({table}.tags) WHERE value = json_extract(%s, '$'))",
                              [json.dumps(tag)], output_field=BooleanField()))
