"""Who did what when, and what the worker noticed."""

from django.core.paginator import Paginator
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_GET

from nniweb.dashboard.experiment_tabs.head import experiment_of, tab
from nniweb.experiments.models import ExperimentEvent

EVENTS_PER_PAGE = 100


@require_GET
def events(request: HttpRequest, public_id: str) -> HttpResponse:
    found = experiment_of(request, public_id)
    rows = ExperimentEvent.objects.filter(experiment=found).select_related("actor").order_by("-pk")
    return render(request, "dashboard/experiment/events.html", {
        **tab(request, found, "experiment-events"),
        "page": Paginator(rows, EVENTS_PER_PAGE).get_page(request.GET.get("page"))})
