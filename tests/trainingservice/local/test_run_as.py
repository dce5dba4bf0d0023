"""Trials as another user of this machine: with real users, and with the real sudo where it is installed."""

from __future__ import annotations

import contextlib
import json
import os
import pwd
import shutil
import signal
import stat
import subprocess
import tempfile
import time
import tracemalloc
import uuid
from dataclasses import replace
from pathlib import Path

import pytest

from trainingservice.errors import TrainingServiceError
from trainingservice.files.output_folder import NoSuchOutput
from trainingservice.local import interpreters, os_user
from trainingservice.local.config import LocalTrialOptions
from trainingservice.trial_job import ResumedJob
from trainingservice.trial_job_status import TrialJobStatus
from trialkeeper import machine

LOOKS_AROUND = """
import json, os, pathlib, sys
def try_to_read(path):
    try:
        return pathlib.Path(path).read_text()
    except OSError as error:
        return type(error).__name__
print(json.dumps({"user": os.getuid(), "groups": os.getgroups(), "folder": os.getcwd(), "files": sorted(os.listdir()),
                  "environment": dict(os.environ), "key": try_to_read(sys.argv[1])}))
pathlib.Path("made_by_the_trial").write_text("x")
"""


@pytest.fixture
def user():
    """A user of this machine with a home folder, removed with it after the test."""
    if os.geteuid() != 0:
        pytest.skip("needs root: machines of their own, other users, small disks")
    name = f"nr{uuid.uuid4().hex[:8]}"
    subprocess.run(["useradd", "--create-home", "--shell", "/bin/sh", name], check=True, capture_output=True)
    made = pwd.getpwnam(name)
    yield made
    deadline = time.monotonic() + 60
    while processes := processes_of(made.pw_uid):  # a keeper ends a moment after its trial
        if time.monotonic() > deadline:
            for pid in processes:
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.05)
    subprocess.run(["userdel", "--force", "--remove", name], check=True, capture_output=True)


def processes_of(user_id: int) -> list[int]:
    """The processes of a user that are no zombies."""
    found = []
    for name in os.listdir("/proc"):
        with contextlib.suppress(OSError):  # it has just ended
            if name.isdigit() and os.stat(f"/proc/{name}").st_uid == user_id and machine.process_start_time(int(name)):
                found.append(int(name))
    return found


@pytest.fixture
def bench(user, bench):
    """Closed before the user is removed: its agents run as that user."""
    return bench


@pytest.fixture(params=["root", "sudo"])
def way(request, monkeypatch):
    """How programs are started as the user: by root itself, or by sudo."""
    if request.param == "sudo":
        if shutil.which("sudo") is None:
            pytest.skip("no sudo was found: apt-get install sudo")
        monkeypatch.setattr(os_user, "is_root", lambda: False)
    return request.param


@pytest.fixture
def key(bench):
    """A key of the server's, in a folder that is closed to others."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:  # a folder of pytest's own has closed ones above it
        bench.private = Path(folder)
        path = bench.private / "seal_keys"
        path.write_text("the key of all secrets")
        path.chmod(0o644)  # only the folder protects it
        yield path


@pytest.fixture
def form_as(bench):
    """Makes forms of jobs that run as a user."""
    def make(command, user, **more):
        return replace(bench.form(command, **more), options=LocalTrialOptions(run_as=user.pw_name))
    return make


def open_with_private_folder(bench, resumed=()):
    """A service whose host has a folder that is nobody else's business."""
    context = bench.context
    bench.context = lambda: replace(context(), private_folder=bench.private)
    try:
        return bench.open_service(resumed)
    finally:
        bench.context = context


def sentences(findings):
    return [finding.message for finding in findings if finding.blocks]


def test_a_trial_runs_as_its_user_in_a_folder_of_that_user_and_sees_nothing_of_the_server(
        bench, user, key, form_as, way, monkeypatch):
    monkeypatch.setenv("NNIWEB_SEAL_KEYS", "do not tell")
    monkeypatch.setenv("https_proxy", "http://server:do-not-tell@proxy:3128")
    monkeypatch.setenv("LC_MONETARY", "C")
    service = open_with_private_folder(bench)
    code = bench.code({"look.py": LOOKS_AROUND})
    form = form_as(f"/usr/bin/env python3 look.py {key}", user, code=code, environment={"MY_FLAG": "1"})
    service.submit_trial_job(form)
    detail = bench.wait_for_end(service, form)
    assert detail.status is TrialJobStatus.SUCCEEDED, bench.output(form, "stderr")
    seen = json.loads(bench.output(form))
    assert seen["user"] == user.pw_uid
    assert 0 not in seen["groups"]
    assert seen["key"] == "PermissionError"
    assert seen["files"] == ["look.py"]
    assert not (code.folder / "made_by_the_trial").exists()
    assert "tell" not in bench.output(form)
    environment = seen["environment"]
    assert (environment["HOME"], environment["USER"], environment["LC_MONETARY"], environment["MY_FLAG"]) == (
        user.pw_dir, user.pw_name, "C", "1")
    folder = Path(seen["folder"])
    assert folder.is_relative_to(user.pw_dir)
    assert folder.stat().st_uid == user.pw_uid
    for path in (folder.parent, folder.parent.parent, folder.parent.parent.parent):
        assert (path.stat().st_uid, stat.S_IMODE(path.stat().st_mode)) == (user.pw_uid, 0o700), path
    service.clean_up_experiment(bench.experiment)
    assert not folder.parent.parent.exists()
    assert not list((bench.context().state_folder / "run_as").iterdir())


def test_folders_that_a_trial_has_closed_to_its_own_user_are_removed(bench, user, key, form_as, way):
    """Root may enter each folder, other users may not. Tools keep their caches read-only, such as Go its modules."""
    service = open_with_private_folder(bench)
    form = form_as("mkdir -p cache/module closed/inner; touch cache/module/file closed/inner/file; "
                   "chmod 555 cache/module; chmod 0 closed/inner closed; pwd", user)
    service.submit_trial_job(form)
    bench.wait_for_end(service, form)
    attempt = Path(bench.output(form).strip()).parent
    assert attempt.is_relative_to(user.pw_dir)
    service.clean_up_experiment(bench.experiment)
    assert not attempt.exists()
    assert not attempt.parent.exists()


def test_a_trial_of_another_user_is_found_again_after_a_restart_and_can_be_stopped(bench, user, key, form_as):
    service = open_with_private_folder(bench)
    form = form_as("echo here; while true; do sleep 0.1; done", user)
    service.submit_trial_job(form)
    detail = bench.wait_for_status(service, form, TrialJobStatus.RUNNING)
    bench.close_service(service)
    service = open_with_private_folder(bench, [ResumedJob(detail)])
    bench.wait("it is heard", lambda: bench.output(form))
    service.cancel_trial_job(form.job_name)
    bench.wait_for_status(service, form, TrialJobStatus.USER_CANCELED)


def test_a_rehearsal_says_why_nothing_can_run_as_that_user(bench, user, key):
    service = open_with_private_folder(bench)
    assert sentences(service.rehearse(quick=True, options=LocalTrialOptions(run_as=user.pw_name))) == []
    assert sentences(service.rehearse(quick=True, options=LocalTrialOptions(run_as="nobody-of-this-name"))) == [
        'runAs: There is no user "nobody-of-this-name" on this machine. Correct runAs, or create the user.']
    assert "must not name root" in sentences(service.rehearse(quick=True, options=LocalTrialOptions(run_as="root")))[0]


def test_nothing_runs_as_a_user_who_can_look_into_the_server_s_folder(bench, user, form_as):
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        open_folder = bench.private = Path(folder)
        open_folder.chmod(0o755)
        service = open_with_private_folder(bench)
        found = sentences(service.rehearse(quick=True, options=LocalTrialOptions(run_as=user.pw_name)))
        assert len(found) == 1
        assert f"chmod 700 {open_folder}" in found[0]
        form = form_as("true", user)
        service.submit_trial_job(form)
        bench.wait("the trial says why it waits", lambda: "chmod 700" in service.get_trial_job(form.job_name).message)


def test_where_sudo_refuses_the_sentence_says_what_to_write_into_its_rules(bench, user, key, monkeypatch):
    folder = bench.folder / "bin"
    folder.mkdir()
    (folder / "sudo").write_text("#!/bin/sh\necho 'sudo: a password is required' >&2\nexit 1\n")
    (folder / "sudo").chmod(0o755)
    monkeypatch.setenv("PATH", str(folder), prepend=os.pathsep)
    monkeypatch.setattr(os_user, "is_root", lambda: False)
    service = open_with_private_folder(bench)
    assert sentences(service.rehearse(quick=True, options=LocalTrialOptions(run_as=user.pw_name))) == [
        f"runAs: sudo cannot start programs as user {user.pw_name} (sudo: a password is required). Allow it in "
        f"/etc/sudoers without a password: root ALL=({user.pw_name}) NOPASSWD: ALL"]


def test_the_agent_of_one_user_cannot_speak_for_the_trials_of_another(bench, user, key, service):
    form = bench.form("while true; do sleep 0.1; done")
    service.submit_trial_job(form)
    detail = bench.wait_for_status(service, form, TrialJobStatus.RUNNING)
    folder = Path(detail.url.removeprefix("file://"))
    forged = {"state": "ended", "exit": {"exit_code": 0, "signal": None, "reason": "exited", "message": "",
                                         "duration": 1.0, "at": 1.0}}
    service._hear_agent(user.pw_name, str(folder), forged)
    service._hear_agent("", str(folder.parent / "elsewhere" / folder.name), forged)
    assert service.get_trial_job(form.job_name).status is TrialJobStatus.RUNNING
    service.cancel_trial_job(form.job_name)
    bench.wait_for_status(service, form, TrialJobStatus.USER_CANCELED)


def test_what_a_trial_of_a_user_wrote_is_read_as_that_user_so_a_link_never_leads_to_what_is_the_servers(
        bench, user, key, form_as, way):
    service = open_with_private_folder(bench)
    form = form_as(f'cd "$NNI_OUTPUT_DIR"; echo mine > values; ln -s {key} link; chmod 700 .', user)
    service.submit_trial_job(form)
    detail = bench.wait_for_end(service, form)
    with contextlib.closing(service.output_folder(detail)) as folder:
        assert "values" in [file.name for file in folder.list_files().files]
        assert folder.list_files().left_out == 1
        assert folder.read("values", 0).content == b"mine\n"
        with pytest.raises(NoSuchOutput):
            folder.read("link", 0)
        # even a trusted place that is a link leads nowhere the user could not go
        nni = Path(user.pw_dir) / ".nniweb"
        nni.rename(nni.with_name("moved"))
        nni.symlink_to(key.parent)
        with pytest.raises(TrainingServiceError):
            folder.list_files()
        nni.unlink()
        nni.with_name("moved").rename(nni)


def test_the_python_of_a_user_is_asked_as_that_user_and_one_that_is_closed_to_the_user_is_named(
        bench, user, key, form_as, way):
    service = open_with_private_folder(bench)
    own = Path(user.pw_dir) / "env"
    (own / "bin").mkdir(parents=True)
    python = own / "bin" / "python3"
    python.write_text('#!/bin/sh\nid -u >> "$HOME/asked_as"\necho "nniweb:3.9.9 $0"\n')
    python.chmod(0o755)
    for path in (own, own / "bin", python):
        os.chown(path, user.pw_uid, user.pw_gid)
    named = LocalTrialOptions(run_as=user.pw_name, venv="~/env")
    assert sentences(service.rehearse(quick=True, options=named)) == []
    (finding,) = service.check_command("python3 train.py", None, {}, named)
    assert finding.message == f"Trials run with {python} (Python 3.9.9)."
    form = replace(form_as("python3 train.py", user), options=named)
    service.submit_trial_job(form)
    detail = bench.wait_for_end(service, form)
    assert (detail.interpreter.path, detail.interpreter.version) == (str(python), "3.9.9")
    assert set((Path(user.pw_dir) / "asked_as").read_text().split()) == {str(user.pw_uid)}
    closed = Path(key).parent / "env"
    shutil.copytree(own, closed)
    recorded = LocalTrialOptions(run_as=user.pw_name).with_shell(
        {"PATH": f"{closed}/bin:/usr/bin:/bin", "VIRTUAL_ENV": str(closed)})
    (message,) = sentences(service.rehearse(quick=True, options=recorded))
    assert f"{closed} was active in the shell" in message
    assert f"that user {user.pw_name} may run" in message


def python_of(user, body):
    """Options by which trials of this user run with a python3 of the user's that does this."""
    folder = Path(user.pw_dir) / "own"
    folder.mkdir()
    python = folder / "python3"
    python.write_text(f"#!/bin/sh\n{body}\n")
    python.chmod(0o755)
    return LocalTrialOptions.model_validate({"runAs": user.pw_name, "pythonPath": str(folder)})


def test_a_python_of_a_user_that_writes_without_end_does_not_fill_the_memory_of_the_server(
        bench, user, key, way, monkeypatch):
    monkeypatch.setattr(interpreters, "SECONDS", 5.0)
    service = open_with_private_folder(bench)
    options = python_of(user, "head -c 200000000 /dev/zero; exec sleep 1000")
    tracemalloc.start()
    try:
        (finding,) = service.check_command("python3 train.py", None, {}, options)
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert "does not answer" in finding.message
    assert most < 50_000_000
    bench.wait("what it started has ended", lambda: not processes_of(user.pw_uid))


def test_what_a_python_of_a_user_puts_into_a_session_of_its_own_ends_with_the_check(bench, user, key, way):
    service = open_with_private_folder(bench)
    options = python_of(user, "setsid sleep 1000 > /dev/null 2>&1 &\necho nniweb:3.9.9")
    (finding,) = service.check_command("python3 train.py", None, {}, options)
    assert "Python 3.9.9" in finding.message
    assert processes_of(user.pw_uid) == []


def test_a_command_of_a_user_that_prints_without_end_is_refused_in_a_sentence(user, way, monkeypatch):
    monkeypatch.setattr(os_user, "STEP_BYTES", 1024 ** 2)
    with pytest.raises(os_user.CannotRunAs, match="printed more than 1 MB"):
        os_user.find_os_user(user.pw_name).run("head -c 3000000 /dev/zero; exec sleep 1000")
    assert processes_of(user.pw_uid) == []


def test_what_runs_in_the_place_of_a_users_agent_writes_to_no_file_of_the_server(bench, user, key, form_as):
    service = open_with_private_folder(bench)
    form = form_as("true", user)
    service.submit_trial_job(form)
    bench.wait_for_end(service, form)
    [keeper] = (Path(user.pw_dir) / ".nniweb").glob("*/*/*.pyz")
    # of a folder in its place only what is in it is overwritten
    script = (f'rm "{keeper}"; mkdir "{keeper}"; echo "$1" > "{keeper}/__main__.py"; '
              f'for each in $(pgrep -u {user.pw_name} -f "{keeper}[ ]agent"); do kill -9 $each; done')
    os_user.find_os_user(user.pw_name).run(
        script, f'import os; os.write(2, b"x" * 1000000); open("{user.pw_dir}/wrote", "w")')
    service.submit_trial_job(form_as("true", user))
    bench.wait("it is started again", (Path(user.pw_dir) / "wrote").exists)
    assert [path for path in bench.context().state_folder.rglob("*") if path.is_file() and b"xxxx" in path.read_bytes()
            ] == []


def test_a_user_whose_number_has_changed_is_not_taken_for_the_one_who_has_it_now(bench, user, key, form_as,
                                                                                 monkeypatch):
    """The user was removed and made anew, and another one has got the number."""
    service = open_with_private_folder(bench)
    form = form_as("id -u", user)
    service.submit_trial_job(form)
    bench.wait_for_end(service, form)
    changed = pwd.struct_passwd((user.pw_name, "x", user.pw_uid + 1000, user.pw_gid, "", user.pw_dir, user.pw_shell))
    monkeypatch.setattr(pwd, "getpwnam", lambda name: changed)
    subprocess.run(["chown", "-R", str(changed.pw_uid), user.pw_dir], check=True)
    form = form_as("id -u", user)
    service.submit_trial_job(form)
    bench.wait_for_end(service, form)
    assert bench.output(form) == f"{changed.pw_uid}\n"
    bench.close_service(service)
    bench.wait("its processes have ended", lambda: not processes_of(changed.pw_uid))
    subprocess.run(["chown", "-R", str(user.pw_uid), user.pw_dir], check=True)


def test_code_that_was_removed_from_the_users_folder_is_put_there_again(bench, user, key, form_as):
    service = open_with_private_folder(bench)
    first = form_as("cat a.txt", user, code=bench.code({"a.txt": "hello"}))
    for form in (first, replace(form_as("cat a.txt", user, code=first.code), experiment_id=first.experiment_id)):
        service.submit_trial_job(form)
        bench.wait_for_end(service, form)
        assert bench.output(form) == "hello"
        shutil.rmtree(Path(user.pw_dir) / ".nniweb")
