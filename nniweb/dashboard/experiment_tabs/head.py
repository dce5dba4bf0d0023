"""What the tabs of an experiment share: the experiment itself, its head, the row of tabs, data for the scripts."""

import json
from typing import Any

from django.http import HttpRequest
from django.shortcuts import get_object_or_404

from nniweb.dashboard.algorithm_choices import choices
from nniweb.dashboard.experiment_tabs.carried_selection import address_of_tab
from nniweb.dashboard.home.segments import segments, words
from nniweb.dashboard.page_data import for_script, the_visitor
from nniweb.documents.experiments import NOT_IN_LISTS, document
from nniweb.experiments.access.visibility import (
    groups_to_share_with,
    may_dispose,
    may_steer,
    people_to_hand_to,
    visible_experiments,
)
from nniweb.experiments.actions.changes import tuners_that_can_go_on
from nniweb.experiments.actions.freezing import can_freeze
from nniweb.experiments.models import Experiment, User
from nniweb.experiments.models.experiment import ExperimentStatus, ExperimentTarget
from nniweb.experiments.queries.history import last_event
from nniweb.experiments.results.other_metrics import main_metric, names_of
from trainingservice.trial_job_status import TrialJobStatus

#: Name of the address -> what people read, in the order of the row of tabs.
TABS = {
    "experiment": "Overview",
    "experiment-trials": "Trials",
    "experiment-parameters": "Hyper-parameters",
    "experiment-intermediate": "Intermediate",
    "experiment-timeline": "Timeline",
    "experiment-compare": "Compare",
    "experiment-log": "Log",
    "experiment-config": "Config",
    "experiment-events": "Events",
}


def experiment_of(request: HttpRequest, public_id: str) -> Experiment:
    """The experiment in the address. Raises Http404 where this person sees none."""
    experiments = visible_experiments(the_visitor(request)).select_related("cluster", "owner", "group", "code")
    return get_object_or_404(experiments, public_id=public_id)


def tab(request: HttpRequest, experiment: Experiment, name: str, **more_for_script: Any) -> dict[str, Any]:
    """The template's context for the head of this tab; what follows ``name`` joins ``page-data``, for its script."""
    shown = document(experiment)
    visitor = the_visitor(request)
    steers, disposes = may_steer(visitor, experiment), may_dispose(visitor, experiment)
    metrics = names_of(experiment)
    return {
        "experiment": shown, "may_steer": steers, "may_dispose": disposes,
        "may_freeze": can_freeze(experiment),
        "is_finished": experiment.is_finished, "tab": name,
        "tabs": [(one, title, address_of_tab(request, one, experiment.public_id)) for one, title in TABS.items()],
        "metrics": metrics, "main_title": result_title(experiment),
        "further_objectives": [one["metric"] for one in experiment.objectives[1:]],
        "segments": segments(shown["progress"]["trials"], shown["max_trial_number"]),
        "segments_words": words(shown["progress"]["trials"], shown["max_trial_number"]),
        "primary": primary_action(experiment, shown), "possible": possible_actions(experiment, shown),
        "sharing": sharing_choices(visitor, experiment) if disposes else {},
        "tuners": choices(tuners_that_can_go_on(experiment)) if steers else [],
        # as it is written, which JavaScript does not know of long numbers
        "class_args_text": json.dumps(experiment.tuner.get("class_args") or {}, ensure_ascii=False) if steers else "",
        "space_text": json.dumps(experiment.search_space, indent=2, ensure_ascii=False) if steers else "",
        "for_script": for_script({
            "experiment": {key: value for key, value in shown.items() if key not in NOT_IN_LISTS},
            "may_steer": steers, "metrics": metrics, "last_event": last_event(experiment.pk), **more_for_script}),
    }


def primary_action(experiment: Experiment, shown: dict[str, Any]) -> str:
    """The one button that stands in the line: pause, resume or more; "" where there is none. As in head.js."""
    if experiment.is_finished:
        progress = shown["progress"]
        most, seconds = shown["max_trial_number"], shown["max_duration"]
        at_limit = (most is not None and progress["total"] >= most) or (
            seconds is not None and progress["elapsed"] >= seconds)
        return "more" if at_limit else "resume"
    if experiment.status == ExperimentStatus.PAUSED:
        return "resume"
    return "" if _is_stopping(experiment) else "pause"


def possible_actions(experiment: Experiment, shown: dict[str, Any]) -> dict[str, bool]:
    """Of the menu, as in head.js."""
    failed = shown["progress"]["trials"]["FAILED"] > 0
    return {"freeze": not experiment.is_finished and not _is_stopping(experiment),
            "stop": not experiment.is_finished and not _is_stopping(experiment),
            "rerun_failed": failed and not _is_stopping(experiment) and (
                not experiment.is_finished or experiment.status == ExperimentStatus.DONE)}


def _is_stopping(experiment: Experiment) -> bool:
    return experiment.status == ExperimentStatus.STOPPING or experiment.target == ExperimentTarget.STOP


def sharing_choices(visitor: User, experiment: Experiment) -> dict[str, list[str]]:
    """The names of groups it may be shared with, and of people it may be handed to, by who may do both."""
    groups = set(groups_to_share_with(visitor).values_list("name", flat=True))
    groups |= {experiment.group.name} if experiment.group else set()
    people = set(people_to_hand_to(visitor).values_list("username", flat=True))
    people |= {experiment.owner.username} if experiment.owner else set()
    return {"groups": sorted(groups), "people": sorted(people)}


def result_title(experiment: Experiment) -> str:
    """The heading over results: the main metric's name, where the experiment gives it one."""
    return main_metric(experiment.objectives) if experiment.objectives else "Result"


def counts_by_status(counts: dict[str, int]) -> list[tuple[str, int]]:
    """Every status with its count, in the order of a trial's life."""
    return [(status.value, counts[status.value]) for status in TrialJobStatus]
