"""Who may do what in the admin: administrators everything, except with rows that only programs write."""

from typing import Any

from django.db.models import Model
from django.http import HttpRequest

from nniweb.admin_site import is_administrator


class ForAdministrators:
    """Roles decide, not Django's permissions for single models."""

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


class ToLookAt(ForAdministrators):
    """Rows that are shown and never changed here."""

    def has_add_permission(self, request: HttpRequest, *of: Any) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False
