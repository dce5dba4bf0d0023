"""GPUs that several trials share: the cluster offers shares under a name of their own, and trials ask for these."""

from __future__ import annotations

from dataclasses import replace

import pytest

from trainingservice.kubernetes.config import JobTrialOptions
from trainingservice.kubernetes_base.config import RoleSettings
from trainingservice.trial_job_status import TrialJobStatus

SHARES = "nvidia.com/gpu.shared"


@pytest.fixture
def shares(cluster) -> None:
    """The only GPU of the node, in two shares."""
    cluster.node.gpus, cluster.node.gpu_resource = 2, SHARES


def asking(resource: str) -> JobTrialOptions:
    return JobTrialOptions(worker=RoleSettings(docker_image="example/trial:1", gpu_number=1, gpu_resource=resource))


def test_two_trials_run_on_the_shares_of_one_gpu(bench, cluster, shares, tmp_path) -> None:
    service = bench.open_service()
    meeting = tmp_path / "meeting"
    meeting.mkdir()
    # each ends when it has seen the other one run
    command = f"touch {meeting}/$NNI_TRIAL_JOB_ID; until [ $(ls {meeting} | wc -l) = 2 ]; do sleep 0.05; done"
    forms = [replace(bench.form(command), options=asking(SHARES)) for _ in range(2)]
    for form in forms:
        service.submit_trial_job(form)
    for form in forms:
        bench.wait_for_end(service, form, TrialJobStatus.SUCCEEDED)
    limits = [pod["spec"]["containers"][0]["resources"]["limits"] for pod in cluster.store.all("pods")]
    assert [limit[SHARES] for limit in limits] == ["1", "1"]


@pytest.mark.parametrize(("resource", "ok"), [(SHARES, True), ("nvidia.com/gpu", False)])
def test_the_check_looks_for_what_the_file_calls_them(bench, shares, resource: str, ok: bool) -> None:
    service = bench.platform.new_service(bench.context())
    try:
        found = service.rehearse(quick=True, options=asking(resource))
    finally:
        service.clean_up()
    [finding] = [finding for finding in found if finding.check == "gpus"]
    assert finding.ok is ok
    assert resource in finding.message
