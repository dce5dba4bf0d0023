"""Which hyper-parameters make a trial good. The script takes the data over REST."""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_GET

from nniweb.dashboard.experiment_tabs.head import experiment_of, tab


@require_GET
def parameters(request: HttpRequest, public_id: str) -> HttpResponse:
    return render(request, "dashboard/experiment/parameters.html",
                  tab(request, experiment_of(request, public_id), "experiment-parameters"))
