"""Who may do what in the admin: administrators everything, except with rows that only programs write; and the audit
log of what they do.
"""

from typing import Any

from django.contrib.admin.widgets import AutocompleteSelect
from django.core.exceptions import ValidationError
from django.db.models import Model, QuerySet
from django.http import HttpRequest

from nniweb.admin_site import is_administrator
from nniweb.experiments.access import audit


class KnownRowSelect(AutocompleteSelect):
    """As Django's; a text that is no key of a row is refused by the field, and not looked for to be shown again."""

    def optgroups(self, name: str, value: Any, attrs: Any = None) -> Any:
        return super().optgroups(name, [each for each in value if not each or self._may_be_key(each)], attrs)

    def _may_be_key(self, text: Any) -> bool:
        try:
            self.field.remote_field.model._meta.pk.to_python(text)
        except ValidationError:
            return False
        return True


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

    def formfield_for_foreignkey(self, db_field: Any, request: HttpRequest, **kwargs: Any) -> Any:
        if db_field.name in self.get_autocomplete_fields(request):  # type: ignore[attr-defined]  # of the ModelAdmin
            kwargs.setdefault("widget", KnownRowSelect(db_field, self.admin_site))  # type: ignore[attr-defined]
        return super().formfield_for_foreignkey(db_field, request, **kwargs)  # type: ignore[misc]

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
