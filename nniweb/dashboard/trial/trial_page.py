"""A trial's page as it is when it is opened. static/js/pages/trial.js keeps it live."""

import json
from typing import Any

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.http import require_GET

from nniweb.dashboard.experiment_tabs.head import result_title
from nniweb.dashboard.page_data import for_script, json_texts, the_visitor
from nniweb.dashboard.trial.trial_report import TrialReport
from nniweb.dashboard.words import mean_with_error
from nniweb.documents.trials import LONGEST_NOTE, note_of
from nniweb.experiments.access.visibility import may_steer, visible_clusters, visible_trials
from nniweb.experiments.actions.freezing import can_freeze
from nniweb.experiments.downloads.export import flat
from nniweb.experiments.models.experiment_cluster import options_on
from nniweb.experiments.models.trial import RESTS
from nniweb.experiments.queries.trial_advice import CLUSTER, EXPERIMENT, NEW_EXPERIMENT, OUTPUT
from trainingservice.trial_job_status import TrialJobStatus


@require_GET
def trial(request: HttpRequest, public_id: str) -> HttpResponse:
    """``?attempt=1`` shows the output, metrics and readings of an earlier attempt."""
    user = the_visitor(request)
    found = visible_trials(user).select_related(
        "experiment__cluster", "experiment__owner", "rerun_of", "proposal", "token__user", "experiment__token__user"
        ).filter(public_id=public_id).first()
    if found is None:
        raise Http404
    report = TrialReport(found, _number(request.GET.get("attempt")))
    experiment = found.experiment
    cluster = report.attempt.runs_on if report.attempt is not None else experiment.cluster
    sees_cluster = visible_clusters(user).filter(pk=cluster.pk).exists()
    #: Where a piece of advice leads; what is not here this person may not see.
    places = {
        EXPERIMENT: {"address": reverse("experiment", args=[experiment.public_id]), "words": "the experiment"},
        OUTPUT: {"address": "#stderr", "words": "stderr"},
        **({CLUSTER: {"address": reverse("cluster", args=[cluster.public_id]), "words": "the cluster"}}
           if sees_cluster else {}),
        **({NEW_EXPERIMENT: {"address": f"{reverse('new-experiment')}?from={experiment.public_id}",
                             "words": "a new experiment like it"}} if user.may_change else {}),
    }
    steers = may_steer(user, experiment)
    return render(request, "dashboard/trial.html", {
        "report": report, "trial": report.document, "parameters": flat(report.document["parameters"]),
        "experiment": experiment, "rerun_of": found.rerun_of, "token": found.token or experiment.token,
        "trial_token": found.token,
        "result_title": result_title(experiment),
        "image": options_on(experiment, report.attempt.cluster_id if report.attempt is not None else None
                            ).get("dockerImage"),
        "proposal_mean": mean_with_error(found.proposal.mean, found.proposal.standard_error, found.proposal.value_count)
                         if found.proposal else "",
        "notes": note_of(found.pk), "longest_note": LONGEST_NOTE,
        "may_steer": steers, "may_freeze": can_freeze(experiment),
        "is_at_rest": found.target in RESTS, "statuses": [status.value for status in TrialJobStatus],
        "advice": [(piece, places.get(piece["look_at"])) for piece in report.advice],
        "for_script": for_script({**report.for_script(), "places": places, "may_steer": steers,
                                  "search_space": experiment.search_space,
                                  "exact": {"parameters": json_texts(report.document["parameters"]),
                                            "options": _options(experiment.search_space)}})})


def _options(space: Any) -> dict[str, list[str]]:
    """The options of each choice, as JSON."""
    return {name: [json.dumps(option, ensure_ascii=False) for option in one["_value"]]
            for name, one in (space.items() if isinstance(space, dict) else ())
            if isinstance(one, dict) and one.get("_type") == "choice" and isinstance(one.get("_value"), list)}


def _number(text: str | None) -> int | None:
    return int(text) if text and text.isascii() and text.isdigit() and len(text) < 10 else None
