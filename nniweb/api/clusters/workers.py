"""Worker processes: whether anybody is there to run trials."""

from django.db.models import Exists, OuterRef
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema_field
from rest_framework import generics, serializers

from nniweb.experiments.clusters.worker_presence import alive_workers
from nniweb.experiments.models import Worker


class WorkerSerializer(serializers.ModelSerializer[Worker]):
    """A worker process."""

    alive = serializers.SerializerMethodField(help_text="The worker has reported in the last 15 seconds.")

    class Meta:
        model = Worker
        fields = ["id", "host", "pid", "started_at", "heard_at", "alive"]

    @extend_schema_field(OpenApiTypes.BOOL)
    def get_alive(self, worker: Worker) -> bool:
        return bool(worker.is_heard)  # type: ignore[attr-defined]  # annotated by the view


class WorkersView(generics.ListAPIView[Worker]):
    """Worker processes, the latest first. Where none is alive, no trial starts."""

    serializer_class = WorkerSerializer
    queryset = Worker.objects.annotate(is_heard=Exists(alive_workers().filter(pk=OuterRef("pk")))).order_by(
        "-started_at", "id")
