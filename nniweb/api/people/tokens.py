"""Keys of programs: everybody's own; those of all people for administrators."""

from typing import Any

from django.db.models import QuerySet
from drf_spectacular.utils import extend_schema
from rest_framework import generics, serializers, status
from rest_framework.permissions import SAFE_METHODS, BasePermission
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from nniweb.experiments.access import accounts
from nniweb.experiments.models import ApiToken, User
from nniweb.experiments.models.account import Scope
from nniweb.http.error_form import ErrorsSerializer
from nniweb.http.fields import Query, StrictSerializer
from nniweb.http.permissions import signed_in_user
from trainingservice.words.shown_value import shown


class TokenPermission(BasePermission):
    """Everybody has tokens of their own, viewers too; a token that only reads makes and removes none."""

    message = "This token can only read. It cannot make or remove tokens."

    def has_permission(self, request: Request, view: APIView) -> bool:
        user = request.user
        return bool(user.is_authenticated and (request.method in SAFE_METHODS or user.scope != Scope.READ))


class TokenSerializer(serializers.Serializer[Any]):
    """A token, without its secret."""

    id = serializers.IntegerField()
    user = serializers.CharField(source="user.username")
    name = serializers.CharField()
    scope = serializers.ChoiceField(choices=Scope.choices)
    created_at = serializers.DateTimeField()
    expires_at = serializers.DateTimeField(allow_null=True)
    last_used_at = serializers.DateTimeField(allow_null=True, help_text="To within a minute.")


class MadeTokenSerializer(TokenSerializer):
    """A new token, with its secret."""

    token = serializers.CharField(help_text="Seen this once.")


class NewTokenSerializer(StrictSerializer):
    """A token to create."""

    name = serializers.CharField(max_length=100, help_text="The purpose of the token.")
    scope = serializers.ChoiceField(choices=Scope.choices, default=Scope.READ)
    expires_at = serializers.DateTimeField(allow_null=True, default=None, help_text="null: never.")
    user = serializers.CharField(max_length=150, required=False,
                                 help_text="User name of the token's owner; your own if left out. Only for "
                                           "administrators.")


class TokenQuery(Query):
    user = serializers.CharField(required=False, help_text="User name; \"*\" for everybody. Only for administrators.")


class TokensBaseView(generics.GenericAPIView[ApiToken]):
    """A token of one's own; any for administrators; 404 otherwise."""

    permission_classes = [TokenPermission]
    serializer_class: type[Any] = TokenSerializer
    lookup_field = "pk"
    lookup_url_kwarg = "token_id"

    def get_queryset(self) -> QuerySet[ApiToken]:
        user = signed_in_user(self.request)
        found = ApiToken.objects.select_related("user").order_by("-created_at", "-pk")
        return found if user.is_admin else found.filter(user=user)


class TokensView(TokensBaseView):
    @extend_schema(operation_id="tokens_list", parameters=[TokenQuery], responses=TokenSerializer(many=True))
    def get(self, request: Request) -> Response:
        """Your tokens, the latest first."""
        name = TokenQuery.of(request).get("user", signed_in_user(request).username)
        found = self.get_queryset() if name == "*" else self.get_queryset().filter(user__username=name)
        return self.get_paginated_response(TokenSerializer(self.paginate_queryset(found), many=True).data)

    @extend_schema(operation_id="tokens_create", request=NewTokenSerializer,
                   responses={201: MadeTokenSerializer, 400: ErrorsSerializer})
    def post(self, request: Request) -> Response:
        """Make a token. It may do no more than its owner and no more than the person who makes it."""
        form = NewTokenSerializer(data=request.data)
        form.is_valid(raise_exception=True)
        wish, by = form.validated_data, signed_in_user(request)
        user = _of_whom(wish.get("user", by.username), by)
        secret, token = accounts.make_token(
            user, by, name=wish["name"], scope=Scope(wish["scope"]), expires_at=wish["expires_at"],
            until=request.auth.expires_at if isinstance(request.auth, ApiToken) else None)
        return Response({**TokenSerializer(token).data, "token": secret}, status=status.HTTP_201_CREATED)


def _of_whom(name: str, by: User) -> User:
    """The person of the token to be. Others learn nothing of which names there are. Raises ValidationError."""
    if name == by.username:
        return by  # with the scope of the token that asks, if it is one that asks
    if not by.is_admin:
        raise serializers.ValidationError({"user": "Only administrators make tokens for others."})
    if (found := User.objects.filter(username=name, is_active=True).first()) is None:
        raise serializers.ValidationError({"user": f"There is no active user named {shown(name)}."})
    return found


class TokenView(TokensBaseView):
    @extend_schema(operation_id="tokens_retrieve", responses=TokenSerializer)
    def get(self, request: Request, token_id: int) -> Response:
        """One token, without its secret."""
        return Response(TokenSerializer(self.get_object()).data)

    @extend_schema(operation_id="tokens_delete", responses={204: None})
    def delete(self, request: Request, token_id: int) -> Response:
        """Remove a token. It can no longer be used."""
        accounts.remove_token(self.get_object())
        return Response(status=status.HTTP_204_NO_CONTENT)
