"""Pods that cannot call the server: reports are read from their logs, code comes by the storage."""

from __future__ import annotations

import base64
import json
import sys
import tracemalloc

import pytest

from tests.fakes.kubernetes.api import KubernetesApiDouble
from tests.fakes.kubernetes.framework import FRAMEWORK_KINDS, FrameworkController
from tests.fakes.kubernetes.kubeflow import KUBEFLOW_KINDS, kubeflow_controllers
from tests.fakes.kubernetes.under_test import FrameworksUnderTest, JobsUnderTest, KubeflowUnderTest
from trainingservice.errors import PermanentError
from trainingservice.keeper import collected_journals
from trainingservice.keeper.collected_journals import CollectedJournals
from trainingservice.keeper.journal_delivery import Reply
from trainingservice.kubernetes_base import mirror, pod_logs
from trainingservice.kubernetes_base.config import StorageSettings
from trainingservice.receiver.keeper_receiver import KeeperReceiver
from trainingservice.receiver.report_reading import read_report
from trainingservice.testing.bench import Bench
from trainingservice.trial_job_status import TrialJobStatus
from trialkeeper import contract
from trialkeeper.pod import MARK, ContainerLog

REPORT = """
import nni
nni.get_next_parameter()
for number in range(50):
    nni.report_intermediate_result(number / 10)
nni.report_final_result(7)
print("done, grün")
"""


@pytest.fixture(params=[
    pytest.param((JobsUnderTest, [], {}), id="kubernetes"),
    pytest.param((KubeflowUnderTest, kubeflow_controllers(), KUBEFLOW_KINDS), id="kubeflow", marks=pytest.mark.slow),
    pytest.param((FrameworksUnderTest, [FrameworkController()], FRAMEWORK_KINDS), id="frameworkcontroller")])
def bench(request, tmp_path, monkeypatch):
    monkeypatch.setattr(mirror, "PAUSES", (0.1, 1.0))
    monkeypatch.setattr(pod_logs, "LOOK_EVERY", 0.3)
    monkeypatch.setattr(pod_logs, "LINGER", 3)
    monkeypatch.setattr(pod_logs, "LINGER_STOPPED", 3)
    under_test, controllers, kinds = request.param
    storage = tmp_path / "storage"
    storage.mkdir()
    with KubernetesApiDouble(tmp_path / "cluster", controllers=controllers, kinds=kinds) as cluster, \
            KeeperReceiver(installation="test", folder=tmp_path / "receiver") as receiver:
        cluster.node.storages["persistentVolumeClaim", "claim"] = storage
        bench = Bench(under_test(tmp_path / "platform", cluster), receiver, tmp_path)
        bench.platform.more = {"way_home": "log", "storage": StorageSettings(
            storage_type="pvc", claim_name="claim", local_mount_point=str(storage))}
        yield bench
        bench.close()


def test_reports_come_home_by_the_pods_log(bench) -> None:
    service = bench.open_service()
    form = bench.form(script=REPORT)
    service.submit_trial_job(form)
    bench.wait_for_end(service, form)
    values = [json.loads(entry["value"]) for entry in bench.entries(form, "metric")]
    assert values == [number / 10 for number in range(50)] + [7]
    assert bench.output(form) == "done, grün\n"
    assert [entry["n"] for entry in bench.entries(form)] == list(range(1, len(bench.entries(form)) + 1))


def test_neither_token_nor_address_of_the_server_reach_the_pod(bench) -> None:
    service = bench.open_service()
    form = bench.form("env; cat $NNI_KEEPER_TOKEN_FILE; true")
    service.submit_trial_job(form)
    bench.wait_for_end(service, form)
    everything = json.dumps([bench.platform.cluster.store.all(plural) for plural in ("secrets", "pods")])
    assert form.keeper.token not in everything
    assert form.keeper.urls[0] not in bench.output(form)


def test_a_running_trial_can_be_canceled(bench) -> None:
    service = bench.open_service()
    form = bench.form("echo here; sleep 120")
    service.submit_trial_job(form)
    bench.wait("its output is read", lambda: bench.output(form))
    service.cancel_trial_job(form.job_name)
    bench.wait_for_status(service, form, TrialJobStatus.USER_CANCELED)
    bench.wait("its last word is here", lambda: bench.entries(form, "ended"))


def test_a_trial_that_is_to_be_frozen_is_ended_because_nobody_can_tell_its_keeper(bench) -> None:
    service = bench.open_service()
    form = bench.form("echo here; sleep 600")
    service.submit_trial_job(form)
    bench.wait("it runs", lambda: bench.output(form))
    bench.server.order_freeze(form.job_name, "something urgent")
    bench.wait("its keeper says so", lambda: bench.entries(form, contract.ENDED))
    [ended] = bench.entries(form, contract.ENDED)
    assert ended["reason"] == contract.STOPPED, "of which the server makes a rest where it wanted one"
    bench.wait_for_status(service, form, TrialJobStatus.SYS_CANCELED)


def test_without_a_storage_the_code_cannot_come(bench) -> None:
    bench.platform.more = {"way_home": "log"}
    service = bench.open_service()
    form = bench.form("true")
    try:
        service.submit_trial_job(form)
        sentence = bench.wait_for_status(service, form, TrialJobStatus.FAILED).message
    except PermanentError as refusal:
        sentence = str(refusal)
    assert "localMountPoint" in sentence


class RotatedLog:
    """An API whose one pod has these lines in its log."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.questions: list[dict] = []

    def call(self, method, path, *, query):
        assert (method, path) == ("GET", "/api/v1/namespaces/default/pods/p/log")
        self.questions.append(query)
        return {"text": "\n".join(self.lines)}

    def tell(self, *documents: dict) -> None:
        self.lines += [MARK + base64.b64encode(json.dumps(document).encode()).decode() for document in documents]


def output(n: int, text: str, offset: int, stream: str = "stderr") -> dict:
    return {"n": n, "at": 1.0, "type": "output", "stream": stream, "offset": offset, "data": text}


def metric(n: int) -> dict:
    return {"n": n, "at": 1.0, "type": "metric", "kind": "PERIODICAL", "parameter_id": 0, "sequence": n, "value": "1"}


HEADER = {"journal_id": "j", "version": 1}
STARTED = {"n": 1, "at": 1.0, "type": "started", "pid": 1, "host": "h"}


@pytest.fixture
def rotated(tmp_path):
    """A log, and what reads it and hands it to a server."""
    log = RotatedLog()
    pod = {"metadata": {"name": "p"}, "spec": {"nodeName": "node1"}, "status": {"phase": "Running"}}
    source = pod_logs.PodLogSource(log, "default", "trial", lambda: pod, lambda: None, lambda: 0.0)
    accepted: list[dict] = []

    def deliver() -> None:
        journal_id, _, entries = source.read()
        read = read_report({"keeper": {"version": 1, "journal_id": journal_id}, "entries": entries})
        new = read.after(deliver.number)
        deliver.number = new.accepted
        accepted.extend(new.entries)

    deliver.number = 0
    return log, deliver, accepted


def test_what_comes_after_a_rotated_log_gets_through_and_the_page_says_that_lines_were_lost(rotated) -> None:
    log, deliver, accepted = rotated
    log.tell(HEADER, STARTED, output(2, "before\n", 0))
    deliver()
    log.lines.clear()
    log.tell(HEADER, metric(30), output(31, "after\n", 7), output(32, "x", 0, "stdout"), output(33, "end\n", 13))
    deliver()
    assert log.questions[-1] == {"container": "trial"}, "all of the log was looked through first"
    assert [entry["n"] for entry in accepted] == [1, 2, 3, 30, 31, 32, 33]
    stderr = sorted((entry["offset"], entry["data"]) for entry in accepted if entry.get("stream") == "stderr")
    assert "".join(data for _, data in stderr) == "before\n" + pod_logs.LOST + "after\nend\n"
    assert all(offset + len(data) == following for (offset, data), (following, _) in
               zip(stderr, stderr[1:], strict=False)), "no piece covers another"
    log.tell(metric(34))
    deliver()
    assert accepted[-1]["n"] == 34


def test_many_lost_lines_are_made_up_for_a_part_at_each_look(rotated, monkeypatch) -> None:
    monkeypatch.setattr(pod_logs, "MOST_LOST", 10)
    log, deliver, accepted = rotated
    log.tell(HEADER, STARTED)
    deliver()
    log.tell(output(30, "after\n", 0), metric(31))
    for last in (11, 21, 31):
        deliver()
        assert deliver.number == last
    assert [entry["n"] for entry in accepted] == [1, 2, 30, 31]
    assert [entry["data"] for entry in accepted if "data" in entry] == [pod_logs.LOST, "after\n"]


def test_a_line_that_a_trial_has_made_up_with_a_very_large_number_costs_no_memory(rotated) -> None:
    log, deliver, _ = rotated
    log.tell(HEADER, STARTED, metric(10**15))
    tracemalloc.start()
    try:
        deliver()
        assert tracemalloc.get_traced_memory()[1] < 50 * 1024 ** 2
    finally:
        tracemalloc.stop()
    assert deliver.number == 1 + pod_logs.MOST_LOST


def test_lines_that_only_the_short_question_missed_are_not_given_up(rotated) -> None:
    log, deliver, accepted = rotated
    log.tell(HEADER, STARTED)
    deliver()
    whole = [metric(2), metric(3)]
    log.tell(*whole)
    call, missed = log.call, log.lines[2]

    def short(method, path, *, query):
        answer = call(method, path, query=query)
        return {"text": answer["text"].replace(missed, "") if "sinceSeconds" in query else answer["text"]}

    log.call = short
    deliver()
    assert [entry["n"] for entry in accepted] == [1, 2, 3]


def test_a_log_that_lost_its_beginning_still_tells_whose_it_is(rotated) -> None:
    log, deliver, accepted = rotated
    log.tell(metric(40), HEADER, metric(41))
    deliver()
    assert [entry["n"] for entry in accepted] == [1, 40, 41]


def test_the_keeper_names_its_journal_with_each_batch(tmp_path, monkeypatch, capfdbinary) -> None:
    log = ContainerLog(str(tmp_path), tells_journal=True)
    journal = tmp_path / "journal.jsonl"
    for lines in ([HEADER, STARTED], [metric(2)], [metric(3), metric(4)]):
        with journal.open("a") as stream:
            stream.writelines(json.dumps(line) + "\n" for line in lines)
        log._copy_pieces(ending=False)
    sys.stdout.flush()
    told = [json.loads(base64.b64decode(line.removeprefix(MARK)))
            for line in capfdbinary.readouterr().out.decode().splitlines()]
    assert told == [HEADER, STARTED, HEADER, metric(2), HEADER, metric(3), metric(4)]


def test_a_suspended_trials_next_pod_is_read_from_its_beginning(tmp_path, monkeypatch) -> None:
    log, pod = RotatedLog(), {"metadata": {"name": "p", "uid": "first"}, "status": {"phase": "Running"}}
    delivered: list[tuple[str, list[int]]] = []

    def deliver(urls, job_name, token, keeper, entries, now):
        delivered.append((keeper["journal_id"], [entry["n"] for entry in entries]))
        yield Reply(200, {"accepted": entries[-1]["n"] if entries else 0})

    monkeypatch.setattr(collected_journals, "deliver", deliver)
    source = pod_logs.PodLogSource(log, "default", "trial", lambda: pod, lambda: None)
    collected = CollectedJournals(tmp_path, lambda: (), lambda experiment, name: source)
    collected._add("t1", {"experiment_id": "e", "token": "t", "report_interval": 1000.0})
    job = collected._jobs["t1"]
    log.tell(HEADER, STARTED, {"n": 2, "at": 1.0, "type": "ended", "exit_code": 143, "signal": None,
                               "reason": "stopped", "message": "", "duration": 1.0})
    collected._collect(job)
    pod["status"]["phase"] = "Failed"
    collected._collect(job)
    assert delivered == [("j", [1, 2])], "and no sign of life of a journal that has ended"
    pod = {"metadata": {"name": "p", "uid": "second"}, "status": {"phase": "Running"}}
    log.lines.clear()
    log.tell({"journal_id": "k", "version": 1}, STARTED, metric(2))
    collected._collect(job)
    assert delivered[1:] == [("k", [1, 2])]
    assert "sinceSeconds" not in log.questions[-1]
    log.tell({"n": 3, "at": 1.0, "type": "ended", "exit_code": 0, "signal": None, "reason": "exited", "message": "",
              "duration": 1.0})
    collected._collect(job)
    assert delivered[2:] == [("k", [3])]
    assert collected._jobs == {}


def test_a_stopped_trial_is_read_no_more_when_its_job_has_ended(tmp_path, monkeypatch) -> None:
    log, pod = RotatedLog(), {"metadata": {"name": "p", "uid": "first"}, "status": {"phase": "Failed"}}
    monkeypatch.setattr(collected_journals, "deliver", lambda urls, job_name, token, keeper, entries, now: iter(
        [Reply(200, {"accepted": entries[-1]["n"] if entries else 0})]))
    collected = CollectedJournals(tmp_path, lambda: (), lambda experiment, name: pod_logs.PodLogSource(
        log, "default", "trial", lambda: pod, lambda: None))
    collected._add("t1", {"experiment_id": "e", "token": "t"})
    log.tell(HEADER, STARTED, {"n": 2, "at": 1.0, "type": "ended", "exit_code": 143, "signal": None,
                               "reason": "stopped", "message": "", "duration": 1.0})
    collected._collect(collected._jobs["t1"])
    assert list(collected._jobs) == ["t1"]
    collected.finish("t1")
    assert collected._jobs == {}
