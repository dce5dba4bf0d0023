"""CPUs and memory of machines over SSH, and MPS there: trials that ask for them get a machine that has them left."""

from dataclasses import replace

import pytest

from tests.fakes.nvidia_smi import FakeNvidiaSmi
from tests.fakes.ssh_machine import needs_root
from tests.trainingservice.remote.conftest import LoginVariables
from trainingservice.errors import PermanentError
from trainingservice.trial_job import GpuDemand
from trainingservice.trial_job_status import TrialJobStatus

MB = 1024 ** 2


def test_trials_go_where_their_memory_is_left_and_wait_where_none_has_it(bench, make_machine, lasting):
    needs_root()
    machines = [make_machine(name, own_identity=True) for name in ("ada", "bob")]
    bench.platform.machine_list = [machines[0].settings(memory_size=1000), machines[1].settings(memory_size=600)]
    service = bench.open_service()
    bench.wait("all are connected", lambda: all(found.healthy for found in service.list_machines()))
    pairs = [lasting() for _ in range(3)]
    forms = [replace(form, memory_bytes=megabytes * MB, cpu_number=0.1)
             for (form, _), megabytes in zip(pairs, (700, 500, 400), strict=True)]
    for form in forms[:2]:
        service.submit_trial_job(form)
        bench.wait_for_status(service, form, TrialJobStatus.RUNNING)
    assert [service.get_trial_job(form.job_name).platform_state["machine"] for form in forms[:2]] == [
        machine.settings().address for machine in machines]
    service.submit_trial_job(forms[2])
    bench.wait("it says what is left", lambda: "300.0 MB are left" in service.get_trial_job(forms[2].job_name).message)
    assert "100.0 MB are left" in service.get_trial_job(forms[2].job_name).message
    too_large = replace(lasting()[0], memory_bytes=1001 * MB)
    with pytest.raises(PermanentError, match="may have 600.0 MB of memory of machine"):
        service.start_job(replace(service.get_trial_job(forms[2].job_name), id=too_large.job_name, form=too_large))
    pairs[0][1].touch()
    bench.wait_for_status(service, forms[2], TrialJobStatus.RUNNING)
    for form, (_, go) in zip(forms, pairs, strict=True):
        go.touch()
        bench.wait_for_end(service, form)


def test_a_trial_that_shares_a_gpu_is_a_client_of_the_machines_mps(bench, make_machine):
    machine = make_machine("ada")
    FakeNvidiaSmi(machine.folder / "nvidia", LoginVariables(machine), 1)
    bench.platform.machine_list = [machine.settings(mps_pipe_directory="/run/mps")]
    service = bench.open_service()
    say = "echo $CUDA_MPS_PIPE_DIRECTORY $CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"
    form = replace(bench.form(say, gpu_number=1), gpu_demand=GpuDemand(memory=2 * 1024 * MB))
    service.submit_trial_job(form)
    bench.wait_for_end(service, form)
    assert bench.output(form) == "/run/mps 0=2048M\n"
