"""What goes over the connection: code once for each machine and content, small lines at once, signs of life."""

import os
import random
import socket
import threading
import time
from contextlib import suppress

import paramiko
import pytest
from paramiko import sftp_server

from tests.fakes.tcp_proxy import TcpProxy
from tests.trainingservice.remote.conftest import refusal
from trainingservice.keeper.keeper_bundle import build_keeper
from trainingservice.remote.code_copies import folders_in
from trainingservice.remote.config import RemoteMachineSettings
from trainingservice.remote.first_contact import look_at
from trainingservice.ssh import bounded_transport
from trainingservice.ssh import connection as connection_module
from trainingservice.ssh.connection import connect, ended_after
from trainingservice.ssh.problems import MachineProblem, SessionBroke

SIZE = 1_000_000
MEGABYTE = 1024 * 1024


@pytest.fixture
def proxies(bench, make_machine):
    """Two machines, each behind a proxy that counts bytes; each takes two trials."""
    machines = [make_machine(name) for name in ("ada", "bob")]
    proxies = [TcpProxy(("127.0.0.1", machine.port)) for machine in machines]
    bench.platform.machine_list = [machine.settings(port=proxy.port, max_trial_number=2)
                                   for machine, proxy in zip(machines, proxies, strict=True)]
    yield proxies
    for proxy in proxies:
        proxy.close()


def test_code_goes_once_to_each_machine_for_each_content(bench, proxies):
    service = bench.open_service()
    bench.wait("both are connected", lambda: all(found.healthy for found in service.list_machines()))

    def run_four(code):
        """Four trials with it, two on each machine; megabytes that went to each, rounded."""
        before = [proxy.passed for proxy in proxies]
        go = bench.witness / code.sha256
        forms = [bench.form(f'until [ -e "{go}" ]; do sleep 0.1; done; wc -c < data.bin', code=code) for _ in range(4)]
        for form in forms:
            service.submit_trial_job(form)
        for form in forms:
            bench.wait("it has started", lambda form=form: bench.entries(form, "started"))
        go.touch()
        for form in forms:
            bench.wait_for_end(service, form)
            assert bench.output(form).strip() == str(SIZE)
        places = [service.get_trial_job(form.job_name).platform_state["machine"] for form in forms]
        assert sorted(map(places.count, set(places))) == [2, 2]
        return [round((proxy.passed - start) / SIZE) for proxy, start in zip(proxies, before, strict=True)]

    first, second = (bench.code({"data.bin": random.Random(seed).randbytes(SIZE)}) for seed in (1, 2))
    assert run_four(first) == [1, 1]
    assert run_four(first) == [0, 0]
    assert run_four(second) == [1, 1]


def test_code_that_was_removed_from_a_machine_is_sent_again(bench, make_machine):
    machine = make_machine()
    bench.platform.machine_list = [machine.settings()]
    service = bench.open_service()
    code = bench.code({"data": "here"})
    for _ in range(2):
        form = bench.form("cat data", code=code)
        service.submit_trial_job(form)
        bench.wait_for_end(service, form)
        assert bench.output(form) == "here"
        [archive] = machine.home.rglob("*.tar.gz")
        archive.unlink()


def test_small_lines_go_at_once_and_a_dead_connection_is_noticed(make_machine, keys, monkeypatch):
    monkeypatch.setattr(connection_module, "KEEPALIVE", 1)
    machine = make_machine(lines=["LogLevel DEBUG1"])
    opened, create = [], socket.create_connection

    def create_and_keep(*arguments):
        opened.append(create(*arguments))
        return opened[-1]

    monkeypatch.setattr(connection_module.socket, "create_connection", create_and_keep)
    connection = connect(machine.settings(), keys, 10)
    try:
        line, = opened
        assert line.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
        assert line.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        assert line.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == connection_module.UNACKNOWLEDGED
        asked, deadline = threading.Event(), 60
        for _ in range(deadline * 10):
            if "keepalive@lag.net" in machine.log.read_text(errors="replace"):
                break
            asked.wait(0.1)
        assert "keepalive@lag.net" in machine.log.read_text(errors="replace")
    finally:
        connection.close()


def test_a_command_whose_connection_breaks_has_no_exit_status(make_machine, keys):
    machine = make_machine()
    connection = connect(machine.settings(), keys, 10)
    assert connection.run("echo here; kill -KILL $$") == (-1, "here\n", "")  # the shell alone
    with pytest.raises(SessionBroke, match="broke the session"):
        connection.run("echo here; kill -KILL $PPID; sleep 9")
    connection.close()


def test_a_machine_whose_connection_breaks_at_the_first_look_does_not_count_as_one_without_python(
        make_machine, keys, tmp_path):
    machine = make_machine()
    settings = machine.settings(python_path=str(tmp_path))
    (tmp_path / "python3").write_text("#!/bin/sh\nkill -KILL $(ps -o ppid= -p $PPID)\nsleep 9\n")
    (tmp_path / "python3").chmod(0o755)
    connection = connect(settings, keys, 10)
    with pytest.raises(SessionBroke) as caught:
        look_at(connection, settings, build_keeper(tmp_path), time.time)
    assert not caught.value.needs_person
    connection.close()


def test_a_time_limit_that_passes_as_the_connection_goes_is_no_error_of_its_thread(monkeypatch):
    failed, closed = [], threading.Event()
    monkeypatch.setattr(threading, "excepthook", failed.append)

    class Gone:
        def close(self):
            closed.set()
            raise EOFError

    with pytest.raises(TimeoutError), ended_after(Gone(), 0.01):
        closed.wait(10)
    for thread in threading.enumerate():
        if isinstance(thread, threading.Timer):
            thread.join(10)
    assert failed == []


# --- machines that send more than they may ----------------------------------------------------


class Flooding(paramiko.ServerInterface):
    """Answers each command with what never ends, whatever window it was given."""

    def __init__(self, send):
        self.send, self.sent = send, 0

    def check_auth_password(self, username, password):
        return paramiko.AUTH_SUCCESSFUL

    def check_channel_request(self, kind, chanid):
        return paramiko.OPEN_SUCCEEDED

    def check_channel_exec_request(self, channel, command):
        channel.out_window_size = 2 ** 40
        threading.Thread(target=self.flood, args=(channel,), daemon=True).start()
        return True

    def flood(self, channel):
        with suppress(OSError, EOFError):
            while self.sent < 100 * MEGABYTE:
                self.sent += getattr(channel, self.send)(b"x" * 32_000)


class EndlessFolder(paramiko.SFTPHandle):
    def _get_next_files(self):
        return [paramiko.SFTPAttributes.from_stat(os.stat("/"), "x" * 200)] * 100

    def _set_files(self, files):
        """There is no end of them."""


class EndlessFiles(paramiko.SFTPServerInterface):
    def list_folder(self, path):
        return []


@pytest.fixture
def listen():
    """Takes one connection and has it served in a thread; the settings that lead there."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        def listen(serve):
            threading.Thread(target=lambda: serve(server.accept()[0]), daemon=True).start()
            return RemoteMachineSettings(host="127.0.0.1", port=server.getsockname()[1], user="ada", password="any")
        yield listen


@pytest.mark.parametrize("send", ["send", "send_stderr"])
def test_what_a_machine_sends_beyond_its_window_is_not_held(listen, keys, send):
    flooding, made = Flooding(send), []

    def serve(sock):
        made.append(paramiko.Transport(sock))
        made[0].add_server_key(paramiko.ECDSAKey.generate())
        made[0].start_server(server=flooding)

    connection = connect(listen(serve), keys, 10)
    channel = connection.channel(10)
    with suppress(paramiko.SSHException):  # it may be over before it has begun
        channel.exec_command("true")
    made[0].join(30)  # it ends with the connection
    assert not connection.is_alive
    assert MEGABYTE < len(channel.in_buffer) + len(channel.in_stderr_buffer) < 10 * MEGABYTE
    connection.close()


def test_a_packet_longer_than_any_is_not_waited_for(listen, keys):
    ended = threading.Event()

    def serve(sock):
        with sock, suppress(OSError):
            sock.sendall(b"SSH-2.0-evil\r\n" + (2 ** 31 - 12).to_bytes(4, "big") + bytes(4))
            while sock.recv(65536):
                pass
            ended.set()

    assert "a packet of more than 256 KB" in str(refusal(listen(serve), keys))
    assert ended.wait(10)


def test_a_folder_that_a_machine_lists_without_an_end_is_given_up(listen, keys, monkeypatch):
    monkeypatch.setattr(sftp_server, "SFTPHandle", EndlessFolder)
    monkeypatch.setattr(bounded_transport, "MOST_OF_LIST", 4 * MEGABYTE, raising=False)

    def serve(sock):
        transport = paramiko.Transport(sock)
        transport.add_server_key(paramiko.ECDSAKey.generate())
        transport.set_subsystem_handler("sftp", paramiko.SFTPServer, EndlessFiles)
        transport.start_server(server=Flooding("send"))

    connection = connect(listen(serve), keys, 10)
    with pytest.raises(MachineProblem, match="more than 4 MB of names"):
        folders_in(connection, "/trials")
    connection.close()
