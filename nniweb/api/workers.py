"""Worker processes: whether anybody is there to run trials."""

from django.utils import timezone
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema_field
from rest_framework import generics, serializers

from nniweb.experiments.models import Worker
from nniweb.experiments.worker_presence import ALIVE_FOR


class WorkerSerializer(serializers.ModelSerializer[Worker]):
    """A worker process."""

    alive = serializers.SerializerMethodField(help_text="Heard of in the last 15 seconds.")

    class Meta:
        model = Worker
        fields = ["id", "host", "pid", "started_at", "heard_at", "alive"]

    @extend_schema_field(OpenApiTypes.BOOL)
    def get_alive(self, worker: Worker) -> bool:
        return timezone.now() - worker.heard_at < ALIVE_FOR


class WorkersView(generics.ListAPIView[Worker]):
    """Worker processes, the latest first. Where none is alive, no trial starts."""

    serializer_class = WorkerSerializer
    queryset = Worker.objects.order_by("-started_at", "id")
