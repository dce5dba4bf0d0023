"""What a database is made of, for comparing two that were made in different ways: each part with its definition.

The order of columns is not a part: statements name them, and SQLite's differs from PostgreSQL's as it is.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

#: Of PostgreSQL, each a name and a definition. Definitions name no schema where that is the one of the search path.
_CATALOGUE = {
    "column": "SELECT class.relname || '.' || attname, concat_ws(' ', format_type(atttypid, atttypmod), attnotnull,"
              " attidentity, attgenerated, pg_get_expr(adbin, adrelid), collname) FROM pg_attribute"
              " JOIN pg_class class ON class.oid = attrelid AND relkind IN ('r', 'p', 'v')"
              " LEFT JOIN pg_attrdef ON adrelid = attrelid AND adnum = attnum"
              " LEFT JOIN pg_collation ON pg_collation.oid = attcollation"
              " WHERE attnum > 0 AND NOT attisdropped AND relnamespace = %s::regnamespace",
    "constraint": "SELECT conrelid::regclass || '.' || conname, concat_ws(' ', pg_get_constraintdef(oid), condeferred)"
                  " FROM pg_constraint WHERE connamespace = %s::regnamespace AND conrelid <> 0",
    "index": "SELECT indexname, replace(indexdef, schemaname || '.', '') FROM pg_indexes WHERE schemaname = %s",
    "trigger": "SELECT tgrelid::regclass || '.' || tgname, pg_get_triggerdef(pg_trigger.oid) FROM pg_trigger"
               " JOIN pg_class class ON class.oid = tgrelid"
               " WHERE NOT tgisinternal AND relnamespace = %s::regnamespace",
    "function": "SELECT proname, prosrc FROM pg_proc WHERE pronamespace = %s::regnamespace",
    "relation": "SELECT relname, relkind::text FROM pg_class WHERE relnamespace = %s::regnamespace",
}


def of_sqlite(database: Path) -> dict[tuple[Any, ...], Any]:
    with closing(sqlite3.connect(f"{database.as_uri()}?mode=ro", uri=True)) as opened:
        parts: dict[tuple[Any, ...], Any] = {}
        for kind, name, table, sql in opened.execute("SELECT type, name, tbl_name, sql FROM sqlite_master"):
            if kind == "table":
                parts |= {("column", table, row[1]): row[2:] for row in opened.execute(f"PRAGMA table_xinfo({name})")}
                # with collations, CHECKs, what is unique, and what is deferred
                parts["definitions", table] = sorted(_definitions(sql))
            elif sql is not None:  # those of unique columns have none
                parts[kind, table, name] = " ".join(sql.split())
        return parts


def _definitions(create_table: str) -> Iterator[str]:
    """Of columns and constraints, as they stand between the outer parentheses of the statement."""
    depth, quote, one = 0, "", ""
    for character in create_table[create_table.index("(") + 1:create_table.rindex(")")]:
        if quote or character in "'\"":
            quote = ("" if character == quote else quote) if quote else character
        else:
            depth += {"(": 1, ")": -1}.get(character, 0)
        if character == "," and not depth and not quote:
            yield " ".join(one.split())
            one = ""
        else:
            one += character
    yield " ".join(one.split())


def of_postgresql(cursor: Any, schema: str) -> dict[tuple[Any, ...], Any]:
    """Of the schema, which the search path must begin with."""
    parts: dict[tuple[Any, ...], Any] = {}
    for kind, question in _CATALOGUE.items():
        cursor.execute(question, [schema])
        parts |= {(kind, name): definition for name, definition in cursor.fetchall()}
    return parts
