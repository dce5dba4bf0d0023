"""The ranks of a trial that runs on several nodes, and what each of them has written: read where it runs."""

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.exceptions import NotFound
from rest_framework.request import Request
from rest_framework.response import Response

from nniweb.api.trials.trial_output_files import OutputFilesQuery, OutputFolderView, in_words
from nniweb.experiments.downloads.trial_output_folder import TrialOutputFolder
from nniweb.http.error_form import ErrorsSerializer
from trainingservice.files.output_folder import NoSuchOutput
from trainingservice.nodes.options import MOST_NODES, rank_rows

#: Bytes of a stream that are read where the rank is: its end.
MOST_READ = 256 * 1024


class RankSerializer(serializers.Serializer[Any]):
    """One rank."""

    rank = serializers.IntegerField()
    machine = serializers.CharField(allow_blank=True, help_text="\"\" before it has one.")
    gpu_indices = serializers.ListField(child=serializers.IntegerField(), allow_null=True)
    status = serializers.CharField(allow_blank=True, help_text="As of a trial; \"\" before the rank was seen.")
    exit_code = serializers.IntegerField(allow_null=True)
    message = serializers.CharField(allow_blank=True, help_text="Why it waits or how it failed.")


class RanksSerializer(serializers.Serializer[Any]):
    """The ranks of an attempt, in order; none where the trial runs on one node."""

    attempt = serializers.IntegerField()
    ranks = RankSerializer(many=True)


class RankOutputQuery(OutputFilesQuery):
    rank = serializers.IntegerField(min_value=0, max_value=MOST_NODES)
    stream = serializers.ChoiceField(choices=["stdout", "stderr"], default="stdout")


class RankOutputSerializer(serializers.Serializer[Any]):
    """The end of what a rank has written."""

    attempt = serializers.IntegerField()
    rank = serializers.IntegerField()
    stream = serializers.CharField()
    offset = serializers.IntegerField(help_text="Bytes before `text`.")
    size = serializers.IntegerField(help_text="Bytes of the whole stream.")
    text = serializers.CharField(allow_blank=True, help_text="UTF-8; invalid bytes are shown as U+FFFD.")


class TrialRanksView(OutputFolderView):
    serializer_class = RanksSerializer

    @extend_schema(operation_id="trials_ranks", parameters=[OutputFilesQuery], responses=RanksSerializer)
    def get(self, request: Request, trial_id: str) -> Response:
        """The ranks of a trial that runs on several nodes: where each is, and what is known of it."""
        _, attempt = self.asked_for(request, trial_id)
        return Response(RanksSerializer({"attempt": attempt.number, "ranks": rank_rows(attempt.platform_state)}).data)


class TrialRankOutputView(OutputFolderView):
    serializer_class = RankOutputSerializer
    query = RankOutputQuery

    @extend_schema(operation_id="trials_ranks_output", parameters=[RankOutputQuery],
                   responses={200: RankOutputSerializer, 409: ErrorsSerializer, 503: ErrorsSerializer})
    def get(self, request: Request, trial_id: str) -> Response:
        """The end of what a rank has written to stdout or stderr, as it is on its machine at this moment.

        409 where the server cannot look there (the error says why), 503 where the machine does not answer.
        """
        wanted, attempt = self.asked_for(request, trial_id)
        if wanted["rank"] >= len(rank_rows(attempt.platform_state)):
            raise NotFound(f"The trial has no rank {wanted['rank']}.")
        with in_words(), TrialOutputFolder(attempt, rank=wanted["rank"]) as folder:
            size, offset, content = _end_of(folder, wanted["stream"])
        return Response(RankOutputSerializer({
            "attempt": attempt.number, "rank": wanted["rank"], "stream": wanted["stream"], "offset": offset,
            "size": size, "text": content.decode("utf-8", "replace").replace("\0", "\N{REPLACEMENT CHARACTER}")}).data)


def _end_of(folder: TrialOutputFolder, stream: str) -> tuple[int, int, bytes]:
    """Size of a stream, where its end begins, and the end."""
    try:
        first = folder.read(stream, 0, MOST_READ)
    except NoSuchOutput:
        return 0, 0, b""  # the rank has not begun
    if first.size <= len(first.content):
        return first.size, 0, first.content
    offset = first.size - MOST_READ
    return first.size, offset, folder.read(stream, offset, MOST_READ).content

