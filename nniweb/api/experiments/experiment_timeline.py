"""An experiment's attempts by machine and GPU over time: columns, thinned for the window that is asked for."""

from datetime import UTC, datetime
from typing import Any

from django.utils import timezone
from drf_spectacular.utils import extend_schema
from rest_framework import generics, serializers
from rest_framework.request import Request
from rest_framework.response import Response

from nniweb.api.experiments.experiment_chart import STATUSES
from nniweb.api.experiments.experiment_views import experiment_of
from nniweb.experiments.charts.timeline import Timeline, timeline_of
from nniweb.experiments.models import Experiment
from nniweb.experiments.models.trial import TRIAL_STATUSES
from nniweb.http.fields import Query


class TimelineQuery(Query):
    begin = serializers.DateTimeField(required=False, default_timezone=UTC, help_text="Of the window; else of all.")
    end = serializers.DateTimeField(required=False, default_timezone=UTC, help_text="Of the window; else of all.")
    width = serializers.IntegerField(min_value=100, max_value=10_000, default=1200, help_text=(
        "Width of the window in pixels; bars that are too narrow to see are merged."))

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        if "begin" in attrs and "end" in attrs and attrs["begin"] >= attrs["end"]:
            raise serializers.ValidationError({"end": "must be after begin."})
        return attrs


class TimelineRowSerializer(serializers.Serializer[Any]):
    """A GPU, or a slot of a machine whose GPUs are not known."""

    machine = serializers.CharField(help_text="\"\" if it is not known.")
    gpu = serializers.IntegerField(allow_null=True)
    lane = serializers.IntegerField(help_text="From 0; for several trials that share a GPU at the same time.")
    runs = serializers.IntegerField(help_text="Attempts in the window.")
    busy = serializers.FloatField(help_text="Part of the window in which an attempt ran, 0 to 1.")


class TimelineRunsSerializer(serializers.Serializer[Any]):
    """A column per subject, all of the same length. Times in seconds since the epoch."""

    row = serializers.ListField(child=serializers.IntegerField(), help_text="Place in `rows`.")
    begin = serializers.ListField(child=serializers.FloatField())
    end = serializers.ListField(child=serializers.FloatField(allow_null=True), help_text="null: it has not ended.")
    status = serializers.ListField(child=serializers.IntegerField(), help_text=(
        "Index in `statuses`; of a merged bar, the most frequent status."))
    sequence_id = serializers.ListField(child=serializers.IntegerField())
    id = serializers.ListField(child=serializers.CharField(), help_text=(
        "Of the trial; of a merged bar, of the first one."))
    attempt = serializers.ListField(child=serializers.IntegerField())
    merged = serializers.DictField(child=serializers.DictField(child=serializers.IntegerField()), help_text=(
        "Index of a merged bar -> status -> number of attempts."))


class TimelineWaitsSerializer(serializers.Serializer[Any]):
    """Times before attempts began, as `runs`."""

    lane = serializers.ListField(child=serializers.IntegerField(), help_text="From 0.")
    begin = serializers.ListField(child=serializers.FloatField())
    end = serializers.ListField(child=serializers.FloatField(allow_null=True), help_text="null: it waits.")
    sequence_id = serializers.ListField(child=serializers.IntegerField())
    id = serializers.ListField(child=serializers.CharField())
    attempt = serializers.ListField(child=serializers.IntegerField())
    reason = serializers.ListField(child=serializers.CharField(), help_text=(
        "Why it waits; of an ended wait, for how long it waited and for what."))
    jobs = serializers.ListField(child=serializers.ListField(child=serializers.CharField()), help_text=(
        "Names of the jobs in the reasons of waiting trials."))


class TimelineSerializer(serializers.Serializer[Any]):
    """A window of an experiment's timeline."""

    revision = serializers.IntegerField(help_text="Revision of the experiment when this was read, or slightly earlier.")
    now = serializers.FloatField(help_text="By the server's clock.")
    extent = serializers.ListField(child=serializers.FloatField(), help_text="Begin and end of the whole timeline.")
    window = serializers.ListField(child=serializers.FloatField(), help_text="Begin and end of the window.")
    statuses = serializers.ListField(child=serializers.ChoiceField(choices=TRIAL_STATUSES))
    rows = TimelineRowSerializer(many=True)
    runs = TimelineRunsSerializer()
    waits = TimelineWaitsSerializer()
    merged = serializers.IntegerField(help_text="Attempts that are part of merged bars.")
    waits_left_out = serializers.IntegerField(help_text="Waits that are too short, or too many, to be drawn.")
    rows_left_out = serializers.IntegerField(help_text="Rows that are too many to be drawn.")


class ExperimentTimelineView(generics.GenericAPIView[Experiment]):
    serializer_class = TimelineSerializer
    queryset = Experiment.objects.none()

    @extend_schema(operation_id="experiments_timeline", parameters=[TimelineQuery], responses=TimelineSerializer)
    def get(self, request: Request, experiment_id: str) -> Response:
        """The attempts that ran on each machine and GPU over time, and the waiting times."""
        wanted = TimelineQuery.of(request)
        found = timeline_of(experiment_of(request, experiment_id), timezone.now(), width=wanted["width"],
                            begin=_seconds(wanted.get("begin")), end=_seconds(wanted.get("end")))
        return Response(timeline_document(found))


def _seconds(at: datetime | None) -> float | None:
    return None if at is None else at.timestamp()


def _rounded(at: float | None) -> float | None:
    return None if at is None else round(at, 3)


def timeline_document(timeline: Timeline) -> dict[str, Any]:
    """The columns."""
    place = {status: number for number, status in enumerate(STATUSES)}
    bars = [(number, bar) for number, row in enumerate(timeline.rows) for bar in row.bars]
    waits = [(number, wait) for number, lane in enumerate(timeline.waits) for wait in lane]
    return {
        "revision": timeline.revision, "now": _rounded(timeline.now), "statuses": STATUSES,
        "extent": [_rounded(at) for at in timeline.extent], "window": [_rounded(at) for at in timeline.window],
        "rows": [{"machine": row.machine, "gpu": row.gpu, "lane": row.lane, "runs": row.runs,
                  "busy": round(min(1.0, row.busy), 4)} for row in timeline.rows],
        "runs": {
            "row": [row for row, _ in bars], "begin": [_rounded(bar.begin) for _, bar in bars],
            "end": [_rounded(bar.end) for _, bar in bars], "status": [place[bar.status] for _, bar in bars],
            "sequence_id": [bar.first.sequence_id for _, bar in bars], "id": [bar.first.trial_id for _, bar in bars],
            "attempt": [bar.first.attempt for _, bar in bars],
            "merged": {str(number): dict(bar.statuses) for number, (_, bar) in enumerate(bars) if bar.count > 1}},
        "waits": {
            "lane": [lane for lane, _ in waits], "begin": [_rounded(wait.begin) for _, wait in waits],
            "end": [_rounded(wait.end) for _, wait in waits], "sequence_id": [wait.sequence_id for _, wait in waits],
            "id": [wait.trial_id for _, wait in waits], "attempt": [wait.attempt for _, wait in waits],
            "reason": [wait.reason for _, wait in waits], "jobs": [wait.jobs for _, wait in waits]},
        "merged": timeline.merged, "waits_left_out": timeline.waits_left_out,
        "rows_left_out": timeline.rows_left_out}
