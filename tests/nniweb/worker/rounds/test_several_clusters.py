"""Experiments on several clusters: the home places trials, the workers of the others run what lies there."""

import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from nniweb.experiments.actions import intents
from nniweb.experiments.clusters.lease import LeaseLost
from nniweb.experiments.models import Attempt, Cluster, Experiment, ExperimentCluster, Trial, TunerEvent
from nniweb.worker.rounds import fill_slots
from nniweb.worker.rounds.placing.placed_trials import LEAVE_AFTER
from tests.nniweb.worker.conftest import Rig, report
from trainingservice.errors import PermanentError, TemporaryError
from trainingservice.reasons import Reason
from trainingservice.testing.misbehaving import DocileTrainingService
from trainingservice.trial_job import JobApplicationForm, TrialJobDetail
from trainingservice.trial_job_status import TrialJobStatus


class Clusters:
    """Several rigs; the first is the home of the experiment."""

    def __init__(self, rigs: list[Rig]) -> None:
        self.rigs = rigs
        self.names = [rig.cluster.name for rig in rigs]

    def experiment(self, *entries: dict[str, Any], **fields: Any) -> Experiment:
        experiment = self.rigs[0].experiment(several_clusters=True, **fields)
        for position, rig in enumerate(self.rigs):
            entry = entries[position] if position < len(entries) else {}
            ExperimentCluster.objects.create(experiment=experiment, cluster=rig.cluster, position=position, **entry)
        return experiment

    def until(self, condition: Callable[[], Any], *which: int, seconds: float = 60.0, pause: float = 0.05) -> None:
        """Rounds of all clusters, or of these, until the condition holds; woken by events as their own threads are."""
        deadline = time.monotonic() + seconds
        woken = [rig.runner._wake for rig in self.rigs]
        while not condition():
            assert time.monotonic() < deadline, "; ".join(rig.state() for rig in self.rigs)
            for wake in woken:
                wake.clear()
            self.rounds(*which)
            if pause and not condition():
                any(wake.wait(pause / len(woken)) for wake in woken)

    def rounds(self, *which: int, count: int = 1) -> None:
        for _ in range(count):
            for rig in [self.rigs[index] for index in which] or self.rigs:
                rig.runner.lease.renew()
                rig.runner.round()

    def on(self, experiment: Experiment) -> list[list[int]]:
        """Numbers of the trials with an attempt under way, by cluster."""
        return [list(Attempt.objects.under_way().filter(trial__experiment=experiment, cluster=rig.cluster).order_by(
            "trial__sequence_id").values_list("trial__sequence_id", flat=True)) for rig in self.rigs]

    def skip(self, seconds: float) -> None:
        for rig in self.rigs:
            rig.skip(seconds)


@pytest.fixture
def clusters(make_rig: Callable[..., Rig]) -> Clusters:
    found = Clusters([make_rig(), make_rig()])
    found.until(lambda: all(rig.runner.work.service is not None for rig in found.rigs))
    Cluster.objects.update(health="good")
    return found


def jobs(rig: Rig) -> int:
    return len(rig.service.list_trial_jobs())


def all_submitted(experiment: Experiment, count: int) -> bool:
    return Attempt.objects.filter(trial__experiment=experiment, stage="submitted").count() == count


def test_trials_of_one_experiment_run_on_two_clusters_and_its_tuner_hears_of_all(clusters: Clusters) -> None:
    experiment = clusters.experiment({"up_to": 1}, {"after": []}, trial_concurrency=3, max_trial_number=4)
    clusters.until(lambda: all_submitted(experiment, 3))
    assert [len(one) for one in clusters.on(experiment)] == [1, 2]
    assert [jobs(rig) for rig in clusters.rigs] == [1, 2]
    for trial in Trial.objects.filter(experiment=experiment):
        report(trial, 0.5)
    clusters.until(lambda: Trial.objects.filter(experiment=experiment, attempts__stage="submitted").count() == 1)
    report(Trial.objects.get(experiment=experiment, sequence_id=3), 0.25)
    clusters.until(lambda: Experiment.objects.get(pk=experiment.pk).status == "DONE")
    assert set(Trial.objects.values_list("status", flat=True)) == {"SUCCEEDED"}
    assert TunerEvent.objects.filter(experiment=experiment, data__event="tell").count() == 4


def test_a_decision_is_stored_on_the_attempt_with_what_the_others_said(clusters: Clusters) -> None:
    home, other = clusters.names
    experiment = clusters.experiment({"up_to": 1}, {}, trial_concurrency=2, max_trial_number=2)
    ExperimentCluster.objects.filter(cluster__name=other).update(after=[clusters.rigs[0].cluster.pk])
    clusters.until(lambda: all_submitted(experiment, 2))
    first, second = Attempt.objects.order_by("trial__sequence_id")
    assert first.placement == {"code": "chosen", "clusters": [{"cluster": other, "code": "goes_after",
                                                               "clusters": [home]}]}
    assert second.placement == {"code": "chosen", "clusters": [{"cluster": home, "code": "at_most_there", "most": 1}]}


def test_a_trial_without_room_says_what_each_cluster_said(clusters: Clusters) -> None:
    home, other = clusters.names
    experiment = clusters.experiment({"up_to": 1}, {"up_to": 1}, trial_concurrency=9)
    clusters.until(lambda: all_submitted(experiment, 2))
    clusters.rounds(count=4)
    waiting = Trial.objects.get(experiment=experiment, attempts=None)
    assert waiting.reason == "clusters_full"
    assert waiting.reason_arguments == {"clusters": [{"cluster": name, "code": "at_most_there", "most": 1}
                                                     for name in (home, other)]}
    assert Trial.objects.filter(experiment=experiment).count() == 3, "one says what it waits for; others are not asked"


def test_a_cluster_with_a_limit_of_its_own_is_never_given_more(clusters: Clusters) -> None:
    Cluster.objects.filter(name=clusters.names[1]).update(max_trials=2)
    alone = clusters.rigs[1].experiment(trial_concurrency=1)
    clusters.until(lambda: all_submitted(alone, 1))
    experiment = clusters.experiment({"up_to": 1}, {}, trial_concurrency=9)
    clusters.until(lambda: all_submitted(experiment, 2))
    clusters.rounds(count=4)
    assert [len(one) for one in clusters.on(experiment)] == [1, 1]
    assert Trial.objects.get(experiment=experiment, attempts=None).reason_arguments["clusters"][1]["code"] \
        == "limit_there"


def test_experiments_that_only_a_limited_cluster_has_keep_room_on_it_for_those_with_several(clusters: Clusters) -> None:
    Cluster.objects.filter(name=clusters.names[1]).update(max_trials=4)
    clusters.rigs[1].cluster.refresh_from_db()
    greedy = clusters.rigs[1].experiment(trial_concurrency=10, max_trial_number=40)
    clusters.until(lambda: all_submitted(greedy, 4))
    late = clusters.experiment({"up_to": 1}, {}, trial_concurrency=9)
    for number in (1, 2):
        clusters.until(lambda: Trial.objects.filter(experiment=late, reason="clusters_full").exists())
        report(Trial.objects.filter(experiment=greedy, status__in=["WAITING", "RUNNING"], attempts__stage="submitted"
                                    ).earliest("sequence_id"), 0.5)
        clusters.until(lambda number=number: [len(clusters.on(one)[1]) for one in (greedy, late)]
                       == [4 - number, number], 1, 0)
    clusters.rounds(1, 0, count=5)
    assert [len(clusters.on(one)[1]) for one in (greedy, late)] == [2, 2], "equal shares"
    clusters.until(lambda: Trial.objects.filter(experiment=late, reason="clusters_full").exists())
    ExperimentCluster.objects.filter(cluster=clusters.rigs[1].cluster).update(up_to=2)
    report(Trial.objects.filter(experiment=greedy, attempts__stage="submitted", status__in=["WAITING", "RUNNING"]
                                ).earliest("sequence_id"), 0.5)
    clusters.rounds(count=9)
    assert [len(clusters.on(one)[1]) for one in (greedy, late)] == [2, 2], "no room is kept beyond its own limit there"


def test_trials_that_no_worker_has_taken_leave_a_cluster_whose_worker_is_gone(clusters: Clusters) -> None:
    experiment = clusters.experiment({"up_to": 2}, {"weight": 100.0}, trial_concurrency=2, max_trial_number=2)
    clusters.until(lambda: Attempt.objects.filter(trial__experiment=experiment).count() == 2, 0)
    assert [len(one) for one in clusters.on(experiment)] == [0, 2]
    clusters.rigs[1].runner.lease.release()
    clusters.rigs[0].skip(3)
    clusters.rounds(0, count=3)
    assert [len(one) for one in clusters.on(experiment)] == [0, 2], "it may come back soon"
    clusters.rigs[0].skip(20)
    clusters.until(lambda: [len(one) for one in clusters.on(experiment)] == [2, 0], 0)
    assert {attempt.end_reason for attempt in Attempt.objects.filter(stage="ended")} == {"frozen"}
    assert set(Trial.objects.get(sequence_id=0).events.values_list("kind", flat=True)) >= {"created", "placed anew"}
    for trial in Trial.objects.filter(experiment=experiment):
        report(trial, 0.5)
    clusters.until(lambda: Experiment.objects.get(pk=experiment.pk).status == "DONE", 0)
    assert jobs(clusters.rigs[1]) == 0


def test_what_a_platform_may_run_already_stays_when_its_worker_goes(clusters: Clusters) -> None:
    experiment = clusters.experiment({}, {"weight": 100.0}, trial_concurrency=1, max_trial_number=1)
    clusters.until(lambda: all_submitted(experiment, 1))
    clusters.rigs[1].runner.lease.release()
    for _ in range(2):
        clusters.rounds(0)
        clusters.rigs[0].skip(20)
    clusters.rounds(0)
    assert clusters.on(experiment) == [[], [0]], "nobody knows whether it runs"
    assert Trial.objects.get().target == "RUN"
    report(Trial.objects.get(), 0.5)
    clusters.until(lambda: Experiment.objects.get(pk=experiment.pk).status == "DONE", 0)
    assert Trial.objects.get().status == "SUCCEEDED"


def test_a_drained_cluster_keeps_what_runs_and_gives_back_what_has_not_begun(clusters: Clusters) -> None:
    experiment = clusters.experiment({"up_to": 2}, {"weight": 100.0}, trial_concurrency=2, max_trial_number=2)
    clusters.until(lambda: all_submitted(experiment, 2))
    running = Trial.objects.get(experiment=experiment, sequence_id=0)
    clusters.rigs[1].service.say(running.public_id, TrialJobStatus.RUNNING)
    report(running, 0.1, end=False)
    ExperimentCluster.objects.filter(cluster=clusters.rigs[1].cluster).update(is_drained=True)
    Attempt.objects.filter(trial__sequence_id=1).update(submitted_at=clusters.rigs[0].runner.work.now())
    clusters.skip(2.1)
    clusters.rounds()
    assert Trial.objects.get(experiment=experiment, sequence_id=1).target == "RUN", "it may be beginning at this moment"
    clusters.skip(5)
    clusters.until(lambda: Attempt.objects.filter(observed_end__isnull=False).exists())
    clusters.skip(61)  # the job of this service began as it was canceled, so its keeper is waited for
    clusters.until(lambda: clusters.on(experiment) == [[1], [0]])
    assert clusters.rigs[1].service.calls.count("cancel_trial_job") == 1
    assert Attempt.objects.filter(trial__sequence_id=1).count() == 2


class Refusing(DocileTrainingService):
    def submit_trial_job(self, form: JobApplicationForm) -> TrialJobDetail:
        raise PermanentError("There is no such partition.")


def test_a_cluster_that_refuses_a_trial_gets_no_other_and_the_trial_runs_elsewhere(make_rig: Callable[..., Rig]
                                                                                   ) -> None:
    clusters = Clusters([make_rig(), make_rig(Refusing)])
    experiment = clusters.experiment({}, {"weight": 100.0}, trial_concurrency=2, max_trial_number=3)
    clusters.until(lambda: len(clusters.on(experiment)[0]) == 2 and all_submitted(experiment, 2))
    refused = Attempt.objects.filter(cluster=clusters.rigs[1].cluster)
    assert refused.count() <= 2
    row = ExperimentCluster.objects.get(cluster=clusters.rigs[1].cluster)
    assert row.refusal is not None
    assert row.refusal["message"] == "There is no such partition."
    for trial in Trial.objects.filter(experiment=experiment):
        report(trial, 0.5)
    clusters.until(lambda: Trial.objects.filter(experiment=experiment).count() == 3 and all_submitted(experiment, 1))
    [last] = Attempt.objects.filter(trial__sequence_id=2)
    assert last.placement is not None
    assert last.placement["clusters"][0]["code"] == "refused_there"


class RefusingLater(DocileTrainingService):
    """As a service that takes jobs at once, and finds out afterwards what it can never run."""

    def submit_trial_job(self, form: JobApplicationForm) -> TrialJobDetail:
        taken = super().submit_trial_job(form)
        if not taken.status.is_end:
            self.say(form.job_name, TrialJobStatus.FAILED, start_time=None, refused=True, message=Reason(
                "refused", said="No machine has 4 GPUs."))
        return taken


def test_a_cluster_that_refuses_a_trial_after_it_has_taken_it_gets_no_other_and_no_trial_fails(
        make_rig: Callable[..., Rig]) -> None:
    clusters = Clusters([make_rig(), make_rig(RefusingLater)])
    experiment = clusters.experiment({"up_to": 2}, {"weight": 100.0}, trial_concurrency=4, max_trial_number=8)
    clusters.until(lambda: len(clusters.on(experiment)[0]) == 2 and ExperimentCluster.objects.filter(
        cluster=clusters.rigs[1].cluster, refusal__isnull=False).exists())
    clusters.rounds(count=4)
    assert not Trial.objects.filter(experiment=experiment, status="FAILED").exists()
    assert Attempt.objects.filter(cluster=clusters.rigs[1].cluster).count() <= 4
    assert Experiment.objects.get(pk=experiment.pk).status == "RUNNING"
    [row] = ExperimentCluster.objects.filter(cluster=clusters.rigs[1].cluster)
    assert row.refusal is not None
    assert row.refusal["message"] == "No machine has 4 GPUs."


def test_a_trial_that_every_cluster_refuses_has_failed(make_rig: Callable[..., Rig]) -> None:
    clusters = Clusters([make_rig(Refusing), make_rig(Refusing)])
    experiment = clusters.experiment(trial_concurrency=1, max_trial_number=1)
    clusters.until(lambda: Trial.objects.filter(experiment=experiment, status="FAILED").exists())
    assert Trial.objects.get().message == "There is no such partition."


def test_a_retry_is_placed_anew_and_a_cluster_with_many_failures_is_avoided(clusters: Clusters) -> None:
    clusters.experiment({"weight": 0.01}, {}, trial_concurrency=1, max_trial_number=1, retry={"onPlatformFailure": 5})
    for number in (1, 2, 3):
        clusters.until(lambda number=number: Attempt.objects.filter(number=number, stage="submitted").exists())
        assert Attempt.objects.get(number=number).cluster == clusters.rigs[1].cluster
        report(Trial.objects.get(), exit_code=None, reason="lost", journal=f"j{number}")
    clusters.until(lambda: Attempt.objects.filter(number=4, stage="submitted").exists())
    last = Attempt.objects.get(number=4)
    assert last.cluster == clusters.rigs[0].cluster
    assert last.placement == {"code": "chosen", "clusters": [
        {"cluster": clusters.names[1], "code": "not_chosen", "by": "failures", "chosen": clusters.names[0]}]}


def test_a_stop_reaches_trials_on_all_clusters(clusters: Clusters) -> None:
    experiment = clusters.experiment({"up_to": 1}, {}, trial_concurrency=2)
    clusters.until(lambda: all_submitted(experiment, 2))
    intents.stop(experiment)
    clusters.until(lambda: all("cancel_trial_job" in rig.service.calls for rig in clusters.rigs))
    for trial in Trial.objects.all():
        report(trial, exit_code=143, reason="stopped")
    clusters.until(lambda: Experiment.objects.get(pk=experiment.pk).status == "STOPPED")


def test_a_stop_ends_what_no_worker_of_the_other_cluster_has_taken(clusters: Clusters) -> None:
    experiment = clusters.experiment({}, {"weight": 100.0}, trial_concurrency=1)
    clusters.until(lambda: Attempt.objects.exists(), 0)
    clusters.rigs[1].runner.lease.release()
    intents.stop(experiment)
    clusters.until(lambda: Experiment.objects.get(pk=experiment.pk).status == "STOPPED", 0)
    assert Trial.objects.get().status == "USER_CANCELED"


def test_the_home_moves_when_its_worker_is_gone_and_an_old_worker_writes_nothing_more(clusters: Clusters) -> None:
    experiment = clusters.experiment({"weight": 0.01}, {}, trial_concurrency=1)
    clusters.until(lambda: all_submitted(experiment, 1))
    old = clusters.rigs[0].runner.lease
    Cluster.objects.filter(pk=old.cluster_pk).update(lease_expires_at=timezone.now() - timedelta(minutes=1))
    clusters.rounds(1)
    assert Experiment.objects.get(pk=experiment.pk).cluster_id == old.cluster_pk, "its next worker may come"
    clusters.rigs[1].skip(6)
    clusters.rounds(1)
    clusters.rigs[1].skip(31)
    clusters.rounds(1)
    experiment.refresh_from_db()
    assert experiment.cluster == clusters.rigs[1].cluster
    with pytest.raises(LeaseLost), old.transaction():
        pass
    report(Trial.objects.get(), 0.5)
    clusters.until(lambda: Trial.objects.filter(sequence_id=1, attempts__stage="submitted").exists(), 1)
    assert "home moved" in experiment.events.values_list("kind", flat=True)


def test_the_home_searches_on_while_its_own_platform_is_away(make_rig: Callable[..., Rig]) -> None:
    class NeverBuilt(DocileTrainingService):
        def __init__(self, *_: Any) -> None:
            raise TemporaryError(Reason("unreachable", said="Nobody answers."))

    clusters = Clusters([make_rig(NeverBuilt), make_rig()])
    experiment = clusters.experiment(trial_concurrency=1)
    clusters.until(lambda: clusters.rigs[0].runner.work.unusable_since)
    clusters.skip(LEAVE_AFTER)
    clusters.until(lambda: Attempt.objects.filter(cluster=clusters.rigs[1].cluster, stage="submitted").exists())
    assert clusters.on(experiment)[0] == []


def test_options_of_the_cluster_where_it_runs_go_into_the_form(clusters: Clusters) -> None:
    clusters.experiment({"up_to": 1, "trial_gpu_number": 1}, {"trial_gpu_number": 2}, trial_concurrency=2,
                        trial_gpu_number=0)
    clusters.until(lambda: [jobs(rig) for rig in clusters.rigs] == [1, 1])
    assert [rig.service.list_trial_jobs()[0].form.gpu_number for rig in clusters.rigs] == [1, 2]


def test_a_deleted_experiment_is_removed_from_all_clusters_that_it_used(clusters: Clusters) -> None:
    experiment = clusters.experiment({"up_to": 1}, {}, trial_concurrency=2, max_trial_number=2)
    clusters.until(lambda: all_submitted(experiment, 2))
    for trial in Trial.objects.all():
        report(trial, 0.5)
    clusters.until(lambda: Experiment.objects.get(pk=experiment.pk).status == "DONE")
    Experiment.objects.filter(pk=experiment.pk).update(deleted_at=timezone.now(), rows_removed_at=timezone.now())
    clusters.rounds(0, count=3)
    assert Experiment.objects.filter(pk=experiment.pk).exists(), "the other cluster has not done it yet"
    clusters.skip(30)
    clusters.until(lambda: not Experiment.objects.filter(pk=experiment.pk).exists())
    assert all("clean_up_experiment" in rig.service.calls for rig in clusters.rigs)


def test_many_placed_trials_are_handed_over_with_as_many_questions_as_few(
        clusters: Clusters, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    submit_placed = fill_slots.submit_placed

    def listened_to(*given: Any) -> None:  # what the platform says in the same round asks more
        with CaptureQueriesContext(connection) as captured:
            submit_placed(*given)
        asked.extend(query["sql"] for query in captured.captured_queries)

    monkeypatch.setattr(fill_slots, "submit_placed", listened_to)

    def questions(count: int) -> int:
        experiment = clusters.experiment({"up_to": 1}, {"weight": 100.0}, trial_concurrency=count + 1,
                                         max_trial_number=count + 1)
        mine = Attempt.objects.filter(trial__experiment=experiment)
        clusters.until(lambda: mine.count() == count + 1, 0, pause=0.0)  # before the platform says anything more
        asked.clear()
        clusters.rounds(1)
        assert mine.exclude(token_hashes=[]).count() == count + 1
        return sum(sql.startswith("SELECT") for sql in asked)

    questions(1)  # and what is asked once
    assert questions(2) == questions(12) > 0


def test_an_experiment_with_one_cluster_asks_nothing_more(rig: Rig) -> None:
    rig.experiment(trial_concurrency=1)
    rig.until(lambda: Attempt.objects.filter(stage="submitted").exists())
    rig.rounds()
    with CaptureQueriesContext(connection) as asked:
        rig.runner.round(is_full=False)
    assert not [query for query in asked.captured_queries if "experimentcluster" in query["sql"]]
    assert Attempt.objects.get().cluster == rig.cluster
    assert Attempt.objects.get().placement is None
