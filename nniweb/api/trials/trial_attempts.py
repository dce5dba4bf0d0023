"""The attempts of a trial, and what each of them used of its machine over time."""

from datetime import datetime
from typing import Any

from django.db.models import QuerySet
from drf_spectacular.utils import extend_schema, extend_schema_field
from rest_framework import generics, serializers
from rest_framework.request import Request
from rest_framework.response import Response

from nniweb.api.trials.trial_views import attempt_of, trial_of
from nniweb.experiments.ingest.resource_samples import MAX_READINGS
from nniweb.experiments.models import Attempt, ResourceReading
from nniweb.http.fields import Query
from nniweb.http.reason_serializer import ReasonSerializer
from trialkeeper import contract


class AttemptSerializer(serializers.ModelSerializer[Attempt]):
    """One submission of a trial to its platform."""

    cluster = serializers.CharField(source="runs_on.name", help_text="Where it runs or ran.")
    placement = serializers.SerializerMethodField()
    machine = serializers.CharField(source="machine_name")
    gpu_indices = serializers.ListField(child=serializers.IntegerField(), allow_null=True)
    interpreter = serializers.CharField(allow_null=True, help_text="The Python that its command runs, where known.")
    interpreter_version = serializers.CharField(allow_null=True)
    report_within = serializers.IntegerField(allow_null=True, read_only=True, help_text=(
        "Its keeper was asked to report again in so many seconds after heard_at; null before its first report."))
    gpu_peak = serializers.IntegerField(allow_null=True, read_only=True, help_text=(
        "The most bytes that it was seen to have on one of its GPUs; null where that is not known."))
    out_of_memory = serializers.ChoiceField(choices=[contract.GPU_MEMORY, contract.MAIN_MEMORY], allow_null=True,
                                            read_only=True, help_text="What it ran out of, if it did.")

    class Meta:
        model = Attempt
        fields = ["number", "job_name", "stage", "cluster", "placement", "machine", "gpu_indices",
                  "working_directory", "interpreter", "interpreter_version", "url", "exit_code",
                  "end_reason", "created_at", "submitted_at", "started_at", "ended_at", "heard_at", "report_within",
                  "duration", "gpu_peak", "out_of_memory"]

    @extend_schema_field(ReasonSerializer(allow_null=True))
    def get_placement(self, attempt: Attempt) -> dict[str, Any] | None:
        """Of an experiment on several clusters, why it runs there: the code chosen, with what the others said."""
        placement: dict[str, Any] | None = attempt.placement
        return placement


class TrialAttemptsView(generics.ListAPIView[Attempt]):
    """The attempts of a trial, in order. The trial's own figures are those of the last."""

    serializer_class = AttemptSerializer
    queryset = Attempt.objects.none()

    def get_queryset(self) -> QuerySet[Attempt]:
        return Attempt.objects.filter(trial=trial_of(self.request, self.kwargs["trial_id"])).select_related(
            "cluster", "trial__experiment__cluster").order_by("number")


class GpuReadingSerializer(serializers.Serializer[Any]):
    """A GPU that the trial uses."""

    index = serializers.IntegerField()
    utilization = serializers.FloatField(allow_null=True, help_text="Percent.")
    memory_bytes = serializers.FloatField(allow_null=True, help_text="Of all processes on it.")
    own_bytes = serializers.FloatField(allow_null=True, help_text="Of the trial's processes, where that is known.")


class ReadingSerializer(serializers.Serializer[Any]):
    """What the trial's processes used at one time."""

    at = serializers.DateTimeField()
    cpu_percent = serializers.FloatField(allow_null=True, help_text="100 is one processor.")
    memory_bytes = serializers.FloatField(allow_null=True)
    gpus = GpuReadingSerializer(many=True)


class ReadingsSerializer(serializers.Serializer[Any]):
    """One attempt's readings, in order of time."""

    attempt = serializers.IntegerField(help_text="0 before the first attempt.")
    readings = ReadingSerializer(many=True, help_text=f"At most {MAX_READINGS}, spread evenly over the attempt's time.")


class ReadingsQuery(Query):
    attempt = serializers.IntegerField(min_value=1, max_value=10**9, required=False,
                                       help_text="The latest one if left out.")


class TrialResourcesView(generics.GenericAPIView[ResourceReading]):
    serializer_class = ReadingsSerializer
    queryset = ResourceReading.objects.none()

    @extend_schema(operation_id="trials_resources", parameters=[ReadingsQuery], responses=ReadingsSerializer)
    def get(self, request: Request, trial_id: str) -> Response:
        """Processor, memory and GPU usage of a trial over time, as its keeper measured it. Long series are thinned."""
        attempt = attempt_of(trial_of(request, trial_id), ReadingsQuery.of(request).get("attempt"))
        return Response({"attempt": attempt.number if attempt else 0, "readings": resource_samples_of(attempt)})


def resource_samples_of(attempt: Attempt | None) -> list[dict[str, Any]]:
    """All readings that are kept of an attempt, the oldest first."""
    rows = ResourceReading.objects.filter(attempt=attempt).order_by("at", "pk") if attempt else ()
    return [reading_document(row.at, row.data) for row in rows]


def reading_document(at: datetime, data: dict[str, Any]) -> dict[str, Any]:
    """A keeper's reading as ``ReadingSerializer`` describes it: with every field, null for what was not read."""
    return {"at": at, "cpu_percent": data.get("cpu_percent"), "memory_bytes": data.get("memory_bytes"),
            "gpus": [{"index": gpu.get("index"), "utilization": gpu.get("utilization"),
                      "memory_bytes": gpu.get("memory_bytes"), "own_bytes": gpu.get("own_bytes")}
                     for gpu in data.get("gpus") or ()]}
