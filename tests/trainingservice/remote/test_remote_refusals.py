"""What keeps a machine from being used is one sentence on the trial that waits; the machine is left in peace."""

import contextlib
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

import pytest

from tests.fakes.ssh_machine import free_port, needs_root, new_key
from trainingservice.remote import first_contact, machine_connection
from trainingservice.trial_job_status import TrialJobStatus

REAL_PAUSES = machine_connection.RECONNECT, machine_connection.RECONNECT_AFTER_REFUSAL


@pytest.fixture
def locked():
    """A folder of root's that everybody may read and nobody else write."""
    folder = Path(tempfile.mkdtemp(prefix="nniweb-locked-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


def unknown_host(make_machine, request):
    machine = make_machine()
    return machine, machine.settings(host="no-such-host.invalid")


def wrong_password(make_machine, request):
    machine = make_machine(lines=["PasswordAuthentication yes"], user=request.getfixturevalue("user"))
    return machine, machine.settings(ssh_key_file=None, password="battery")


def changed_host_key(make_machine, request):
    machine = make_machine()
    home = request.getfixturevalue("own_home")
    other = " ".join(new_key(home / "other").with_suffix(".pub").read_text().split()[:2])
    (home / ".ssh" / "known_hosts").write_text(f"[127.0.0.1]:{machine.port} {other}\n")
    return machine, machine.settings(host_key=None)


def missing_python(make_machine, request):
    request.getfixturevalue("monkeypatch").setattr(first_contact, "OTHER_PYTHONS", ("python3",))
    machine = make_machine(python=False)
    return machine, machine.settings()


def refused_connection(make_machine, request):
    machine = make_machine()
    return machine, machine.settings(port=free_port())


def full_disk(make_machine, request):
    machine = make_machine()
    return machine, machine.settings(working_folder=str(request.getfixturevalue("full")))


def no_write_rights(make_machine, request):
    user, folder = request.getfixturevalue("user"), request.getfixturevalue("locked")
    machine = make_machine(lines=["PasswordAuthentication yes"], user=user)
    return machine, machine.settings(ssh_key_file=None, password="correct horse", working_folder=str(folder))


@pytest.fixture
def full(make_machine):  # the machine ends after the disk is gone: nothing of it is there
    """A disk on which not one byte is free."""
    needs_root()
    disk = Path(tempfile.mkdtemp(prefix="nniweb-full-"))
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "none", str(disk)], check=True)
    with contextlib.suppress(OSError), (disk / "filler").open("wb", buffering=0) as filler:
        while True:
            filler.write(b"x" * 4096)
    yield disk
    subprocess.run(["umount", "--lazy", str(disk)], check=True)
    disk.rmdir()


@pytest.mark.parametrize(("situation", "words"), [
    (unknown_host, "The host name no-such-host.invalid cannot be resolved. Correct host"),
    (wrong_password, "with the password. Correct user and credentials"),
    (changed_host_key, "Either the machine was reinstalled, or another machine answers in its place"),
    (missing_python, "has no Python 3 on its PATH. Install python3, or name the folder of a Python in pythonPath."),
    (full_disk, "No space left on device). Free disk space, correct the permissions, or choose another workingFolder."),
    (no_write_rights, "Permission denied). Free disk space, correct the permissions, or choose another workingFolder."),
], ids=["unknown host", "wrong password", "changed host key", "missing Python", "full disk", "no write rights"])
def test_what_refuses_is_said_on_the_trial_once_and_not_asked_all_the_time(bench, make_machine, request, monkeypatch,
                                                                          own_home, situation, words):
    for name, pauses in zip(("RECONNECT", "RECONNECT_AFTER_REFUSAL"), REAL_PAUSES, strict=True):
        monkeypatch.setattr(machine_connection, name, pauses)
    looks = []

    def look(*arguments, **more):
        looks.append(arguments)
        return first_contact.look_at(*arguments, **more)

    monkeypatch.setattr(machine_connection, "look_at", look)
    machine, settings = situation(make_machine, request)
    bench.platform.machine_list = [settings]
    service = bench.open_service()
    form = bench.form("true")
    service.submit_trial_job(form)
    bench.wait("the trial says why it waits", lambda: words in service.get_trial_job(form.job_name).message)
    detail = service.get_trial_job(form.job_name)
    assert detail.status is TrialJobStatus.WAITING
    assert "Traceback" not in detail.message
    assert "\n" not in detail.message
    assert detail.message.count(words) == 1
    assert not service.list_machines()[0].healthy
    # one of the two was the test's own, when it waited for sshd
    assert not bench.wait_if_it_comes(lambda: machine.attempts_to_log_in() > 2 or len(looks) > 1, 1)


def test_a_machine_that_refuses_connections_is_tried_after_pauses_that_grow(bench, make_machine, request, monkeypatch):
    for name, pauses in zip(("RECONNECT", "RECONNECT_AFTER_REFUSAL"), REAL_PAUSES, strict=True):
        monkeypatch.setattr(machine_connection, name, pauses)
    tried, connect = [], machine_connection.connect

    def connect_and_note(*arguments):
        tried.append(time.monotonic())
        return connect(*arguments)

    monkeypatch.setattr(machine_connection, "connect", connect_and_note)
    bench.platform.machine_list = [refused_connection(make_machine, request)[1]]
    service = bench.open_service()
    form = bench.form("true")
    service.submit_trial_job(form)
    bench.wait("the trial says why it waits", lambda: "refuses connections; start its sshd, or correct the port."
               in service.get_trial_job(form.job_name).message)
    assert "Traceback" not in service.get_trial_job(form.job_name).message
    bench.wait("it was tried again and again", lambda: len(tried) >= 4)
    shortest = [machine_connection.back_off(failures, machine_connection.RECONNECT, 0.0) for failures in range(3)]
    assert [later - earlier >= pause for earlier, later, pause in zip(tried, tried[1:], shortest, strict=False)] == [
        True] * 3


def test_a_full_disk_is_found_by_the_rehearsal(bench, make_machine, request):
    bench.platform.machine_list = [full_disk(make_machine, request)[1]]
    service = bench.platform.new_service(bench.context())
    found = {finding.check: finding for finding in service.rehearse()}
    assert found["folder"].blocks
    assert "No space left on device). Free disk space, correct the permissions, or" in found["folder"].message
    assert found["disk"].blocks
    assert found["disk"].message.startswith("Only 0 bytes are free on the disk of ")
    assert "trial" not in found  # none was started there
    service.clean_up()
