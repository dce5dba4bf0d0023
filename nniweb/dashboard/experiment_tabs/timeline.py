"""Which machine and GPU ran which trial when, and what waited. The script reads the window from the address."""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_GET

from nniweb.dashboard.experiment_tabs.head import experiment_of, tab


@require_GET
def timeline(request: HttpRequest, public_id: str) -> HttpResponse:
    found = experiment_of(request, public_id)
    return render(request, "dashboard/experiment/timeline.html", tab(request, found, "experiment-timeline"))
