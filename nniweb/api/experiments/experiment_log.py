"""The log of an experiment: what the worker, the platform's service and the tuner's process said about it."""

import logging
from typing import Any

from django.http import HttpResponse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema
from rest_framework import generics, serializers
from rest_framework.renderers import BaseRenderer
from rest_framework.request import Request
from rest_framework.response import Response

from nniweb.api.experiments.experiment_views import experiment_of
from nniweb.experiments.models import LogLine
from nniweb.experiments.models.log_line import LogSource
from nniweb.experiments.queries.experiment_log import LEVELS, LogPart, as_text, fitting, part_of
from nniweb.http.attachment import as_attachment
from nniweb.http.fields import CommaListField, Query
from nniweb.http.renderers import ExactJSONRenderer

MOST_LINES = 1000


class LogQuery(Query):
    """Which lines of a log."""

    level = serializers.ChoiceField(choices=list(LEVELS), default="DEBUG", help_text="This level and more severe ones.")
    source = CommaListField(  # type: ignore[assignment]  # fields are taken from the class before DRF's own name counts
        child=serializers.ChoiceField(choices=LogSource.choices), required=False, help_text="One or several.")
    q = serializers.CharField(required=False, max_length=200, help_text="Text that the message contains.")


class LogPartQuery(LogQuery):
    before = serializers.IntegerField(min_value=1, max_value=10**9, required=False,
                                      help_text="The last lines before the one with this number.")
    after = serializers.IntegerField(min_value=0, max_value=10**9, required=False,
                                     help_text="The first lines after the one with this number.")
    limit = serializers.IntegerField(min_value=1, max_value=MOST_LINES, default=500)


class LogLineSerializer(serializers.Serializer[Any]):
    """One message."""

    number = serializers.IntegerField(help_text="From 1, without gaps.")
    at = serializers.DateTimeField()
    level = serializers.SerializerMethodField()
    source = serializers.ChoiceField(  # type: ignore[assignment]  # taken from the class before DRF's own name counts
        choices=LogSource.choices, help_text="Who said it.")
    trial = serializers.CharField(help_text="Id of the trial that the line is about, \"\" for none.")
    message = serializers.CharField(help_text="Has several lines if it contains a traceback.")

    def get_level(self, line: LogLine) -> str:
        return logging.getLevelName(line.level)


class LogPartSerializer(serializers.Serializer[Any]):
    """Lines in their order."""

    lines = LogLineSerializer(many=True)
    first = serializers.IntegerField(help_text="Number of the first stored line; earlier lines were removed.")
    last = serializers.IntegerField(help_text="Number of the last stored line.")
    has_earlier = serializers.BooleanField(help_text="Whether there are matching lines before these.")
    revision = serializers.IntegerField(help_text="Revision of the experiment when this was read, or slightly earlier.")


class ExperimentLogView(generics.GenericAPIView[LogLine]):
    serializer_class = LogPartSerializer
    queryset = LogLine.objects.none()

    @extend_schema(operation_id="experiments_log", parameters=[LogPartQuery], responses=LogPartSerializer)
    def get(self, request: Request, experiment_id: str) -> Response:
        """The log of an experiment: the last lines, or the lines before or after a line."""
        wanted = LogPartQuery.of(request)
        experiment = experiment_of(request, experiment_id)
        lines = fitting(experiment, **conditions(wanted))
        return Response(log_document(part_of(experiment, lines, most=wanted["limit"], before=wanted.get("before"),
                                             after=wanted.get("after"))))


def conditions(wanted: dict[str, Any]) -> dict[str, Any]:
    """What a query asks for, as ``fitting`` takes it."""
    return {"level": wanted["level"], "sources": wanted.get("source", ()), "text": wanted.get("q", "")}


def log_document(part: LogPart) -> dict[str, Any]:
    return dict(LogPartSerializer(part).data)


class ExperimentLogTextView(generics.GenericAPIView[LogLine]):
    serializer_class = LogPartSerializer
    queryset = LogLine.objects.none()

    def perform_content_negotiation(self, request: Request, force: bool = False) -> tuple[BaseRenderer, str]:
        """Any ``Accept`` will do: the content is what it is, and errors are JSON."""
        return ExactJSONRenderer(), ExactJSONRenderer.media_type

    @extend_schema(operation_id="experiments_log_text", parameters=[LogQuery],
                   responses={(200, "text/plain"): OpenApiTypes.STR})
    def get(self, request: Request, experiment_id: str) -> HttpResponse:
        """The whole log, or its matching lines, as a text file."""
        wanted = LogQuery.of(request)
        experiment = experiment_of(request, experiment_id)
        text = "".join(as_text(fitting(experiment, **conditions(wanted))))
        return HttpResponse(text.encode(), content_type="text/plain; charset=utf-8",
                            headers=as_attachment(f"{experiment_id}-log.txt"))
