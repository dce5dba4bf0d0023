"""Who may do what in the admin: administrators everything, except with rows that only programs write; and the audit
log of what they do.
"""

from typing import Any

from django.db.models import Model, QuerySet
from django.http import HttpRequest

from nniweb.admin_site import is_administrator
from nniweb.experiments.access import audit


class ForAdministrators:
    """Roles decide, not Django's permissions for single models. What is changed here is in the audit log."""

    #: Not where what removes a row puts it down itself, because it may refuse to.
    records_deletions = True

    def has_module_permission(self, request: HttpRequest) -> bool:
        return is_administrator(request)

    def has_view_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return is_administrator(request)

    def has_add_permission(self, request: HttpRequest, *of: Any) -> bool:
        return is_administrator(request)

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return is_administrator(request)

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return is_administrator(request)

    def log_addition(self, request: HttpRequest, obj: Model, message: Any) -> Any:
        audit.record("admin.add", obj)
        return super().log_addition(request, obj, message)  # type: ignore[misc]  # of the ModelAdmin beside it

    def log_change(self, request: HttpRequest, obj: Model, message: Any) -> Any:
        # names of fields, and where Django has a sentence, that; no values, which may be secrets
        audit.record("admin.change", obj, changes=message)
        return super().log_change(request, obj, message)  # type: ignore[misc]

    def log_deletions(self, request: HttpRequest, queryset: QuerySet[Any]) -> Any:
        for obj in queryset if self.records_deletions else ():
            audit.record("admin.delete", obj)
        return super().log_deletions(request, queryset)  # type: ignore[misc]


class ToLookAt(ForAdministrators):
    """Rows that are shown and never changed here."""

    def has_add_permission(self, request: HttpRequest, *of: Any) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False
