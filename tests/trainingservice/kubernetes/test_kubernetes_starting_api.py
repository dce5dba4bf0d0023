"""An API server that has just been started knows no rights yet: that passes, and is nobody's lack of a role."""

from __future__ import annotations

import pytest

from trainingservice.errors import TemporaryError
from trainingservice.kubernetes_base import api
from trainingservice.kubernetes_base.api import PODS, ApiAccess, ApiRefusal, KubernetesApi, error_of
from trainingservice.trial_job_status import TrialJobStatus


def test_after_an_outage_the_service_says_that_it_starts_and_goes_on(bench, cluster) -> None:
    service = bench.open_service()
    form = bench.form("echo here; sleep 600")
    service.submit_trial_job(form)
    bench.wait("it runs", lambda: bench.output(form))
    cluster.go_away()
    bench.wait("that is seen", lambda: "cannot be reached" in service.trouble)
    cluster.knows_no_rights = True
    cluster.come_back()
    bench.wait("it is asked again", lambda: "cannot be reached" not in service.trouble)
    assert "is starting" in service.trouble
    assert "role" not in service.trouble
    cluster.knows_no_rights = False
    bench.wait("it is well again", lambda: not service.trouble)
    assert service.get_trial_job(form.job_name).status is TrialJobStatus.RUNNING


def test_the_check_before_a_launch_does_not_block_while_it_starts(bench, cluster) -> None:
    cluster.knows_no_rights = True
    findings = bench.platform.new_service(bench.context()).rehearse(quick=True, options=bench.platform.options())
    assert [finding.ok for finding in findings] == [False]
    assert not any(finding.blocks for finding in findings)
    assert "is starting" in findings[0].message


def test_rights_that_are_missing_for_longer_than_any_start_takes_are_the_accounts(cluster, monkeypatch) -> None:
    asked = KubernetesApi(ApiAccess(cluster.kubeconfig))
    cluster.knows_no_rights = True

    def refusal() -> TemporaryError:
        with pytest.raises(ApiRefusal) as refused:
            asked.call("GET", PODS.path("default"))
        found = error_of(refused.value, "list pods")
        assert isinstance(found, TemporaryError)
        return found

    assert "is starting" in str(refusal())
    monkeypatch.setattr(api, "STARTS_WITHIN", 0.0)
    assert "role.yaml" in str(refusal())
    asked.close()


@pytest.mark.parametrize("status", [None, 403, 404], ids=["ready", "which it may not ask", "which is not known"])
def test_an_account_without_a_right_on_a_server_that_is_ready_is_told_the_role(cluster, status) -> None:
    if status is not None:
        cluster.faults.append({"path": "/readyz", "status": status, "times": 1})
    cluster.forbidden.add(("list", "pods"))
    asked = KubernetesApi(ApiAccess(cluster.kubeconfig))
    with pytest.raises(ApiRefusal) as refused:
        asked.call("GET", PODS.path("default"))
    assert "role.yaml" in str(error_of(refused.value, "list pods"))
    asked.close()


def test_a_server_whose_caches_are_not_filled_yet_says_that_it_is_not_ready(cluster) -> None:
    cluster.forbidden.add(("list", "pods"))
    cluster.faults.append({"path": "/readyz", "status": 500, "times": 1})
    asked = KubernetesApi(ApiAccess(cluster.kubeconfig))
    with pytest.raises(ApiRefusal) as refused:
        asked.call("GET", PODS.path("default"))
    assert refused.value.is_starting
    asked.close()


def test_an_answer_that_is_too_large_is_not_read(cluster, monkeypatch) -> None:
    asked = KubernetesApi(ApiAccess(cluster.kubeconfig))
    asked.call("GET", PODS.path("default"))
    monkeypatch.setattr(api, "MOST_BYTES", 20)
    with pytest.raises(api.ApiAway, match="its answer has more than"):
        asked.call("GET", PODS.path("default"))


def test_an_event_of_a_watch_that_has_no_end_is_not_held(monkeypatch) -> None:
    monkeypatch.setattr(api, "MOST_BYTES", 1000)

    class Endless:
        read = 0

        def stream(self, *_, **__):
            yield b'{"type": "ADDED", "object": {}}\n'
            while self.read < 10**6:
                self.read += 300
                yield b"x" * 300

        def shutdown(self) -> None:
            pass

        close = shutdown

    response, heard = Endless(), []
    with pytest.raises(api.ApiAway, match="more than"):
        heard.extend(api.Watch(response, lambda error: api.ApiAway(str(error))).events())
    assert response.read <= 1500
