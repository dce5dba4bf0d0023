"""Quotas: how much people and groups may use at a time. For administrators."""

from typing import Any

from django.contrib.auth.models import Group
from django.db.models import QuerySet
from drf_spectacular.utils import extend_schema
from rest_framework import generics, serializers, status
from rest_framework.request import Request
from rest_framework.response import Response

from nniweb.experiments.models import Quota, User
from nniweb.experiments.quotas.quota_settings import delete_quota, set_quota
from nniweb.http.error_form import ErrorsSerializer
from nniweb.http.fields import StrictSerializer
from nniweb.http.permissions import AdminOnly

#: What a column of the database holds.
_LARGEST = 2**31 - 1


class QuotaSerializer(serializers.Serializer[Any]):
    """A quota; null means no limit. Without user and group, it applies to each person without a quota of their own."""

    id = serializers.IntegerField()
    user = serializers.CharField(source="user.username", allow_null=True, default=None)
    group = serializers.CharField(source="group.name", allow_null=True, default=None)
    max_trials = serializers.IntegerField(allow_null=True, help_text="Trials at a time, over all experiments.")
    max_gpus = serializers.IntegerField(allow_null=True, help_text="GPUs that these trials ask for in total.")
    max_experiments = serializers.IntegerField(allow_null=True, help_text="Experiments at a time.")
    max_checkpoint_gb = serializers.IntegerField(allow_null=True, help_text="GB of checkpoints that the server keeps.")
    max_priority = serializers.IntegerField(allow_null=True, help_text=(
        "Highest priority of their experiments. null: 0, or what the other quota of person and group says."))


class _Limit(serializers.IntegerField):
    def __init__(self, **kwargs: Any) -> None:
        super().__init__(min_value=0, max_value=_LARGEST, allow_null=True, required=False, **kwargs)


class QuotaChangesSerializer(StrictSerializer):
    """Changes of a quota; null removes a limit."""

    max_trials = _Limit()
    max_gpus = _Limit()
    max_experiments = _Limit()
    max_checkpoint_gb = _Limit()
    max_priority = serializers.IntegerField(min_value=-100, max_value=100, allow_null=True, required=False)


class NewQuotaSerializer(QuotaChangesSerializer):
    """A new quota: of a user, of a group, or (neither) of each person without a quota of their own."""

    user = serializers.SlugRelatedField("username", queryset=User.objects.all(), allow_null=True, required=False)
    group = serializers.SlugRelatedField("name", queryset=Group.objects.all(), allow_null=True, required=False)


class QuotasBaseView(generics.GenericAPIView[Quota]):
    """One of all quotas."""

    permission_classes = [AdminOnly]
    serializer_class: type[Any] = QuotaSerializer
    lookup_field = "pk"
    lookup_url_kwarg = "quota_id"

    def get_queryset(self) -> QuerySet[Quota]:
        return Quota.objects.select_related("user", "group").order_by("pk")


class QuotasView(QuotasBaseView):
    @extend_schema(operation_id="quotas_list", responses=QuotaSerializer(many=True))
    def get(self, request: Request) -> Response:
        """All quotas. For administrators."""
        return self.get_paginated_response(
            QuotaSerializer(self.paginate_queryset(self.get_queryset()), many=True).data)

    @extend_schema(operation_id="quotas_create", request=NewQuotaSerializer,
                   responses={201: QuotaSerializer, 400: ErrorsSerializer, 409: ErrorsSerializer})
    def post(self, request: Request) -> Response:
        """Set a quota. Running trials continue; new trials wait while the quota is used up. For administrators."""
        form = NewQuotaSerializer(data=request.data)
        form.is_valid(raise_exception=True)
        quota = set_quota(Quota(), form.validated_data)
        return Response(QuotaSerializer(quota).data, status=status.HTTP_201_CREATED)


class QuotaView(QuotasBaseView):
    @extend_schema(operation_id="quotas_retrieve", responses=QuotaSerializer)
    def get(self, request: Request, quota_id: int) -> Response:
        """One quota. For administrators."""
        return Response(QuotaSerializer(self.get_object()).data)

    @extend_schema(operation_id="quotas_change", request=QuotaChangesSerializer,
                   responses={200: QuotaSerializer, 400: ErrorsSerializer})
    def patch(self, request: Request, quota_id: int) -> Response:
        """Change its limits. For administrators."""
        form = QuotaChangesSerializer(data=request.data)
        form.is_valid(raise_exception=True)
        return Response(QuotaSerializer(set_quota(self.get_object(), form.validated_data)).data)

    @extend_schema(operation_id="quotas_delete", responses={204: None})
    def delete(self, request: Request, quota_id: int) -> Response:
        """Remove it. For administrators."""
        delete_quota(self.get_object())
        return Response(status=status.HTTP_204_NO_CONTENT)
