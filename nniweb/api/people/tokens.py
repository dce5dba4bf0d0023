"""Keys of programs: everybody's own; those of all people for administrators."""

from collections.abc import Sequence
from decimal import Decimal
from typing import Any

from django.db.models import QuerySet
from drf_spectacular.utils import extend_schema
from rest_framework import generics, serializers, status
from rest_framework.permissions import SAFE_METHODS, BasePermission
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from nniweb.documents.tokens import LimitsSerializer, RunningSerializer, limits_document
from nniweb.experiments.access import accounts, leashes
from nniweb.experiments.actions import token_end, token_making
from nniweb.experiments.models import ApiToken, Budget, User
from nniweb.experiments.models.account import LeashRole, Scope
from nniweb.experiments.queries.token_use import use_of
from nniweb.http.error_form import ErrorsSerializer
from nniweb.http.fields import Query, StrictSerializer, TrueOrFalseField
from nniweb.http.permissions import signed_in_user
from trainingservice.words.shown_value import shown


def _amount(text: str) -> serializers.DecimalField:
    return serializers.DecimalField(max_digits=16, decimal_places=4, min_value=Decimal(0), required=False,
                                    allow_null=True, help_text=text)


class TokenPermission(BasePermission):
    """Everybody has tokens of their own, viewers too; a token that only reads makes and removes none."""

    message = "This token can only read. It cannot make or remove tokens."

    def has_permission(self, request: Request, view: APIView) -> bool:
        user = request.user
        return bool(user.is_authenticated and (request.method in SAFE_METHODS or user.scope != Scope.READ))


class TokenSerializer(LimitsSerializer):
    """A token, without its secret."""

    id = serializers.IntegerField()
    user = serializers.CharField(help_text="User name of its owner.")
    created_at = serializers.DateTimeField()
    last_used_at = serializers.DateTimeField(allow_null=True, help_text="To within a minute.")
    ended_at = serializers.DateTimeField(allow_null=True, help_text=(
        "Since then it opens nothing. Its limits hold for what it asked for."))
    ended_by = serializers.CharField(allow_null=True, help_text="User name.")
    running = RunningSerializer(help_text="What it asked for and has not ended, of what you may see.")


class MadeTokenSerializer(TokenSerializer):
    """A new token, with its secret."""

    token = serializers.CharField(help_text="Seen this once.")


class BudgetOfTokenSerializer(StrictSerializer):
    """The budget of a new token: at least one limit."""

    period = serializers.ChoiceField(choices=Budget.Period.values, default=Budget.Period.TOTAL.value)
    gpu_hours = _amount("Hours of trials, times their GPUs.")
    cpu_hours = _amount("Hours of trials, times their CPUs.")
    wall_hours = _amount("The time that trials run, added up, in hours.")
    money = _amount("By the prices of clusters and machines.")
    trials = serializers.IntegerField(required=False, allow_null=True, min_value=0, max_value=2**31 - 1,
                                      help_text="Trials that begin.")


class NewTokenSerializer(StrictSerializer):
    """A token to create."""

    name = serializers.CharField(max_length=100, help_text="The purpose of the token.")
    scope = serializers.ChoiceField(choices=Scope.choices, required=False,
                                    help_text="read if left out. Not together with roles, which take its place.")
    expires_at = serializers.DateTimeField(allow_null=True, default=None, help_text="null: never.")
    roles = serializers.ListField(child=serializers.ChoiceField(choices=LeashRole.choices), default=list, max_length=10,
                                  help_text="What the token may do, for one with a leash. Empty: it has none.")
    everything = TrueOrFalseField(default=False, help_text=(
        "Act on all that its person may change. false: only on what it launched itself."))
    clusters = serializers.ListField(child=serializers.CharField(max_length=255), default=list, max_length=100,
                                     help_text="Names or ids of the only clusters that it may use. Empty: all that its "
                                               "person may use.")
    max_trials = serializers.IntegerField(allow_null=True, default=None, min_value=1, max_value=leashes.MOST_TRIALS,
                                          help_text="Trials at a time, of all that it asks for. null: no limit.")
    budget = BudgetOfTokenSerializer(allow_null=True, default=None,
                                     help_text="What its trials may use. null: no limit.")
    user = serializers.CharField(max_length=150, required=False,
                                 help_text="User name of the token's owner; your own if left out. Only for "
                                           "administrators.")


class TokenQuery(Query):
    user = serializers.CharField(required=False, help_text="User name; \"*\" for everybody. Only for administrators.")
    ended = serializers.BooleanField(default=False, help_text="List those that were ended, too.")


class EndSerializer(StrictSerializer):
    """How a token is ended."""

    stop = TrueOrFalseField(default=False, help_text=(
        "Also stop the experiments that it launched, and cancel the trials that it asked for in others, as far as "
        "you may change them."))


class StoppedSerializer(serializers.Serializer[Any]):
    """How much was asked to stop."""

    experiments = serializers.IntegerField()
    trials = serializers.IntegerField(help_text="In experiments that the token has not launched.")


class EndedTokenSerializer(TokenSerializer):
    """A token that was ended."""

    stopped = StoppedSerializer()


def documents(tokens: Sequence[ApiToken], viewer: User) -> list[dict[str, Any]]:
    """What REST says of tokens, without their secrets."""
    use = use_of([token.pk for token in tokens], viewer)
    found = [{**limits, "id": token.pk, "user": token.user.username, "created_at": token.created_at,
              "last_used_at": token.last_used_at, "ended_at": token.ended_at,
              "ended_by": token.ended_by.username if token.ended_by is not None else None,
              "running": {"experiments": use[token.pk].experiments, "trials": use[token.pk].trials}}
             for token, limits in zip(tokens, limits_document(tokens), strict=True)]
    return [TokenSerializer(one).data for one in found]


class TokensBaseView(generics.GenericAPIView[ApiToken]):
    """A token of one's own; any for administrators; 404 otherwise."""

    permission_classes = [TokenPermission]
    serializer_class: type[Any] = TokenSerializer
    lookup_field = "pk"
    lookup_url_kwarg = "token_id"

    def get_queryset(self) -> QuerySet[ApiToken]:
        user = signed_in_user(self.request)
        found = ApiToken.objects.select_related("user", "ended_by").order_by("-created_at", "-pk")
        return found if user.is_admin else found.filter(user=user)


class TokensView(TokensBaseView):
    @extend_schema(operation_id="tokens_list", parameters=[TokenQuery], responses=TokenSerializer(many=True))
    def get(self, request: Request) -> Response:
        """Your tokens, the latest first."""
        wanted = TokenQuery.of(request)
        name = wanted.get("user", signed_in_user(request).username)
        found = self.get_queryset() if name == "*" else self.get_queryset().filter(user__username=name)
        if not wanted["ended"]:
            found = found.filter(ended_at=None)
        return self.get_paginated_response(documents(self.paginate_queryset(found) or [], signed_in_user(request)))

    @extend_schema(operation_id="tokens_create", request=NewTokenSerializer,
                   responses={201: MadeTokenSerializer, 400: ErrorsSerializer})
    def post(self, request: Request) -> Response:
        """Make a token. It may do no more than its owner and no more than the person who makes it."""
        form = NewTokenSerializer(data=request.data)
        form.is_valid(raise_exception=True)
        wish, by = form.validated_data, signed_in_user(request)
        user = _of_whom(wish.get("user", by.username), by)
        leash = leashes.leash_of(user, roles=wish["roles"], everything=wish["everything"], clusters=wish["clusters"],
                                 max_trials=wish["max_trials"])
        if leash is not None and "scope" in wish:
            raise serializers.ValidationError({"scope": "Roles take the place of the scope. Give one of them."})
        secret, token = token_making.make_token(
            user, by, name=wish["name"], scope=Scope(wish.get("scope", Scope.READ)), expires_at=wish["expires_at"],
            until=request.auth.expires_at if isinstance(request.auth, ApiToken) else None, leash=leash,
            budget=wish["budget"])
        return Response({**documents([token], by)[0], "token": secret}, status=status.HTTP_201_CREATED)


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
        return Response(documents([self.get_object()], signed_in_user(request))[0])

    @extend_schema(operation_id="tokens_delete", responses={204: None})
    def delete(self, request: Request, token_id: int) -> Response:
        """Remove a token. It can no longer be used. One by which something was asked for is ended instead, so that its
        limits hold for what goes on.
        """
        accounts.remove_token(self.get_object(), signed_in_user(request))
        return Response(status=status.HTTP_204_NO_CONTENT)


class TokenEndView(TokensBaseView):
    @extend_schema(operation_id="tokens_end", request=EndSerializer,
                   responses={200: EndedTokenSerializer, 400: ErrorsSerializer})
    def post(self, request: Request, token_id: int) -> Response:
        """End a token: it can no longer be used. What it runs goes on within its limits, or is stopped too."""
        form = EndSerializer(data=request.data)
        form.is_valid(raise_exception=True)
        token = self.get_object()
        user = signed_in_user(request)
        stopped = token_end.end(token, user, stop=form.validated_data["stop"])
        return Response({**documents([self.get_object()], user)[0],
                         "stopped": {"experiments": stopped.experiments, "trials": stopped.trials}})
