"""How reports come home: straight, through the agent, from files; and that every metric comes once, whatever breaks."""

import os
import signal
import threading
from dataclasses import replace

import pytest

from tests.trainingservice.jobs_of_tests import assert_whole, unreachable
from trainingservice.keeper.agent_client import AgentClient
from trainingservice.keeper.report_proxy import ReportProxy
from trainingservice.remote import machines as machines_module
from trainingservice.trial_job_status import TrialJobStatus
from trialkeeper.attempt_folder import keeper_pid

RUNNING = TrialJobStatus.RUNNING


def way(service):
    return service.list_machines()[0].way_home


def metrics(bench, form):
    return len(bench.entries(form, "metric"))


def test_a_machine_that_reaches_the_server_reports_straight(bench, machine, lasting):
    service = bench.open_service()
    form, go = lasting()
    service.submit_trial_job(form)
    bench.wait("metrics come", lambda: metrics(bench, form) > 3)
    bench.wait("the way is shown", lambda: service.update_trial_job(form.job_name, form) and way(service) == "direct")
    go.touch()
    bench.wait_for_end(service, form)
    assert_whole(bench, form)


@pytest.mark.parametrize("lines", [[], ["AllowTcpForwarding no", "AllowStreamLocalForwarding no", "PermitTunnel no"]],
                         ids=["default sshd", "forwarding forbidden"])
def test_a_machine_that_cannot_reach_the_server_reports_through_its_agent(bench, make_machine, lasting, lines):
    machine = make_machine(lines=lines)
    bench.platform.machine_list = [machine.settings()]
    service = bench.open_service()
    form, go = lasting(keep_files=("kept.txt",))
    form = unreachable(replace(form, command="seq 100000 > kept.txt; " + form.command))
    service.submit_trial_job(form)
    bench.wait("metrics come", lambda: metrics(bench, form) > 3)
    assert way(service) == "relay"
    go.touch()
    bench.wait_for_end(service, form)
    assert_whole(bench, form)
    kept = bench.server.files_folder(form.job_name) / "kept.txt"
    assert kept.read_text().split() == [str(number) for number in range(1, 100001)]


@pytest.mark.parametrize("lines", [[], ["AllowTcpForwarding no"]], ids=["default sshd", "forwarding forbidden"])
def test_a_machine_in_another_network_reports_through_its_agent(bench, make_machine, lasting, lines):
    machine = make_machine(lines=lines, own_network=True)
    bench.platform.machine_list = [machine.settings()]
    service = bench.open_service()
    form, go = lasting()  # with the server's true address, which does not answer there
    probe = bench.form(f"python3 -c \"import urllib.request as r; r.urlopen('{form.keeper.urls[0]}')\"")
    for each in (form, probe):
        service.submit_trial_job(each)
    bench.wait("metrics come", lambda: metrics(bench, form) > 3)
    assert way(service) == "relay"
    go.touch()
    bench.wait_for_end(service, form)
    assert_whole(bench, form)
    bench.wait_for_end(service, probe, TrialJobStatus.FAILED)
    assert "Connection refused" in bench.output(probe, "stderr")


def test_an_order_of_the_server_comes_through_the_agent(bench, machine, lasting):
    service = bench.open_service()
    form, _ = lasting()
    form = unreachable(form)
    service.submit_trial_job(form)
    bench.wait("metrics come", lambda: metrics(bench, form) > 1)
    bench.server.order_stop(form.job_name, "enough")
    bench.wait("it has ended", lambda: bench.entries(form, "ended"))
    assert bench.entries(form, "ended")[0]["reason"] == "stopped"


def test_trials_report_on_when_their_agent_is_killed(bench, machine, lasting):
    service = bench.open_service()
    pairs = [lasting() for _ in range(3)]
    forms = [unreachable(form) for form, _ in pairs]
    for form in forms:
        service.submit_trial_job(form)
    for form in forms:
        bench.wait("metrics come", lambda form=form: metrics(bench, form) > 1)
    agents = machine.agent_pids()
    assert len(agents) == 1
    os.kill(agents[0], signal.SIGKILL)
    bench.wait("another agent is there", lambda: set(machine.agent_pids()) - set(agents))
    before = {form.job_name: metrics(bench, form) for form in forms}
    for form in forms:
        bench.wait("metrics come again", lambda form=form: metrics(bench, form) > before[form.job_name] + 3)
    for (_, go), form in zip(pairs, forms, strict=True):
        go.touch()
        bench.wait_for_end(service, form)
        assert_whole(bench, form)


def test_a_report_that_comes_before_the_new_agent_has_introduced_itself_is_answered(
        bench, machine, lasting, monkeypatch):
    service = bench.open_service()
    form, go = lasting()
    form = unreachable(form)
    service.submit_trial_job(form)
    bench.wait("metrics come", lambda: metrics(bench, form) > 1)
    asked = threading.Event()
    hear, introduce = ReportProxy.hear, AgentClient.machine

    def hear_and_note(desk, event):
        hear(desk, event)
        if "method" in event:
            asked.set()

    def introduce_late(client, timeout):
        assert asked.wait(90)
        return introduce(client, timeout=timeout)

    monkeypatch.setattr(ReportProxy, "hear", hear_and_note)
    monkeypatch.setattr(AgentClient, "machine", introduce_late)
    asked.clear()
    os.kill(machine.agent_pids()[0], signal.SIGKILL)
    before = metrics(bench, form)
    bench.wait("metrics come again", lambda: metrics(bench, form) > before + 3)
    go.touch()
    bench.wait_for_end(service, form)
    assert_whole(bench, form)


def test_journals_are_collected_as_files_where_no_agent_can_be_had(bench, machine, lasting):
    service = bench.open_service()
    form, go = lasting()
    form = unreachable(form)
    service.submit_trial_job(form)
    bench.wait_for_status(service, form, RUNNING)
    bench.wait("metrics come", lambda: metrics(bench, form) > 1)
    [attempt] = machine.home.glob(f"**/{form.job_name}")
    keepers = machine.home / ".nniweb" / "keepers"
    [keeper] = keepers.glob("*.pyz")
    keepers.rename(keepers.with_name("elsewhere"))
    keepers.write_text("in the way: no keeper can be put here")
    os.kill(machine.agent_pids()[0], signal.SIGKILL)
    bench.wait("it is noticed", lambda: service.list_machines()[0].agent_state == "not running")
    come = metrics(bench, form)
    bench.wait("metrics come by files", lambda: metrics(bench, form) > come + 3)
    bench.wait("the way is shown", lambda: way(service) == "files")
    bench.wait("what is in the way is said", lambda: "keepers" in service.list_machines()[0].message)
    go.touch()
    bench.wait_for_end(service, form)
    assert_whole(bench, form)
    bench.wait("the keeper knows that all was taken", lambda: keeper_pid(str(attempt)) is None)
    keepers.unlink()
    keepers.with_name("elsewhere").rename(keepers)
    assert keeper.is_file()
    bench.wait("the agent is back", lambda: service.list_machines()[0].healthy)


def test_a_trial_whose_files_cannot_be_used_keeps_no_other_journal_from_being_collected(bench, machine, lasting,
                                                                                              monkeypatch):
    monkeypatch.setattr(machines_module, "COLLECT_EVERY", 0.2)
    service = bench.open_service()
    pairs = [lasting() for _ in range(3)]
    forms = [unreachable(form) for form, _ in pairs]
    for form in forms:
        service.submit_trial_job(form)
    for form in forms:
        bench.wait("metrics come", lambda form=form: metrics(bench, form) > 1)
    empty, full, _ = (machine.home / ".nniweb" / "clusters" / "conformance" / "trials" / bench.experiment
                         / form.job_name for form in forms)
    keepers = machine.home / ".nniweb" / "keepers"
    keepers.rename(keepers.with_name("elsewhere"))
    keepers.write_text("in the way")
    (empty / "journal.jsonl").rename(empty / "aside")  # its keeper has it open
    (empty / "journal.jsonl").touch()
    (full / "accepted.sftp").mkdir()  # as on a full disk, what was taken cannot be told there
    os.kill(machine.agent_pids()[0], signal.SIGKILL)
    bench.wait("it is noticed", lambda: service.list_machines()[0].agent_state == "not running")
    before = [metrics(bench, form) for form in forms]
    for number in (1, 2):
        bench.wait("metrics come by files", lambda number=number: metrics(bench, forms[number]) > before[number] + 3)
    bench.wait("the way is shown", lambda: way(service) == "files")
    pairs[1][1].touch()
    bench.wait("it has reported its end", lambda: bench.entries(forms[1], "ended"))
    (full / "accepted.sftp").rmdir()
    bench.wait("its keeper is told after all", lambda: (full / "accepted").is_file() and
               int((full / "accepted").read_text()) == bench.entries(forms[1])[-1]["n"])
    (empty / "aside").replace(empty / "journal.jsonl")
    for (_, go), form in zip(pairs, forms, strict=True):
        go.touch()
        bench.wait_for_end(service, form)
        assert_whole(bench, form)
    keepers.unlink()
    keepers.with_name("elsewhere").rename(keepers)


def test_orders_reach_a_trial_whose_journal_is_collected(bench, machine, lasting):
    service = bench.open_service()
    form, _ = lasting()
    form = unreachable(form)
    service.submit_trial_job(form)
    bench.wait("metrics come", lambda: metrics(bench, form) > 1)
    keepers = machine.home / ".nniweb" / "keepers"
    keepers.rename(keepers.with_name("elsewhere"))
    keepers.write_text("in the way")
    os.kill(machine.agent_pids()[0], signal.SIGKILL)
    bench.server.order_stop(form.job_name, "enough")
    bench.wait("it has ended", lambda: bench.entries(form, "ended"))
    assert bench.entries(form, "ended")[0]["reason"] == "stopped"


def test_the_server_comes_back_while_reports_wait_behind_the_agent(bench, machine, lasting):
    service = bench.open_service()
    form, go = lasting()
    form = unreachable(form)
    service.submit_trial_job(form)
    bench.wait("metrics come", lambda: metrics(bench, form) > 1)
    bench.server.close()
    go.touch()
    bench.wait_for_status(service, form, TrialJobStatus.SUCCEEDED)
    bench.server.start()
    bench.wait_for_end(service, form)
    assert_whole(bench, form)
