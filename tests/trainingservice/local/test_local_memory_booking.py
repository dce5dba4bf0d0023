"""CPUs and memory of this machine: trials that ask for them wait for each other. Real trials."""

from dataclasses import replace

import pytest

from tests.trainingservice.local.test_local_gpu_scheduling import FAILED, RUNNING, let_end, waits
from trainingservice.errors import PermanentError
from trainingservice.keeper.out_of_memory import read_out_of_memory, reason_for
from trainingservice.local.config import LocalTrialOptions
from trainingservice.testing.bench import new_id
from trainingservice.trial_job_status import TrialJobStatus

_MB = 1024 ** 2


@pytest.fixture
def form_of(bench, service):
    """Makes a form of a job that asks for so much and ends when told to; trials may have 4 CPUs and 1000 MB."""
    service.set_cluster_metadata("local_config", '{"cpuNumber": 4, "memorySize": "1000mb"}')

    def make(cpus=None, megabytes=None, **options):
        go = bench.witness / new_id("g")
        form = bench.form(f'until [ -e "{go}" ]; do sleep 0.02; done', environment={"GO": str(go)})
        return replace(form, options=LocalTrialOptions(**options), cpu_number=cpus,
                       memory_bytes=None if megabytes is None else megabytes * _MB)
    return make


def test_a_trial_waits_until_there_is_memory_for_it_and_a_small_one_does_not(bench, service, form_of):
    first, large, small = form_of(megabytes=600), form_of(megabytes=500), form_of(cpus=1.0, megabytes=300)
    for form in (first, large, small):
        service.submit_trial_job(form)
    bench.wait_for_status(service, first, RUNNING)
    bench.wait_for_status(service, small, RUNNING)
    waits(bench, service, large, "other trials have the rest of machine")
    assert service.get_trial_job(large.job_name).message.code == "machine_share_held"
    let_end(first)
    bench.wait_for_status(service, large, RUNNING)
    assert service.get_trial_job(large.job_name).gpu_indices is None
    for form in (large, small):
        let_end(form)
        bench.wait_for_status(service, form, TrialJobStatus.SUCCEEDED)
    assert service.context.gpu_book.booked(service._identity) == {}


def test_a_trial_that_asks_for_more_than_the_machine_has_for_trials_is_refused(service, form_of):
    with pytest.raises(PermanentError, match="asks for 6 CPUs, but trials may have 4 CPUs") as refused:
        service.submit_trial_job(form_of(cpus=3.0, nodes=2))
    assert refused.value.reason.code == "machine_too_small"


def test_a_trial_is_ended_where_it_takes_more_than_it_asked_for(bench, service, form_of):
    held = bench.form("python3 -c 'import time; held = bytearray(150 * 1024 ** 2); time.sleep(60)'")
    form = replace(held, options=LocalTrialOptions(), memory_bytes=80 * _MB)
    service.submit_trial_job(form)
    bench.wait_for_status(service, form, FAILED)
    [end] = bench.entries(form, "ended")
    told = read_out_of_memory(end["out_of_memory"])
    assert told is not None
    assert (told["memory"], told["limit"]) == ("main", 80 * _MB)
    assert "took more than the 80.0 MB of main memory that trialMemorySize lets it have" in reason_for(told)
