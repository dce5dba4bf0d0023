"""Intermediate results of several trials over each other. The script takes the curves over REST."""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_GET

from nniweb.dashboard.experiment_tabs.head import experiment_of, tab
from nniweb.experiments.queries.start_step import start_step_advice


@require_GET
def intermediate(request: HttpRequest, public_id: str) -> HttpResponse:
    found = experiment_of(request, public_id)
    return render(request, "dashboard/experiment/intermediate.html",
                  {**tab(request, found, "experiment-intermediate", has_assessor=bool(found.assessor)),
                   "start_step": start_step_advice(found)})
