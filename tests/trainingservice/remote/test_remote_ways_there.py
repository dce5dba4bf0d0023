"""The way to a machine: ~/.ssh/config, jump hosts, commands; and that the host keys of all hosts on it are checked."""

import io
import json
import os
import sys

import pytest

from tests.fakes.ssh_machine import fingerprint_of, new_key
from tests.trainingservice.remote.conftest import refusal, works
from trainingservice.errors import InvalidMetadata
from trainingservice.remote.config import RemoteClusterSettings
from trainingservice.ssh.connection import connect
from trainingservice.ssh.host_keys import HostKeyStore

pytestmark = pytest.mark.usefixtures("own_home")

#: What a ProxyCommand is mostly: bytes go from the standard input to a port and back.
WIRE = """
import socket, sys, threading
open(sys.argv[3], "w").write(" ".join(sys.argv[1:3]))
wire = socket.create_connection((sys.argv[1], int(sys.argv[2])))
def out():
    while data := wire.recv(65536):
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
threading.Thread(target=out, daemon=True).start()
while data := sys.stdin.buffer.raw.read(65536):
    wire.sendall(data)
"""


@pytest.fixture
def configure(own_home):
    """Writes ~/.ssh/config."""
    return lambda text: (own_home / ".ssh" / "config").write_text(text)


@pytest.fixture
def make_gate(make_machine):
    """Makes machines that also let in whoever has the key of another one."""
    def make(name, behind, **more):
        gate = make_machine(name, **more)
        gate.authorized_keys.write_text((behind.folder / "key.pub").read_text())
        return gate
    return make


def hop(gate):
    return f"{gate.user}@127.0.0.1:{gate.port}"


def test_the_user_s_ssh_configuration_is_honoured(make_machine, keys, configure):
    machine = make_machine()
    configure(
        f"Host lab\n  HostName 127.0.0.1\n  Port {machine.port}\n  IdentityFile {machine.key}\n")
    assert works(machine.settings(host="lab", port=None, ssh_key_file=None), keys)


def test_a_jump_host_leads_there_and_one_that_forbids_it_is_named(make_machine, keys):
    machine, gate = make_machine("inner"), make_machine("gate")
    closed = make_machine("closed", lines=["AllowTcpForwarding no"])
    for host in (gate, closed):
        host.authorized_keys.write_text((machine.folder / "key.pub").read_text())
    through = f"{gate.user}@127.0.0.1:{gate.port}"
    assert works(machine.settings(proxy_jump=through), keys)
    assert gate.accepted_logins() == 1
    forbidden = refusal(machine.settings(proxy_jump=f"{closed.user}@127.0.0.1:{closed.port}"), keys)
    assert "AllowTcpForwarding" in str(forbidden)


def test_a_chain_of_two_jump_hosts_leads_there(make_machine, make_gate, keys):
    machine = make_machine("inner")
    outer, middle = make_gate("outer", machine), make_gate("middle", machine)
    assert works(machine.settings(proxy_jump=f"{hop(outer)},{hop(middle)}"), keys)
    assert [each.accepted_logins() for each in (outer, middle, machine)] == [1, 1, 1]


def test_the_jump_hosts_of_the_configuration_are_passed_and_theirs_too(make_machine, make_gate, keys, configure):
    machine = make_machine("inner")
    outer, middle = make_gate("outer", machine), make_gate("middle", machine)
    configure(f"Host lab\n  HostName 127.0.0.1\n  ProxyJump middle\n"
              f"Host middle\n  HostName 127.0.0.1\n  Port {middle.port}\n  User {middle.user}\n"
              f"  ProxyJump {hop(outer)}\n")
    assert works(machine.settings(host="lab"), keys)
    assert [each.accepted_logins() for each in (outer, middle, machine)] == [1, 1, 1]
    configure("Host lab\n  ProxyJump middle\nHost middle\n  ProxyJump lab\n")
    assert "lead in a circle: lab -> middle" in str(refusal(machine.settings(host="lab"), keys))


def test_a_host_key_alias_is_the_name_under_which_the_key_is_looked_up(make_machine, keys, configure, tmp_path):
    machine = make_machine()
    configure("Host 127.0.0.1\n  HostKeyAlias the-lab\n")
    key = " ".join((machine.folder / "host_ed25519.pub").read_text().split()[:2])
    (tmp_path / "known_hosts").write_text(f"the-lab {key}\n")
    connection = connect(machine.settings(host_key=None), keys, 10)
    connection.close()
    assert connection.note == ""
    other = " ".join(new_key(tmp_path / "other").with_suffix(".pub").read_text().split()[:2])
    (tmp_path / "known_hosts").write_text(f"the-lab {other}\n")
    assert "The host key of the-lab is" in str(refusal(machine.settings(host_key=None), keys))


def test_a_proxy_command_is_the_way_and_ends_with_the_connection(bench, make_machine, keys, configure, tmp_path):
    machine = make_machine()
    (tmp_path / "wire.py").write_text(WIRE)
    witness = tmp_path / "asked-for"
    configure(f"Host lab\n  HostName 127.0.0.1\n  ProxyCommand {sys.executable} {tmp_path}/wire.py %h %p {witness}\n")
    connection = connect(machine.settings(host="lab"), keys, 10)
    assert connection.run("echo here")[1] == "here\n"
    assert witness.read_text() == f"127.0.0.1 {machine.port}"
    assert len(machine.pids_with(str(witness))) == 1
    connection.close()
    bench.wait("the command has ended", lambda: not machine.pids_with(str(witness)))


def test_a_proxy_command_that_dies_is_noticed(bench, make_machine, keys, configure, tmp_path):
    machine = make_machine()
    (tmp_path / "wire.py").write_text(WIRE)
    configure("Host lab\n  HostName 127.0.0.1\n"
              f"  ProxyCommand {sys.executable} {tmp_path}/wire.py %h %p {tmp_path}/w\n")
    connection = connect(machine.settings(host="lab"), keys, 10)
    os.kill(machine.pids_with(f"{tmp_path}/wire.py")[0], 9)
    bench.wait("it is noticed", lambda: not connection.is_alive)
    connection.close()


def test_a_proxy_command_that_does_not_lead_there_says_why(make_machine, keys, configure):
    machine = make_machine()
    configure("Host lab\n  ProxyCommand sh -c 'echo the gate is closed >&2; exit 7'\n")
    refused = str(refusal(machine.settings(host="lab"), keys))
    assert "ProxyCommand in ~/.ssh/config for lab does not connect" in refused
    assert "status 7 and said: the gate is closed." in refused
    configure("Host *\n  ProxyCommand none\n")
    assert works(machine.settings(), keys)


@pytest.mark.parametrize("host", ["-oProxyCommand=x", "a;touch${IFS}b", "$(id)"])
def test_no_host_name_gets_into_the_shell_of_a_proxy_command(make_machine, keys, configure, host, tmp_path):
    configure("Host *\n  ProxyCommand echo %h\n")
    assert "are not allowed in the ProxyCommand" in str(refusal(make_machine().settings(host=host), keys))


@pytest.mark.parametrize("more", [{"host": "a;touch${IFS}b"}, {"user": "$(id)"}], ids=["host", "user"])
def test_no_name_gets_into_the_shell_of_a_match(make_machine, keys, configure, more, tmp_path, monkeypatch):
    machine, ran = make_machine(), tmp_path / "ran"
    configure(f"Match host * exec \"touch {ran}; test %h-%r = x\"\n  Port 1\n")
    assert "are not allowed in a Match exec" in str(refusal(machine.settings(**more), keys))
    assert not ran.exists()
    monkeypatch.setattr(sys, "stdin", io.StringIO())  # which the command gets
    assert works(machine.settings(), keys)
    assert ran.exists()


@pytest.mark.parametrize(("lines", "borrows"), [
    ("  HostName 10.0.0.5\n  Port 2222\n", False), ("  ProxyJump gate\n", True), ("  ProxyCommand nc %h %p\n", True),
    ("  ProxyJump none\n  ProxyCommand none\n", False)])
def test_a_password_borrows_nothing_of_the_servers_user_but_jump_hosts_and_commands_of_its_file(configure, lines,
                                                                                               borrows):
    machine = {"host": "lab", "user": "ada", "password": "hers"}
    settings = RemoteClusterSettings.model_validate({"machineList": [machine]})
    assert settings.borrowed_from_the_server() == ""
    configure(f"Host lab\n{lines}")
    assert bool(settings.borrowed_from_the_server()) == borrows
    other = RemoteClusterSettings.model_validate({"machineList": [{**machine, "host": "home"}]})
    assert other.borrowed_from_the_server() == ""


# --- host keys --------------------------------------------------------------------------------


def test_fingerprints_of_the_metadata_are_demanded_of_the_machine(bench, make_machine, tmp_path):
    machine = make_machine()
    bench.platform.machine_list = [machine.settings(host_key=None)]
    bench.platform.metadata = {"host_keys": json.dumps({f"127.0.0.1:{machine.port}": machine.fingerprint + "="})}
    service = bench.open_service()
    form = bench.form("true")
    service.submit_trial_job(form)
    bench.wait_for_end(service, form)
    assert service.list_machines()[0].message == ""
    bench.close_service(service)
    wrong = fingerprint_of(new_key(tmp_path / "other"))
    bench.platform.metadata = {"host_keys": json.dumps({"127.0.0.1": wrong})}
    service = bench.open_service()
    bench.wait("it is refused", lambda: wrong in service.list_machines()[0].message)
    assert machine.fingerprint in service.list_machines()[0].message
    assert not service.list_machines()[0].healthy
    with pytest.raises(InvalidMetadata):
        service.set_cluster_metadata("host_keys", '{"127.0.0.1": "aa:bb"}')


def test_fingerprints_of_the_metadata_are_demanded_of_jump_hosts_too(make_machine, make_gate, keys, tmp_path):
    machine = make_machine("inner")
    gate = make_gate("gate", machine, host_keys=("ed25519", "ecdsa"))
    settings = machine.settings(proxy_jump=hop(gate))
    wrong = fingerprint_of(new_key(tmp_path / "other"))
    keys.demand({f"127.0.0.1:{gate.port}": wrong})
    assert wrong in str(refusal(settings, keys))
    assert gate.accepted_logins() == 0
    keys.demand({f"127.0.0.1:{gate.port}": fingerprint_of(gate.host_keys[1])})
    connection = connect(settings, keys, 10)
    connection.close()
    assert connection.note == ""
    assert not (tmp_path / "host_keys").exists()


def test_a_key_that_only_a_first_contact_speaks_for_is_shown_after_a_restart_too(bench, make_machine):
    machine = make_machine()
    bench.platform.machine_list = [machine.settings(host_key=None)]
    for words in ("trusted from now on", "seen at first contact"):
        service = bench.open_service()
        bench.wait("it is connected", lambda service=service: service.list_machines()[0].healthy)
        message = service.list_machines()[0].message
        assert machine.fingerprint in message
        assert words in message
        bench.close_service(service)
    service = bench.open_service()
    form = bench.form("true")
    service.submit_trial_job(form)
    bench.wait_for_end(service, form)  # it is no obstacle


def test_what_is_known_of_a_jump_host_by_a_first_contact_only_is_told_as_well(make_machine, make_gate, keys, tmp_path):
    machine = make_machine("inner")
    gate = make_gate("gate", machine)
    for store in (keys, HostKeyStore(tmp_path / "host_keys", system_files=())):
        connection = connect(machine.settings(proxy_jump=hop(gate)), store, 10)
        connection.close()
        assert gate.fingerprint in connection.note
