"""What only events tell reaches the trial's page: no pods because of a quota, a storage that cannot be mounted."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from trainingservice.kubernetes.config import JobTrialOptions
from trainingservice.kubernetes_base import complaints
from trainingservice.kubernetes_base.api import ApiRefusal
from trainingservice.kubernetes_base.complaints import Complaints
from trainingservice.kubernetes_base.config import RoleSettings, StorageSettings

RECORDINGS = Path(__file__).parents[2] / "recordings" / "kubernetes"


@pytest.fixture(autouse=True)
def _hurry(monkeypatch) -> None:
    monkeypatch.setattr(complaints, "PATIENCE", 0.0)
    monkeypatch.setattr(complaints, "ASK_EVERY", 0.5)


def test_a_job_without_pods_says_what_its_controller_was_told(bench, cluster) -> None:
    because = "pods is forbidden: exceeded quota: small, requested: pods=1, used: pods=4"
    cluster.controllers.no_pods_because = because
    service = bench.open_service()
    form = bench.form("echo at last")
    service.submit_trial_job(form)
    bench.wait("it says so", lambda: "exceeded quota: small" in service.get_trial_job(form.job_name).message)
    assert service.get_trial_job(form.job_name).message == (
        f"Job nni{form.job_name} cannot continue (FailedCreate): Error creating: {because}.")
    cluster.controllers.no_pods_because = ""
    bench.wait_for_end(service, form)
    assert bench.output(form) == "at last\n"


def test_a_pod_whose_storage_cannot_be_mounted_says_so(bench, cluster) -> None:
    options = JobTrialOptions(worker=RoleSettings(docker_image="example/trial:1"))
    bench.platform.options = lambda: options
    bench.platform.more = {"storage": StorageSettings(storage_type="nfs", server="10.10.10.10", path="/gone")}
    service = bench.open_service()
    form = bench.form("true")
    service.submit_trial_job(form)
    bench.wait("there is a pod", lambda: cluster.store.all("pods"))
    [pod] = cluster.store.all("pods")
    cluster.controllers.complain(pod, "FailedMount", 'MountVolume.SetUp failed for volume "nni-vol": timed out')
    bench.wait("it says so", lambda: "(FailedMount): MountVolume.SetUp failed for volume" in
               service.get_trial_job(form.job_name).message)


class Events:
    """An API that has these events."""

    def __init__(self, items: list[dict], refusal: ApiRefusal | None = None) -> None:
        self.items, self.refusal, self.asked = items, refusal, 0

    def call(self, method, path, *, query):
        assert (method, path, query["fieldSelector"]) == ("GET", "/api/v1/namespaces/default/events", "type=Warning")
        self.asked += 1
        if self.refusal is not None:
            raise self.refusal
        return {"items": self.items, "metadata": {}}


def test_nothing_is_asked_before_something_has_waited_for_a_while_and_then_once_for_all(monkeypatch) -> None:
    monkeypatch.setattr(complaints, "PATIENCE", 10.0)
    monkeypatch.setattr(complaints, "ASK_EVERY", 30.0)
    now = [0.0]
    api = Events([])
    known = Complaints(api, "default", lambda: now[0])
    for second in range(100):
        now[0] = float(second)
        known.ask([f"u{number}" for number in range(200)])
    assert api.asked == 3  # after 10, 40 and 70 seconds
    for second in range(100, 200):
        now[0] = float(second)
        known.ask([f"fresh{second}"])  # each of them soon goes on
    assert api.asked == 3


def test_without_the_right_to_read_events_nobody_is_pestered() -> None:
    now = [0.0]
    api = Events([], ApiRefusal(403, "Forbidden", "events is forbidden"))
    known = Complaints(api, "default", lambda: now[0])
    for second in range(500):
        now[0] = float(second)
        assert not known.ask(["u"])
    assert api.asked == 1


def test_recorded_warnings_that_the_pod_tells_better_are_left_to_it() -> None:
    events = json.loads((RECORDINGS / "tfjob" / "unschedulable-gpu" / "k8s-events.json").read_text())
    warnings = [event for event in events if event["type"] == "Warning"]
    uids = {event["involvedObject"]["uid"] for event in warnings if event["involvedObject"]["kind"] == "Pod"}
    assert uids
    known = Complaints(Events(warnings), "default")
    known.ask(uids)
    assert known.about(uids) == ""


def test_the_last_warning_counts() -> None:
    about = {"kind": "Job", "name": "t", "uid": "u"}
    api = Events([{"involvedObject": about, "reason": "FailedCreate", "message": text, "lastTimestamp": at}
                  for text, at in (("new", "2026-11-20T22:00:46Z"), ("old", "2026-11-20T22:00:45Z"))])
    known = Complaints(api, "default")
    assert known.ask(["u"])
    assert known.about(["other", "u"]) == "Job t cannot continue (FailedCreate): new."
