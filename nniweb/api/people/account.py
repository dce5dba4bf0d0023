"""Who one is: for programs that want to know what their token may do."""

from typing import Any

from drf_spectacular.utils import extend_schema, extend_schema_field
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from nniweb.documents.tokens import LimitsSerializer, limits_document
from nniweb.experiments.access import leashes
from nniweb.experiments.models import User
from nniweb.experiments.models.account import Role, Scope
from nniweb.http.permissions import signed_in_user


class AccountSerializer(serializers.Serializer[Any]):
    """The account of the signed-in person."""

    username = serializers.CharField()
    email = serializers.CharField()
    role = serializers.ChoiceField(choices=Role.choices)
    scope = serializers.ChoiceField(choices=Scope.choices, allow_null=True, help_text=(
        "Scope of the token of this request; null for a session, which has all permissions of its person."))
    may_change = serializers.BooleanField(help_text="Launch and change experiments.")
    is_admin = serializers.BooleanField()
    may_name_folders = serializers.BooleanField(
        help_text="Name code folders on the server in experiments, below the configured folders.")
    groups = serializers.SerializerMethodField(help_text="Their names.")
    leash = serializers.SerializerMethodField(help_text="The limits of the token of this request; null without a "
                                                        "leash.")

    @extend_schema_field(serializers.ListField(child=serializers.CharField()))
    def get_groups(self, user: User) -> list[str]:
        return sorted(group.name for group in user.groups.all())

    @extend_schema_field(LimitsSerializer(allow_null=True))
    def get_leash(self, user: User) -> dict[str, Any] | None:
        leash = leashes.present()
        return LimitsSerializer(limits_document([leash])[0]).data if leash is not None else None


class AccountView(APIView):
    @extend_schema(operation_id="account_retrieve", responses=AccountSerializer)
    def get(self, request: Request) -> Response:
        """Your account, and what you may do with the session or token of this request."""
        return Response(AccountSerializer(signed_in_user(request)).data)
