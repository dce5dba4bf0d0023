"""Values inside JSON columns as SQL expressions that mean the same on SQLite and PostgreSQL.

Django's own key lookups compare text with numbers by rules that differ between the two, and read a name such as "0" as
the place in a list.
"""

import json
from typing import Any

from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models import BooleanField, FloatField, Func, TextField
from django.db.models.expressions import Combinable
from django.db.models.sql.compiler import SQLCompiler

_Sql = tuple[str, Any]


class _At(Func):
    """Something about the value that is found in a JSON column by names, outermost first."""

    def __init__(self, column: str | Combinable, names: tuple[str, ...]) -> None:
        super().__init__(column)
        self.names = names

    def _on_sqlite(self, template: str, compiler: SQLCompiler) -> _Sql:
        """``template`` with {column} and {path}."""
        path = "$" + "".join(f".{json.dumps(name, ensure_ascii=False)}" for name in self.names)
        return self._filled(template, "%s", path, compiler)

    def _on_postgresql(self, template: str, compiler: SQLCompiler) -> _Sql:
        return self._filled(template, "%s::text[]", list(self.names), compiler)

    def _filled(self, template: str, place: str, path: Any, compiler: SQLCompiler) -> _Sql:
        column, parameters = compiler.compile(self.source_expressions[0])
        filled: list[Any] = []
        pieces = template.replace("{column}", "\0c\0").replace("{path}", "\0p\0").split("\0")
        for number, piece in enumerate(pieces):
            if piece == "c":
                pieces[number] = column
                filled += parameters
            elif piece == "p":
                pieces[number] = place
                filled.append(path)
        return "".join(pieces), filled


class NumberAt(_At):
    """The number there; NULL where there is none, or something else."""

    output_field = FloatField()

    def as_sqlite(self, compiler: SQLCompiler, connection: BaseDatabaseWrapper, **_: Any) -> _Sql:
        return self._on_sqlite("CASE WHEN JSON_TYPE({column}, {path}) IN ('integer', 'real') "
                               "THEN CAST(JSON_EXTRACT({column}, {path}) AS REAL) END", compiler)

    def as_postgresql(self, compiler: SQLCompiler, connection: BaseDatabaseWrapper, **_: Any) -> _Sql:
        return self._on_postgresql("CASE WHEN jsonb_typeof({column} #> {path}) = 'number' "
                                   "THEN ({column} #>> {path})::double precision END", compiler)


class TextAt(_At):
    """The value there as text: true, numbers and lists as JSON has them; NULL for null, or where there is none."""

    output_field = TextField()

    def as_sqlite(self, compiler: SQLCompiler, connection: BaseDatabaseWrapper, **_: Any) -> _Sql:
        return self._on_sqlite("CASE JSON_TYPE({column}, {path}) WHEN 'true' THEN 'true' WHEN 'false' THEN 'false' "
                               "ELSE CAST(JSON_EXTRACT({column}, {path}) AS TEXT) END", compiler)

    def as_postgresql(self, compiler: SQLCompiler, connection: BaseDatabaseWrapper, **_: Any) -> _Sql:
        return self._on_postgresql("({column} #>> {path})", compiler)


class TypeAt(_At):
    """The name of the JSON type there; NULL where there is nothing of that name."""

    output_field = TextField()

    def as_sqlite(self, compiler: SQLCompiler, connection: BaseDatabaseWrapper, **_: Any) -> _Sql:
        return self._on_sqlite("JSON_TYPE({column}, {path})", compiler)

    def as_postgresql(self, compiler: SQLCompiler, connection: BaseDatabaseWrapper, **_: Any) -> _Sql:
        return self._on_postgresql("jsonb_typeof({column} #> {path})", compiler)


class HasItem(Func):
    """Whether a JSON list holds exactly this; false for NULL."""

    output_field = BooleanField()

    def __init__(self, column: str | Combinable, item: Any) -> None:
        super().__init__(column)
        self.item = item

    def as_sqlite(self, compiler: SQLCompiler, connection: BaseDatabaseWrapper, **_: Any) -> _Sql:
        column, parameters = compiler.compile(self.source_expressions[0])
        return (f"EXISTS (SELECT 1 FROM json_each({column}) AS item WHERE item.value = json_extract(%s, '$'))",
                [*parameters, json.dumps(self.item)])

    def as_postgresql(self, compiler: SQLCompiler, connection: BaseDatabaseWrapper, **_: Any) -> _Sql:
        column, parameters = compiler.compile(self.source_expressions[0])
        return f"COALESCE({column} @> %s::jsonb, false)", [*parameters, json.dumps([self.item])]


class HasItemLike(Func):
    """Whether a JSON list of texts holds one with this in it, upper and lower case alike."""

    output_field = BooleanField()

    def __init__(self, column: str | Combinable, part: str) -> None:
        super().__init__(column)
        self.pattern = "%" + part.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_") + "%"

    def as_sqlite(self, compiler: SQLCompiler, connection: BaseDatabaseWrapper, **_: Any) -> _Sql:
        column, parameters = compiler.compile(self.source_expressions[0])
        return (f"EXISTS (SELECT 1 FROM json_each({column}) AS item WHERE item.value LIKE %s ESCAPE '\\')",
                [*parameters, self.pattern])

    def as_postgresql(self, compiler: SQLCompiler, connection: BaseDatabaseWrapper, **_: Any) -> _Sql:
        column, parameters = compiler.compile(self.source_expressions[0])
        return (f"EXISTS (SELECT 1 FROM jsonb_array_elements_text({column}) AS item WHERE item ILIKE %s)",
                [*parameters, self.pattern])
