"""The first tab: how the search goes, at a glance."""

from collections.abc import Iterable
from typing import Any

from django.db.models import F, QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.http import require_GET

from nniweb.dashboard.experiment_tabs.head import counts_by_status, experiment_of, tab
from nniweb.dashboard.experiment_tabs.trial_columns import are_numbers, parameter_columns
from nniweb.dashboard.page_data import the_visitor
from nniweb.dashboard.words import digits_apart
from nniweb.documents.experiment_clusters import clusters_document
from nniweb.documents.experiments import LONGEST_DESCRIPTION
from nniweb.documents.trials import TrialSerializer, with_details
from nniweb.experiments.access.visibility import visible_clusters, visible_experiments
from nniweb.experiments.budgets.forecast import forecast
from nniweb.experiments.budgets.forecast_words import budget_rows, forecast_in_words, spending_in_words
from nniweb.experiments.budgets.visible import visible_forecast
from nniweb.experiments.charts.parameter_axes import columns_of
from nniweb.experiments.charts.parameter_importance import FEWEST_TRIALS
from nniweb.experiments.downloads.export import flat
from nniweb.experiments.models import Experiment, ExperimentEvent, Trial
from nniweb.experiments.models.experiment_cluster import rows_by_cluster
from nniweb.experiments.models.proposal import ProposalState
from nniweb.experiments.models.trial import RESULTS
from nniweb.experiments.queries.failures import failures_of
from nniweb.experiments.queries.next_steps import next_steps
from nniweb.experiments.results.progress import progress_of

#: Events shown here, the newest first.
SHOWN_EVENTS = 8
#: Causes of failures shown here.
SHOWN_FAILURES = 5
#: The best trials shown here.
TOP = 10


@require_GET
def overview(request: HttpRequest, public_id: str) -> HttpResponse:
    """The tab with results, progress and controls."""
    found = experiment_of(request, public_id)
    top = list(TrialSerializer(with_details(best_trials(found)[:TOP]), many=True, context={"now": timezone.now()}).data)
    context = tab(request, found, "experiment", top=top, top_size=TOP)
    names = parameter_columns(found)
    progress = context["experiment"]["progress"]
    forecasted = visible_forecast(forecast(found, timezone.now()), the_visitor(request))
    events = ExperimentEvent.objects.filter(experiment=found).select_related("actor").order_by("-pk")[:SHOWN_EVENTS]
    return render(request, "dashboard/experiment/overview.html", {
        **context, "started_from": _with_names(request, context["experiment"]["started_from"]),
        "forecast": forecasted, "budgets": budget_rows(forecasted.budgets, forecasted),
        "used_so_far": spending_in_words(forecasted.used + forecasted.running),
        "forecast_notes": forecast_in_words(forecasted) if not found.is_finished else [],
        "longest_description": LONGEST_DESCRIPTION,
        "clusters": clusters_document(found, timezone.now()), "further_clusters": _further_clusters(request, found),
        "failures": failures_of(found, SHOWN_FAILURES),
        "counts": counts_by_status(progress["trials"]), "top": top, "best": _best(top, progress),
        "next_steps": next_steps(found, progress_of([found], timezone.now())[found.pk]),
        "enough_for_importance": sum(progress["trials"][status] for status in RESULTS) >= FEWEST_TRIALS,
        "fewest_for_importance": FEWEST_TRIALS,
        "result_digits": digits_apart(trial["final_number"] for trial in top), "events": events,
        "parameter_names": names, "number_names": {
            *(column.axis.name for column in columns_of(found.search_space, ()) if column.axis.is_ordered),
            *(name for name in names if are_numbers(name, list(top)))}})


def _further_clusters(request: HttpRequest, experiment: Experiment) -> list[str]:
    """Names of clusters on which this person could have it run, too; none of an experiment that has ended."""
    if experiment.is_finished:
        return []
    known = {row.cluster.name for row in rows_by_cluster(experiment).values()} | {experiment.cluster.name}
    usable = visible_clusters(the_visitor(request)).filter(enabled=True, is_private=False)
    return sorted(set(usable.values_list("name", flat=True)) - known)


def _best(top: Iterable[Any], progress: dict[str, Any]) -> dict[str, Any] | None:
    """The trial whose value is the best; None with several objectives and before the first result."""
    found = next((trial for trial in top if trial["id"] == progress["best_trial_id"]), None)
    return found and {**found, "parameters": flat(found["parameters"])}


def _with_names(request: HttpRequest, earlier: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The earlier experiments with their names, where this person may see them."""
    if not earlier:
        return []
    names = dict(visible_experiments(the_visitor(request)).filter(
        public_id__in=[one["id"] for one in earlier]).values_list("public_id", "name"))
    return [{**one, "name": names.get(one["id"])} for one in earlier]


def best_trials(experiment: Experiment) -> QuerySet[Trial]:
    """Trials with a final result that counts, feasible ones first, then the best first; with several objectives those
    on the front, the best in the first objective first; with replicates the first trials of the best proposals that
    were run in full.
    """
    sign = "-" if experiment.optimize_mode == Experiment.OptimizeMode.MAXIMIZE else ""
    if experiment.has_several_objectives:
        return Trial.objects.filter(experiment=experiment, on_front=True).order_by(f"{sign}final_number", "sequence_id")
    if experiment.has_replicates:
        return Trial.objects.filter(
            experiment=experiment, sequence_id=F("proposal__first_sequence_id"), proposal__mean__isnull=False,
            proposal__state=ProposalState.COMPLETE).order_by(f"{sign}proposal__mean", "sequence_id")
    return Trial.objects.filter(experiment=experiment, status__in=RESULTS, final_number__isnull=False).order_by(
        *(["-feasible"] if experiment.outcome_constraints else []), f"{sign}final_number", "sequence_id")
