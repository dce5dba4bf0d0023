"""What a trial wrote to stdout and stderr, by byte offset: so that a reader can go on where it stopped."""

import codecs
from typing import Any

from django.db.models import QuerySet
from django.http import HttpResponse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema
from rest_framework import generics, serializers
from rest_framework.renderers import BaseRenderer
from rest_framework.request import Request
from rest_framework.response import Response

from nniweb.api.trials.damaged import Damaged
from nniweb.api.trials.trial_views import attempt_of, trial_of
from nniweb.experiments.models import Attempt, TrialOutput
from nniweb.experiments.output.pieces import all_pieces, pieces_near, stream_end
from nniweb.experiments.output.segments import OutputDamaged
from nniweb.http.attachment import as_attachment
from nniweb.http.fields import LARGEST_REVISION, Query
from nniweb.http.renderers import ExactJSONRenderer

DEFAULT_LIMIT = 64 * 1024
LARGEST_LIMIT = 1024 * 1024


class OutputQuery(Query):
    stream = serializers.ChoiceField(choices=["stdout", "stderr"], default="stdout")
    offset = serializers.IntegerField(min_value=0, max_value=LARGEST_REVISION, default=0, help_text="Bytes.")
    limit = serializers.IntegerField(min_value=4, max_value=LARGEST_LIMIT, default=DEFAULT_LIMIT,
                                     help_text="Bytes; at least 4, so that any character fits.")
    attempt = serializers.IntegerField(min_value=1, max_value=10**9, required=False,
                                       help_text="The latest one if left out.")


class GapSerializer(serializers.Serializer[Any]):
    """Bytes that are missing here, because they stayed on the trial machine."""

    offset = serializers.IntegerField(help_text="Position in the stream where the missing bytes begin.")
    skipped = serializers.IntegerField(help_text="How many.")
    position = serializers.IntegerField(help_text="Position in `text` where they are missing, in characters.")


class OutputSerializer(serializers.Serializer[Any]):
    """A part of a stream."""

    attempt = serializers.IntegerField()
    stream = serializers.CharField()
    offset = serializers.IntegerField()
    next_offset = serializers.IntegerField(help_text="The offset for the next request.")
    text = serializers.CharField(help_text="UTF-8; invalid bytes are shown as U+FFFD.")
    gaps = GapSerializer(many=True)
    size = serializers.IntegerField(help_text="End of the output that has arrived, in bytes.")


class TrialOutputView(generics.GenericAPIView[TrialOutput]):
    serializer_class = OutputSerializer
    queryset = TrialOutput.objects.none()

    @extend_schema(operation_id="trials_output", parameters=[OutputQuery], responses=OutputSerializer)
    def get(self, request: Request, trial_id: str) -> Response:
        """A part of the trial's output. Use `next_offset` in the next request to get the following output."""
        wanted = OutputQuery.of(request)
        attempt = attempt_of(trial_of(request, trial_id), wanted.get("attempt"))
        if attempt is None:
            return Response({"attempt": 0, "stream": wanted["stream"], "offset": wanted["offset"],
                             "next_offset": wanted["offset"], "text": "", "gaps": [], "size": 0})
        rows = TrialOutput.objects.filter(attempt=attempt, stream=wanted["stream"])
        try:
            part = read_part(rows, wanted["offset"], wanted["limit"], may_grow=attempt.stage != Attempt.Stage.ENDED)
        except OutputDamaged as damage:
            raise Damaged(str(damage)) from None
        return Response({"attempt": attempt.number, "stream": wanted["stream"], "offset": wanted["offset"], **part})


class OutputTextQuery(Query):
    stream = serializers.ChoiceField(choices=["stdout", "stderr"], default="stdout")
    attempt = serializers.IntegerField(min_value=1, max_value=10**9, required=False,
                                       help_text="The latest one if left out.")


class TrialOutputTextView(generics.GenericAPIView[TrialOutput]):
    serializer_class = OutputSerializer
    queryset = TrialOutput.objects.none()

    def perform_content_negotiation(self, request: Request, force: bool = False) -> tuple[BaseRenderer, str]:
        """Any ``Accept`` will do: the content is what it is, and errors are JSON."""
        return ExactJSONRenderer(), ExactJSONRenderer.media_type

    @extend_schema(operation_id="trials_output_text", parameters=[OutputTextQuery],
                   responses={(200, "text/plain"): OpenApiTypes.STR})
    def get(self, request: Request, trial_id: str) -> HttpResponse:
        """The whole output of a stream so far, as a file. A line marks bytes that stayed on the trial machine."""
        wanted = OutputTextQuery.of(request)
        attempt = attempt_of(trial_of(request, trial_id), wanted.get("attempt"))
        parts: list[bytes] = []
        rows = TrialOutput.objects.filter(attempt=attempt, stream=wanted["stream"]).order_by("offset")
        try:
            for piece in all_pieces(rows):  # keepers send at most some hundred KiB by default
                if piece.skipped:
                    parts.append(f"\n[{piece.skipped} bytes stayed on the trial machine]\n".encode())
                parts.append(piece.data)
        except OutputDamaged as damage:
            raise Damaged(str(damage)) from None
        number = f"-{attempt.number}" if attempt and attempt.number > 1 else ""
        name = f"{trial_id}{number}-{wanted['stream']}.txt"
        return HttpResponse(b"".join(parts), content_type="text/plain; charset=utf-8", headers=as_attachment(name))


def read_part(rows: QuerySet[TrialOutput], offset: int, limit: int, *, may_grow: bool) -> dict[str, Any]:
    """Text, gaps, next_offset and size of up to ``limit`` bytes of a stream's pieces from ``offset``.

    A character that is cut at the end is left for the next part, if there will be one. Offsets that
    pieces step over without ``skipped`` were metric lines: no output, and no gap. Raises OutputDamaged, StorageFailed.
    """
    size = stream_end(rows)
    pieces = pieces_near(rows, offset, limit)
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    text, gaps, position, left = "", [], offset, limit
    for start, data, skipped in pieces:
        if start + len(data) <= position or left <= 0:
            continue
        if skipped and start > position:
            text += decoder.decode(b"", final=True)
            missing = min(skipped, start - position)
            gaps.append({"offset": start - missing, "skipped": missing, "position": len(text)})
        taken = data[max(0, position - start):][:left]
        text += decoder.decode(taken)
        position = max(position, start) + len(taken)
        left -= len(taken)
    cut = len(decoder.getstate()[0])
    if cut and (position < size or may_grow):
        position -= cut
    else:
        text += decoder.decode(b"", final=True)
    return {"next_offset": position, "text": text, "gaps": gaps, "size": size}
