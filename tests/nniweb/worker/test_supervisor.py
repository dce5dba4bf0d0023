"""The worker takes the clusters that need one and hands them over when it stops."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

import pytest
from django.db import OperationalError, connection
from django.utils import timezone

from nniweb.experiments.clusters.worker_presence import worker_is_alive
from nniweb.experiments.launch import code_archives
from nniweb.experiments.models import Cluster, CodeArchive, Experiment, Worker
from nniweb.experiments.pubsub import doorbell
from nniweb.observability import process_figures
from nniweb.tuning.custom_algorithms.module_search import module_folders
from nniweb.worker.rounds.runner import ClusterRunner
from nniweb.worker.supervisor import Supervisor
from trainingservice import platforms
from trainingservice.lasting_thread import parts_in_trouble
from trainingservice.testing.misbehaving import DocileTrainingService

pytestmark = pytest.mark.django_db(transaction=True)


#: Seconds between two looks at the clusters, here.
LOOK_SECONDS = 0.2


@pytest.fixture(autouse=True)
def looks_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nniweb.worker.supervisor.LOOK_SECONDS", LOOK_SECONDS)


@pytest.fixture
def supervisor():
    platforms.register("docile", "trainingservice.testing.misbehaving:DocileTrainingService")
    supervisor = Supervisor()
    thread = threading.Thread(target=supervisor.run)
    thread.start()
    supervisor.thread = thread
    yield supervisor
    supervisor.stop()
    thread.join(60)
    platforms.unregister("docile")
    assert not thread.is_alive()


def until(condition) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)
    connection.close()


def held() -> set[str]:
    return set(Cluster.objects.exclude(lease_holder="").values_list("name", flat=True))


def driven() -> float | None:
    """What this process's figures say of the cluster ``one``."""
    return process_figures.registry.get_sample_value("nniweb_cluster_driven", {"cluster": "one"})


def test_clusters_are_taken_as_they_come_and_let_go_when_disabled(supervisor: Supervisor) -> None:
    until(worker_is_alive)
    Cluster.objects.create(name="one", platform="docile")
    until(lambda: held() == {"one"})
    until(lambda: Cluster.objects.get(name="one").health == "good")
    until(lambda: driven() == 1)
    Cluster.objects.filter(name="one").update(enabled=False)
    until(lambda: held() == set())
    until(lambda: driven() == 0)


def test_a_worker_says_which_platforms_it_has(supervisor: Supervisor, monkeypatch: pytest.MonkeyPatch) -> None:
    def said() -> set[str]:
        return {name for names in Worker.objects.values_list("platforms", flat=True) for name in names}

    until(worker_is_alive)
    assert {"local", "remote", "docile"} <= said()
    monkeypatch.setenv("NNIWEB_EXTRA_PLATFORMS", "later=somewhere:Later")  # a package that is installed meanwhile
    supervisor.renew()
    assert "later" in said()


def test_a_worker_says_where_its_tuners_find_modules(supervisor: Supervisor) -> None:
    until(worker_is_alive)
    assert list(Worker.objects.values_list("module_folders", flat=True)) == [module_folders()]


def test_clusters_are_not_looked_at_each_time_a_trial_of_theirs_reports(
        supervisor: Supervisor, make_experiment, monkeypatch) -> None:
    cluster = Cluster.objects.create(name="one", platform="docile")
    experiment = make_experiment(cluster=cluster)
    until(lambda: held() >= {"one"})  # the cluster "local" of other experiments is taken as well
    looks = []
    look = supervisor.look
    monkeypatch.setattr(supervisor, "look", lambda: (looks.append(time.monotonic()), look()))
    until(lambda: looks)
    before = len(looks)
    for _ in range(100):
        doorbell.ring(experiment.pk)
    until(lambda: len(looks) > before)
    assert looks[before] - looks[before - 1] >= LOOK_SECONDS, "only the safety net looked"


def test_clusters_are_not_looked_at_each_time_a_trial_of_a_cluster_that_nobody_may_drive_reports(
        supervisor: Supervisor, make_experiment, monkeypatch) -> None:
    experiment = make_experiment(cluster=Cluster.objects.create(name="one", platform="docile", enabled=False))
    looks = []
    look = supervisor.look
    monkeypatch.setattr(supervisor, "look", lambda: (looks.append(time.monotonic()), look()))
    until(lambda: looks)
    before = len(looks)
    doorbell.ring(experiment.pk)
    until(lambda: len(looks) > before)  # for the ring, or because one was due: then the ring is still to be heard
    for _ in range(100):
        doorbell.ring(experiment.pk)
    until(lambda: len(looks) > before + 2)
    assert looks[before + 2] - looks[before] >= LOOK_SECONDS, "the first ring counts until the next look is due"


def test_code_that_nobody_needs_any_more_goes_after_a_day(db, settings, tmp_path, make_experiment) -> None:
    now = timezone.now()
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "train.py").write_text("print()")
    archive = code_archives.keep_folder(tmp_path / "code", now - timedelta(days=3))
    path = code_archives.local_path(archive)
    experiment = make_experiment(code=archive)
    assert code_archives.remove_unused(now) == 0, "an experiment has it"
    experiment.delete()
    assert code_archives.remove_unused(archive.last_used + timedelta(hours=23)) == 0, "less than a day ago"
    assert path.is_file()
    assert code_archives.remove_unused(now) == 1
    assert not path.exists()
    assert not CodeArchive.objects.exists()
    again = code_archives.keep_folder(tmp_path / "code", now)
    assert code_archives.local_path(again).is_file()


def test_a_private_cluster_with_nothing_to_do_is_left_alone(supervisor: Supervisor, make_experiment) -> None:
    private = Cluster.objects.create(name="private", platform="docile", is_private=True)
    Cluster.objects.create(name="shared", platform="docile")
    until(lambda: held() == {"shared"})
    make_experiment(cluster=private, status="INITIALIZED")
    until(lambda: held() >= {"shared", "private"})


def test_a_private_cluster_is_driven_on_for_a_while_after_its_last_experiment(
        supervisor: Supervisor, make_experiment, monkeypatch) -> None:
    monkeypatch.setattr("nniweb.worker.supervisor.LINGER_SECONDS", 3600.0)
    private = Cluster.objects.create(name="private", platform="docile", is_private=True)
    experiment = make_experiment(cluster=private, status="PAUSED")  # no trials
    until(lambda: "private" in held())  # the cluster "local" of other experiments is taken as well
    Experiment.objects.filter(pk=experiment.pk).update(status="DONE")
    until(lambda: private.pk in supervisor._idle_since)
    looks, look = [], supervisor.look
    monkeypatch.setattr(supervisor, "look", lambda: (look(), looks.append("private" in held())))
    until(lambda: len(looks) >= 2)
    assert all(looks)
    monkeypatch.setattr("nniweb.worker.supervisor.LINGER_SECONDS", 0.0)
    until(lambda: "private" not in held())


def test_a_service_is_cleaned_up_when_the_last_experiment_of_a_private_cluster_has_ended(
        supervisor: Supervisor, make_experiment, monkeypatch) -> None:
    monkeypatch.setattr("nniweb.worker.supervisor.LINGER_SECONDS", 0.0)
    services: list[DocileTrainingService] = []
    made = DocileTrainingService.run
    monkeypatch.setattr(DocileTrainingService, "run", lambda self: (services.append(self), made(self)))
    private = Cluster.objects.create(name="private", platform="docile", is_private=True)
    first, second = (make_experiment(cluster=private, status="PAUSED") for _ in range(2))  # no trials
    until(lambda: services)
    Experiment.objects.filter(pk=first.pk).update(status="DONE")
    until(lambda: private.pk not in supervisor._idle_since)
    assert "clean_up" not in services[0].calls
    Experiment.objects.filter(pk=second.pk).update(status="STOPPED")
    until(lambda: "clean_up" in services[0].calls)


def test_trouble_of_a_private_cluster_that_nobody_asks_any_more_is_said_no_more(
        supervisor: Supervisor, make_experiment, monkeypatch) -> None:
    monkeypatch.setattr("nniweb.worker.supervisor.LINGER_SECONDS", 0.0)
    monkeypatch.setattr(DocileTrainingService, "trouble", "Connection refused.")
    private = Cluster.objects.create(name="private", platform="docile", is_private=True)
    experiment = make_experiment(cluster=private, status="PAUSED")  # no trials
    until(lambda: Cluster.objects.get(pk=private.pk).health == "away")
    Experiment.objects.filter(pk=experiment.pk).update(status="DONE")
    until(lambda: "private" not in held())
    private.refresh_from_db()
    assert (private.health, private.message) == ("unknown", "")


def test_a_cluster_pinned_to_another_host_is_left_to_its_worker(supervisor: Supervisor) -> None:
    Cluster.objects.create(name="elsewhere", platform="docile", pinned_host="another-host")
    Cluster.objects.create(name="here", platform="docile")
    until(lambda: held() == {"here"})


def test_changed_settings_build_the_service_anew(supervisor: Supervisor) -> None:
    Cluster.objects.create(name="one", platform="docile")
    until(lambda: held() == {"one"})
    epoch = Cluster.objects.get().lease_epoch
    Cluster.objects.update(settings_revision=1)
    until(lambda: Cluster.objects.get().lease_epoch > epoch and held() == {"one"})


def test_a_clean_stop_hands_everything_over_at_once(supervisor: Supervisor) -> None:
    Cluster.objects.create(name="one", platform="docile")
    until(lambda: held() == {"one"})
    supervisor.stop()
    supervisor.thread.join(60)
    assert held() == set()
    assert not Worker.objects.exists()


def test_a_stop_is_not_kept_waiting_until_the_next_look(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nniweb.worker.supervisor.LOOK_SECONDS", 90.0)
    waits, wait = threading.Event(), doorbell.Listener.wait

    def noted(listener: doorbell.Listener, timeout: float) -> set[int]:
        waits.set()
        return wait(listener, timeout)

    monkeypatch.setattr(doorbell.Listener, "wait", noted)
    supervisor = Supervisor()
    thread = threading.Thread(target=supervisor.run)
    thread.start()
    assert waits.wait(60)
    supervisor.stop()
    thread.join(60)
    assert not thread.is_alive()
    assert not Worker.objects.exists()


def test_a_worker_whose_row_was_taken_away_writes_it_again(supervisor: Supervisor) -> None:
    until(worker_is_alive)
    Worker.objects.all().delete()
    supervisor.renew()
    until(worker_is_alive)


def test_a_free_cluster_is_left_for_a_moment_to_a_worker_that_drives_fewer(supervisor: Supervisor,
                                                                           monkeypatch) -> None:
    monkeypatch.setattr("nniweb.worker.supervisor.COURTESY_SECONDS", 3600.0)
    until(worker_is_alive)
    Cluster.objects.create(name="one", platform="docile")
    until(lambda: held() == {"one"})
    Worker.objects.create(id="idle", host="elsewhere", pid=1, started_at=timezone.now(),
                          heard_at=timezone.now() + timedelta(hours=1))
    two = Cluster.objects.create(name="two", platform="docile")
    until(lambda: two.pk in supervisor._free_since)
    assert held() == {"one"}, "the other one may take it"
    monkeypatch.setattr("nniweb.worker.supervisor.COURTESY_SECONDS", 0.0)
    until(lambda: held() == {"one", "two"})


def test_a_worker_whose_renewal_of_leases_fails_says_that_it_is_not_whole_and_goes_on_once_it_can(
        monkeypatch: pytest.MonkeyPatch) -> None:
    broken = Supervisor()
    assert broken.is_whole, "before it begins"
    is_broken, renew = threading.Event(), broken.renew
    is_broken.set()
    monkeypatch.setattr(broken, "renew", lambda: 1 / 0 if is_broken.is_set() else renew())
    monkeypatch.setattr("nniweb.worker.supervisor.RENEW_SECONDS", 0.01)
    monkeypatch.setattr("trainingservice.lasting_thread.WELL_AFTER", 0.2)
    with started(broken):
        until(lambda: not broken.is_whole)
        said = {part.name: part for part in parts_in_trouble()}["leases"]
        assert said.is_vital
        assert "ZeroDivisionError" in said.trouble
        is_broken.clear()
        until(lambda: broken.is_whole)
        Worker.objects.all().delete()
        until(worker_is_alive)  # its row is renewed by the thread that had failed
    assert broken.is_whole, "one that was told to end renews nothing"


@contextmanager
def started(supervisor: Supervisor) -> Iterator[None]:
    thread = threading.Thread(target=supervisor.run)
    thread.start()
    try:
        yield
    finally:
        supervisor.stop()
        thread.join(60)
    assert not thread.is_alive()


def trouble_with(part: str) -> str:
    return {found.name: found.trouble for found in parts_in_trouble()}.get(part, "")


@pytest.mark.parametrize("fault", [OperationalError("database is locked"), ZeroDivisionError("a defect"),
                                   RuntimeError("can't start new thread")])
def test_a_worker_that_cannot_look_at_clusters_says_so_and_takes_them_once_it_can(
        monkeypatch: pytest.MonkeyPatch, fault: Exception) -> None:
    supervisor = Supervisor()
    is_broken, look = threading.Event(), supervisor.look
    is_broken.set()

    def brittle() -> None:
        if is_broken.is_set():
            raise fault
        look()

    monkeypatch.setattr(supervisor, "look", brittle)
    monkeypatch.setattr("nniweb.worker.supervisor.PAUSES", (0.05,))
    platforms.register("docile", "trainingservice.testing.misbehaving:DocileTrainingService")
    Cluster.objects.create(name="one", platform="docile")
    try:
        with started(supervisor):
            until(lambda: "tries again automatically" in trouble_with("clusters"))
            is_broken.clear()
            until(lambda: held() == {"one"} and not trouble_with("clusters"))
    finally:
        platforms.unregister("docile")
    assert not trouble_with("clusters")


def test_rounds_that_end_by_a_fault_begin_anew_later_each_time(supervisor: Supervisor, monkeypatch) -> None:
    begun, make_rounds = [], ClusterRunner._make_rounds

    def brittle(runner: ClusterRunner) -> None:
        begun.append(time.monotonic())
        if len(begun) < 3:
            runner._close()
            raise SystemExit("a platform's code did this")
        make_rounds(runner)

    monkeypatch.setattr(ClusterRunner, "_make_rounds", brittle)
    monkeypatch.setattr("nniweb.worker.supervisor.PAUSES", (0.0, 1.0))
    Cluster.objects.create(name="one", platform="docile")
    until(lambda: len(begun) == 3 and driven() == 1)
    assert begun[2] - begun[1] >= 1.0 > begun[1] - begun[0]


def test_a_cluster_for_which_no_thread_can_be_started_is_free_for_others_and_taken_later(
        supervisor: Supervisor, monkeypatch) -> None:
    until(worker_is_alive)
    refused, start = [], ClusterRunner.start

    def begin(runner: ClusterRunner) -> None:
        if not refused:
            refused.append(Cluster.objects.get(name="one").lease_holder)
            raise RuntimeError("can't start new thread")
        start(runner)

    monkeypatch.setattr(ClusterRunner, "start", begin)
    monkeypatch.setattr("nniweb.worker.supervisor.PAUSES", (0.05,))
    Cluster.objects.create(name="one", platform="docile")
    until(lambda: driven() == 1)
    assert refused == [supervisor.worker_id]
    assert Cluster.objects.get(name="one").lease_epoch >= 2, "it was given back in between"
