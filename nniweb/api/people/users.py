"""People: for administrators to list, make, change, remove, and to let in by a link."""

from typing import Any

from django.contrib.auth.models import Group
from django.db.models import QuerySet
from drf_spectacular.utils import extend_schema, extend_schema_field
from rest_framework import generics, serializers, status
from rest_framework.request import Request
from rest_framework.response import Response

from nniweb.experiments.access import accounts
from nniweb.experiments.clusters import addresses
from nniweb.experiments.models import User
from nniweb.experiments.models.account import OS_USERS, Role
from nniweb.http.error_form import ErrorsSerializer
from nniweb.http.fields import Query, StrictSerializer, TrueOrFalseField
from nniweb.http.permissions import AdminOnly


class UserSerializer(serializers.Serializer[Any]):
    """A person."""

    id = serializers.IntegerField()
    username = serializers.CharField()
    first_name = serializers.CharField()
    last_name = serializers.CharField()
    email = serializers.CharField()
    role = serializers.ChoiceField(choices=Role.choices)
    local_users = serializers.CharField(
        help_text="Users of the server's machine as whom this person's trials may run there, separated by commas; * "
                  "for all, including the server's own user; empty for none.")
    names_folders = serializers.BooleanField(
        help_text="Whether this person may name code folders on the server, below NNIWEB_CODE_ROOTS, in experiments.")
    is_active = serializers.BooleanField(help_text="Whether this person can sign in and the person's tokens work.")
    has_password = serializers.BooleanField(source="has_usable_password")
    groups = serializers.SerializerMethodField(help_text="Their names.")
    last_login = serializers.DateTimeField(allow_null=True)
    date_joined = serializers.DateTimeField()

    @extend_schema_field(serializers.ListField(child=serializers.CharField()))
    def get_groups(self, user: User) -> list[str]:
        return sorted(group.name for group in user.groups.all())


class _UserFields(StrictSerializer):
    role = serializers.ChoiceField(choices=Role.choices, required=False)
    local_users = serializers.CharField(
        allow_blank=True, max_length=300, required=False, validators=[OS_USERS],
        help_text="Users of the server's machine as whom this person's trials may run there, separated by commas; * "
                  "for all, including the server's own user.")
    names_folders = TrueOrFalseField(
        required=False,
        help_text="Whether this person may name code folders on the server, below NNIWEB_CODE_ROOTS, in experiments.")
    email = serializers.EmailField(allow_blank=True, max_length=254, required=False)
    first_name = serializers.CharField(allow_blank=True, max_length=150, required=False)
    last_name = serializers.CharField(allow_blank=True, max_length=150, required=False)
    groups = serializers.SlugRelatedField("name", many=True, queryset=Group.objects.all(), required=False,
                                          help_text="Names of all groups of the person.")


class NewUserSerializer(_UserFields):
    """A new person. New people have no password; send them a sign-in link."""

    username = serializers.CharField(max_length=150)
    role = serializers.ChoiceField(choices=Role.choices, default=Role.MEMBER)


class UserChangesSerializer(_UserFields):
    """Changes of a person."""

    is_active = TrueOrFalseField(required=False)


class UserQuery(Query):
    q = serializers.CharField(required=False, help_text="Text that the user name contains.")
    group = serializers.CharField(required=False, help_text="Name of a group.")


class SignInLinkSerializer(serializers.Serializer[Any]):
    """A link that signs in once."""

    url = serializers.CharField(help_text="Shown only in this answer; the link works once, within an hour.")


class UsersBaseView(generics.GenericAPIView[User]):
    """One of all people; for administrators."""

    permission_classes = [AdminOnly]
    serializer_class: type[Any] = UserSerializer
    lookup_field = "pk"
    lookup_url_kwarg = "user_id"

    def get_queryset(self) -> QuerySet[User]:
        return User.objects.prefetch_related("groups").order_by("username")

    def fresh(self, user: User) -> dict[str, Any]:
        return dict(UserSerializer(self.get_queryset().get(pk=user.pk)).data)


class UsersView(UsersBaseView):
    @extend_schema(operation_id="users_list", parameters=[UserQuery], responses=UserSerializer(many=True))
    def get(self, request: Request) -> Response:
        """All people, by name. For administrators."""
        wanted = UserQuery.of(request)
        found = self.get_queryset()
        if "q" in wanted:
            found = found.filter(username__icontains=wanted["q"])
        if "group" in wanted:
            found = found.filter(groups__name=wanted["group"])
        return self.get_paginated_response(UserSerializer(self.paginate_queryset(found), many=True).data)

    @extend_schema(operation_id="users_create", request=NewUserSerializer,
                   responses={201: UserSerializer, 400: ErrorsSerializer})
    def post(self, request: Request) -> Response:
        """Make a person. For administrators."""
        form = NewUserSerializer(data=request.data)
        form.is_valid(raise_exception=True)
        wish = dict(form.validated_data)
        user = accounts.create_user(wish.pop("username"), **wish)
        return Response(self.fresh(user), status=status.HTTP_201_CREATED)


class UserView(UsersBaseView):
    @extend_schema(operation_id="users_retrieve", responses=UserSerializer)
    def get(self, request: Request, user_id: int) -> Response:
        """One person. For administrators."""
        return Response(UserSerializer(self.get_object()).data)

    @extend_schema(operation_id="users_change", request=UserChangesSerializer,
                   responses={200: UserSerializer, 400: ErrorsSerializer, 409: ErrorsSerializer})
    def patch(self, request: Request, user_id: int) -> Response:
        """Change role, groups or names; activate or deactivate the person. For administrators."""
        form = UserChangesSerializer(data=request.data)
        form.is_valid(raise_exception=True)
        user = self.get_object()
        accounts.change_user(user, dict(form.validated_data))
        return Response(self.fresh(user))

    @extend_schema(operation_id="users_delete", responses={204: None, 409: ErrorsSerializer})
    def delete(self, request: Request, user_id: int) -> Response:
        """Remove a person and their tokens. Their experiments remain without an owner. For administrators."""
        accounts.delete_user(self.get_object())
        return Response(status=status.HTTP_204_NO_CONTENT)


class UserSignInLinkView(UsersBaseView):
    @extend_schema(operation_id="users_sign_in_link", request=None,
                   responses={201: SignInLinkSerializer, 409: ErrorsSerializer})
    def post(self, request: Request, user_id: int) -> Response:
        """Make a link that signs the person in once, within an hour. For administrators."""
        secret = accounts.make_sign_in_link(self.get_object())
        return Response({"url": addresses.sign_in_page(secret)}, status=status.HTTP_201_CREATED)
