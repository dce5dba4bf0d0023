"""The table of all trials: filtered, sorted and paged by the server; chosen ones are compared, stopped, exported."""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.http import require_GET
from rest_framework import serializers

from nniweb.dashboard.experiment_tabs import trial_columns
from nniweb.dashboard.experiment_tabs.head import counts_by_status, experiment_of, tab
from nniweb.dashboard.page_query import PageQuery
from nniweb.dashboard.words import digits_apart
from nniweb.documents.trial_query import (
    NONE,
    PROPOSALS,
    GroupField,
    OrderField,
    TrialFilters,
    by_proposal,
    fitting,
    in_order,
)
from nniweb.documents.trials import TrialSerializer, with_details
from nniweb.experiments.models import Trial
from nniweb.experiments.trial_filter import FilterInvalid
from nniweb.experiments.trial_filter.conditions import FIELDS
from nniweb.experiments.trial_filter.language import LONGEST
from nniweb.http.fields import CommaListField
from nniweb.tensorboard import boards

#: Rows of a page that one may choose, and how many there are unless told otherwise.
PAGE_SIZES, USUAL_SIZE = [25, 50, 100, 200], 50
#: How close rows stand; the first unless told otherwise.
DENSITIES = ["comfortable", "compact"]


class TrialTableQuery(TrialFilters):
    """As over REST, the newest first; and how it looks."""

    order = OrderField(default="-sequence_id")
    group = GroupField(default=PROPOSALS)
    columns = CommaListField(child=serializers.CharField(max_length=200), required=False)
    without = CommaListField(child=serializers.CharField(max_length=200), required=False)
    page_size = serializers.ChoiceField(choices=PAGE_SIZES, default=USUAL_SIZE)
    density = serializers.ChoiceField(choices=DENSITIES, default=DENSITIES[0])


@require_GET
def trials(request: HttpRequest, public_id: str) -> HttpResponse:
    """The tab with the table of trials."""
    found = experiment_of(request, public_id)
    query = PageQuery(TrialTableQuery, request.GET)
    size = int(query.values["page_size"])
    mistake = None
    try:
        wanted = fitting(found, query.values)
    except FilterInvalid as invalid:
        wanted, mistake = Trial.objects.none(), _mistake(query["filter"], invalid)
    is_grouped = found.has_replicates and query.values["group"] == PROPOSALS
    rows_of = by_proposal(found, wanted, are_all=not query.is_filtered) if is_grouped else wanted
    page = query.page_of(with_details(in_order(rows_of, query.order)), size)
    rows = TrialSerializer(page, many=True, context={"now": timezone.now()}).data
    choices = trial_columns.choices_of(found)
    usual = trial_columns.usual_names(found, choices)
    hidden = set(query.values.get("without") or ())
    names = query.values.get("columns") or [name for name in usual if name not in hidden]
    columns = trial_columns.shown(choices, names, list(rows))
    context = tab(request, found, "experiment-trials", order=query.order, is_filtered=query.is_filtered,
                  is_grouped=is_grouped, first_page=page.number == 1, page_size=size, fitting_rows=page.paginator.count,
                  next_sequence_id=found.next_sequence_id,
                  fitting=wanted.count() if is_grouped else page.paginator.count,
                  filters={name: value for name, value in query.given.items() if name not in query.NO_FILTERS},
                  usual_columns=usual, usual_size=USUAL_SIZE, density=query.values["density"],
                  usual_density=DENSITIES[0])
    return render(request, "dashboard/experiment/trials.html", {
        **context, "page": page, "trials": rows,
        "result_digits": digits_apart(row["final_number"] for row in rows) if _ranks(query.order) else None,
        "query": query, "mistake": mistake, "longest_filter": LONGEST,
        "is_grouped": is_grouped, "has_replicates": found.has_replicates,
        "other_group": NONE if is_grouped else PROPOSALS,
        "tensorboards": boards.with_numbers(found),
        "counts": counts_by_status(context["experiment"]["progress"]["trials"]),
        "columns": trial_columns.headings(query, columns), "shown": columns, "choices": choices,
        "shown_names": [column.name for column in columns], "fields": FIELDS.values(), "size": size,
        "parameters": [choice.parameter for choice in choices if choice.parameter], "page_sizes": PAGE_SIZES,
        "densities": DENSITIES, "density": query.values["density"],
        "metrics": [choice.metric for choice in choices if choice.metric and choice.part == "final"]})


def _ranks(order: str) -> bool:
    """Whether the rows are in the order of their results."""
    return order.removeprefix("-") == "final_value"


def _mistake(text: str, invalid: FilterInvalid) -> dict[str, str]:
    """What is wrong with a filter, with the place cut out."""
    return {"sentence": str(invalid), "before": text[:invalid.start], "at": text[invalid.start:invalid.end],
            "after": text[invalid.end:]}
