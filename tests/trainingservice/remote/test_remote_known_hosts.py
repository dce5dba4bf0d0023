"""What known_hosts may hold: lines that cannot be read, markers, patterns; and what becomes of our own file."""

import base64
import errno
import logging
import subprocess
import sys

import paramiko
import pytest

from tests.fakes.ssh_machine import free_port, new_key
from tests.trainingservice.remote.conftest import refusal, works
from trainingservice.remote import machine_connection, rehearsal
from trainingservice.ssh.host_keys import HostKeyStore
from trainingservice.ssh.problems import MachineProblem
from trialkeeper import attempt_folder

KEY = paramiko.ECDSAKey.generate()
OTHER = paramiko.ECDSAKey.generate()
TEXT = f"{KEY.get_name()} {KEY.get_base64()}"


@pytest.fixture
def file(tmp_path):
    """The known_hosts of the fixture ``keys``."""
    return tmp_path / "known_hosts"


UNREADABLE = {
    "a certificate authority": f"@cert-authority *.lab.example {TEXT}".encode(),
    "a mark that nobody knows": f"@blessed ada {TEXT}".encode(),
    "a key that was cut off": f"ada {TEXT[:60]}".encode(),
    "a key whose base64 was cut off": f"ada {TEXT[:-1]}".encode(),
    "a type without a key": b"ada ssh-ed25519",
    "a key of an unknown type": b"ada ssh-mystery " + base64.b64encode(b"x" * 40),
    "a key that is none": b"ada ssh-ed25519 " + base64.b64encode(b"x" * 40),
    "bytes that are no text": b"ada \xff\xfe\x00 " + TEXT.encode(),
    "a hashed name that is none": f"|1|abc|def {TEXT}".encode(),
}


@pytest.mark.parametrize("line", UNREADABLE.values(), ids=UNREADABLE.keys())
def test_a_line_that_cannot_be_used_does_not_spoil_the_others(keys, file, caplog, line):
    caplog.set_level(logging.WARNING)
    file.write_bytes(b"# a comment\n\n" + line + f"\nada {TEXT}\n".encode())
    for _ in range(3):
        assert keys.check("ada", KEY, None) == ""
        assert keys.known("ada") == [KEY]
    said = [record.getMessage() for record in caplog.records]
    assert said == [] if line.startswith(b"@cert") else len(said) == 1 and said[0].startswith(f"line 3 of {file} ")


@pytest.mark.parametrize("names", ["ada", "*", "bob,ad?", "*,!bob", paramiko.HostKeys.hash_host("ada")],
                         ids=["name", "all", "list", "exception", "hashed"])
def test_a_key_that_is_revoked_is_refused_also_where_it_is_known_or_demanded(keys, file, names):
    file.write_text(f"ada {TEXT}\n@revoked {names} {TEXT}\n")
    assert keys.known("ada") == []
    for expected in (None, "SHA256:" + "x" * 43):
        with pytest.raises(MachineProblem, match="is marked @revoked in known_hosts, so nothing was sent") as caught:
            keys.check("ada", KEY, expected)
        assert (caught.value.check, caught.value.needs_person) == ("host_key", True)


def test_names_are_compared_as_openssh_does(keys, file):
    file.write_text(f"*.lab.example,!eve.lab.example,[10.0.0.?]:2222 {TEXT}\n")
    assert all(keys.known(name) for name in ("ada.lab.example", "ADA.lab.example", "[10.0.0.7]:2222"))
    assert not any(keys.known(name) for name in ("eve.lab.example", "lab.example", "10.0.0.7", "[10.0.0.17]:2222"))


@pytest.mark.parametrize("line", [f"ada\t{TEXT}", f"ada {TEXT}".replace(" ", "\t"), f"  ada  {TEXT}".replace(" ", "  "),
                                  f"{paramiko.HostKeys.hash_host('ada')}\t {TEXT}"],
                         ids=["tab", "tabs", "several blanks", "hashed"])
@pytest.mark.parametrize("name", ["ada", "Ada"])
def test_blanks_and_capitals_hide_no_line_from_us_that_openssh_reads(keys, file, line, name):
    file.write_text(f"{line}\n")
    assert keys.check(name, KEY, None) == ""
    with pytest.raises(MachineProblem, match="but known_hosts says"):
        keys.check(name, OTHER, None)
    file.write_text(f"@revoked\t{line.lstrip()}\n")
    with pytest.raises(MachineProblem, match="is marked @revoked"):
        keys.check(name, KEY, None)


def test_each_of_several_keys_of_one_type_is_the_machines(make_machine, keys, file):
    """A name for several log-in nodes has a key of each; so has a machine whose key is being replaced."""
    machine = make_machine()
    name = f"[127.0.0.1]:{machine.port}"
    assert works(machine.settings(host_key=None), keys)
    line = (file.parent / "host_keys").read_text()
    another = paramiko.Ed25519Key.from_private_key_file(str(new_key(file.parent / "another")))
    other_line = f"{name} {another.get_name()} {another.get_base64()}\n"
    for text in (line + other_line, other_line + line):
        file.write_text(text)
        assert works(machine.settings(host_key=None), keys)
    file.write_text(f"{name} {TEXT}\n")
    assert "but known_hosts says" in str(refusal(machine.settings(host_key=None), keys))


def test_a_pattern_with_many_stars_is_compared_in_one_pass(tmp_path):
    """In a process of its own: with a regular expression it does not come to an end."""
    (tmp_path / "known_hosts").write_text(f"{'*a' * 30}*b {TEXT}\nada {TEXT}\n")
    program = ("import sys; from pathlib import Path; from trainingservice.ssh.known_hosts import keys_of\n"
               "print([len(keys_of(Path(sys.argv[1]), name).known) for name in ('a' * 60, 'a' * 60 + 'b', 'ada')])")
    done = subprocess.run([sys.executable, "-c", program, str(tmp_path / "known_hosts")], capture_output=True,
                          text=True, timeout=90)
    assert (done.stdout, done.stderr) == ("[0, 1, 1]\n", "")


def test_our_own_file_is_mended_by_the_next_key_after_it_was_cut_off(tmp_path):
    own = tmp_path / "state" / "host_keys"
    store = HostKeyStore(own, system_files=())
    assert "was not known and is trusted from now on" in store.check("ada", KEY, None)
    own.write_bytes(own.read_bytes() + f"bob {TEXT}".encode()[:50])  # as a full disk leaves it
    assert "was not known and is trusted from now on" in store.check("bob", OTHER, None)
    assert "seen at first contact" in store.check("ada", KEY, None)
    assert "seen at first contact" in store.check("bob", OTHER, None)
    assert own.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize(("number", "needs_person"), [(errno.EACCES, True), (errno.ENOSPC, False)],
                         ids=["no write rights", "full disk"])
def test_a_key_that_cannot_be_kept_is_not_trusted_and_the_servers_folder_is_named(make_machine, tmp_path, monkeypatch,
                                                                                  number, needs_person):
    def refuse(*_, **__):
        raise OSError(number, "so it is", "host_keys")

    machine, store = make_machine(), HostKeyStore(tmp_path / "host_keys", system_files=())
    monkeypatch.setattr(attempt_folder, "write_file", refuse)
    problem = refusal(machine.settings(host_key=None), store)
    assert f"cannot be stored in {tmp_path / 'host_keys'} on the server (so it is), so nothing was sent" in str(problem)
    assert (problem.check, problem.needs_person) == ("host_key", needs_person)
    assert machine.accepted_logins() == 0
    monkeypatch.undo()
    assert works(machine.settings(host_key=None), store)


def test_an_error_that_nobody_foresaw_is_a_refusal_with_growing_pauses_and_a_sentence(bench, machine, monkeypatch):
    asked: list[int] = []

    def pause(failures, limits, chance):
        asked.append(failures)
        return 0.01

    def fail(*_):
        raise ValueError("an odd\nvalue")

    monkeypatch.setattr(machine_connection, "back_off", pause)
    for module in (machine_connection, rehearsal):
        monkeypatch.setattr(module, "connect", fail)
    service = bench.open_service()
    bench.wait("it was tried often", lambda: len(asked) > 4)
    assert asked[:5] == [0, 1, 2, 3, 4]
    words = "cannot be used because of an unexpected error (ValueError: an odd value)"
    assert words in service.list_machines()[0].message
    for quick in (True, False):
        found, = service.rehearse(quick=quick)
        assert words in found.message
        assert (found.ok, found.temporary) == (False, True)


def test_an_error_while_a_machine_is_looked_at_is_a_finding_too(bench, machine, monkeypatch):
    def fail(*_):
        raise RuntimeError("odd")

    monkeypatch.setattr(rehearsal, "look_at", fail)
    service = bench.platform.new_service(bench.context())
    assert "(RuntimeError: odd)" in service.rehearse(quick=True)[-1].message
    service.clean_up()


def test_a_rehearsal_without_a_folder_on_the_server_says_so(bench, machine):
    bench.platform.machine_list = [machine.settings(port=free_port())]
    (bench.folder / "state").write_text("in the way")
    service = bench.platform.new_service(bench.context())
    found, = service.rehearse(quick=True)
    assert f"The folder {bench.folder / 'state'} on the server cannot be created (File exists)" in found.message
    service.clean_up()
