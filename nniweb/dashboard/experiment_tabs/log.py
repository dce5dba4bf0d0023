"""What the worker, the platform's service and the tuner's process said about the experiment."""

from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_GET

from nniweb.api.experiments.experiment_log import LogQuery, conditions, log_document
from nniweb.dashboard.experiment_tabs.head import experiment_of, tab
from nniweb.dashboard.page_query import PageQuery
from nniweb.experiments.models.log_line import LogSource
from nniweb.experiments.queries.experiment_log import LEVELS, fitting, part_of

#: Lines on the page when it is opened; earlier ones are fetched when somebody asks for them.
SHOWN_LINES = 300


@require_GET
def log(request: HttpRequest, public_id: str) -> HttpResponse:
    """The tab with what worker and tuner have logged."""
    found = experiment_of(request, public_id)
    query = PageQuery(LogQuery, request.GET)
    part = log_document(part_of(found, fitting(found, **conditions(query.values)), most=SHOWN_LINES))
    wanted = {"level": query["level"], "source": query["source"], "q": query["q"]}
    return render(request, "dashboard/experiment/log.html", {
        **tab(request, found, "experiment-log", log={
            "wanted": wanted, "revision": part["revision"], "last": part["last"], "most": SHOWN_LINES}),
        "log": part, "query": query, "levels": list(LEVELS), "sources": LogSource.values,
        "follow": request.GET.get("follow") != "0",
        "text_query": urlencode({name: value for name, value in wanted.items() if value})})
