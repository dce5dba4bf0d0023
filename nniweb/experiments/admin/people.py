"""People, their groups, and the tokens of their programs. Links to sign in are not shown anywhere."""

from typing import Any

from django.contrib import admin, messages
from django.contrib.auth.admin import UserAdmin as DjangoUserAdmin
from django.contrib.auth.forms import UserChangeForm
from django.contrib.auth.models import Group
from django.core.exceptions import ValidationError
from django.db.models import Model, QuerySet
from django.forms import ModelForm
from django.http import HttpRequest

from nniweb.experiments.access import accounts, audit
from nniweb.experiments.admin.access import ForAdministrators
from nniweb.experiments.clusters import addresses
from nniweb.experiments.errors import Refused
from nniweb.experiments.models import ApiToken, SingleSignOnIdentity, User
from nniweb.experiments.models.account import Role, Scope


@admin.register(SingleSignOnIdentity)
class IdentityAdmin(ForAdministrators, admin.ModelAdmin):  # type: ignore[type-arg]
    """Who people are for the provider of single sign-on; one that is removed is somebody new to us next time."""

    list_display = ["user", "subject", "issuer", "created_at"]
    list_select_related = ["user"]
    search_fields = ["user__username", "=subject"]
    fields = ["user", "issuer", "subject", "created_at"]
    readonly_fields = ["created_at"]
    autocomplete_fields = ["user"]


class OneByOne:
    """Each removal is checked (a person's experiments, a group's clusters), and is recorded where it is done."""

    records_deletions = False

    def remove(self, obj: Any) -> None:
        raise NotImplementedError

    def get_actions(self, request: HttpRequest) -> dict[str, Any]:
        actions = super().get_actions(request)  # type: ignore[misc]  # of the ModelAdmin beside it
        return {name: action for name, action in actions.items() if name != "delete_selected"}

    def delete_model(self, request: HttpRequest, obj: Any) -> None:
        try:
            self.remove(obj)
        except Refused as refused:
            messages.error(request, str(refused))


class PersonForm(UserChangeForm):  # type: ignore[type-arg]
    """Somebody administers the installation, whatever is changed."""

    def clean(self) -> dict[str, Any]:
        data = super().clean() or self.cleaned_data
        stored = User.objects.get(pk=self.instance.pk)
        try:
            accounts.check_administrator_is_left(stored, role=data.get("role", stored.role),
                                                 is_active=data.get("is_active", stored.is_active))
        except Refused as refused:
            raise ValidationError(str(refused)) from None
        return data


@admin.register(User)
class UserAdmin(OneByOne, ForAdministrators, DjangoUserAdmin):  # type: ignore[type-arg]
    list_display = ["username", "role", "email", "is_active", "last_login"]
    list_filter = ["role", "is_active", "groups"]
    readonly_fields = ["last_login", "date_joined", "is_superuser"]
    filter_horizontal = ["groups"]
    fieldsets = [
        (None, {"fields": ["username", "password", "role", "is_active", "groups"]}),
        ("The server's machine", {"fields": ["local_users", "names_folders"]}),
        ("Person", {"fields": ["first_name", "last_name", "email"]}),
        ("History", {"fields": ["is_superuser", "last_login", "date_joined"]}),
    ]
    add_fieldsets = [
        (None, {"classes": ["wide"], "fields": ["username", "role", "usable_password", "password1", "password2"]})]
    form = PersonForm
    actions = ["make_sign_in_links"]

    def remove(self, obj: User) -> None:
        accounts.delete_user(obj)

    @admin.action(description="Make sign-in links (each works once, within an hour)", permissions=["change"])
    def make_sign_in_links(self, request: HttpRequest, queryset: QuerySet[User]) -> None:
        for user in queryset[:MOST_LINKS]:
            try:
                address = addresses.sign_in_page(accounts.make_sign_in_link(user))
            except Refused as refused:
                messages.error(request, str(refused))
                continue
            messages.warning(request, f"Sign-in link for {user.username} (copy it now, it is shown only once): "
                                      f"{address}")
        if queryset.count() > MOST_LINKS:
            messages.warning(request, f"Links were made only for the first {MOST_LINKS} users. Choose fewer at a time.")

    def save_model(self, request: HttpRequest, obj: User, form: Any, change: bool) -> None:
        if change and "role" in form.changed_data and obj.role != Role.ADMIN:
            for field, value in accounts.NO_ADMINISTRATOR.items():
                setattr(obj, field, value)
        super().save_model(request, obj, form, change)

    def save_related(self, request: HttpRequest, form: Any, formsets: Any, change: bool) -> None:
        super().save_related(request, form, formsets, change)
        user = form.instance
        audit.record("user.change" if change else "user.create", user, role=user.role, is_active=user.is_active,
                     local_users=user.local_users, names_folders=user.names_folders,
                     groups=sorted(user.groups.values_list("name", flat=True)))


#: Each is shown once, above the list.
MOST_LINKS = 5

admin.site.unregister(Group)


@admin.register(Group)
class GroupAdmin(OneByOne, ForAdministrators, admin.ModelAdmin):  # type: ignore[type-arg]
    """Members can view and edit what is shared with the group; who is a member is said at each person."""

    fields = ["name"]
    search_fields = ["name"]
    ordering = ["name"]

    def remove(self, obj: Group) -> None:
        accounts.delete_group(obj)


class TokenNameForm(ModelForm):  # type: ignore[type-arg]
    """A token is made, or gets another name."""

    def clean_name(self) -> str:
        name: str = self.cleaned_data["name"]
        try:
            accounts.check_token_name(name)
        except Refused as refused:
            raise ValidationError(str(refused)) from None
        return name


@admin.register(ApiToken)
class ApiTokenAdmin(ForAdministrators, admin.ModelAdmin):  # type: ignore[type-arg]
    """Tokens with a leash are made elsewhere; here are their limits. One by which something was asked for is ended."""

    form = TokenNameForm
    list_display = ["__str__", "user", "scope", "roles", "created_at", "expires_at", "last_used_at", "ended_at"]
    list_filter = ["scope", "ended_at"]
    list_select_related = ["user"]
    search_fields = ["name", "user__username"]
    ordering = ["-created_at"]
    fields = ["user", "name", "scope", "roles", "everything", "clusters", "max_trials", "expires_at", "created_at",
              "last_used_at", "ended_at", "ended_by"]
    autocomplete_fields = ["user"]

    def get_fields(self, request: HttpRequest, obj: Model | None = None) -> Any:
        return self.fields if obj else ["user", "name", "scope", "expires_at"]

    def get_readonly_fields(self, request: HttpRequest, obj: Model | None = None) -> Any:
        return [name for name in self.fields if name != "name"] if obj else []

    def get_actions(self, request: HttpRequest) -> dict[str, Any]:
        actions = super().get_actions(request)
        return {name: action for name, action in actions.items() if name != "delete_selected"}

    def delete_model(self, request: HttpRequest, obj: ApiToken) -> None:
        if not accounts.has_asked(obj):
            super().delete_model(request, obj)
            return
        accounts.end_token(obj, request.user if isinstance(request.user, User) else None)
        messages.info(request, f"Something was asked for by the token {obj}. It was ended and can no longer be used. "
                               "Its row stays, so that its limits hold.")

    def log_deletions(self, request: HttpRequest, queryset: Any) -> Any:
        kept = [token.pk for token in queryset if accounts.has_asked(token)]
        return super().log_deletions(request, ApiToken.objects.filter(
            pk__in=[token.pk for token in queryset]).exclude(pk__in=kept))

    def get_changeform_initial_data(self, request: HttpRequest) -> dict[str, Any]:
        return {"scope": Scope.CHANGE, **super().get_changeform_initial_data(request)}

    def save_model(self, request: HttpRequest, obj: ApiToken, form: "ModelForm[Any]", change: bool) -> None:
        if change:
            super().save_model(request, obj, form, change)
            return
        secret, made = ApiToken.make_with_row(obj.user, obj.name, Scope(obj.scope), obj.expires_at)
        obj.pk, obj.hash = made.pk, made.hash
        messages.warning(request, f"New token (copy it now, it is not shown again): {secret}")
