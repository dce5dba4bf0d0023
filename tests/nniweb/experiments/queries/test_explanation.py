"""What an experiment says of why it is as it is."""

import io
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.core.management import call_command
from django.utils import timezone

from nniweb.documents.experiments import document, summaries
from nniweb.experiments.lifecycle.reason_columns import said, said_by_platform
from nniweb.experiments.models import Cluster, Experiment, Trial, Worker
from nniweb.experiments.queries.trial_advice import advice_for
from trainingservice.reasons import Reason

REFUSED = Reason("connection_refused", said="127.0.0.1:9 refuses connections.")
WAITS = Reason("platform_queue", said="Waits in the queue of lab.", platform="lab")
LIMIT = Reason("max_trial_number", most=2)


@pytest.fixture(autouse=True)
def worker(db: None) -> None:
    Worker.objects.create(id="w", host="box", pid=1, started_at=timezone.now(),
                          heard_at=timezone.now() + timedelta(hours=1))


@pytest.fixture
def at_its_limit(make_experiment: Callable[..., Experiment]) -> Callable[..., Experiment]:
    """An experiment all of whose trials exist, with these statuses; those that wait say why."""
    def make(*statuses: str, waits: str = WAITS, status: str = "NO_MORE_TRIAL", written: str = LIMIT) -> Experiment:
        experiment = make_experiment(status=status, max_trial_number=len(statuses), **said(written))
        Cluster.objects.filter(pk=experiment.cluster_id).update(pinned_host="", health="good")
        for number, one in enumerate(statuses):
            Trial.objects.create(experiment=experiment, sequence_id=number, status=one, created_at=timezone.now(),
                                 **said(waits if one == "WAITING" else ""))
        return Experiment.objects.get(pk=experiment.pk)

    return make


def test_what_its_waiting_trials_wait_for_comes_before_that_there_will_be_no_others(at_its_limit: Any) -> None:
    for status, written in (("NO_MORE_TRIAL", LIMIT), ("NO_MORE_TRIAL", Reason("max_duration", seconds=60)),
                            ("TUNER_NO_MORE_TRIAL", Reason("tuner_exhausted")), ("RUNNING", "")):
        told = document(at_its_limit("SUCCEEDED", "WAITING", status=status, written=written))
        assert told["reason"]["code"] == "no_trial_runs", written
        assert told["reason"]["because"]["code"] == "platform_queue"
        assert told["message"] == f"No trial is running: {WAITS[:1].lower()}{WAITS[1:]}"


@pytest.mark.parametrize(("statuses", "says"), [
    (("SUCCEEDED", "WAITING", "WAITING"), " 2 unfinished trials wait."),
    (("RUNNING", "UNKNOWN", "WAITING"), " 2 running trials may still run to the end. 1 other trial waits."),
    (("SUCCEEDED",), "")])
def test_a_pause_says_which_trials_still_run_and_which_wait(at_its_limit: Any, statuses: Any, says: str) -> None:
    """Trials that were frozen with the experiment wait: they do not run to the end."""
    told = document(at_its_limit(*statuses, waits=Reason("frozen_with_experiment"), status="PAUSED", written=""))
    assert told["message"] == "No new trial is started until the experiment is resumed." + says


def test_that_the_platform_cannot_be_reached_comes_before_that_there_will_be_no_other_trials(at_its_limit: Any
                                                                                             ) -> None:
    experiment = at_its_limit("WAITING")
    Cluster.objects.filter(pk=experiment.cluster_id).update(health="away", **said_by_platform(REFUSED))
    experiment = Experiment.objects.get(pk=experiment.pk)
    [listed] = summaries([experiment])
    shown = io.StringIO()
    call_command("experiments", "show", experiment.public_id, stdout=shown)
    for words in (document(experiment)["message"], listed["message"], shown.getvalue()):
        assert f"The cluster {experiment.cluster.name} cannot be used now. {REFUSED}" in words
        assert "maxTrialNumber" not in words


@pytest.mark.parametrize(("statuses", "waits"), [
    (("RUNNING", "WAITING"), WAITS), (("SUCCEEDED", "WAITING"), Reason("free_slot")), (("RUNNING",), "")])
def test_as_long_as_a_trial_runs_or_is_about_to_the_limit_is_named(at_its_limit: Any, statuses: Any, waits: str
                                                                   ) -> None:
    assert document(at_its_limit(*statuses, waits=waits))["message"] == Reason("max_trial_number", most=2)


def test_without_a_worker_the_command_says_so_once(at_its_limit: Any) -> None:
    experiment = at_its_limit("WAITING")
    Worker.objects.all().delete()
    shown = io.StringIO()
    call_command("experiments", "show", experiment.public_id, stdout=shown)
    assert shown.getvalue().count("No worker is alive") == 1


@pytest.mark.parametrize(("health", "begins", "has_eta"), [
    ("away", "The cluster local cannot be used now. ", False), ("bad", "The cluster local cannot be used now. ", False),
    ("degraded", "The cluster local is degraded. ", True)])
def test_trouble_of_the_cluster_is_said_while_trials_run_and_no_time_left_is_promised(
        at_its_limit: Any, health: str, begins: str, has_eta: bool) -> None:
    experiment = at_its_limit("SUCCEEDED", "RUNNING", status="RUNNING", written="")
    Experiment.objects.filter(pk=experiment.pk).update(running_seconds=10.0, running_since=timezone.now())
    assert document(Experiment.objects.get(pk=experiment.pk))["progress"]["eta"] is not None
    Cluster.objects.filter(pk=experiment.cluster_id).update(health=health, **said_by_platform(REFUSED))
    told = document(Experiment.objects.get(pk=experiment.pk))
    assert told["message"] == f"{begins}{REFUSED}"
    assert (told["progress"]["eta"] is not None) == has_eta


def test_the_home_of_several_clusters_that_is_disabled_is_named_until_another_takes_over(
        make_experiment: Callable[..., Experiment]) -> None:
    experiment = make_experiment(several_clusters=True, status="RUNNING")
    stale = Reason("clusters_full", clusters=[{"cluster": "lab", "code": "at_most_there", "most": 1}])
    trial = Trial.objects.create(experiment=experiment, sequence_id=0, status="WAITING", created_at=timezone.now(),
                                 **said(stale))
    Cluster.objects.filter(pk=experiment.cluster_id).update(pinned_host="", enabled=False)
    explained = document(Experiment.objects.select_related("cluster").get())["message"]
    assert f"The cluster {experiment.cluster.name} is disabled" in explained
    assert "takes over" in explained
    [advice] = advice_for(trial.pk, timezone.now())
    assert advice.message == explained
    Cluster.objects.filter(pk=experiment.cluster_id).update(enabled=True)
    assert "disabled" not in document(Experiment.objects.select_related("cluster").get())["message"]
