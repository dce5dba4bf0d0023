"""What a migration may do to tables that grow to hundreds of millions of rows, without locking them for long.

PostgreSQL holds the strongest lock on a table while it builds an index on it, looks through its rows, or writes them
anew. Everything of an upgrade is one transaction, so that an index is built beside the work only after it
(``nniweb.experiments.sql.later_indexes``).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from django.db.migrations import operations
from django.db.migrations.migration import Migration
from django.db.migrations.operations.base import Operation
from django.db.migrations.state import ProjectState
from django.db.models import (
    NOT_PROVIDED,
    Field,
    ForeignKey,
    PositiveBigIntegerField,
    PositiveIntegerField,
    PositiveSmallIntegerField,
)

from nniweb.experiments.sql.later_indexes import AddIndexLater

#: Tables whose rows grow with trials.
BIG = frozenset({
    "attempt", "checkpointchunk", "checkpointchunkuse", "experimentevent", "logline", "metric", "metricnumber",
    "resourcereading", "trial", "trialevent", "trialfile", "trialoutput", "trialparameters", "tunerevent"})
#: What changes nothing in the database, or only its catalogue.
HARMLESS = (operations.AlterModelOptions, operations.AlterModelManagers, operations.CreateModel, operations.DeleteModel,
            operations.RemoveConstraint, operations.RemoveField, operations.RemoveIndex, operations.RenameField,
            operations.RenameIndex, operations.RenameModel)
#: Arguments of a field that the database knows nothing of.
_BESIDE = frozenset({"choices", "default", "editable", "error_messages", "help_text", "related_name",
                     "related_query_name", "validators", "verbose_name", "limit_choices_to", "on_delete", "blank"})
#: In ``hints`` of RunPython and RunSQL: that the rows they look at are of tables that stay small.
SMALL_TABLES = "small_tables"


def long_locks(migration: Migration, before: ProjectState) -> Iterator[str]:
    """What the migration does that could hold up a big table, a sentence each. ``before``: the models as they were;
    they are changed.
    """
    for operation in migration.operations:
        yield from (f"{operation.describe()}: {why}" for why in _of(operation, before, migration.app_label))
        operation.state_forwards(migration.app_label, before)


def _of(operation: Operation, before: ProjectState, app: str) -> Iterator[str]:
    if isinstance(operation, operations.SeparateDatabaseAndState):
        for inner in operation.database_operations:
            yield from _of(inner, before, app)
    elif isinstance(operation, operations.RunPython | operations.RunSQL):
        if not operation.hints.get(SMALL_TABLES):
            yield f"it may read or write any table; hints={{'{SMALL_TABLES}': True}} says that it leaves big ones alone"
    elif isinstance(operation, HARMLESS) or _model(operation) not in BIG:
        return
    elif isinstance(operation, AddIndexLater):
        return  # of a table with rows it is built beside the work, and after the transaction
    elif isinstance(operation, operations.AddField):
        yield from _of_new_field(operation.field)
    elif isinstance(operation, operations.AlterField):
        old = before.models[app, _model(operation)].fields[operation.name]
        yield from _of_changed_field(old, operation.field)
    elif isinstance(operation, operations.AddIndex | operations.AddConstraint):
        yield "it looks through all rows while nobody can write"
    else:
        yield "it is not known what it locks, and for how long"


def _model(operation: Operation) -> str:
    """Name of the model that it changes, in lower case."""
    return str(getattr(operation, "model_name", None) or getattr(operation, "name", "")).lower()


def _of_new_field(field: Field[Any, Any]) -> Iterator[str]:
    is_called = field.default is not NOT_PROVIDED and callable(field.default)
    if is_called or not isinstance(field.db_default, bool | int | float | str | type(NOT_PROVIDED)):
        yield "a default that is worked out for each row writes all rows anew"
    elif not field.null and field.default is NOT_PROVIDED and field.db_default is NOT_PROVIDED:
        yield "a column that must not be null needs a constant default, or may be null"
    if isinstance(field, PositiveIntegerField | PositiveSmallIntegerField | PositiveBigIntegerField):
        yield "its CHECK looks through all rows (the same field without \"Positive\" has none)"
    if field.unique or field.db_index or isinstance(field, ForeignKey) and field.db_constraint:
        yield "its index or foreign key looks through all rows (a ForeignKey needs db_constraint=False, db_index=False)"


def _of_changed_field(old: Field[Any, Any], new: Field[Any, Any]) -> Iterator[str]:
    (_, kind, args, options), (_, new_kind, new_args, new_options) = old.deconstruct(), new.deconstruct()
    changed = {name for name in {*options, *new_options} - _BESIDE if options.get(name) != new_options.get(name)}
    if changed == {"max_length"} and (new.max_length or 0) >= (old.max_length or 0):
        changed = set()
    if changed == {"null"} and new.null:
        changed = set()
    if kind != new_kind or args != new_args or changed:
        yield "another type, NOT NULL, an index or a shorter text looks through all rows, or writes them anew"
