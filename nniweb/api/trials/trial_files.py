"""Files that were kept of a trial. They come from the trial, so browsers must only ever store them."""

from pathlib import PurePosixPath

from django.db.models import QuerySet
from django.http import HttpResponse
from django.shortcuts import get_object_or_404
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import generics
from rest_framework.exceptions import NotFound
from rest_framework.renderers import BaseRenderer
from rest_framework.request import Request

from nniweb.api.trials.damaged import Damaged
from nniweb.api.trials.trial_views import trial_of
from nniweb.documents.trials import TrialFileSerializer
from nniweb.experiments.downloads.kept_files import KeptFileDamaged, content_of
from nniweb.experiments.models import TrialFile
from nniweb.http.attachment import as_attachment
from nniweb.http.renderers import ExactJSONRenderer


class TrialFilesView(generics.ListAPIView[TrialFile]):
    """Files the experiment asked to keep."""

    serializer_class = TrialFileSerializer
    queryset = TrialFile.objects.none()

    def get_queryset(self) -> QuerySet[TrialFile]:
        trial = trial_of(self.request, self.kwargs["trial_id"])
        return TrialFile.objects.filter(attempt__trial=trial).select_related("attempt").order_by(
            "attempt__number", "name", "pk")


class TrialFileView(generics.GenericAPIView[TrialFile]):
    serializer_class = TrialFileSerializer
    queryset = TrialFile.objects.none()

    def perform_content_negotiation(self, request: Request, force: bool = False) -> tuple[BaseRenderer, str]:
        """Any ``Accept`` will do: the content is what it is, and errors are JSON."""
        return ExactJSONRenderer(), ExactJSONRenderer.media_type

    @extend_schema(operation_id="trials_files_content", parameters=[
        OpenApiParameter("file_id", int, OpenApiParameter.PATH)], responses={
            (200, "application/octet-stream"): OpenApiTypes.BINARY})
    def get(self, request: Request, trial_id: str, file_id: int) -> HttpResponse:
        """The content of one file, as an attachment."""
        trial = trial_of(request, trial_id)
        kept = get_object_or_404(TrialFile.objects.filter(attempt__trial=trial), pk=file_id)
        try:
            content = content_of(kept)
        except FileNotFoundError:
            raise NotFound("The file is no longer in the server's data folder.") from None
        except KeptFileDamaged as damage:
            raise Damaged(str(damage)) from None
        return HttpResponse(content, content_type="application/octet-stream",
                            headers=as_attachment(PurePosixPath(kept.name).name))
