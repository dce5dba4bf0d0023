"""GPUs of this machine: who gets them, who waits and for what. Real trials, a fake nvidia-smi."""

import os
from dataclasses import replace

import pytest

from tests.fakes.nvidia_smi import instance_uuid
from trainingservice.base import MachineDetail
from trainingservice.errors import PermanentError
from trainingservice.gpus import gpu_watch
from trainingservice.local.config import LocalTrialOptions
from trainingservice.testing.bench import new_id
from trainingservice.trial_job import GpuDemand, ResumedJob
from trainingservice.trial_job_status import TrialJobStatus

WAITING, RUNNING, FAILED, USER_CANCELED = (TrialJobStatus.WAITING, TrialJobStatus.RUNNING, TrialJobStatus.FAILED,
                                           TrialJobStatus.USER_CANCELED)


@pytest.fixture
def gpu_job(bench):
    """Makes a form of a job that says which GPUs it sees and ends when told to."""
    def make(number, **options):
        experiment = options.pop("experiment", None)
        go = bench.witness / new_id("g")
        form = bench.form(f'echo "sees $CUDA_VISIBLE_DEVICES"; until [ -e "{go}" ]; do sleep 0.02; done',
                          gpu_number=number, experiment=experiment, environment={"GO": str(go)})
        return replace(form, options=LocalTrialOptions(**options))
    return make


def let_end(form):
    open(form.environment["GO"], "w").close()


def runs(bench, service, form):
    """Wait until it runs; return what it sees in CUDA_VISIBLE_DEVICES."""
    bench.wait_for_status(service, form, RUNNING)
    bench.wait("its output has come", lambda: bench.output(form))
    return bench.output(form).strip().removeprefix("sees ")


def waits(bench, service, form, words):
    """Wait until it says what it waits for."""
    bench.wait(f"it waits: {words}", lambda: words in service.get_trial_job(form.job_name).message)
    assert service.get_trial_job(form.job_name).status is WAITING


def test_trials_get_gpus_of_their_own_and_a_third_waits_for_the_first_to_end(
        bench, nvidia_smi, service, gpu_job, monkeypatch):
    monkeypatch.setattr(gpu_watch, "BUSY_INTERVAL", 600.0)  # no look in between: the end itself lets the next one begin
    first, second, third = gpu_job(1), gpu_job(1), gpu_job(1)
    for form in (first, second, third):
        service.submit_trial_job(form)
    assert {runs(bench, service, first), runs(bench, service, second)} == {"0", "1"}
    waits(bench, service, third, f"GPU 0 is held by {first.job_name}")
    assert service.get_trial_job(first.job_name).gpu_indices == (0,)
    let_end(first)
    assert runs(bench, service, third) == "0"


def test_a_trial_may_have_all_gpus(bench, nvidia_smi, service, gpu_job):
    form = gpu_job(2)
    service.submit_trial_job(form)
    assert runs(bench, service, form) == "0,1"


def test_a_trial_that_asks_for_more_than_there_are_fails_at_once_and_blocks_nobody(bench, nvidia_smi, service, gpu_job):
    too_large, fits = gpu_job(4), gpu_job(1)
    service.submit_trial_job(too_large)
    service.submit_trial_job(fits)
    detail = bench.wait_for_status(service, too_large, FAILED)
    assert "asks for 4 GPUs, but machine" in detail.message
    assert "has 2 GPUs" in detail.message
    assert runs(bench, service, fits) == "0"


def test_a_large_trial_that_waits_does_not_hold_up_small_ones(bench, nvidia_smi, service, gpu_job):
    one, two, small = gpu_job(1), gpu_job(2), gpu_job(1)
    service.submit_trial_job(one)
    runs(bench, service, one)
    service.submit_trial_job(two)
    service.submit_trial_job(small)
    assert runs(bench, service, small) == "1"
    waits(bench, service, two, "Waits for 2 GPUs")
    let_end(one)
    let_end(small)
    assert runs(bench, service, two) == "0,1"


@pytest.mark.slow
def test_two_experiments_and_two_services_share_the_book(bench, nvidia_smi, service, gpu_job):
    other_service = bench.open_service()
    mine, theirs, late = gpu_job(1), gpu_job(1, experiment=new_id("e")), gpu_job(1, experiment=new_id("e"))
    service.submit_trial_job(mine)
    assert runs(bench, service, mine) == "0"
    other_service.submit_trial_job(theirs)
    assert runs(bench, other_service, theirs) == "1"
    service.submit_trial_job(late)
    waits(bench, service, late, theirs.job_name)


def test_a_gpu_takes_as_many_trials_as_the_option_says(bench, nvidia_smi, service, gpu_job):
    forms = [gpu_job(1, max_trial_number_per_gpu=2, gpu_indices=[1]) for _ in range(3)]
    for form in forms:
        service.submit_trial_job(form)
    assert [runs(bench, service, form) for form in forms[:2]] == ["1", "1"]
    waits(bench, service, forms[2], "GPU 1 is held by")


def test_a_gpu_on_which_others_run_something_is_left_alone_until_it_is_free(bench, nvidia_smi, service, gpu_job):
    nvidia_smi.set_processes(0, 4711)
    nvidia_smi.set_processes(1, 4712, 4713)
    polite, bold = gpu_job(1), gpu_job(1, use_active_gpu=True)
    service.submit_trial_job(polite)
    waits(bench, service, polite, "GPU 1 is used by 2 process(es) of others")
    service.submit_trial_job(bold)
    assert runs(bench, service, bold) == "0"
    nvidia_smi.set_processes(1)
    assert runs(bench, service, polite) == "1"


def test_the_process_of_our_own_trial_that_was_seen_does_not_keep_its_gpu_busy(bench, nvidia_smi, service, gpu_job,
                                                                               monkeypatch):
    first, second = gpu_job(1, gpu_indices=[0]), gpu_job(1, gpu_indices=[0])
    service.submit_trial_job(first)
    runs(bench, service, first)
    now = service._gpus._monotonic()
    monkeypatch.setattr(service._gpus, "_monotonic", lambda: now)  # no look grows old, so none is made unasked
    looks, ask = [], service._gpus._ask
    monkeypatch.setattr(service._gpus, "_ask", lambda: looks.append(now) or ask())
    nvidia_smi.set_processes(0, 4711)
    assert service._gpus.look(max_age=-1).gpus[0]["processes"] == 1
    service.submit_trial_job(second)
    waits(bench, service, second, "is held by")
    let_end(first)
    assert runs(bench, service, second) == "0"
    assert looks == [now], "the one above"


def test_while_nvidia_smi_fails_trials_with_gpus_wait_and_others_run(bench, nvidia_smi, service, gpu_job):
    nvidia_smi.fail()
    with_gpu, without = gpu_job(1), gpu_job(None)
    service.submit_trial_job(with_gpu)
    service.submit_trial_job(without)
    waits(bench, service, with_gpu, "could not talk to the driver")
    runs(bench, service, without)
    nvidia_smi.recover()
    assert runs(bench, service, with_gpu) == "0"


def test_a_hanging_nvidia_smi_holds_up_nobody_else(bench, nvidia_smi, gpu_job):
    nvidia_smi.state["delay"] = 4
    nvidia_smi.write()
    service = bench.open_service()
    with_gpu, without = gpu_job(1), gpu_job(None)
    service.submit_trial_job(with_gpu)
    service.submit_trial_job(without)
    waits(bench, service, with_gpu, "are being read")
    runs(bench, service, without)


def test_without_nvidia_smi_a_trial_with_gpus_fails_with_what_to_do(bench, service, gpu_job, monkeypatch):
    with pytest.raises(PermanentError, match="no nvidia-smi"):
        service.submit_trial_job(gpu_job(1))


def test_a_trial_that_does_not_speak_of_gpus_sees_what_the_server_sees(bench, nvidia_smi, monkeypatch, gpu_job):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    service = bench.open_service()
    silent, none = gpu_job(None), gpu_job(0)
    service.submit_trial_job(silent)
    service.submit_trial_job(none)
    assert runs(bench, service, silent) == "1"
    assert runs(bench, service, none) == "-1"


def test_a_canceled_trial_lets_go_of_its_gpus_and_one_that_waits_holds_none(bench, nvidia_smi, service, gpu_job):
    first, second = gpu_job(2), gpu_job(2)
    service.submit_trial_job(first)
    runs(bench, service, first)
    service.submit_trial_job(second)
    waits(bench, service, second, first.job_name)
    service.cancel_trial_job(second.job_name)
    service.cancel_trial_job(first.job_name)
    bench.wait_for_end(service, first, USER_CANCELED)
    third = gpu_job(2)
    service.submit_trial_job(third)
    assert runs(bench, service, third) == "0,1"


def test_a_service_that_comes_back_knows_which_gpus_its_trials_hold(bench, nvidia_smi, service, gpu_job):
    first, second = gpu_job(1), gpu_job(2)
    service.submit_trial_job(first)
    runs(bench, service, first)
    detail = service.get_trial_job(first.job_name)
    bench.close_service(service)
    bench.context().gpu_book.free(first.job_name)  # a book in memory is empty after a restart
    successor = bench.open_service([ResumedJob(detail)])
    successor.submit_trial_job(second)
    waits(bench, successor, second, f"GPU 0 is held by {first.job_name}")


def test_local_config_holds_for_experiments_that_say_nothing_else(bench, nvidia_smi, gpu_job):
    service = bench.open_service()
    service.set_cluster_metadata("local_config", '{"gpuIndices": "1", "maxTrialNumPerGpu": 2}')
    silent, other = gpu_job(1), gpu_job(1, gpu_indices=[0])
    service.submit_trial_job(silent)
    service.submit_trial_job(other)
    assert runs(bench, service, silent) == "1"
    assert runs(bench, service, other) == "0"


def test_the_machine_and_its_gpus_are_listed(bench, nvidia_smi, service):
    bench.wait("the GPUs were looked at", lambda: service.list_machines()[0].gpus)
    [machine] = service.list_machines()
    assert isinstance(machine, MachineDetail)
    assert [gpu["index"] for gpu in machine.gpus] == [0, 1]
    assert machine.identity
    assert (machine.name, machine.agent_state) == (os.uname().nodename, "running")


def test_the_machine_tells_how_busy_it_is_while_its_agent_runs(bench, nvidia_smi, service):
    bench.wait("the agent told the load", lambda: service.list_machines()[0].load)
    load = service.list_machines()[0].load
    assert load.cpu_total == os.cpu_count()
    assert 0 < load.memory_used < load.memory_total
    service.clean_up()
    assert service.list_machines()[0].load is None


@pytest.mark.slow
def test_nvidia_smi_is_hardly_asked_while_no_trial_needs_gpus(bench, nvidia_smi, service):
    bench.wait("the GPUs were looked at once", lambda: service.list_machines()[0].gpus)
    asked = nvidia_smi.looks()
    for _ in range(5):
        form = bench.form("true")
        service.submit_trial_job(form)
        bench.wait_for_end(service, form)
        service.list_machines()
    assert nvidia_smi.looks() == asked


def test_a_trial_that_ran_out_of_memory_before_shares_its_gpu_with_nobody(bench, nvidia_smi, service, gpu_job):
    alone = replace(gpu_job(1, max_trial_number_per_gpu=2, gpu_indices=(0,)), gpu_demand=GpuDemand(alone=True))
    first, later = (gpu_job(1, max_trial_number_per_gpu=2, gpu_indices=(0,)) for _ in range(2))
    service.submit_trial_job(first)
    assert runs(bench, service, first) == "0"
    service.submit_trial_job(alone)
    waits(bench, service, alone, f"GPU 0 is held by {first.job_name}")
    let_end(first)
    assert runs(bench, service, alone) == "0"
    service.submit_trial_job(later)
    waits(bench, service, later, f"GPU 0 is held by {alone.job_name}")


def test_a_trial_that_needs_a_larger_gpu_than_there_is_fails_and_says_so(bench, nvidia_smi, service, gpu_job):
    form = replace(gpu_job(1), gpu_demand=GpuDemand(alone=True, memory_above=16384 << 20))
    service.submit_trial_job(form)
    assert "on a GPU with 16.0 GB that it had for itself" in bench.wait_for_status(service, form, FAILED).message


def test_a_gpu_that_fell_off_the_bus_gets_no_trial_and_its_machine_says_so(bench, nvidia_smi, service, gpu_job):
    nvidia_smi.state["gpus"][0]["says"] = "[GPU is lost]"
    nvidia_smi.state["gpus"][1]["errors"] = 2
    nvidia_smi.write()
    one, two = gpu_job(1), gpu_job(2)
    service.submit_trial_job(one)
    assert runs(bench, service, one) == "1"
    [machine] = service.list_machines()
    assert machine.message.code == "gpus_faulty"
    assert machine.message.arguments["gpus"] == [{"gpu": 0, "fault": "lost", "errors": 0},
                                                 {"gpu": 1, "fault": "", "errors": 2}]
    let_end(one)
    service.submit_trial_job(two)  # it may come back, so nobody is refused for it
    waits(bench, service, two, "GPU 0 does not answer")


def test_where_the_gpus_cannot_be_read_the_trial_and_the_machine_say_why(bench, nvidia_smi, service, gpu_job):
    nvidia_smi.fail(18, "Failed to initialize NVML: Driver/library version mismatch")
    form = gpu_job(1)
    service.submit_trial_job(form)
    waits(bench, service, form, "Driver/library version mismatch")
    assert [machine.message.code for machine in service.list_machines()] == ["gpus_unread"]
    nvidia_smi.recover()
    assert runs(bench, service, form) == "0"


def test_trials_that_say_how_much_memory_they_need_share_a_gpu_while_there_is_some(bench, nvidia_smi, service, gpu_job):
    """Each GPU of this machine has 16 GB."""
    first, second, third, large = (
        replace(gpu_job(1, gpu_indices=(0,)), gpu_demand=GpuDemand(memory=size << 30)) for size in (7, 7, 1, 4))
    for form in (first, second):
        service.submit_trial_job(form)
        assert runs(bench, service, form) == "0"
    service.submit_trial_job(large)
    waits(bench, service, large, "Waits for 1 GPU with 4.0 GB left")
    service.submit_trial_job(third)
    assert runs(bench, service, third) == "0"
    let_end(first)
    assert runs(bench, service, large) == "0"


def test_instances_of_a_gpu_that_is_cut_are_gpus_of_their_own(bench, nvidia_smi, service, gpu_job):
    nvidia_smi.state["gpus"][0]["instances"] = [(2, "3g.20gb", 8000), (9, "1g.5gb", 4000)]
    nvidia_smi.write()
    first, second, third = (gpu_job(1, gpu_indices=[0]) for _ in range(3))
    for form in (first, second, third):
        service.submit_trial_job(form)
    assert {runs(bench, service, first), runs(bench, service, second)} == {instance_uuid(0, 2), instance_uuid(0, 9)}
    assert {service.get_trial_job(form.job_name).gpu_indices for form in (first, second)} == {(100020,), (100090,)}
    waits(bench, service, third, f"GPU 100020 is held by {first.job_name}")
    [machine] = service.list_machines()
    assert [gpu["name"] for gpu in machine.gpus] == ["Fake H0", "Fake H0 MIG 3g.20gb", "Fake H0 MIG 1g.5gb"]
    let_end(second)
    assert runs(bench, service, third) == instance_uuid(0, 9)


def test_trials_that_share_a_gpu_are_clients_of_mps_where_it_runs(bench, nvidia_smi, service):
    service.set_cluster_metadata("local_config", '{"mpsPipeDirectory": "/run/mps", "mpsThreadPercentage": 25}')
    say = "echo $CUDA_MPS_PIPE_DIRECTORY $CUDA_MPS_ACTIVE_THREAD_PERCENTAGE $CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"
    shares, whole = (replace(bench.form(say, gpu_number=1), gpu_demand=GpuDemand(memory=memory * 1024 ** 3),
                             options=LocalTrialOptions()) for memory in (6, 0))
    for form in (shares, whole):
        service.submit_trial_job(form)
        bench.wait_for_status(service, form, TrialJobStatus.SUCCEEDED)
    assert (bench.output(shares), bench.output(whole)) == ("/run/mps 25 0=6144M\n", "\n")
