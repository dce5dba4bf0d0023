"""Checkpoints that are kept of a trial. They come from the trial, so browsers must only ever store them."""

from typing import Any

from django.db.models import QuerySet
from django.http import StreamingHttpResponse
from django.shortcuts import get_object_or_404
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import generics
from rest_framework.renderers import BaseRenderer
from rest_framework.request import Request

from nniweb.api.trials.damaged import Damaged
from nniweb.api.trials.trial_output_files import sent_in_pieces
from nniweb.api.trials.trial_views import trial_of
from nniweb.documents.checkpoints import CheckpointSerializer, checkpoints_of_trial
from nniweb.experiments.downloads.checkpoint_download import (
    CheckpointAway,
    CheckpointDamaged,
    checkpoint_pieces,
    manifest_of,
)
from nniweb.experiments.models import Checkpoint
from nniweb.http.error_form import ErrorsSerializer
from nniweb.http.renderers import ExactJSONRenderer
from nniweb.storage.elsewhere import StorageFailed


class TrialCheckpointsView(generics.ListAPIView[Checkpoint]):
    """The checkpoints of a trial, newest first, and those from which an attempt went on."""

    serializer_class = CheckpointSerializer
    queryset = Checkpoint.objects.none()

    def get_queryset(self) -> QuerySet[Checkpoint]:
        return checkpoints_of_trial(trial_of(self.request, self.kwargs["trial_id"]).pk)


class TrialCheckpointView(generics.GenericAPIView[Checkpoint]):
    serializer_class: type[Any] = CheckpointSerializer
    queryset = Checkpoint.objects.none()

    def perform_content_negotiation(self, request: Request, force: bool = False) -> tuple[BaseRenderer, str]:
        """Any ``Accept`` will do: the content is what it is, and errors are JSON."""
        return ExactJSONRenderer(), ExactJSONRenderer.media_type

    @extend_schema(operation_id="trials_checkpoints_content", parameters=[
        OpenApiParameter("checkpoint_id", int, OpenApiParameter.PATH)], responses={
            (200, "application/octet-stream"): OpenApiTypes.BINARY, 410: ErrorsSerializer, 503: ErrorsSerializer})
    def get(self, request: Request, trial_id: str, checkpoint_id: int) -> StreamingHttpResponse:
        """One checkpoint, as a tar archive. 410 if it is damaged on the server's disk, 503 if its storage does not
        answer; the answer is cut off if that turns out in the middle."""
        trial = trial_of(request, trial_id)
        checkpoint = get_object_or_404(
            checkpoints_of_trial(trial.pk).filter(removed_at=None).select_related("trial__experiment"),
            pk=checkpoint_id)
        try:
            manifest = manifest_of(checkpoint)
        except CheckpointAway as away:
            raise StorageFailed(str(away)) from away
        except CheckpointDamaged as damage:
            raise Damaged(str(damage)) from None
        name = f"{trial.public_id}-{checkpoint.name}.tar"
        return sent_in_pieces(name, checkpoint_pieces(checkpoint, manifest), lambda: None)
