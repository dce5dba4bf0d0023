"""GPUs that several trials share: the cluster offers shares under a name of their own, and trials ask for these."""

from __future__ import annotations

from dataclasses import replace

import pytest

from trainingservice.kubernetes.config import JobClusterSettings, JobTrialOptions
from trainingservice.kubernetes.service import KubernetesTrainingService
from trainingservice.kubernetes_base.config import RoleSettings
from trainingservice.kubernetes_base.pod_template import resources_of
from trainingservice.trial_job import GpuDemand, TrialJobDetail
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


GB = 1024 ** 3
RESOURCES = [{"resource": "nvidia.com/mig-1g.10gb", "memorySize": "10gb"},
             {"resource": "nvidia.com/mig-3g.40gb", "memorySize": "40gb"}]
COUNTED = [{"resource": "nvidia.com/gpumem", "memorySize": "1mb", "several": True, "besideGpu": True}]


@pytest.mark.parametrize(("resources", "number", "memory", "expected"), [
    (None, 1, 6 * GB, None), (RESOURCES, 1, 0, None), (RESOURCES, 2, 6 * GB, None), (RESOURCES, None, 6 * GB, None),
    (RESOURCES, 1, 6 * GB, {"nvidia.com/mig-1g.10gb": 1}), (RESOURCES, 1, 11 * GB, {"nvidia.com/mig-3g.40gb": 1}),
    (RESOURCES, 1, 41 * GB, None), (COUNTED, 1, 6 * GB, {"nvidia.com/gpu": 1, "nvidia.com/gpumem": 6144}),
    ([*RESOURCES, *COUNTED], 1, 10 * GB, {"nvidia.com/mig-1g.10gb": 1})])
def test_a_pod_that_needs_a_part_of_a_gpu_asks_for_the_smallest_that_has_enough(
        resources, number, memory, expected) -> None:
    settings = JobClusterSettings.model_validate({"gpuMemoryResources": resources})
    assert settings.gpu_shares(RoleSettings(), number, memory) == expected


def test_a_trial_with_gpu_memory_gets_a_pod_with_that_part(bench) -> None:
    settings = bench.platform.new_service(bench.context()).settings
    service = KubernetesTrainingService(settings.model_copy(update={
        "gpu_memory_resources": JobClusterSettings.model_validate({"gpuMemoryResources": RESOURCES}
                                                                 ).gpu_memory_resources}), bench.context())
    form = replace(bench.form("true"), options=asking("nvidia.com/gpu"), gpu_number=1)
    job = TrialJobDetail(form.job_name, TrialJobStatus.WAITING, replace(form, gpu_demand=GpuDemand(memory=6 * GB)), 0.0)
    assert resources_of(service.roles_of(job)[0]) == {"nvidia.com/mig-1g.10gb": "1"}
    stays = replace(job, form=replace(job.form, stays_for=60.0))
    assert resources_of(service.roles_of(stays)[0]) == {"nvidia.com/gpu": "1"}
