"""People, their groups, and the tokens of their programs. Links to sign in are not shown anywhere."""

from typing import Any

from django.contrib import admin, messages
from django.contrib.auth.admin import UserAdmin as DjangoUserAdmin
from django.contrib.auth.models import Group
from django.db.models import Model
from django.forms import ModelForm
from django.http import HttpRequest

from nniweb.experiments.admin.access import ForAdministrators
from nniweb.experiments.models import ApiToken, User
from nniweb.experiments.models.account import hash_of


@admin.register(User)
class UserAdmin(ForAdministrators, DjangoUserAdmin):  # type: ignore[type-arg]
    list_display = ["username", "role", "email", "is_active", "last_login"]
    list_filter = ["role", "is_active", "groups"]
    readonly_fields = ["last_login", "date_joined", "is_superuser"]
    filter_horizontal = ["groups"]
    fieldsets = [
        (None, {"fields": ["username", "password", "role", "is_active", "groups"]}),
        ("Person", {"fields": ["first_name", "last_name", "email"]}),
        ("History", {"fields": ["is_superuser", "last_login", "date_joined"]}),
    ]
    add_fieldsets = [
        (None, {"classes": ["wide"], "fields": ["username", "role", "usable_password", "password1", "password2"]})]


admin.site.unregister(Group)


@admin.register(Group)
class GroupAdmin(ForAdministrators, admin.ModelAdmin):  # type: ignore[type-arg]
    """Members see and steer what is shared with the group; who is a member is said at each person."""

    fields = ["name"]
    search_fields = ["name"]
    ordering = ["name"]


@admin.register(ApiToken)
class ApiTokenAdmin(ForAdministrators, admin.ModelAdmin):  # type: ignore[type-arg]
    list_display = ["__str__", "user", "created_at", "last_used_at"]
    list_select_related = ["user"]
    search_fields = ["name", "user__username"]
    ordering = ["-created_at"]
    fields = ["user", "name", "created_at", "last_used_at"]
    autocomplete_fields = ["user"]

    def get_fields(self, request: HttpRequest, obj: Model | None = None) -> Any:
        return self.fields if obj else ["user", "name"]

    def get_readonly_fields(self, request: HttpRequest, obj: Model | None = None) -> Any:
        return ["user", "created_at", "last_used_at"] if obj else []

    def save_model(self, request: HttpRequest, obj: ApiToken, form: "ModelForm[Any]", change: bool) -> None:
        if change:
            super().save_model(request, obj, form, change)
            return
        secret = ApiToken.make(obj.user, obj.name)
        made = ApiToken.objects.get(hash=hash_of(secret))
        obj.pk, obj.hash = made.pk, made.hash
        messages.warning(request, f"The token is {secret} – copy it now, it is not shown again.")
