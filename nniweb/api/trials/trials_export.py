"""An experiment's trials as a file: JSON or CSV, of chosen ones or of all that fit, sent as they are read."""

from django.http import StreamingHttpResponse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiResponse, extend_schema
from rest_framework import generics, serializers
from rest_framework.renderers import BaseRenderer
from rest_framework.request import Request

from nniweb.api.experiments.experiment_views import experiment_of
from nniweb.documents.trial_query import TrialFilters, filtered
from nniweb.experiments.downloads.export import csv_pieces, json_pieces
from nniweb.experiments.models import Experiment
from nniweb.http.attachment import as_attachment, sent
from nniweb.http.error_form import ErrorsSerializer
from nniweb.http.fields import CommaListField
from nniweb.http.renderers import ExactJSONRenderer

#: Ids that an address holds; where there are more, tag them and export by tag.
MOST_IDS = 500
_TYPES = {"csv": "text/csv; charset=utf-8", "json": "application/json"}


class ExportQuery(TrialFilters):
    format = serializers.ChoiceField(choices=list(_TYPES), default="json")
    trials = CommaListField(child=serializers.CharField(max_length=12), required=False, max_length=MOST_IDS,
                            help_text=f"Only the trials with these ids, separated by commas, at most {MOST_IDS}.")
    intermediate = serializers.BooleanField(default=False, help_text="Include the intermediate results of each trial.")
    raw = serializers.BooleanField(default=False, help_text=(
        "CSV: write cells unchanged, including texts that a spreadsheet would run as a formula. Without this option, a "
        "text that begins with = + - @ and is not a number gets a leading '. Do not open files with unchanged cells in "
        "a spreadsheet."))


class ExperimentExportView(generics.GenericAPIView[Experiment]):
    serializer_class = ExportQuery
    queryset = Experiment.objects.none()

    def perform_content_negotiation(self, request: Request, force: bool = False) -> tuple[BaseRenderer, str]:
        return ExactJSONRenderer(), "application/json"  # of errors; ``format`` is the file's

    @extend_schema(operation_id="experiments_export", parameters=[ExportQuery], responses={
        (200, "application/json"): OpenApiResponse(OpenApiTypes.OBJECT, "The file."),
        (200, "text/csv"): OpenApiResponse(OpenApiTypes.STR, "The file."), 400: ErrorsSerializer})
    def get(self, request: Request, experiment_id: str) -> StreamingHttpResponse:
        """Trials as a file: all, those that fit the filters, or chosen ones; in order of sequence.

        CSV has a column for each parameter (nested ones as outer.inner).
        """
        wanted = ExportQuery.of(request)
        experiment = experiment_of(request, experiment_id)
        trials = filtered(experiment, wanted)
        if "trials" in wanted:
            trials = trials.filter(public_id__in=wanted["trials"])
        curves = wanted["intermediate"]
        pieces = csv_pieces(trials, intermediate=curves, raw=wanted["raw"]) if wanted["format"] == "csv" \
            else json_pieces(experiment, trials, intermediate=curves)
        name = f"{experiment.public_id}-trials.{wanted['format']}"
        return StreamingHttpResponse(sent(pieces), content_type=_TYPES[wanted["format"]],
                                     headers=as_attachment(name))
