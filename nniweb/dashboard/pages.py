"""The list of experiments and the page of a trial, as they are when they are opened. Scripts keep them live."""

from datetime import datetime

from django.contrib import messages
from django.db.models import Count, Max, QuerySet
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_GET, require_POST

from nniweb.api import experiments as experiment_rest
from nniweb.api.experiment_documents import NOT_IN_LISTS, summaries
from nniweb.dashboard.page_data import for_script, the_visitor
from nniweb.dashboard.page_query import Column, PageQuery
from nniweb.dashboard.trial_report import TrialReport
from nniweb.experiments.best_so_far import improvements_of
from nniweb.experiments.config import ConfigInvalid
from nniweb.experiments.intents import Refused
from nniweb.experiments.models import Experiment, Trial
from nniweb.experiments.visibility import may_steer, visible_experiments, visible_trials
from nniweb.experiments.worker_presence import HOW_TO_START, worker_is_alive
from nniweb.first_start import launch_example

EXPERIMENTS_PER_PAGE = 30


# --- the list --------------------------------------------------------------------------------


@require_GET
def experiments(request: HttpRequest) -> HttpResponse:
    user = the_visitor(request)
    query = PageQuery(experiment_rest.ExperimentQuery, request.GET)
    visible = visible_experiments(user)
    found = experiment_rest.filtered(visible, query.values)
    found = found.select_related("cluster", "owner", "group").defer(*NOT_IN_LISTS)
    page = query.page_of(experiment_rest.in_order(found, query.order), EXPERIMENTS_PER_PAGE)
    shown = list(page)
    best = improvements_of([experiment.pk for experiment in shown])
    changed = _last_changes(shown)
    rows = [{**row, "best_so_far": best[experiment.pk], "changed_at": changed[experiment.pk],
             "is_finished": experiment.is_finished, "may_steer": may_steer(user, experiment)}
            for row, experiment in zip(summaries(shown), shown, strict=True)]
    counts = visible.filter(archived=False).values_list("status").annotate(Count("pk")).order_by("status")
    return render(request, "dashboard/experiments.html", {
        "page": page, "rows": rows, "query": query, "counts": list(counts), "anything": visible.exists(),
        "worker_is_alive": worker_is_alive(), "how_to_start": HOW_TO_START,
        "owners": visible.exclude(owner=None).order_by("owner__username").values_list(
            "owner__username", flat=True).distinct(),
        "clusters": visible.order_by("cluster__name").values_list("cluster__name", flat=True).distinct(),
        "columns": [Column(query, "Name", "name"), Column(query, "Status", "status"), Column(query, "Progress"),
                    Column(query, "Best", number=True), Column(query, "Cluster"), Column(query, "Owner"),
                    Column(query, "Started", "started", falls_first=True), Column(query, "Last change")],
    })


def _last_changes(shown: list[Experiment]) -> dict[int, datetime]:
    """When each experiment or a trial of it last changed, as far as times are kept."""
    trials = Trial.objects.filter(experiment__in=shown).values_list("experiment").annotate(
        Max("created_at"), Max("started_at"), Max("ended_at")).order_by()
    of_trials = {key: times for key, *times in trials}
    return {experiment.pk: max(filter(None, [experiment.created_at, experiment.started_at, experiment.ended_at,
                                             *of_trials.get(experiment.pk, [])]))
            for experiment in shown}


@require_POST
def launch_demo(request: HttpRequest) -> HttpResponse:
    """Launch the bundled example for this person, then show it."""
    user = the_visitor(request)
    if not user.may_change:
        messages.error(request, "Your role is viewer: you can look, not launch anything. Ask an administrator.")
        return redirect("experiments")
    try:
        return redirect("experiment", launch_example(user).public_id)
    except (ConfigInvalid, Refused, OSError, ValueError) as error:
        messages.error(request, f"The example could not be launched: {error}")
        return redirect("experiments")


# --- one trial -------------------------------------------------------------------------------


@require_GET
def trial(request: HttpRequest, public_id: str) -> HttpResponse:
    trials: QuerySet[Trial] = visible_trials(the_visitor(request)).select_related("experiment__cluster", "rerun_of")
    found = trials.filter(public_id=public_id).first()
    if found is None:
        raise Http404
    report = TrialReport(found)
    return render(request, "dashboard/trial.html", {
        "report": report, "trial": report.document, "experiment": found.experiment, "rerun_of": found.rerun_of,
        "may_steer": may_steer(the_visitor(request), found.experiment), "for_script": for_script(report.for_script())})
