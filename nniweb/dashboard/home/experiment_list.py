"""The list of experiments, and the example that fills an empty one."""

from typing import Any

from django.contrib import messages
from django.db.models import Count, Q, QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_GET, require_http_methods

from nniweb.api.experiments import experiment_views as experiment_rest
from nniweb.dashboard.home.segments import segments, words
from nniweb.dashboard.home.strip import strip_of
from nniweb.dashboard.page_data import the_visitor
from nniweb.dashboard.page_query import Column, PageQuery
from nniweb.documents.experiments import NOT_IN_LISTS, summaries
from nniweb.experiments.access.visibility import may_dispose, may_steer, visible_experiments
from nniweb.experiments.clusters.worker_presence import HOW_TO_START, worker_is_alive
from nniweb.experiments.config import ConfigInvalid
from nniweb.experiments.errors import Refused
from nniweb.experiments.launch.launch_checks import clusters_elsewhere
from nniweb.experiments.models import Experiment, User
from nniweb.experiments.models.account import Role
from nniweb.experiments.models.experiment import ExperimentStatus
from nniweb.experiments.queries.list_states import ListState, is_in
from nniweb.experiments.results.best_so_far import improvements_of
from nniweb.startup.first_start import launch_example

EXPERIMENTS_PER_PAGE = 30
#: Experiments whose tags are offered to filter by.
TAGS_OF = 1000
#: Administrators who are named on the page of somebody who has nothing yet.
ADMINISTRATORS = 5
#: Parts of the list, and what people call them.
STATES = {ListState.RUNNING: "Running", ListState.ATTENTION: "Needs attention", ListState.DONE: "Done"}


@require_GET
def experiments(request: HttpRequest) -> HttpResponse:
    """The list of experiments, or the offer to launch the example where there are none."""
    user = the_visitor(request)
    query = PageQuery(experiment_rest.ExperimentQuery, request.GET)
    visible = visible_experiments(user)
    found = experiment_rest.filtered(visible, query.values)
    found = found.select_related("cluster", "owner", "group").defer(*NOT_IN_LISTS)
    page = query.page_of(experiment_rest.in_order(found, query.order), EXPERIMENTS_PER_PAGE)
    rows = _rows(list(page), user)
    counts = visible.filter(archived=False).aggregate(**{state.value: Count("pk", filter=is_in(state))
                                                         for state in ListState})
    return render(request, "dashboard/experiments.html", {
        "page": page, "rows": rows, "query": query,
        "states": [(state.value, title, counts[state.value]) for state, title in STATES.items()],
        "statuses": ExperimentStatus.values,
        "strip": strip_of(user, visible, needs_attention=counts[ListState.ATTENTION.value] > 0),
        "anything": (anything := bool(rows) or visible.exists()),
        "elsewhere": [] if anything else clusters_elsewhere(user),
        "administrators": [] if anything else _administrators(),
        "worker_is_alive": worker_is_alive(), "how_to_start": HOW_TO_START,
        "owners": visible.exclude(owner=None).order_by("owner__username").values_list(
            "owner__username", flat=True).distinct(),
        "clusters": visible.order_by("cluster__name").values_list("cluster__name", flat=True).distinct(),
        "tags": _tags(visible), "may_change": user.may_change,
        "columns": [Column(query, "Name", "name"), Column(query, "Status", "status"), Column(query, "Trials"),
                    Column(query, "Best", number=True), Column(query, "Cluster", "cluster"),
                    Column(query, "Owner", "owner"), Column(query, "Last change", "changed", falls_first=True)],
    })


def _administrators() -> list[str]:
    """Whom people ask for what they may not do themselves."""
    found = User.objects.filter(is_active=True).filter(Q(is_superuser=True) | Q(role=Role.ADMIN)).order_by("username")
    return list(found.values_list("username", flat=True)[:ADMINISTRATORS])


def _rows(shown: list[Experiment], user: User) -> list[dict[str, Any]]:
    """The documents of the page's experiments with what only the page shows."""
    best = improvements_of([experiment.pk for experiment in shown])
    groups = set(user.groups.values_list("pk", flat=True))
    return [{**row, "best_so_far": best[experiment.pk], "is_finished": experiment.is_finished,
             "may_steer": may_steer(user, experiment, groups), "may_dispose": may_dispose(user, experiment),
             "segments": segments(row["progress"]["trials"], row["max_trial_number"]),
             "segments_words": words(row["progress"]["trials"], row["max_trial_number"])}
            for row, experiment in zip(summaries(shown), shown, strict=True)]


def _tags(visible: QuerySet[Experiment]) -> list[str]:
    """Tags to choose from."""
    lists = visible.exclude(tags=[]).order_by("-pk").values_list("tags", flat=True)[:TAGS_OF]
    return sorted({tag for tags in lists for tag in tags})


@require_http_methods(["GET", "HEAD", "POST"])
def launch_demo(request: HttpRequest) -> HttpResponse:
    """Launch the bundled example for this person, then show it. Whoever comes by a link is sent to the button."""
    user = the_visitor(request)
    if request.method != "POST":
        return redirect("experiments")
    if not user.may_change:
        messages.error(request, "Your role is viewer, which cannot launch experiments. Ask an administrator for "
                                "another role.")
        return redirect("experiments")
    try:
        return redirect("experiment", launch_example(user).public_id)
    except (ConfigInvalid, Refused, OSError, ValueError) as error:
        messages.error(request, f"The example could not be launched: {error}")
        return redirect("experiments")
