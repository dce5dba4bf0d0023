"""What takes room: each experiment, and the data folder. For administrators; as the worker measured it last."""

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import generics, serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from nniweb.documents.retention_fields import DaysKeptSerializer
from nniweb.experiments.models import DiskUsage
from nniweb.experiments.retention.disk_usage import installation_usage
from nniweb.experiments.retention.policy import days_kept
from nniweb.http.fields import Query
from nniweb.http.permissions import AdminOnly

ORDERS = {"total": "total_bytes", "rows": "rows", "trials": "trials", "output": "output_bytes", "files": "files_bytes",
          "checkpoints": "checkpoints_bytes", "code": "code_bytes", "name": "experiment__name",
          "measured": "measured_at"}


class UsageQuery(Query):
    order = serializers.ChoiceField(choices=[*ORDERS, *(f"-{name}" for name in ORDERS)], default="-total")


class DiskUsageSerializer(serializers.Serializer[Any]):
    """One experiment. Bytes of rows and of output in the database are estimates."""

    experiment = serializers.CharField(source="experiment.public_id")
    name = serializers.CharField(source="experiment.name")
    owner = serializers.CharField(source="experiment.owner.username", allow_null=True, default=None)
    status = serializers.CharField(source="experiment.status")
    deleted_at = serializers.DateTimeField(source="experiment.deleted_at", allow_null=True, help_text=(
        "When its removal began."))
    message = serializers.CharField(source="experiment.message", help_text=(
        "Of a deleted experiment: why it still exists."))
    measured_at = serializers.DateTimeField()
    trials = serializers.IntegerField()
    rows = serializers.IntegerField(help_text="Of all tables.")
    rows_bytes = serializers.IntegerField(help_text="Estimated; without output.")
    output_bytes = serializers.IntegerField(help_text="Estimated.")
    files_bytes = serializers.IntegerField()
    checkpoints_bytes = serializers.IntegerField()
    code_bytes = serializers.IntegerField(help_text="Counted for each experiment that uses the same code.")
    total_bytes = serializers.IntegerField()
    days_kept = serializers.SerializerMethodField()

    def get_days_kept(self, usage: DiskUsage) -> DaysKeptSerializer:
        return days_kept(usage.experiment.retention)  # type: ignore[return-value]  # the schema is read from the hint


class PartSerializer(serializers.Serializer[Any]):
    part = serializers.CharField()
    bytes = serializers.IntegerField()
    files = serializers.IntegerField()


class HostUsageSerializer(serializers.Serializer[Any]):
    host = serializers.CharField()
    measured_at = serializers.DateTimeField()
    bytes = serializers.IntegerField(help_text="The size of the files on the disk.")
    parts = PartSerializer(many=True)


class InstallationUsageSerializer(serializers.Serializer[Any]):
    """The disk of the data folder as it is now, the database, and the data folders of all workers' hosts."""

    data_folder = serializers.CharField()
    disk_free = serializers.IntegerField(allow_null=True)
    disk_size = serializers.IntegerField(allow_null=True)
    database = serializers.IntegerField()
    database_unused = serializers.IntegerField(allow_null=True, help_text=(
        "Free space inside the file, which the database reuses; null if the database does not report it."))
    hosts = HostUsageSerializer(many=True)


class DiskUsageView(generics.GenericAPIView[DiskUsage]):
    permission_classes = [AdminOnly]
    serializer_class = DiskUsageSerializer
    queryset = DiskUsage.objects.select_related("experiment__owner")

    @extend_schema(operation_id="disk_usage_list", parameters=[UsageQuery], responses=DiskUsageSerializer(many=True))
    def get(self, request: Request) -> Response:
        """Disk usage of each experiment, the largest first. For administrators."""
        order = UsageQuery.of(request)["order"]
        column = ORDERS[order.removeprefix("-")]
        found = self.get_queryset().order_by(f"-{column}" if order.startswith("-") else column, "pk")
        return self.get_paginated_response(DiskUsageSerializer(self.paginate_queryset(found), many=True).data)


class InstallationUsageView(APIView):
    permission_classes = [AdminOnly]

    @extend_schema(operation_id="disk_usage_data_folder", responses=InstallationUsageSerializer)
    def get(self, request: Request) -> Response:
        """Free disk space, size of the database and of the parts of the data folder. For administrators."""
        return Response(InstallationUsageSerializer(installation_usage()).data)
