"""A connection that is cut, stalls or is reset at every stage: no trial is lost or doubled, and no metric."""

import contextlib
import hashlib
import random
import shutil
import time
from dataclasses import replace

import pytest

from tests.fakes.ssh_machine import free_port
from tests.fakes.tcp_proxy import TcpProxy
from tests.trainingservice.jobs_of_tests import assert_whole, unreachable
from trainingservice.remote import lost_trials, machine_connection
from trainingservice.remote import machines as machines_module
from trainingservice.remote import service as service_module
from trainingservice.trial_job import ResumedJob
from trainingservice.trial_job_status import TrialJobStatus

RUNNING, UNKNOWN, SUCCEEDED, FAILED, SYS_CANCELED = (
    TrialJobStatus.RUNNING, TrialJobStatus.UNKNOWN, TrialJobStatus.SUCCEEDED, TrialJobStatus.FAILED,
    TrialJobStatus.SYS_CANCELED)


@pytest.fixture
def proxy(bench, machine, monkeypatch):
    for module in (machines_module, machine_connection):
        monkeypatch.setattr(module, "ANSWER_TIMEOUT", 2.0)
    monkeypatch.setattr(machines_module, "LOOK_EVERY", 0.5)
    with TcpProxy(("127.0.0.1", machine.port)) as proxy:
        bench.platform.machine_list = [machine.settings(port=proxy.port)]
        yield proxy


@pytest.mark.slow
@pytest.mark.parametrize("how", ["reset", "cut", "stall"])
def test_eight_trials_do_not_notice_that_their_connection_breaks(bench, proxy, lasting, how):
    service = bench.open_service()
    pairs = [lasting() for _ in range(8)]
    for form, _ in pairs:
        service.submit_trial_job(form)
    for form, _ in pairs:
        bench.wait_for_status(service, form, RUNNING)
    getattr(proxy, how)()
    bench.wait("it is noticed", lambda: not service.list_machines()[0].healthy)
    for _, go in pairs[:4]:
        go.touch()  # these end while nobody can look
    for form, _ in pairs[:4]:
        bench.wait("it has reported its end", lambda form=form: bench.entries(form, "ended"))
    proxy.mend()
    bench.wait("it is connected again", lambda: service.list_machines()[0].healthy)
    for _, go in pairs[4:]:
        go.touch()
    for form, _ in pairs:
        bench.wait_for_end(service, form)
        assert_whole(bench, form)


@pytest.mark.slow
@pytest.mark.parametrize("how", ["cut", "stall", "reset"])
def test_eight_trials_that_report_through_the_connection_outlast_a_minute_without_it(bench, proxy, lasting, how):
    service = bench.open_service()
    pairs = [(unreachable(form), go) for form, go in (lasting() for _ in range(8))]
    for form, _ in pairs:
        service.submit_trial_job(form)
    for form, _ in pairs:
        bench.wait("metrics come", lambda form=form: len(bench.entries(form, "metric")) > 3)
    since = time.monotonic()
    getattr(proxy, how)()
    for _, go in pairs[:4]:
        go.touch()  # these end while nobody can look, or hardly
    while time.monotonic() - since < 60.0:  # the outage itself; what is reset comes back and is reset again
        getattr(proxy, how)()
        time.sleep(0.5)
    proxy.mend()
    for _, go in pairs[4:]:
        go.touch()
    for form, _ in pairs:
        bench.wait("it has reported its end", lambda form=form: bench.entries(form, "ended"), patience=90)
        bench.wait_for_end(service, form)
        assert_whole(bench, form)


def broken_and_mended(bench, service, proxy):
    """Wait until the connection has broken where it was asked to, and was noticed to be; then let it come back."""
    assert proxy.was_cut.wait(90)
    if proxy.cut_how != "reset":  # after that one it comes back by itself, perhaps before anybody looks
        bench.wait("it is noticed", lambda: not service.list_machines()[0].healthy)
        proxy.mend()


@pytest.mark.parametrize("how", ["cut", "reset", pytest.param("stall", marks=pytest.mark.slow)])
@pytest.mark.parametrize("position", [0.8, pytest.param(0.1, marks=pytest.mark.slow)])
def test_a_break_during_the_upload_of_the_code_starts_the_trial_once(bench, proxy, position, how):
    service = bench.open_service()
    first = bench.form("true")
    service.submit_trial_job(first)
    bench.wait_for_end(service, first)
    blob = random.Random(1).randbytes(3_000_000)
    starts = bench.witness / "starts"
    form = bench.form(f'echo start >> "{starts}"; sha256sum data.bin', code=bench.code({"data.bin": blob}))
    proxy.cut_how = how
    proxy.cut_after = proxy.passed + int(position * 3_000_000)
    service.submit_trial_job(form)
    broken_and_mended(bench, service, proxy)
    bench.wait_for_end(service, form)
    assert starts.read_text() == "start\n"
    assert bench.output(form).startswith(hashlib.sha256(blob).hexdigest())


def test_a_trial_that_waits_for_much_code_says_how_far_it_is(bench, proxy, monkeypatch):
    for module in (machines_module, machine_connection):
        monkeypatch.setattr(module, "ANSWER_TIMEOUT", 30.0)  # it is only slow
    service = bench.open_service()
    first = bench.form("true")
    service.submit_trial_job(first)
    bench.wait_for_end(service, first)
    form = bench.form("wc -c < data.bin", code=bench.code({"data.bin": random.Random(2).randbytes(8_000_000)}))
    proxy.cut_how = "stall"
    proxy.cut_after = proxy.passed + 3_000_000
    service.submit_trial_job(form)
    assert proxy.was_cut.wait(90)
    bench.wait("it says how far it is", lambda: "% of 7.6 MB" in service.get_trial_job(form.job_name).message)
    detail = service.get_trial_job(form.job_name)
    assert detail.status is TrialJobStatus.WAITING
    assert detail.message.startswith("The code is being sent to 127.0.0.1: ")
    proxy.mend()
    bench.wait_for_end(service, form)
    assert bench.output(form).strip() == "8000000"


@pytest.mark.parametrize("how", ["reset", "cut", "stall"])
@pytest.mark.parametrize("byte", [1, 600, 1200])
@pytest.mark.slow
def test_a_break_at_any_byte_of_a_submission_starts_the_trial_once(bench, proxy, byte, how):
    service = bench.open_service()
    code = bench.code({"readme": "x"})
    first = bench.form("true", code=code)
    service.submit_trial_job(first)
    bench.wait_for_end(service, first)
    starts = bench.witness / "starts"
    form = bench.form(f'echo start >> "{starts}"', code=code)
    proxy.cut_how = how
    proxy.cut_after = proxy.passed + byte
    service.submit_trial_job(form)
    broken_and_mended(bench, service, proxy)
    bench.wait_for_end(service, form)
    assert starts.read_text() == "start\n"
    assert len(bench.entries(form, "started")) == 1


def outlast_a_break_while_several_start(bench, proxy, lasting, how, position):
    """Four trials report through the connection and four more are on their way when it breaks; all come home whole.

    ``position``: part of the code of the four that has been sent then; above 1 their submissions are under way.
    """
    service = bench.open_service()
    running = [(unreachable(form), go) for form, go in (lasting() for _ in range(4))]
    for form, _ in running:
        service.submit_trial_job(form)
    for form, _ in running:
        bench.wait("metrics come", lambda form=form: len(bench.entries(form, "metric")) > 1)
    script = (running[0][0].code.folder / "trial.py").read_text()
    code = bench.code({"trial.py": script, "data.bin": random.Random(3).randbytes(1_000_000)})
    new = [(unreachable(replace(form, code=code)), go) for form, go in (lasting() for _ in range(4))]
    for form, _ in new:
        bench.server.expect(form, platform="conformance", code=code)
    proxy.cut_how = how
    proxy.cut_after = proxy.passed + int(position * 1_000_000)
    for form, _ in new:
        service.submit_trial_job(form)
    assert proxy.was_cut.wait(90)
    if how != "reset":
        bench.wait("it is noticed", lambda: not service.list_machines()[0].healthy)
    for form, _ in new:  # each was tried in vain, or had been started
        bench.wait("it was tried", lambda form=form: service.get_trial_job(form.job_name).message
                   or bench.entries(form) or service.get_trial_job(form.job_name).status is RUNNING)
    assert "gets no trials" not in service.list_machines()[0].message
    proxy.mend()
    for form, _ in new:
        bench.wait("metrics come", lambda form=form: len(bench.entries(form, "metric")) > 1)
    for form, go in [*running, *new]:
        go.touch()
        bench.wait_for_end(service, form)
        assert_whole(bench, form)


def test_a_break_while_four_trials_report_and_four_start_loses_and_doubles_nothing(bench, proxy, lasting):
    outlast_a_break_while_several_start(bench, proxy, lasting, "cut", 0.4)


@pytest.mark.slow
@pytest.mark.parametrize("how", ["reset", "cut", "stall"])
@pytest.mark.parametrize("position", [0.05, 0.8, 1.003, 1.006])
def test_breaks_of_all_kinds_while_several_trials_report_and_start_lose_and_double_nothing(bench, proxy, lasting, how,
                                                                                           position):
    outlast_a_break_while_several_start(bench, proxy, lasting, how, position)


@pytest.mark.parametrize("limits", [machine_connection.RECONNECT, machine_connection.RECONNECT_AFTER_REFUSAL])
def test_the_pauses_between_attempts_to_connect_grow_up_to_the_longest(limits):
    first, longest = limits
    at_most = [machine_connection.back_off(failures, limits, 1.0) for failures in range(20)]
    assert at_most[:3] == [first, 2 * first, 4 * first]
    assert at_most == sorted(at_most)
    assert at_most[-1] == longest
    assert machine_connection.back_off(10_000, limits, 1.0) == longest
    assert [machine_connection.back_off(failures, limits, 0.0) for failures in range(20)] == [
        pause / 2 for pause in at_most]


def test_attempts_to_connect_become_rarer_while_a_machine_stays_away(bench, machine, monkeypatch):
    asked: list[int] = []

    def pause(failures, limits, chance):
        asked.append(failures)
        return 0.01

    monkeypatch.setattr(machine_connection, "back_off", pause)
    bench.platform.machine_list = [machine.settings(port=free_port())]
    service = bench.open_service()
    bench.wait("it was tried often", lambda: len(asked) > 4)
    assert asked[:5] == [0, 1, 2, 3, 4]
    assert "refuses connections" in service.list_machines()[0].message


def test_a_cancel_while_the_machine_is_away_is_carried_out_when_it_is_back(bench, proxy, lasting):
    service = bench.open_service()
    form, _ = lasting()
    service.submit_trial_job(form)
    bench.wait_for_status(service, form, RUNNING)
    proxy.cut()
    bench.wait("it is noticed", lambda: not service.list_machines()[0].healthy)
    service.cancel_trial_job(form.job_name)
    proxy.mend()
    bench.wait_for_end(service, form, TrialJobStatus.USER_CANCELED)


def test_a_trial_on_a_machine_that_cannot_be_asked_is_unknown_and_then_goes_on(bench, proxy, lasting, monkeypatch):
    monkeypatch.setattr(lost_trials, "UNKNOWN_AFTER", 0.5)
    monkeypatch.setattr(service_module, "ANSWER_PATIENCE", 0.2)
    service = bench.open_service()
    form, go = lasting()
    service.submit_trial_job(form)
    bench.wait_for_status(service, form, RUNNING)
    proxy.cut()
    bench.wait("it is unknown", lambda: service.get_trial_job(form.job_name).status is UNKNOWN)
    assert "cannot be reached" in service.get_trial_job(form.job_name).message
    proxy.mend()
    bench.wait_for_status(service, form, RUNNING)
    go.touch()
    bench.wait_for_end(service, form)


@pytest.mark.slow
def test_a_trial_whose_machine_never_comes_back_has_failed_after_the_configured_time(bench, machine, make_machine,
                                                                                     lasting, monkeypatch):
    monkeypatch.setattr(service_module, "ANSWER_PATIENCE", 0.2)
    bench.platform.machine_list = [machine.settings(max_trial_number=1), make_machine("bob").settings()]
    bench.platform.more = {"lost_after": 2.0}
    service = bench.open_service()
    bench.wait("both are connected", lambda: all(found.healthy for found in service.list_machines()))
    pairs = [lasting() for _ in range(3)]
    for form, _ in pairs:
        service.submit_trial_job(form)
    for form, _ in pairs:
        bench.wait_for_status(service, form, RUNNING)
    lost = [form for form, _ in pairs if service.get_trial_job(form.job_name).platform_state["machine"]
            == machine.settings().address]
    assert len(lost) == 1
    machine.crash()
    detail = bench.wait_for_status(service, lost[0], FAILED)
    assert "could not be reached for" in detail.message
    assert "lostAfter" in detail.message
    for form, go in pairs:
        if form is not lost[0]:
            go.touch()
            bench.wait_for_end(service, form)
            assert_whole(bench, form)
    with contextlib.suppress(AssertionError):
        machine.start()


def test_a_machine_that_was_switched_off_and_on_tells_that_its_trial_was_lost(bench, machine, lasting):
    service = bench.open_service()
    form, _ = lasting()
    service.submit_trial_job(form)
    bench.wait_for_status(service, form, RUNNING)
    machine.crash()
    machine.start()
    detail = bench.wait_for_end(service, form, FAILED)
    assert "keeper was killed" in detail.message
    assert bench.entries(form, "ended")[0]["reason"] == "lost"


def test_a_machine_that_was_set_up_anew_tells_that_its_trials_were_lost(bench, machine, lasting):
    service = bench.open_service()
    forms = [lasting()[0] for _ in range(2)]
    for form in forms:
        service.submit_trial_job(form)
    for form in forms:
        bench.wait_for_status(service, form, RUNNING)
    machine.crash()
    shutil.rmtree(machine.home / ".nniweb")
    machine.start()
    for form in forms:
        detail = bench.wait_for_status(service, form, FAILED)
        assert "reinstalled" in detail.message
        assert "127.0.0.1" in detail.message


@pytest.mark.slow
def test_a_trial_whose_folder_alone_is_gone_was_removed_by_somebody(bench, machine, lasting):
    service = bench.open_service()
    forms = [lasting()[0] for _ in range(2)]
    for form in forms:
        service.submit_trial_job(form)
    for form in forms:
        bench.wait_for_status(service, form, RUNNING)
    machine.crash()
    [folder] = machine.home.rglob(forms[0].job_name)
    shutil.rmtree(folder)
    machine.start()
    assert "deleted" in bench.wait_for_status(service, forms[0], SYS_CANCELED).message
    assert "keeper was killed" in bench.wait_for_end(service, forms[1], FAILED).message


@pytest.mark.slow
def test_the_next_service_finds_its_trials_on_whichever_machine_they_are(bench, machine, make_machine, lasting):
    bench.platform.machine_list = [machine.settings(), make_machine("bob").settings()]
    service = bench.open_service()
    bench.wait("both are connected", lambda: all(found.healthy for found in service.list_machines()))
    pairs = [lasting() for _ in range(4)]
    details = []
    for form, _ in pairs:
        service.submit_trial_job(form)
    for form, _ in pairs:
        details.append(bench.wait_for_status(service, form, RUNNING))
    bench.close_service(service)
    # half of them as a host knows them that ended before it could note where they went
    forgotten = [replace(detail, platform_state={}, machine="", status=TrialJobStatus.WAITING)
                 for detail in details[2:]]
    successor = bench.open_service([*map(ResumedJob, details[:2]),
                                    *(ResumedJob(detail, submitted=False) for detail in forgotten)])
    for form, go in pairs:
        successor.submit_trial_job(form)
        bench.wait_for_status(successor, form, RUNNING)
        go.touch()
        bench.wait_for_end(successor, form)
        assert_whole(bench, form)


def test_an_answer_that_is_older_than_the_start_does_not_make_a_trial_disappear(bench, machine, lasting, monkeypatch):
    service = bench.open_service()
    form, go = lasting()
    asked_at = time.monotonic()
    service.submit_trial_job(form)
    bench.wait("metrics come", lambda: bench.entries(form, "metric"))
    asked = service._machines[service.get_trial_job(form.job_name).platform_state["machine"]]
    wait_for_look = asked.wait_for_look

    def old_answer_comes_last(*arguments):
        answered = wait_for_look(*arguments)
        service.machine_saw(asked.address, form.job_name, {
            "state": "absent", "exit": None, "keeper_pid": None, "pid": None, "working_directory": "",
            "delivered": False, "way_home": ""}, asked_at)
        return answered

    monkeypatch.setattr(asked, "wait_for_look", old_answer_comes_last)
    assert service.update_trial_job(form.job_name, form).status is RUNNING
    go.touch()
    bench.wait_for_end(service, form)
    assert_whole(bench, form)
