"""The pages of experiments and trials, as they are when they are opened. Scripts in static/js keep them live."""

import json
from datetime import datetime
from typing import Any

import yaml
from django.contrib import messages
from django.db.models import Count, Max, QuerySet
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils import timezone
from django.views.decorators.http import require_GET, require_POST
from rest_framework import serializers

from nniweb.api import experiments as experiment_rest
from nniweb.api import trials as trial_rest
from nniweb.api.experiment_documents import NOT_IN_LISTS, document, summaries
from nniweb.api.renderers import ExactJSONRenderer
from nniweb.api.trial_documents import TrialSerializer, with_details
from nniweb.dashboard.page_query import Column, PageQuery
from nniweb.dashboard.trial_report import TrialReport
from nniweb.experiments.best_so_far import improvements_of
from nniweb.experiments.config import ConfigInvalid
from nniweb.experiments.intents import Refused
from nniweb.experiments.models import Experiment, ExperimentEvent, Trial, User
from nniweb.experiments.visibility import may_steer, visible_experiments, visible_trials
from nniweb.experiments.worker_presence import HOW_TO_START, worker_is_alive
from nniweb.first_start import launch_example
from nniweb.tuning.problem import InvalidInput
from nniweb.tuning.search_space_parser import parse_search_space
from trainingservice.trial_job_status import TrialJobStatus

EXPERIMENTS_PER_PAGE = 30
TRIALS_PER_PAGE = 50
#: Events on an experiment's page, the newest first.
SHOWN_EVENTS = 12
#: Parameters that get a column of their own; where there are more, one column holds them all.
MOST_PARAMETER_COLUMNS = 6


def _user(request: HttpRequest) -> User:
    assert isinstance(request.user, User)  # the middleware lets nobody else in
    return request.user


def _for_script(data: Any) -> Any:
    """Data for ``json_script``: times as text, no NaN."""
    return json.loads(ExactJSONRenderer().render(data))


# --- the list --------------------------------------------------------------------------------


@require_GET
def experiments(request: HttpRequest) -> HttpResponse:
    user = _user(request)
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
    user = _user(request)
    if not user.may_change:
        messages.error(request, "Your role is viewer: you can look, not launch anything. Ask an administrator.")
        return redirect("experiments")
    try:
        return redirect("experiment", launch_example(user).public_id)
    except (ConfigInvalid, Refused, OSError, ValueError) as error:
        messages.error(request, f"The example could not be launched: {error}")
        return redirect("experiments")


# --- one experiment --------------------------------------------------------------------------


def _experiment(request: HttpRequest, public_id: str) -> Experiment:
    experiments = visible_experiments(_user(request)).select_related("cluster", "owner", "group", "code")
    return get_object_or_404(experiments, public_id=public_id)


@require_GET
def experiment(request: HttpRequest, public_id: str) -> HttpResponse:
    found = _experiment(request, public_id)
    query = PageQuery(TrialTableQuery, request.GET)
    shown = document(found)
    trials = trial_rest.filtered(Trial.objects.filter(experiment=found), query.values)
    page = query.page_of(with_details(trial_rest.in_order(trials, query.order)), TRIALS_PER_PAGE)
    rows = TrialSerializer(page, many=True, context={"now": timezone.now()}).data
    names = _parameter_names(found)
    steers = may_steer(_user(request), found)
    events = ExperimentEvent.objects.filter(experiment=found).select_related("actor").order_by("-pk")[:SHOWN_EVENTS]
    best = visible_trials(_user(request)).filter(public_id=shown["progress"]["best_trial_id"]).first()
    return render(request, "dashboard/experiment.html", {
        "experiment": shown, "counts": _counts(shown["progress"]["trials"]), "page": page, "trials": rows,
        "query": query, "statuses": [status.value for status in TrialJobStatus], "parameter_names": names,
        "events": events, "best": best, "may_steer": steers, "is_finished": found.is_finished, "columns": [
            Column(query, "No.", "sequence_id", falls_first=True, number=True), Column(query, "Status", "status"),
            Column(query, "Result", "final_value", falls_first=found.optimize_mode == "maximize", number=True),
            Column(query, "Latest", "latest", falls_first=found.optimize_mode == "maximize", number=True),
            Column(query, "Duration", "duration", falls_first=True, number=True),
            *(Column(query, name) for name in names or ["Parameters"]),
            Column(query, "Machine"), Column(query, "Why")],
        "for_script": _for_script({
            "experiment": {key: value for key, value in shown.items() if key not in NOT_IN_LISTS},
            "may_steer": steers, "parameters": names, "order": query.order, "is_filtered": query.is_filtered,
            "first_page": page.number == 1, "page_size": TRIALS_PER_PAGE}),
    })


def _parameter_names(found: Experiment) -> list[str]:
    """The columns for parameters, none where they share one: there are many, or a tuner of the user's own has a space
    that only it can read, so that trials may have parameters of any name.
    """
    names = list(found.search_space)
    if len(names) > MOST_PARAMETER_COLUMNS:
        return []
    if found.has_own_tuner:
        try:
            parse_search_space(found.search_space)
        except InvalidInput:
            return []
    return names


def _counts(counts: dict[str, int]) -> list[tuple[str, int]]:
    """Every status with its count, in the order of a trial's life."""
    return [(status.value, counts[status.value]) for status in TrialJobStatus]


class TrialTableQuery(trial_rest.TrialQuery):
    """As over REST, the newest first."""

    order = serializers.ChoiceField(choices=[*trial_rest.ORDERS, *(f"-{name}" for name in trial_rest.ORDERS)],
                                    default="-sequence_id")


@require_GET
def experiment_config(request: HttpRequest, public_id: str) -> HttpResponse:
    """The file as it was given, and what it was resolved to."""
    found = _experiment(request, public_id)
    return render(request, "dashboard/experiment_config.html", {
        "experiment": document(found), "resolved": yaml.safe_dump(found.config, sort_keys=False, allow_unicode=True),
        "search_space": json.dumps(found.search_space, indent=2, ensure_ascii=False)
        if found.search_space else ""})


# --- one trial -------------------------------------------------------------------------------


@require_GET
def trial(request: HttpRequest, public_id: str) -> HttpResponse:
    trials: QuerySet[Trial] = visible_trials(_user(request)).select_related("experiment__cluster", "rerun_of")
    found = trials.filter(public_id=public_id).first()
    if found is None:
        raise Http404
    report = TrialReport(found)
    return render(request, "dashboard/trial.html", {
        "report": report, "trial": report.document, "experiment": found.experiment, "rerun_of": found.rerun_of,
        "may_steer": may_steer(_user(request), found.experiment), "for_script": _for_script(report.for_script())})
