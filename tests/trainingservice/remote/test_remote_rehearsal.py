"""The rehearsal finds what would go wrong, machine by machine, in sentences; and leaves nothing behind."""

import http.server
import socket
import threading
import time
from dataclasses import replace

import pytest

from tests.fakes.ssh_machine import free_port, new_key
from trainingservice.remote import rehearsal
from trainingservice.remote.config import RemoteMachineSettings


@pytest.fixture
def keeper_is_there() -> bool:
    return False


def rehearse(bench, clock=time.time, **arguments):
    service = bench.platform.new_service(replace(bench.context(), clock=clock))
    try:
        return service.rehearse(**arguments)
    finally:
        service.clean_up()


def by_check(findings):
    return {finding.check: finding for finding in findings}


def test_everything_is_tried_and_nothing_is_left_running(bench, machine):
    bench.server_urls = (bench.server.url,)
    findings = by_check(rehearse(bench))
    assert set(findings) == {"connection", "host_key", "interpreter", "folder", "disk", "clock", "gpus", "processes",
                             "way_home", "trial"}
    assert [finding for finding in findings.values() if not finding.ok and not finding.temporary] == []
    assert findings["trial"].message == "An empty test trial succeeded."
    assert list((machine.home / ".nniweb" / "clusters").iterdir()) == [], "also of a cluster that is only tried"
    bench.wait("its agent has ended", lambda: machine.agent_pids() == [])


def test_a_quick_one_starts_nothing(bench, machine):
    findings = by_check(rehearse(bench, quick=True))
    assert set(findings) == {"connection", "host_key", "interpreter", "folder", "disk", "clock"}
    assert not (machine.home / ".nniweb" / "keepers").exists()


def test_a_machine_that_is_away_may_come_back_and_a_wrong_key_needs_a_person(bench, machine, tmp_path):
    bench.platform.machine_list = [machine.settings(port=free_port())]
    away = by_check(rehearse(bench, quick=True))["connection"]
    assert (away.ok, away.temporary, away.blocks) == (False, True, False)
    bench.platform.machine_list = [machine.settings(ssh_key_file=new_key(tmp_path / "stranger"))]
    refused = by_check(rehearse(bench, quick=True))["login"]
    assert refused.blocks


def test_of_machines_that_all_refuse_connections_one_sentence_says_so(bench, machine):
    bench.platform.machine_list = [machine.settings(port=free_port()), machine.settings(port=free_port(), user="bob")]
    first, *each = rehearse(bench, quick=True)
    assert first.message.startswith("Every machine refuses connections (127.0.0.1: 127.0.0.1:")
    assert (first.check, first.ok, first.temporary, first.machine) == ("connection", False, True, "")
    assert (first.message.code, first.message.arguments["common"], first.message.arguments["count"]) == (
        "every_machine", "connection_refused", 2)
    assert [finding.machine for finding in each] == ["127.0.0.1", "127.0.0.1"]


def test_one_machine_s_fault_does_not_block_while_another_is_well(bench, machine, make_machine, tmp_path):
    other = make_machine("bob")
    bench.platform.machine_list = [machine.settings(), other.settings(ssh_key_file=new_key(tmp_path / "stranger"))]
    findings = rehearse(bench, quick=True)
    assert [finding for finding in findings if finding.blocks] == []
    assert "refuses the log-in" in next(finding for finding in findings if finding.check == "login").message


@pytest.fixture
def silent():
    """A port of this machine that takes connections and never says a word, as a dead host behind a firewall might."""
    with socket.create_server(("127.0.0.1", 0), backlog=512) as listener:
        yield listener.getsockname()[1]


def rehearse_silent_ones(bench, port, count, **limits):
    machines = [RemoteMachineSettings(host="127.0.0.1", port=port, user=f"u{number}", password="no matter")
                for number in range(count)]
    bench.platform.machine_list = machines[:1]
    service = bench.platform.new_service(bench.context())
    try:
        return rehearsal.rehearse_machines(
            machines, service._keys, service.keeper_bundle(), "conformance",
            rehearsal.ServerAddresses(tuple, tuple), time.time, None, quick=True, **limits)
    finally:
        service.clean_up()


def test_a_check_of_very_many_dead_machines_ends_in_time_and_says_which_were_not_looked_at(bench, silent):
    began = time.monotonic()
    findings = rehearse_silent_ones(bench, silent, 3000, seconds=1.0)
    assert time.monotonic() - began < 60, "not the six minutes that all of them take; the machine may be busy"
    told = findings[-1]
    assert (told.check, told.ok, told.temporary) == ("machines", False, True)
    assert "of 3000 machines were not checked" in told.message
    assert "127.0.0.1, 127.0.0.1" in told.message
    assert not any(finding.blocks for finding in findings), "unknown is not dead"


def test_no_more_machines_are_looked_at_than_the_limit_says(bench, monkeypatch):
    monkeypatch.setattr(rehearsal, "MOST_LOOKED_AT", 3)
    findings = rehearse_silent_ones(bench, free_port(), 5)
    assert [finding.check for finding in findings] == ["connection"] * 3 + ["machines"]
    assert findings[-1].message.startswith("2 of 5 machines were not checked")


def test_a_folder_that_cannot_be_made_blocks(bench, machine):
    (machine.home / "file").write_text("in the way")
    bench.platform.machine_list = [machine.settings(working_folder="~/file/below")]
    finding = by_check(rehearse(bench, quick=True))["folder"]
    assert finding.blocks
    assert "workingFolder" in finding.message


def test_too_little_disk_blocks_and_little_disk_warns(bench, machine, monkeypatch):
    monkeypatch.setattr(rehearsal, "DISK_WARNS_BELOW", 1 << 60)
    assert by_check(rehearse(bench, quick=True))["disk"].temporary
    monkeypatch.setattr(rehearsal, "DISK_BLOCKS_BELOW", 1 << 60)
    assert by_check(rehearse(bench, quick=True))["disk"].blocks


def test_a_preparation_that_fails_is_found(bench, machine):
    bench.platform.machine_list = [machine.settings(prepare_command="echo no such module >&2; false")]
    finding = by_check(rehearse(bench))["trial"]
    assert finding.blocks
    assert "preparation command failed" in finding.message


def test_the_way_home_is_tried_from_the_machine(bench, machine):
    bench.server_urls = (bench.server.url,)
    found = by_check(rehearse(bench))["way_home"]
    assert found.ok
    assert found.message == f"Keepers can call the server: 127.0.0.1 reached {bench.server.url}."


def test_a_machine_that_cannot_reach_the_server_is_told_to_report_through_the_connection(bench, make_machine):
    far = make_machine("far", own_network=True)
    bench.platform.machine_list = [far.settings()]
    bench.server_urls = (bench.server.url,)
    found = by_check(rehearse(bench))["way_home"]
    assert found.ok
    assert found.message.startswith(f"Reports are sent through the SSH connection: unreachable: {bench.server.url}: ")
    assert "refused" in found.message


def test_another_program_at_the_servers_address_is_no_way_home(bench, machine):
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), http.server.SimpleHTTPRequestHandler) as stranger:
        thread = threading.Thread(target=stranger.serve_forever, daemon=True)
        thread.start()
        bench.server_urls = (f"http://127.0.0.1:{stranger.server_port}",)
        found = by_check(rehearse(bench))["way_home"]
        stranger.shutdown()
        thread.join()
    assert "another program answers there" in found.message


def test_without_any_address_of_the_server_there_is_no_way_home(bench, machine):
    bench.server_urls = ()
    found = by_check(rehearse(bench))["way_home"]
    assert not found.ok
    assert "NNIWEB_PUBLIC_URL" in found.message


@pytest.mark.parametrize(("offset", "words"), [(60.0, "behind the server's"), (-60.0, "ahead of the server's")])
def test_a_clock_that_differs_is_told_and_blocks_nothing(bench, machine, offset, words):
    finding = by_check(rehearse(bench, clock=lambda: time.time() + offset, quick=True))["clock"]
    assert finding.ok
    assert words in finding.message
    off = float(finding.message.split(" is ")[1].split(" s ")[0])
    assert 50 < off < 70
    assert "time synchronization" in finding.message


def test_gpus_are_named(bench, make_gpu_machine):
    bench.platform.machine_list = [make_gpu_machine("ada", gpus=2).settings(gpu_indices=(1,))]
    finding = by_check(rehearse(bench))["gpus"]
    assert finding.ok
    assert finding.message == "2 GPU(s) were found (0: Fake H0, 1: Fake H0)."


def test_gpu_indices_that_do_not_exist_are_found(bench, make_gpu_machine, machine):
    bench.platform.machine_list = [make_gpu_machine("bob", gpus=2).settings(gpu_indices=(0, 5))]
    finding = by_check(rehearse(bench))["gpus"]
    assert finding.blocks
    assert "gpuIndices names GPU 5, but machine 127.0.0.1 has" in finding.message
    bench.platform.machine_list = [machine.settings(gpu_indices=(0,))]
    finding = by_check(rehearse(bench))["gpus"]
    assert finding.blocks
    assert "no GPU was found" in finding.message
    assert "remove gpuIndices" in finding.message
