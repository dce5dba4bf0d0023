"""A rig that drives a cluster's rounds step by step, on a service whose jobs fare as the test says."""

import sys
import threading
import time
import types
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from nniweb.experiments.clusters.lease import Lease
from nniweb.experiments.ingest import reports
from nniweb.experiments.ingest.one_report import Delivery
from nniweb.experiments.ingest.report_answers import Answer
from nniweb.experiments.models import Attempt, Cluster, Experiment, Trial
from nniweb.tuning.process.tuner_client import TunerClient
from nniweb.worker.rounds.runner import ClusterRunner
from trainingservice import platforms
from trainingservice.receiver.report_reading import read_report
from trainingservice.testing.misbehaving import DocileTrainingService
from trainingservice.trial_job_status import TrialJobStatus

#: Holds the services that rigs register, by name. Not this file: the suite has several modules named conftest, and
#: this one may be loaded under two names.
services = sys.modules.setdefault("services_of_rigs", types.ModuleType("services_of_rigs"))

#: Between rounds in which nothing has happened; the runner's own thread waits for longer. What happens ends the wait.
IDLE_SECONDS = 0.2


@pytest.fixture(scope="session")
def tuner_client() -> Iterator[TunerClient]:
    client = TunerClient()
    yield client
    client.shutdown()


class Rig:
    """One cluster and its runner, whose thread is not started: ``until`` makes the rounds."""

    def __init__(self, tuner_client: TunerClient, make_experiment: Callable[..., Experiment], platform: str) -> None:
        self.cluster = Cluster.objects.create(name=platform, platform=platform)
        self.tuner_client = tuner_client
        self._make_experiment = make_experiment
        self.offset = 0.0
        #: What the wall clock is wrong by, in seconds.
        self.clock_error = 0.0
        self.runner = self.new_runner("worker-1")

    def new_runner(self, worker_id: str) -> ClusterRunner:
        self.cluster.refresh_from_db()
        lease = Lease.acquire(self.cluster, worker_id)
        assert lease is not None, "somebody holds the cluster"
        runner = ClusterRunner(self.cluster, lease, self.tuner_client)
        runner.work.monotonic = lambda: time.monotonic() + self.offset
        runner.work.now = lambda: timezone.now() + timedelta(seconds=self.offset + self.clock_error)
        return runner

    @property
    def service(self) -> DocileTrainingService:
        service = self.runner.work.service
        assert isinstance(service, DocileTrainingService)
        return service

    def experiment(self, **fields: Any) -> Experiment:
        return self._make_experiment(**{"cluster": self.cluster, "status": "INITIALIZED", **fields})

    def until(self, condition: Callable[[], Any], seconds: float = 60.0) -> None:
        """Rounds until the condition holds; woken by events as the runner's own thread is."""
        if condition():
            return
        deadline = time.monotonic() + seconds
        while True:
            self.runner._wake.clear()
            self.runner.round()
            if condition():
                return
            assert time.monotonic() < deadline, f"not in time; {self.state()}"
            self.runner._wake.wait(IDLE_SECONDS)

    def state(self) -> str:
        """For the message of a test that failed."""
        rows = [str(list(model.objects.filter(**which).values_list(*fields))) for model, which, fields in (
            (Experiment, {"cluster": self.cluster}, ("status", "message")),
            (Trial, {"experiment__cluster": self.cluster}, ("sequence_id", "status", "target", "message")),
            (Attempt, {"trial__experiment__cluster": self.cluster}, ("stage", "observed_end")))]
        return f"service: {self.runner.work.host.message!r}; {'; '.join(rows)}"

    def rounds(self, count: int = 3) -> None:
        for _ in range(count):
            self.runner.round()

    def submitted(self, experiment: Experiment, count: int) -> list[Trial]:
        """Wait until so many trials were given to the platform; return them in order, ended ones too."""
        found: list[Trial] = []

        def are_enough() -> bool:
            found[:] = Trial.objects.filter(experiment=experiment, attempts__stage__in=["submitted", "ended"]
                                            ).order_by("sequence_id")
            return len(found) >= count

        self.until(are_enough)
        return found

    def wait_for_job(self, seconds: float = 60.0) -> None:
        """Until the platform has a job, without rounds."""
        deadline = time.monotonic() + seconds
        while not self.service.list_trial_jobs():
            assert time.monotonic() < deadline, f"not in time; {self.state()}"
            time.sleep(0.005)

    def skip(self, seconds: float) -> None:
        """Let time pass, for the worker."""
        self.offset += seconds

    def close(self) -> None:
        self.runner._close()


def report(trial: Trial, *values: float, exit_code: int | None = 0, reason: str = "exited", end: bool = True,
           journal: str = "journal", final: bool = True, out_of_memory: dict[str, Any] | None = None) -> Answer:
    """What a keeper sends of a whole trial: start, values (the last one ``final``, if it ends), end; the answer.

    ``out_of_memory``: what the end says of that.
    """
    attempt = Attempt.objects.filter(trial=trial).latest("number")
    entries: list[dict[str, Any]] = [{"n": 1, "at": 0.0, "type": "started", "pid": 1, "host": "box"}]
    for index, value in enumerate(values):
        is_final = end and final and index == len(values) - 1
        entries.append({"n": len(entries) + 1, "at": 0.0, "type": "metric",
                        "kind": "FINAL" if is_final else "PERIODICAL",
                        "parameter_id": 0, "sequence": 0 if is_final else index, "value": str(value)})
    if end:
        entries.append({"n": len(entries) + 1, "at": 0.0, "type": "ended", "exit_code": exit_code, "signal": None,
                        "reason": reason, "message": "", "duration": 1.0,
                        **({"out_of_memory": out_of_memory} if out_of_memory else {})})
    answer = reports.store([Delivery(attempt.job_name, None, read_report(
        {"keeper": {"version": 1, "journal_id": journal}, "entries": entries}), timezone.now())])[0]
    assert answer.status == 200, answer
    return answer


@pytest.fixture
def make_rig(transactional_db: None, tuner_client: TunerClient,
             make_experiment: Callable[..., Experiment]) -> Iterator[Callable[..., Rig]]:
    """Makes rigs; ``make_rig(Class)`` drives a service of that class."""
    rigs: list[Rig] = []
    names: list[str] = []

    def make(service: type[DocileTrainingService] = DocileTrainingService) -> Rig:
        name = f"test{len(names)}{service.__name__.lower()}"
        # the registry wants the class's own name; a class of this test carries it
        made = type(service.__name__, (service,), {"platform": name, "__module__": services.__name__})
        setattr(services, f"{service.__name__}{len(names)}", made)
        platforms.register(name, f"{services.__name__}:{service.__name__}{len(names)}")
        names.append(name)
        rigs.append(Rig(tuner_client, make_experiment, name))
        return rigs[-1]

    yield make
    for rig in rigs:
        rig.close()
    for name in names:
        platforms.unregister(name)
    for thread in threading.enumerate():
        if thread.name.startswith("service-test"):
            thread.join(60)


@pytest.fixture
def rig(make_rig: Callable[..., Rig]) -> Rig:
    return make_rig()


def end(rig: Rig, trial: Trial, status: TrialJobStatus = TrialJobStatus.SUCCEEDED, **fields: Any) -> None:
    """The platform sees the end of a trial's job."""
    rig.service.say(trial.public_id, status, **fields)
