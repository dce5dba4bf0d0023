"""The ledger over REST: rows that whoever asks may see, a page at a time or as a CSV file."""

from collections.abc import Iterator
from typing import Any

from django.db.models import QuerySet
from django.http import StreamingHttpResponse
from django.shortcuts import get_object_or_404
from django.utils import timezone
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiResponse, extend_schema
from rest_framework import generics, serializers
from rest_framework.renderers import BaseRenderer
from rest_framework.request import Request
from rest_framework.response import Response

from nniweb.documents.budgets import LedgerEntrySerializer, entry_document
from nniweb.experiments.budgets.ledger_sums import entries_of
from nniweb.experiments.budgets.visible import seen_by, visible_budgets, visible_entries
from nniweb.experiments.downloads.export import csv_text, harmless_cell
from nniweb.experiments.models import LedgerEntry, User
from nniweb.http.attachment import as_attachment, sent
from nniweb.http.fields import Query
from nniweb.http.permissions import signed_in_user
from nniweb.http.renderers import ExactJSONRenderer

#: Rows of one piece of a file.
_AT_ONCE = 500


class LedgerQuery(Query):
    month = serializers.RegexField(r"^[0-9]{4}-(0[1-9]|1[0-2])\Z", required=False, help_text="Such as 2026-11 (UTC).")
    experiment = serializers.CharField(required=False, max_length=12, help_text="Id of an experiment, deleted or not.")
    budget = serializers.IntegerField(required=False, min_value=1, max_value=2**63 - 1, help_text=(
        "Id of a budget: only what counts towards it now."))


def _rows(reader: User, wish: dict[str, Any]) -> QuerySet[LedgerEntry]:
    rows = visible_entries(reader)
    if "month" in wish:
        rows = rows.filter(month=wish["month"])
    if "experiment" in wish:
        rows = rows.filter(experiment=wish["experiment"])
    if "budget" in wish:
        held = seen_by(get_object_or_404(visible_budgets(reader), pk=wish["budget"]), reader)
        rows = rows.filter(entries_of(held.budget, held.person, held.month(timezone.now())))
    return rows


class LedgerView(generics.GenericAPIView[LedgerEntry]):
    serializer_class = LedgerEntrySerializer
    queryset = LedgerEntry.objects.none()

    @extend_schema(operation_id="ledger_list", parameters=[LedgerQuery], responses=LedgerEntrySerializer(many=True))
    def get(self, request: Request) -> Response:
        """What attempts took that have ended: of your own and your groups' experiments and of your tokens, of all for
        administrators. The newest first.
        """
        rows = _rows(signed_in_user(request), LedgerQuery.of(request)).order_by("-pk")
        return self.get_paginated_response([entry_document(row) for row in self.paginate_queryset(rows) or []])


class LedgerExportView(generics.GenericAPIView[LedgerEntry]):
    serializer_class = LedgerEntrySerializer
    queryset = LedgerEntry.objects.none()

    def perform_content_negotiation(self, request: Request, force: bool = False) -> tuple[BaseRenderer, str]:
        return ExactJSONRenderer(), "application/json"  # of errors

    @extend_schema(operation_id="ledger_export", parameters=[LedgerQuery], responses={
        (200, "text/csv"): OpenApiResponse(OpenApiTypes.STR, "The file.")})
    def get(self, request: Request) -> StreamingHttpResponse:
        """The same as a CSV file, the oldest first."""
        rows = _rows(signed_in_user(request), LedgerQuery.of(request))
        return StreamingHttpResponse(sent(_pieces(rows)), content_type="text/csv; charset=utf-8",
                                     headers=as_attachment("ledger.csv"))


def _pieces(rows: QuerySet[LedgerEntry]) -> Iterator[str]:
    names = list(LedgerEntrySerializer().fields)
    yield csv_text([names])
    last = 0
    while some := list(rows.filter(pk__gt=last).order_by("pk")[:_AT_ONCE]):
        yield csv_text([[harmless_cell(value) for value in entry_document(row).values()] for row in some])
        last = some[-1].pk

