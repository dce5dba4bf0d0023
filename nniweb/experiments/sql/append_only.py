"""Rows that are written once: nothing changes or removes them."""

from typing import Any, NoReturn

from django.db import models


class AppendOnly(Exception):
    """Rows of such a table stay as they were written."""

    def __init__(self, model: type[models.Model]) -> None:
        super().__init__(f"The {model._meta.verbose_name_plural} is append-only: its rows are neither changed nor "
                         "removed.")


class AppendOnlyQuerySet(models.QuerySet[Any]):
    """Reads and adds, nothing else."""

    def update(self, **fields: Any) -> NoReturn:
        raise AppendOnly(self.model)

    def delete(self) -> NoReturn:
        raise AppendOnly(self.model)

    def bulk_update(self, *rows: Any, **how: Any) -> NoReturn:
        raise AppendOnly(self.model)

    def _raw_delete(self, using: str | None) -> NoReturn:
        raise AppendOnly(self.model)

    def bulk_create(self, *rows: Any, **how: Any) -> "list[Any]":
        if how.get("update_conflicts"):
            raise AppendOnly(self.model)
        return super().bulk_create(*rows, **how)


class AppendOnlyModel(models.Model):
    """Base of such rows. They refer to nothing, so that they outlive what they are about."""

    objects = AppendOnlyQuerySet.as_manager()

    class Meta:
        abstract = True
        base_manager_name = "objects"

    def save(self, *args: Any, **how: Any) -> None:
        if not self._state.adding:
            raise AppendOnly(type(self))
        super().save(*args, **{**how, "force_insert": True})

    def delete(self, *args: Any, **how: Any) -> NoReturn:
        raise AppendOnly(type(self))
