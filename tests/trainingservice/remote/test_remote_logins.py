"""Ways to log in, host keys, and everything that can be refused: each a sentence, no traceback, no storm of retries."""

import os
import subprocess
import sys
import time

import pytest

from tests.fakes.ssh_machine import SshMachine, fingerprint_of, free_port, needs_root, new_key
from tests.trainingservice.remote.conftest import refusal, works
from trainingservice.keeper.keeper_bundle import build_keeper
from trainingservice.remote import first_contact, machine_connection
from trainingservice.remote.first_contact import look_at
from trainingservice.ssh.connection import connect
from trainingservice.ssh.problems import MachineProblem
from trainingservice.trial_job_status import TrialJobStatus

pytestmark = pytest.mark.usefixtures("own_home")


# --- log-ins --------------------------------------------------------------------------------


def test_a_key_file_lets_in(make_machine, keys):
    assert works(make_machine().settings(), keys)


def test_a_key_with_a_passphrase_lets_in_and_without_it_says_so(make_machine, keys, tmp_path):
    machine = make_machine()
    key = new_key(tmp_path / "locked", "open sesame")
    machine.authorized_keys.write_text((tmp_path / "locked.pub").read_text())
    assert works(machine.settings(ssh_key_file=key, ssh_passphrase="open sesame"), keys)
    missing = refusal(machine.settings(ssh_key_file=key), keys)
    assert "set sshPassphrase" in str(missing)
    wrong = refusal(machine.settings(ssh_key_file=key, ssh_passphrase="wrong"), keys)
    assert "sshPassphrase" in str(wrong)
    assert missing.needs_person
    assert wrong.needs_person
    assert "wrong" not in str(wrong).replace("wrong password", "")


def test_the_ssh_agent_lets_in(make_machine, keys, monkeypatch, tmp_path):
    machine = make_machine()
    said = subprocess.run(["ssh-agent", "-s", "-a", str(tmp_path / "s")], check=True, capture_output=True, text=True)
    pid = said.stdout.split("SSH_AGENT_PID=")[1].split(";")[0]
    try:
        monkeypatch.setenv("SSH_AUTH_SOCK", str(tmp_path / "s"))
        without = refusal(machine.settings(ssh_key_file=None), keys)
        assert "SSH agent" in str(without)
        subprocess.run(["ssh-add", "-q", str(machine.key)], check=True, capture_output=True)
        assert works(machine.settings(ssh_key_file=None), keys)
    finally:
        os.kill(int(pid), 15)


def test_a_password_lets_in_and_a_wrong_one_does_not(make_machine, keys, user):
    machine = make_machine(lines=["PasswordAuthentication yes"], user=user)
    assert works(machine.settings(ssh_key_file=None, password="correct horse"), keys)
    wrong = refusal(machine.settings(ssh_key_file=None, password="battery"), keys)
    assert wrong.check == "login"
    assert wrong.needs_person
    assert f"refuses the log-in of user {user} with the password" in str(wrong)
    assert "battery" not in str(wrong)


def test_a_key_file_that_is_missing_or_no_key_is_named(make_machine, keys, tmp_path):
    machine = make_machine()
    assert str(tmp_path / "none") in str(refusal(machine.settings(ssh_key_file=tmp_path / "none"), keys))
    (tmp_path / "text").write_text("no key at all")
    assert str(tmp_path / "text") in str(refusal(machine.settings(ssh_key_file=tmp_path / "text"), keys))


# --- refusals -------------------------------------------------------------------------------


def test_an_unknown_host_and_a_refused_connection_are_told_apart(make_machine, keys):
    machine = make_machine()
    unknown = refusal(machine.settings(host="no-such-host.invalid"), keys)
    assert "no-such-host.invalid cannot be resolved" in str(unknown)
    refused = refusal(machine.settings(port=free_port()), keys)
    assert "refuses connections; start its sshd" in str(refused)
    assert not refused.needs_person


# --- host keys ------------------------------------------------------------------------------


def test_the_first_contact_is_told_and_remembered_and_a_changed_key_is_refused(make_machine, keys, tmp_path):
    machine = make_machine()
    settings = machine.settings(host_key=None)
    connection = connect(settings, keys, 10)
    assert f"The host key {machine.fingerprint} " in connection.note
    connection.close()
    assert (tmp_path / "host_keys").stat().st_mode & 0o077 == 0
    again = connect(settings, keys, 10)
    assert f"The host key {machine.fingerprint} " in again.note
    assert "seen at first contact" in again.note
    again.close()
    before = machine.fingerprint
    machine.stop()
    for file in machine.folder.glob("host_ed25519*"):
        file.unlink()
    new_key(machine.folder / "host_ed25519")
    machine.start()
    changed = refusal(settings, keys)
    assert changed.check == "host_key"
    assert changed.needs_person
    assert before in str(changed)
    assert machine.fingerprint in str(changed)
    assert machine.accepted_logins() == 2


def test_known_hosts_counts(make_machine, keys, tmp_path):
    machine = make_machine(host_keys=("ecdsa", "ed25519"))
    # only the one that would not be chosen by itself is known
    key = " ".join((machine.folder / "host_ecdsa.pub").read_text().split()[:2])
    (tmp_path / "known_hosts").write_text(f"[127.0.0.1]:{machine.port} {key}\n")
    connection = connect(machine.settings(host_key=None), keys, 10)
    assert connection.note == ""
    connection.close()
    assert not (tmp_path / "host_keys").exists()
    other = " ".join((new_key(tmp_path / "other").with_suffix(".pub")).read_text().split()[:2])
    (tmp_path / "known_hosts").write_text(f"[127.0.0.1]:{machine.port} {other}\n")
    assert fingerprint_of(tmp_path / "other") in str(refusal(machine.settings(host_key=None), keys))


def test_a_fingerprint_in_the_settings_counts_for_any_of_the_machine_s_keys(make_machine, keys, tmp_path):
    machine = make_machine(host_keys=("ed25519", "ecdsa", "rsa"))
    for key in machine.host_keys:
        assert works(machine.settings(host_key=fingerprint_of(key)), keys)
    wrong = fingerprint_of(new_key(tmp_path / "other"))
    assert wrong in str(refusal(machine.settings(host_key=wrong), keys))


# --- what the machine lacks -----------------------------------------------------------------


def first_look(machine, keys, tmp_path, **more):
    settings = machine.settings(**more)
    connection = connect(settings, keys, 10)
    try:
        return look_at(connection, settings, build_keeper(tmp_path / "keepers"), time.time)
    finally:
        connection.close()


def test_python_is_found_by_python_path_first(make_machine, keys, tmp_path):
    machine = make_machine()
    chosen = machine.home / "venv"
    chosen.mkdir()
    (chosen / "python3").symlink_to(os.path.realpath(sys.executable))
    facts = first_look(machine, keys, tmp_path, python_path="~/venv")
    assert facts.python == str(chosen / "python3")
    assert abs(facts.clock_ahead) < 2


def test_a_machine_without_python_says_what_to_install(make_machine, keys, tmp_path, monkeypatch):
    monkeypatch.setattr(first_contact, "OTHER_PYTHONS", ("python3",))
    machine = make_machine(python=False)
    with pytest.raises(MachineProblem, match="has no Python 3 on its PATH") as caught:
        first_look(machine, keys, tmp_path)
    assert "Install python3" in str(caught.value)
    assert caught.value.needs_person


def test_an_old_python_is_named_with_its_version(make_machine, keys, tmp_path, monkeypatch):
    monkeypatch.setattr(first_contact, "OTHER_PYTHONS", ("python3",))
    machine = make_machine(python=False)
    old = machine.programs / "python3"
    old.write_text("#!/bin/sh\necho NNIWEB-TOO-OLD /opt/python3 3.6.9\nexit 3\n")  # as that Python would say it
    old.chmod(0o755)
    with pytest.raises(MachineProblem, match="only /opt/python3 3.6.9") as caught:
        first_look(machine, keys, tmp_path)
    assert "pythonPath" in str(caught.value)


# --- seen from above ------------------------------------------------------------------------


def test_refused_credentials_are_shown_on_the_trial_and_not_tried_all_the_time(bench, make_machine, tmp_path,
                                                                               monkeypatch):
    monkeypatch.setattr(machine_connection, "RECONNECT_AFTER_REFUSAL", (30.0, 600.0))
    machine = make_machine()
    bench.platform.machine_list = [machine.settings(ssh_key_file=new_key(tmp_path / "stranger"))]
    service = bench.open_service()
    form = bench.form("true")
    service.submit_trial_job(form)
    bench.wait("the trial says why it waits",
               lambda: "refuses the log-in" in service.get_trial_job(form.job_name).message)
    detail = service.get_trial_job(form.job_name)
    assert detail.status is TrialJobStatus.WAITING
    assert detail.message.startswith("Waits for a free machine: 127.0.0.1:")
    assert not service.list_machines()[0].healthy
    assert not bench.wait_if_it_comes(lambda: machine.attempts_to_log_in() > 2, 3)


def test_a_small_disk_fails_with_a_sentence(bench, make_machine, tmp_path):
    needs_root()
    machine: SshMachine = make_machine()
    disk = machine.home / "small"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "none", str(disk)], check=True)
    try:
        bench.platform.machine_list = [machine.settings(working_folder=str(disk))]
        service = bench.open_service()
        form = bench.form("true", code=bench.code({"big": os.urandom(3_000_000)}))
        service.submit_trial_job(form)
        bench.wait("the trial says why", lambda: "Free disk space" in service.get_trial_job(form.job_name).message)
        assert "Traceback" not in service.get_trial_job(form.job_name).message
        service.cancel_trial_job(form.job_name)
        bench.close_service(service)
    finally:
        machine.crash()
        subprocess.run(["umount", str(disk)], check=True)
