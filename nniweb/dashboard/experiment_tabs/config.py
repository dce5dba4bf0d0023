"""The file as it was given, what it was resolved to, and what was changed since."""

import json

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_GET

from nniweb.api.experiments.experiment_changes import changes_of
from nniweb.dashboard.experiment_tabs.head import experiment_of, tab
from nniweb.experiments.actions.changes import in_words
from nniweb.experiments.lifecycle.nni_ports import nni_port_words
from nniweb.experiments.retention.policy import as_seen
from trainingservice.limited_yaml import yaml_text

#: Changes that the table has at most, the newest; REST has them all.
SHOWN_CHANGES = 200


@require_GET
def config(request: HttpRequest, public_id: str) -> HttpResponse:
    """The tab with the experiment's file, its search space and its changes."""
    found = experiment_of(request, public_id)
    changes = list(changes_of(found)[:SHOWN_CHANGES])
    return render(request, "dashboard/experiment/config.html", {
        **tab(request, found, "experiment-config"),
        "kept": as_seen(found), "nni_port": nni_port_words(found),
        "changes": [(change, in_words(change)) for change in changes],
        "undone": {change.undoes for change in changes if change.undoes is not None},
        "resolved": yaml_text(found.config),
        "constraints": found.constraints, "outcome_constraints": found.outcome_constraints,
        "search_space": json.dumps(found.search_space, indent=2, ensure_ascii=False)
        if found.search_space else ""})
