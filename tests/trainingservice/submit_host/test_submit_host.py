"""Commands and files on this machine and on a login node behind a real sshd: both are used the same way."""

import os
import time

import pytest

from tests.fakes.ssh_machine import SshMachine
from trainingservice.errors import TemporaryError
from trainingservice.submit_host import sftp_disk
from trainingservice.submit_host.disk import MOST_AT_ONCE
from trainingservice.submit_host.host import NotRun, ThisMachine, Unanswered
from trainingservice.submit_host.login_node import LoginNode
from trainingservice.submit_host.opening import open_host


@pytest.fixture(scope="module")
def node(tmp_path_factory):
    with SshMachine(tmp_path_factory.mktemp("node") / "login") as machine:
        yield machine


@pytest.fixture(params=["this machine", "login node"])
def host(request, tmp_path):
    if request.param == "this machine":
        made = open_host(None, tmp_path / "host_keys")
    else:
        made = open_host(request.getfixturevalue("node").settings(), tmp_path / "host_keys")
    yield made
    made.close()
    made.close()


def test_a_program_gets_its_arguments_and_input_and_tells_its_outputs_and_status(host):
    finished = host.run(["sh", "-c", 'cat; echo "$1" >&2; exit 3', "sh", "two words; $HOME"], text="input ☃\n")
    assert (finished.status, finished.output, finished.errors) == (3, "input ☃\n", "two words; $HOME\n")
    assert finished.said == "two words; $HOME"


def test_a_text_is_read_by_sh(host):
    assert host.run("echo one && echo 'two   words' | tr -s ' '").output == "one\ntwo words\n"


def test_a_program_that_is_not_there_is_told_by_its_status(host):
    finished = host.run(["no-such-scheduler", "--version"])
    assert finished.status == 127
    assert "no-such-scheduler" in finished.errors


def test_a_command_that_prints_without_end_is_ended(host):
    with pytest.raises(TemporaryError, match="printed"):
        host.run("cat /dev/zero")
    assert host.run("echo here").output == "here\n"


@pytest.mark.slow
def test_a_command_that_does_not_answer_may_have_been_obeyed(host, tmp_path):
    witness = tmp_path / "begun"
    began = time.monotonic()
    with pytest.raises(Unanswered):
        host.run(f'touch "{witness}"; exec sleep 600', timeout=2)
    assert time.monotonic() - began < 60
    assert witness.exists()


@pytest.mark.parametrize("command", ["exec >&- 2>&-; exec sleep 60", "while :; do echo a line; sleep 0.2; done"],
                         ids=["closes its outputs", "a line now and then"])
def test_a_command_has_one_time_for_all_that_it_does(host, command):
    host.run("true")
    began = time.monotonic()
    with pytest.raises(Unanswered):
        host.run(command, timeout=0.7)
    assert time.monotonic() - began < 30
    assert host.run("echo here").output == "here\n"


def test_commands_on_this_machine_do_not_see_the_servers_secrets(monkeypatch):
    monkeypatch.setenv("NNIWEB_SECRET_KEY", "secret")
    monkeypatch.setenv("SLURM_CONF", "/etc/slurm.conf")
    assert ThisMachine().run('echo "$NNIWEB_SECRET_KEY,$SLURM_CONF"').output == ",/etc/slurm.conf\n"


def test_a_login_node_that_cannot_be_reached_has_run_nothing_and_is_not_pestered(node, tmp_path):
    now = [0.0]
    host = LoginNode(node.settings(), tmp_path / "host_keys", monotonic=lambda: now[0])
    node.stop()
    try:
        with pytest.raises(NotRun, match="refuses connections"):
            host.run("true")
    finally:
        node.start()
    try:
        with pytest.raises(NotRun, match="refuses connections"):  # the pause is not over
            host.run("true")
        now[0] += 3600
        assert host.run("echo back").output == "back\n"
        assert host.disk.is_folder(tmp_path)
    finally:
        host.close()


def test_files_are_written_whole_read_in_pieces_and_removed(host, tmp_path):
    disk, folder = host.disk, tmp_path / "folder"
    disk.make_folder(folder, 0o700)
    disk.make_folder(folder, 0o700)
    path = folder / "file ☃"
    assert disk.read(path) is None
    assert not disk.exists(path)
    disk.put(path, b"0123456789", 0o600)
    disk.put(path, b"abcdefghij", 0o640)
    assert (disk.read(path, 4, 3), disk.read(path, 10)) == (b"efg", b"")
    assert (path.stat().st_mode & 0o777, folder.stat().st_mode & 0o777) == (0o640, 0o700)
    disk.touch(folder / "empty")
    disk.touch(path)
    assert (disk.read(folder / "empty"), disk.read(path)) == (b"", b"abcdefghij")
    assert disk.is_folder(folder)
    assert not disk.is_folder(path)
    disk.remove_file(path)
    disk.remove_file(path)
    (folder / "inner").mkdir()
    (folder / "inner" / "link").symlink_to(tmp_path)
    assert disk.remove_folder(folder) == []
    assert not folder.exists()
    assert tmp_path.is_dir(), "a link is removed, not what it leads to"


def test_a_folder_that_somebody_still_writes_into_is_removed_all_the_same(node, tmp_path):
    host = open_host(node.settings(), tmp_path / "host_keys")
    inner = tmp_path / "attempt" / "inner"
    inner.mkdir(parents=True)
    (inner / "first").touch()
    real, writes = sftp_disk._remove, [f"late {number}" for number in range(3)]

    def written_meanwhile(sftp, path, *lists):
        if path == inner and writes:  # between the look at what is there and the removal of the folder
            real_rmdir = sftp.rmdir
            sftp.rmdir = lambda name: ((inner / writes.pop()).touch(), setattr(sftp, "rmdir", real_rmdir),
                                       real_rmdir(name))
        real(sftp, path, *lists)

    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(sftp_disk, "_remove", written_meanwhile)
            assert host.disk.remove_folder(tmp_path / "attempt") == []
        assert writes == []
        assert not (tmp_path / "attempt").exists()
        assert host.disk.remove_folder(tmp_path / "attempt") == []
    finally:
        host.close()


def test_a_large_file_is_brought_whole(host, tmp_path):
    source = tmp_path / "source"
    source.write_bytes(os.urandom(1000) * 5000)
    host.disk.copy(source, tmp_path / "target", 0o600)
    assert (tmp_path / "target").read_bytes() == source.read_bytes()
    assert MOST_AT_ONCE > 5_000_000


def test_what_the_disk_refuses_is_an_error_of_the_disk(host, tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(OSError, match=r".+"):
        host.disk.put(tmp_path / "file" / "below", b"x", 0o600)
