"""The table of all trials."""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.http import require_GET
from rest_framework import serializers

from nniweb.api import trials as trial_rest
from nniweb.api.trial_documents import TrialSerializer, with_details
from nniweb.dashboard.experiment_tabs.head import counts_by_status, experiment_of, parameter_columns, tab
from nniweb.dashboard.page_query import Column, PageQuery
from nniweb.experiments.models import Trial
from trainingservice.trial_job_status import TrialJobStatus

TRIALS_PER_PAGE = 50


class TrialTableQuery(trial_rest.TrialQuery):
    """As over REST, the newest first."""

    order = serializers.ChoiceField(choices=[*trial_rest.ORDERS, *(f"-{name}" for name in trial_rest.ORDERS)],
                                    default="-sequence_id")


@require_GET
def trials(request: HttpRequest, public_id: str) -> HttpResponse:
    found = experiment_of(request, public_id)
    query = PageQuery(TrialTableQuery, request.GET)
    wanted = trial_rest.filtered(Trial.objects.filter(experiment=found), query.values)
    page = query.page_of(with_details(trial_rest.in_order(wanted, query.order)), TRIALS_PER_PAGE)
    rows = TrialSerializer(page, many=True, context={"now": timezone.now()}).data
    names = parameter_columns(found)
    best_first = found.optimize_mode == "maximize"
    context = tab(request, found, "experiment-trials", order=query.order, is_filtered=query.is_filtered,
                  first_page=page.number == 1, page_size=TRIALS_PER_PAGE)
    return render(request, "dashboard/experiment/trials.html", {
        **context, "page": page, "trials": rows, "query": query,
        "counts": counts_by_status(context["experiment"]["progress"]["trials"]),
        "statuses": [status.value for status in TrialJobStatus], "columns": [
            Column(query, "No.", "sequence_id", falls_first=True, number=True), Column(query, "Status", "status"),
            Column(query, "Result", "final_value", falls_first=best_first, number=True),
            Column(query, "Latest", "latest", falls_first=best_first, number=True),
            Column(query, "Duration", "duration", falls_first=True, number=True),
            *(Column(query, name) for name in names or ["Parameters"]),
            Column(query, "Machine"), Column(query, "Why")]})
