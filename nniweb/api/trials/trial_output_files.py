"""What a trial has written into its output folder, on its machine: a list, one file, all of them.

Nothing of it is on the server; kept files are (``trial_files.py``). Browsers must only ever store it.
"""

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import PurePosixPath
from typing import Any

from asgiref.sync import sync_to_async
from django.http import StreamingHttpResponse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema
from rest_framework import generics, serializers
from rest_framework.exceptions import APIException, NotFound
from rest_framework.renderers import BaseRenderer
from rest_framework.request import Request
from rest_framework.response import Response

from nniweb.api.trials.trial_views import attempt_of, trial_of
from nniweb.experiments.downloads.output_download import archive_pieces, rest_of_file
from nniweb.experiments.downloads.trial_output_folder import TrialOutputFolder
from nniweb.experiments.models import Attempt, Trial
from nniweb.http.attachment import as_attachment
from nniweb.http.error_form import Conflict, ErrorsSerializer
from nniweb.http.fields import Query
from nniweb.http.renderers import ExactJSONRenderer
from trainingservice.errors import TemporaryError, TrainingServiceError
from trainingservice.files.output_folder import NoSuchOutput


class MachineAway(APIException):
    """The machine does not answer; it may later."""

    status_code = 503
    default_code = "machine_away"


class OutputFilesQuery(Query):
    attempt = serializers.IntegerField(min_value=1, max_value=10**9, required=False,
                                       help_text="The latest one if left out.")


class OutputFileQuery(OutputFilesQuery):
    name = serializers.CharField(max_length=4096, trim_whitespace=False,
                                 help_text="The path below the output folder, as in the list.")


class OutputFileSerializer(serializers.Serializer[Any]):
    """A file on the trial's machine."""

    name = serializers.CharField(help_text="Path below the output folder.")
    size = serializers.IntegerField(help_text="Bytes.")
    modified_at = serializers.DateTimeField(allow_null=True)


class OutputFilesSerializer(serializers.Serializer[Any]):
    """The present content of the output folder (NNI_OUTPUT_DIR) of an attempt."""

    attempt = serializers.IntegerField()
    files = OutputFileSerializer(many=True, help_text="By name.")
    cut = serializers.BooleanField(help_text="There are more files than these.")
    left_out = serializers.IntegerField(help_text="Number of links, devices, pipes and unreadable folders, which are "
                                                  "not followed or opened.")


@contextmanager
def in_words() -> Iterator[None]:
    """What a platform raises, as an answer: 404 for what is not there, 503 for a machine that is away, else 409."""
    try:
        yield
    except NoSuchOutput as error:
        raise NotFound(str(error)) from None
    except TemporaryError as error:
        raise MachineAway(str(error)) from None
    except TrainingServiceError as error:
        raise Conflict(str(error)) from None


class OutputFolderView(generics.GenericAPIView[Trial]):
    serializer_class: type[Any] = OutputFilesSerializer
    queryset = Trial.objects.none()
    query: type[Query] = OutputFilesQuery

    def asked_for(self, request: Request, trial_id: str) -> tuple[dict[str, Any], Attempt]:
        """The query, and the attempt it speaks of."""
        trial = trial_of(request, trial_id)
        wanted = self.query.of(request)
        attempt = attempt_of(trial, wanted.get("attempt"))
        if attempt is None:
            raise NotFound("The trial has no machine yet, so there are no files.")
        return wanted, attempt


class OutputDownloadView(OutputFolderView):
    def perform_content_negotiation(self, request: Request, force: bool = False) -> tuple[BaseRenderer, str]:
        """Any ``Accept`` will do: the content is what it is, and errors are JSON."""
        return ExactJSONRenderer(), ExactJSONRenderer.media_type


class TrialOutputFilesView(OutputFolderView):
    @extend_schema(operation_id="trials_output_files", parameters=[OutputFilesQuery],
                   responses={200: OutputFilesSerializer, 409: ErrorsSerializer, 503: ErrorsSerializer})
    def get(self, request: Request, trial_id: str) -> Response:
        """The files in the trial's output folder, as they are on its machine at this moment.

        409 where the server cannot look there (the error says why), 503 where the machine does not answer.
        """
        _, attempt = self.asked_for(request, trial_id)
        with in_words(), TrialOutputFolder(attempt) as folder:
            found = folder.list_files()
        return Response(OutputFilesSerializer({
            "attempt": attempt.number, "cut": found.cut, "left_out": found.left_out,
            "files": [{"name": file.name, "size": file.size, "modified_at": instant(file.modified)}
                      for file in found.files]}).data)


class TrialOutputFileView(OutputDownloadView):
    query = OutputFileQuery

    @extend_schema(operation_id="trials_output_files_content", parameters=[OutputFileQuery],
                   responses={
                       (200, "application/octet-stream"): OpenApiTypes.BINARY, 409: ErrorsSerializer,
                       503: ErrorsSerializer})
    def get(self, request: Request, trial_id: str) -> StreamingHttpResponse:
        """The content of one file, as an attachment. The answer is cut off if the file is replaced meanwhile."""
        wanted, attempt = self.asked_for(request, trial_id)
        name = wanted["name"]
        with in_words():
            folder = TrialOutputFolder(attempt)
            with _closed_unless_sent(folder):
                first = folder.read(name, 0)
        return sent_in_pieces(PurePosixPath(name).name, rest_of_file(folder, name, first), folder.close, first.size)


class TrialOutputArchiveView(OutputDownloadView):
    @extend_schema(operation_id="trials_output_files_archive", parameters=[OutputFilesQuery],
                   responses={
                       (200, "application/octet-stream"): OpenApiTypes.BINARY, 409: ErrorsSerializer,
                       503: ErrorsSerializer})
    def get(self, request: Request, trial_id: str) -> StreamingHttpResponse:
        """All files of the list, as one tar archive."""
        _, attempt = self.asked_for(request, trial_id)
        with in_words():
            folder = TrialOutputFolder(attempt)
            with _closed_unless_sent(folder):
                found = folder.list_files()
        return sent_in_pieces(f"{attempt.job_name}.tar", archive_pieces(folder, found, attempt.job_name), folder.close)


@contextmanager
def _closed_unless_sent(folder: TrialOutputFolder) -> Iterator[None]:
    try:
        yield
    except BaseException:
        folder.close()
        raise


class _Pieces:
    """What an answer sends; closed with it, however it ends."""

    def __init__(self, pieces: Iterator[bytes], close: Callable[[], None]) -> None:
        self._pieces, self.close = pieces, close

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while (piece := await sync_to_async(lambda: next(self._pieces, None), thread_sensitive=True)()) is not None:
            yield piece


def sent_in_pieces(name: str, pieces: Iterator[bytes], close: Callable[[], None],
                   size: int | None = None) -> StreamingHttpResponse:
    """The answer with a file of this name; ``close`` is called when it was sent, or was given up."""
    return StreamingHttpResponse(_Pieces(pieces, close), content_type="application/octet-stream", headers={
        **as_attachment(name), **({} if size is None else {"Content-Length": str(size)})})


def instant(seconds: float) -> datetime | None:
    """None for what no calendar has: a trial may set any time."""
    try:
        return datetime.fromtimestamp(seconds, UTC)
    except (OverflowError, ValueError, OSError):
        return None
