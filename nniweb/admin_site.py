"""The admin is for administrators by role; they sign in as everywhere else."""

from typing import Any

from django.contrib.admin import AdminSite
from django.contrib.admin.apps import AdminConfig
from django.contrib.auth.decorators import login_not_required
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils.decorators import method_decorator
from django.utils.http import urlencode


class NniWebAdminSite(AdminSite):
    site_title = "NNI Web"
    site_header = "NNI Web"
    index_title = "Administration"

    def has_permission(self, request: HttpRequest) -> bool:
        return is_administrator(request)

    @method_decorator(login_not_required)
    def login(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        """There is one way in for all pages."""
        if request.user.is_authenticated:
            raise PermissionDenied("Only administrators can use the admin site.")
        after = request.GET.get("next", "")
        return redirect(f"/sign-in/?{urlencode({'next': after})}" if after else "/sign-in/")

    def password_change(  # type: ignore[override]  # Django shows a form, we send away
            self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        """There is one place where people change their passwords."""
        return redirect("account")

    def password_change_done(  # type: ignore[override]
            self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        return self.password_change(request)


def is_administrator(request: HttpRequest) -> bool:
    user = request.user
    return user.is_active and bool(getattr(user, "is_admin", False))


class NniWebAdminConfig(AdminConfig):
    default_site = "nniweb.admin_site.NniWebAdminSite"
