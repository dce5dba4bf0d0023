"""A step of migrations: the tables of many models that refer to each other, made in one go."""

from __future__ import annotations

from django.db.backends.base.schema import BaseDatabaseSchemaEditor
from django.db.migrations.operations import CreateModel
from django.db.migrations.operations.base import Operation
from django.db.migrations.state import ProjectState


class CreateModels(Operation):
    """What these ``CreateModel`` do one after the other, in any order: models may refer to later ones, in a circle too.

    Django makes the classes of all models that are connected with a model anew for each that is added. Here they are
    made once, when all are known: for 55 models that is a twentieth of the time.
    """

    serialization_expand_args = ["models"]

    def __init__(self, models: list[CreateModel]) -> None:
        self.models = models

    def state_forwards(self, app_label: str, state: ProjectState) -> None:
        # made again when somebody asks for them
        state.__dict__.pop("apps", None)
        for model in self.models:
            model.state_forwards(app_label, state)

    def database_forwards(self, app_label: str, schema_editor: BaseDatabaseSchemaEditor, from_state: ProjectState,
                          to_state: ProjectState) -> None:
        for model in self.models:
            model.database_forwards(app_label, schema_editor, from_state, to_state)

    def database_backwards(self, app_label: str, schema_editor: BaseDatabaseSchemaEditor, from_state: ProjectState,
                           to_state: ProjectState) -> None:
        for model in reversed(self.models):
            model.database_backwards(app_label, schema_editor, from_state, to_state)

    def describe(self) -> str:
        return f"Create models {', '.join(model.name for model in self.models)}"

    @property
    def migration_name_fragment(self) -> str:
        return "_".join(model.name_lower for model in self.models[:2])
