"""Who did what when, and what the worker noticed."""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_GET
from rest_framework import serializers

from nniweb.api.experiments.experiment_events import EventQuery, found
from nniweb.dashboard.experiment_tabs.head import experiment_of, tab
from nniweb.dashboard.page_query import PageQuery
from nniweb.experiments.queries.history import NOBODY, kinds_and_people

EVENTS_PER_PAGE = 100


class EventPageQuery(EventQuery):
    """As over REST, the newest first."""

    order = serializers.ChoiceField(choices=["at", "-at"], default="-at")


@require_GET
def events(request: HttpRequest, public_id: str) -> HttpResponse:
    """The tab with the history of the experiment and its trials."""
    experiment = experiment_of(request, public_id)
    query = PageQuery(EventPageQuery, request.GET)
    page = query.page_of(found(experiment, query.values), EVENTS_PER_PAGE)
    kinds, people = kinds_and_people(experiment, with_trials=query.values["trials"])
    return render(request, "dashboard/experiment/events.html", {
        **tab(request, experiment, "experiment-events", with_trials=query.values["trials"]),
        "page": page, "query": query, "with_trials": query.values["trials"], "kinds": kinds, "people": people,
        "nobody": NOBODY})
