"""Which machine gets a trial: slots, GPUs, machines that fail; real trials on several machines, fake GPUs."""

import itertools
import random
import threading
import time

import pytest

from tests.fakes.ssh_machine import needs_root
from trainingservice.keeper.agent_client import AgentClient
from trainingservice.polling.service import Observation
from trainingservice.remote import service as service_module
from trainingservice.remote import set_aside, waiting_trials
from trainingservice.testing.bench import new_id
from trainingservice.trial_job_status import TrialJobStatus

WAITING, RUNNING, FAILED, SUCCEEDED = (TrialJobStatus.WAITING, TrialJobStatus.RUNNING, TrialJobStatus.FAILED,
                                       TrialJobStatus.SUCCEEDED)


def place_of(service, form):
    return service.get_trial_job(form.job_name).platform_state.get("machine")


def connected(bench, service):
    bench.wait("all machines are connected", lambda: all(found.healthy for found in service.list_machines()))


def test_each_machine_tells_how_busy_it_is_over_its_connection(bench, make_machine):
    bench.platform.machine_list = [make_machine("ada").settings(), make_machine("bob").settings()]
    service = bench.open_service()
    bench.wait("both told their load", lambda: all(found.load for found in service.list_machines()))
    assert all(found.load.cpu_total >= found.load.cpu_used and found.load.memory_used > 0
               for found in service.list_machines())


def test_trials_go_to_the_least_loaded_machine_and_wait_when_all_are_full(bench, make_machine, lasting):
    first, second = make_machine("ada"), make_machine("bob")
    bench.platform.machine_list = [first.settings(max_trial_number=2), second.settings(max_trial_number=2)]
    service = bench.open_service()
    connected(bench, service)
    pairs = [lasting() for _ in range(5)]
    for form, _ in pairs:
        service.submit_trial_job(form)
    for form, _ in pairs[:4]:
        bench.wait_for_status(service, form, RUNNING)
    places = [place_of(service, form) for form, _ in pairs[:4]]
    assert places == [first.settings().address, second.settings().address] * 2
    last = service.get_trial_job(pairs[4][0].job_name)
    assert last.status is WAITING
    assert last.message.count("runs 2 trial(s), as many as maxTrialNumber allows") == 2
    pairs[1][1].touch()
    bench.wait_for_end(service, pairs[1][0])
    bench.wait_for_status(service, pairs[4][0], RUNNING)
    assert place_of(service, pairs[4][0]) == second.settings().address
    for form, go in pairs:
        go.touch()
        bench.wait_for_end(service, form)


@pytest.mark.slow
def test_three_machines_run_ten_trials_each_and_one_of_them_dies_in_the_middle(bench, make_machine, monkeypatch):
    monkeypatch.setattr(service_module, "ANSWER_PATIENCE", 0.2)
    machines = [make_machine(name) for name in ("ada", "bob", "cyd")]
    bench.platform.machine_list = [machine.settings(max_trial_number=10) for machine in machines]
    bench.platform.more = {"lost_after": 3.0}
    service = bench.open_service()
    connected(bench, service)
    go = bench.witness / "go"
    code = bench.code({"readme": "x"})
    forms = [bench.form(f'until [ -e "{go}" ]; do sleep 0.2; done; echo done', code=code) for _ in range(30)]
    for form in forms:
        service.submit_trial_job(form)
    for form in forms:
        bench.wait_for_status(service, form, RUNNING)
    dead = machines[1].settings().address
    lost = [form for form in forms if place_of(service, form) == dead]
    assert len(lost) == 10
    assert [machine.accepted_logins() for machine in machines] == [1, 1, 1]  # one connection carries all ten
    machines[1].crash()
    for form in lost:
        detail = bench.wait_for_status(service, form, FAILED)
        assert "could not be reached" in detail.message
    go.touch()
    for form in forms:
        if form not in lost:
            bench.wait_for_end(service, form)
            assert bench.output(form) == "done\n"


def told_late(service, job, end):
    """Its machine is asked while it runs, the answer is taken when it has just ended."""
    look, ending = service.get_trial_job, threading.Thread(target=end)

    def look_and_end(job_name):
        seen = look(job_name)
        if job_name == job.id and ending.ident is None:
            ending.start()
            ending.join(0.3)  # it ends now, or waits until the answer is taken
        return seen

    service.get_trial_job = look_and_end
    service.machine_saw(job.platform_state["machine"], job.id, {"state": "running", "pid": 1}, time.monotonic())
    ending.join()
    del service.get_trial_job


def asked_late(service, job, end):
    end()
    service.observe_jobs([job])


def stopped_late(service, job, end):
    end()
    service.stop_job(job)


@pytest.mark.parametrize("late", [told_late, asked_late, stopped_late])
def test_what_comes_late_of_a_trial_that_has_ended_takes_no_place_on_its_machine(bench, machine, lasting, late):
    bench.platform.machine_list = [machine.settings(max_trial_number=1)]
    service = bench.open_service()
    form, go = lasting()
    service.submit_trial_job(form)
    job = bench.wait_for_status(service, form, RUNNING)
    late(service, job, lambda: service.note(form.job_name, Observation(SUCCEEDED, ended_by_itself=True)))
    following = bench.form("true")
    service.submit_trial_job(following)
    bench.wait_for_end(service, following)
    go.touch()
    bench.wait("the first one has reported its end", lambda: bench.entries(form, "ended"))


@pytest.mark.slow
@pytest.mark.parametrize("per_gpu", [1, 2])
def test_no_gpu_ever_has_more_trials_than_its_machine_allows(bench, make_gpu_machine, monkeypatch, per_gpu):
    needs_root()
    monkeypatch.setattr(waiting_trials, "KEEP_AFTER", 0.5)
    ada, bob = make_gpu_machine("ada", own_identity=True), make_gpu_machine("bob", own_identity=True)
    bench.platform.machine_list = [each.settings(max_trial_number_per_gpu=per_gpu) for each in (ada, bob)]
    service = bench.open_service()
    connected(bench, service)
    assert len({found.identity for found in service.list_machines()}) == 2
    log = bench.witness / "log"
    code = bench.code({"readme": "x"})
    other = new_id("e")
    wanted = [1, 2, 1, 4, 1, 1, 2, 1, 4, 1, 2, 1, 1, 1, 2, 1]
    forms = [bench.form(f'echo "begin {number} $(hostname) $CUDA_VISIBLE_DEVICES" >> "{log}"; sleep 0.4; '
                        f'echo "end {number} $(hostname) $CUDA_VISIBLE_DEVICES" >> "{log}"', gpu_number=asked,
                        code=code,
                        experiment=other if number % 2 else None) for number, asked in enumerate(wanted)]
    for form in forms:
        service.submit_trial_job(form)
    for form in forms:
        bench.wait_for_end(service, form)
    holding: dict[tuple[str, str], set[str]] = {}
    began = []
    for line in log.read_text().splitlines():
        word, number, host, gpus = line.split()
        assert len(gpus.split(",")) == wanted[int(number)]
        for gpu in gpus.split(","):
            held = holding.setdefault((host, gpu), set())
            if word == "begin":
                held.add(number)
                assert len(held) <= per_gpu, f"{line}, held by {holding}"
            else:
                held.remove(number)
        began += [int(number)] if word == "begin" else []
    assert sorted(began) == list(range(len(wanted)))


@pytest.mark.slow
def test_trials_that_ask_for_a_whole_machine_are_not_overtaken_for_ever(bench, make_gpu_machine, monkeypatch):
    """Small trials hold all GPUs and more of them wait; each that ends would make room for the next small one."""
    needs_root()
    monkeypatch.setattr(waiting_trials, "KEEP_AFTER", 0.0)
    machines = [make_gpu_machine(name, own_identity=True) for name in ("ada", "bob")]
    bench.platform.machine_list = [machine.settings() for machine in machines]
    service = bench.open_service()
    connected(bench, service)
    code = bench.code({"readme": "x"})
    goes = itertools.count()

    def trial(gpus):
        go = bench.witness / f"go{next(goes)}"
        form = bench.form(f'until [ -e "{go}" ]; do sleep 0.1; done', gpu_number=gpus, code=code)
        service.submit_trial_job(form)
        return form, go

    first = [trial(1) for _ in range(8)]
    for form, _ in first:
        bench.wait_for_status(service, form, RUNNING)
    large = [trial(4) for _ in range(2)]
    for form, _ in large:
        bench.wait("it has begun to wait",
                   lambda form=form: "Waits for 4 GPUs" in service.get_trial_job(form.job_name).message)
    small = [trial(1) for _ in range(8)]
    for form, _ in small:
        bench.wait("it has begun to wait", lambda form=form: service.get_trial_job(form.job_name).message)
    places = []
    for machine in machines:
        for form, go in first:  # one after the other, so that each time one GPU only is free
            if place_of(service, form) == machine.settings().address:
                go.touch()
                bench.wait_for_end(service, form)
        places.append(machine.settings().address)
        bench.wait("a large one runs there", lambda: [
            service.get_trial_job(form.job_name).status for form, _ in large].count(RUNNING) == len(places))
        assert {place_of(service, form) for form, _ in large} - {None} == set(places)
        assert {service.get_trial_job(form.job_name).status for form, _ in small} == {WAITING}
    for form, go in [*large, *small]:
        go.touch()
        bench.wait_for_end(service, form)


@pytest.mark.parametrize(("settings", "used_by_others", "gpu"), [
    ({"gpu_indices": (1,)}, (), "1"), ({}, (0,), "1"), ({"use_active_gpu": True}, (0, 1), "0")],
    ids=["gpuIndices", "used by others", "useActiveGpu"])
def test_a_trial_gets_the_gpus_that_the_settings_of_its_machine_allow(bench, make_gpu_machine, settings, used_by_others,
                                                                     gpu):
    machine = make_gpu_machine("ada", gpus=2)
    for index in used_by_others:
        machine.nvidia_smi.set_processes(index, 4711)
    bench.platform.machine_list = [machine.settings(**settings)]
    service = bench.open_service()
    form = bench.form("echo $CUDA_VISIBLE_DEVICES", gpu_number=1)
    service.submit_trial_job(form)
    assert bench.wait_for_end(service, form).gpu_indices == (int(gpu),)
    assert bench.output(form) == f"{gpu}\n"


def test_a_trial_waits_while_others_use_the_gpus_that_it_may_have(bench, make_gpu_machine):
    machine = make_gpu_machine("ada", gpus=2)
    machine.nvidia_smi.set_processes(1, 4711)
    bench.platform.machine_list = [machine.settings(gpu_indices=(1,))]
    service = bench.open_service()
    form = bench.form("echo $CUDA_VISIBLE_DEVICES", gpu_number=1)
    service.submit_trial_job(form)
    bench.wait("it says why", lambda: "GPU 1 is used by 1 process(es) of others (useActiveGpu allows sharing it)"
               in service.get_trial_job(form.job_name).message)
    machine.nvidia_smi.set_processes(1)
    bench.wait_for_end(service, form)
    assert bench.output(form) == "1\n"


def test_a_gpu_takes_as_many_trials_as_the_machine_says_and_no_more(bench, make_gpu_machine, lasting):
    machine = make_gpu_machine("ada", gpus=1)
    bench.platform.machine_list = [machine.settings(max_trial_number_per_gpu=2)]
    service = bench.open_service()
    pairs = [lasting(gpu_number=1) for _ in range(3)]
    for form, _ in pairs:
        service.submit_trial_job(form)
    bench.wait("two run and one says why it waits",
               lambda: [service.get_trial_job(form.job_name).status for form, _ in pairs].count(RUNNING) == 2
               and any("GPU 0 is held by" in service.get_trial_job(form.job_name).message for form, _ in pairs))
    for _, go in pairs:
        go.touch()
    for form, _ in pairs:
        bench.wait_for_end(service, form)


def test_two_clusters_that_name_the_same_machine_share_its_gpus(bench, make_gpu_machine, lasting):
    machine = make_gpu_machine("ada", gpus=1)
    bench.platform.machine_list = [machine.settings()]
    first, second = bench.open_service(), bench.open_service()
    one, go = lasting(gpu_number=1)
    first.submit_trial_job(one)
    bench.wait_for_status(first, one, RUNNING)
    two, go_two = lasting(gpu_number=1)
    second.submit_trial_job(two)
    bench.wait("the second says who holds the GPU",
               lambda: f"GPU 0 is held by {one.job_name}" in second.get_trial_job(two.job_name).message)
    go.touch()
    bench.wait_for_end(first, one)
    bench.wait_for_status(second, two, RUNNING)
    go_two.touch()
    bench.wait_for_end(second, two)


def test_more_gpus_than_any_machine_has_is_refused_with_what_there_is(bench, make_gpu_machine, make_machine):
    bench.platform.machine_list = [make_gpu_machine("ada", gpus=2).settings(), make_machine("bob").settings()]
    service = bench.open_service()
    connected(bench, service)
    form = bench.form("true", gpu_number=3)
    service.submit_trial_job(form)
    message = bench.wait_for_status(service, form, FAILED).message
    assert "No machine can ever run this trial, which asks for 3 GPUs" in message
    assert "has no nvidia-smi" in message
    assert "has 2 GPUs" in message


@pytest.mark.slow
def test_a_machine_on_which_three_submissions_fail_is_set_aside_with_the_reason(bench, make_machine, monkeypatch):
    monkeypatch.setattr(set_aside, "SET_ASIDE", (2.0, 2.0))
    broken = make_machine("ada")
    bench.platform.machine_list = [broken.settings()]
    service = bench.open_service()
    warm = bench.form("true")
    service.submit_trial_job(warm)
    bench.wait_for_end(service, warm)
    trials = broken.home / ".nniweb" / "clusters" / "conformance" / "trials"
    trials.rename(trials.with_name("moved"))
    trials.write_text("in the way")
    form = bench.form("echo ran")
    service.submit_trial_job(form)
    bench.wait("it is set aside", lambda: "gets no trials" in service.list_machines()[0].message)
    assert "3 submissions in a row failed" in service.list_machines()[0].message
    bench.wait("the trial says so", lambda: "gets no trials" in service.get_trial_job(form.job_name).message)
    trials.unlink()
    trials.with_name("moved").rename(trials)
    bench.wait_for_end(service, form)


def test_a_dead_machine_does_not_hold_up_the_others(bench, make_machine):
    alive, dead = make_machine("ada"), make_machine("bob")
    bench.platform.machine_list = [dead.settings(), alive.settings()]
    dead.stop()
    service = bench.open_service()
    bench.wait("one is there", lambda: [found.healthy for found in service.list_machines()] == [False, True])
    forms = [bench.form("true") for _ in range(5)]
    random.Random(1).shuffle(forms)
    for form in forms:
        service.submit_trial_job(form)
    for form in forms:
        bench.wait_for_end(service, form)
        assert place_of(service, form) == alive.settings().address
    bench.wait("it is said", lambda: "refuses connections" in service.list_machines()[0].message)


def test_settings_of_the_machine_reach_its_trials(bench, make_machine):
    machine = make_machine()
    bench.platform.machine_list = [machine.settings(
        environment={"LAB": "north wing"}, prepare_command="export PREPARED=yes\ncd sub", python_path="~/mine")]
    service = bench.open_service()
    form = bench.form('echo "$LAB|$PREPARED|${PWD##*/}|${PATH%%:*}|$HOME"', code=bench.code({"sub/readme": "x"}))
    service.submit_trial_job(form)
    bench.wait_for_end(service, form)
    assert bench.output(form) == f"north wing|yes|sub|{machine.home}/mine|{machine.home}\n"
    failing = machine.settings(prepare_command="exit 9")
    bench.close_service(service)
    bench.platform.machine_list = [failing]
    service = bench.open_service()
    form = bench.form("echo not reached")
    service.submit_trial_job(form)
    assert bench.wait_for_end(service, form, FAILED).exit_code == 9


def test_old_code_is_cleaned_and_code_in_use_stays(bench, machine, lasting):
    service = bench.open_service()
    folder = machine.home / ".nniweb" / "clusters" / "conformance" / "code"
    old = bench.form("true", experiment=new_id("e"), code=bench.code({"a": "1"}))
    used, go = lasting()
    for form in (old, used):
        service.submit_trial_job(form)
    bench.wait_for_end(service, old)
    bench.wait_for_status(service, used, RUNNING)
    assert len(list(folder.iterdir())) == 2
    service.clean_up_experiment(old.experiment_id)
    assert [path.name for path in folder.iterdir()] == [f"{used.code.sha256}.tar.gz"]
    go.touch()
    bench.wait_for_end(service, used)


def test_the_book_is_asked_once_for_all_machines(bench, make_gpu_machine, monkeypatch):
    bench.platform.machine_list = [make_gpu_machine(name, gpus=1, own_identity=True).settings()
                                   for name in ("ada", "bob", "cyd")]
    service = bench.open_service()
    connected(bench, service)
    book, start_job, asked, tried = service.context.gpu_book, service.start_job, [], []
    booked_on = book.booked_on
    monkeypatch.setattr(book, "booked_on", lambda machines: asked.append(sorted(machines)) or booked_on(machines))
    monkeypatch.setattr(service, "start_job", lambda job: tried.append(job.id) or start_job(job))
    form = bench.form("true", gpu_number=1)
    service.submit_trial_job(form)
    bench.wait_for_end(service, form)
    assert 0 < len(asked) <= len(tried)
    assert asked == [sorted(machine.identity for machine in service.list_machines())] * len(asked)


@pytest.mark.parametrize(("verb", "told"), [
    ("machine", {"for_trials": {"cpus": "many", "memory": 1e999}}), ("gpus", {"gpus": [7, {"index": "x"}]})])
def test_what_a_machine_tells_that_cannot_be_keeps_no_trial_from_the_others(bench, make_gpu_machine, monkeypatch, verb,
                                                                            told):
    """Somebody else's program may speak in the place of the agent there."""
    bench.platform.machine_list = [make_gpu_machine("ada").settings(), make_gpu_machine("bob").settings()]
    request = AgentClient.request

    def request_and_lie(client, asked, *arguments, **fields):
        reply = request(client, asked, *arguments, **fields)
        return {**reply, **told} if asked == verb and "/ada/" in client.hello()["home"] else reply

    monkeypatch.setattr(AgentClient, "request", request_and_lie)
    service = bench.open_service()
    connected(bench, service)
    form = bench.form("true", gpu_number=1)
    service.submit_trial_job(form)
    assert bench.wait_for_end(service, form).status == SUCCEEDED
    assert len(service.list_machines()) == 2
