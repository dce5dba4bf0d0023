"""NVIDIA's MPS for trials that share a GPU by memory, where an administrator allows it."""

import pytest
from pydantic import ValidationError

from trainingservice.gpus.gpu_slots import Assigned, GpuReading, GpuRequest, HeldGpus, Waits, choose_gpus
from trainingservice.gpus.mps import Mps
from trainingservice.local.config import LocalConfigMetadata
from trainingservice.remote.config import RemoteMachineSettings
from trainingservice.trial_job import GpuDemand, HyperParameters, JobApplicationForm, KeeperAccess

GB = 1024 ** 3


def variables(mps, memory, **form):
    job = JobApplicationForm("taaaaaaaaaaa", "taaaaaaaaaaa", "eaaaaaaaaaaa", 0, HyperParameters("{}"), "true",
                             KeeperAccess((), ""), **form)
    return dict(mps.variables(job, memory))


def test_a_trial_that_shares_its_gpus_is_a_client_with_the_memory_that_it_asked_for():
    mps = Mps("/run/mps", 40)
    assert variables(mps, 6 * GB, gpu_number=2) == {
        "CUDA_MPS_PIPE_DIRECTORY": "/run/mps", "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": "40",
        "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT": "0=6144M,1=6144M"}


def test_what_was_learnt_is_no_limit():
    assert variables(Mps("/run/mps"), 6 * GB, gpu_number=1, gpu_demand=GpuDemand(learns=True)) == {
        "CUDA_MPS_PIPE_DIRECTORY": "/run/mps"}


@pytest.mark.parametrize(("mps", "memory"), [(Mps(), 6 * GB), (Mps("/run/mps", 40), 0)])
def test_others_are_no_clients(mps, memory):
    assert variables(mps, memory, gpu_number=1) == {}


@pytest.mark.parametrize(("has_mps", "expected"), [(True, Assigned), (False, Waits)])
def test_to_an_exclusive_gpu_all_clients_are_one_process(has_mps, expected):
    gpu = GpuReading(0, processes=1, memory_total=40 * GB, is_exclusive=True)
    request = GpuRequest(1, demand=GpuDemand(memory=6 * GB), has_mps=has_mps)
    assert isinstance(choose_gpus(request, [gpu], {"a": HeldGpus((0,), memory=6 * GB)}, "ada"), expected)


@pytest.mark.parametrize("given", [{"mpsPipeDirectory": "mps"}, {"mpsPipeDirectory": "/a\nb"},
                                   {"mpsThreadPercentage": 0}, {"mpsThreadPercentage": 101}])
def test_wrong_settings_are_refused(given):
    for model, fields in ((LocalConfigMetadata, {}), (RemoteMachineSettings, {"host": "h", "user": "u"})):
        with pytest.raises(ValidationError):
            model.model_validate({**fields, **given})
    assert LocalConfigMetadata.model_validate({"mpsPipeDirectory": "/m", "mpsThreadPercentage": 5}).mps == Mps("/m", 5)
