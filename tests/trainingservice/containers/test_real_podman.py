"""Local trials in the real podman: what they see, what is counted, and that nothing stays when something is killed."""

import json
import os
import signal
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from tests.fakes.real_podman import RealPodman
from tests.trainingservice.local.test_run_as import user  # noqa: F401
from trainingservice.local.config import LocalTrialOptions
from trainingservice.testing.processes import processes_of
from trainingservice.trial_job import ResumedJob
from trainingservice.trial_job_status import TrialJobStatus
from trialkeeper import contract

pytestmark = pytest.mark.slow

LOOKS_AROUND = """
import json, os, nni
print(json.dumps({"user": os.getuid(), "folder": os.getcwd(), "release": os.path.exists("/etc/os-release"),
                  "processes": len([name for name in os.listdir("/proc") if name.isdigit()]),
                  "journal": os.path.exists(os.path.join(os.path.dirname(os.environ["NNI_SYS_DIR"]), "journal.jsonl")),
                  "interfaces": sorted(os.listdir("/sys/class/net")), "secret": os.environ["SECRET"],
                  "shared": os.statvfs("/dev/shm").f_blocks * os.statvfs("/dev/shm").f_frsize,
                  "capabilities": [line.split()[1] for line in open("/proc/self/status") if line[:6] == "CapEff"]}))
nni.report_final_result(nni.get_next_parameter()["x"])
open("made.txt", "w").write("x")
"""


def options_of(bench, **more):
    return bench.platform.options().model_copy(update=more)


def folder_of(service, form):
    return next(path for path in service.context.state_folder.rglob(form.job_name) if path.is_dir())


def running(bench, service, form):
    """The keeper's process id of a trial that has begun inside."""
    bench.wait("the command has begun", lambda: "begun" in output_of(service, form))
    return json.loads((folder_of(service, form) / contract.KEEPER_FILE).read_text())["pid"]


def output_of(service, form):
    try:
        return (folder_of(service, form) / contract.STDOUT_FILE).read_text()
    except (OSError, StopIteration):
        return ""


def test_a_trial_sees_its_image_and_its_own_files(bench, podman):
    service = bench.open_service()
    code = bench.code({"trial.py": LOOKS_AROUND})
    form = replace(bench.form("python3 trial.py", code=code, environment={"SECRET": "a b\n'c'"}),
                   options=options_of(bench, container_network="none"))
    service.submit_trial_job(form)
    bench.wait_for_end(service, form)
    seen = json.loads(bench.output(form))
    assert (seen["folder"], seen["secret"]) == (str(code.folder), "a b\n'c'")
    assert not seen["release"]
    assert not seen["journal"]
    assert seen["processes"] < 10
    assert seen["interfaces"] == ["lo"]
    assert seen["shared"] == os.statvfs("/dev/shm").f_blocks * os.statvfs("/dev/shm").f_frsize
    assert set(seen["capabilities"]) == {"0000000000000000"}
    assert (code.folder / "made.txt").stat().st_uid == os.geteuid()
    assert [entry["kind"] for entry in bench.entries(form, contract.METRIC)] == [contract.FINAL]


@pytest.mark.parametrize("code", [3, 125, 127])
def test_the_command_s_exit_code_is_the_trial_s(bench, podman, code):
    service = bench.open_service()
    form = replace(bench.form(f"exit {code}"), options=options_of(bench))
    service.submit_trial_job(form)
    detail = bench.wait_for_end(service, form, TrialJobStatus.FAILED)
    assert detail.exit_code == code


def test_an_image_without_a_shell_is_no_end_of_the_command(bench, podman, tmp_path):
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty" / "file").write_text("x")
    packed = subprocess.run(["tar", "-C", str(tmp_path / "empty"), "-c", "."], capture_output=True, check=True).stdout
    podman.run("import", "--quiet", "-", "localhost/empty:1", content=packed)
    service = bench.open_service()
    form = replace(bench.form("true"), options=options_of(bench, docker_image="localhost/empty:1"))
    service.submit_trial_job(form)
    detail = bench.wait_for_end(service, form, TrialJobStatus.FAILED)
    assert "podman on" in detail.message
    assert "could not start the container (exit code 127)" in detail.message


def test_a_cancel_ends_all_that_is_inside(bench, podman):
    service = bench.open_service()
    form = replace(bench.form("(trap '' TERM; setsid sleep 600) & trap '' TERM; echo begun; sleep 600; wait"),
                   options=options_of(bench))
    service.submit_trial_job(form)
    running(bench, service, form)
    assert len(podman.containers(f"label=nniweb.trial={form.trial_job_id}")) == 1
    service.cancel_trial_job(form.job_name)
    bench.wait_for_end(service, form, TrialJobStatus.USER_CANCELED)
    bench.wait("nothing of it runs", lambda: not processes_of([form.trial_job_id]) and not podman.containers())


def test_a_killed_keeper_leaves_no_container(bench, podman):
    service = bench.open_service()
    form = replace(bench.form("echo begun; sleep 600"), options=options_of(bench))
    service.submit_trial_job(form)
    os.kill(running(bench, service, form), signal.SIGKILL)
    bench.wait_for_end(service, form, TrialJobStatus.FAILED)
    bench.wait("its container is gone", lambda: not podman.containers())


def test_keeper_agent_and_server_are_killed_and_the_next_server_clears_up(bench, podman):
    service = bench.open_service()
    form = replace(bench.form("echo begun; sleep 600"), options=options_of(bench))
    service.submit_trial_job(form)
    keeper = running(bench, service, form)
    agent = service._agent.pid
    bench.close_service(service)
    os.kill(keeper, signal.SIGKILL)
    bench.wait("the agent has ended", lambda: not os.path.exists(f"/proc/{agent}"))
    assert podman.containers() != [], "nobody is there to end it"
    again = bench.open_service([ResumedJob(service.get_trial_job(form.job_name))])
    detail = bench.wait_for_end(again, form, TrialJobStatus.FAILED)
    assert detail.message.code == "keeper_lost"
    bench.wait("its container is gone", lambda: not podman.containers())


def test_a_trial_goes_on_while_the_server_is_away(bench, podman):
    service = bench.open_service()
    form = replace(bench.form("echo begun; sleep 3; echo done"), options=options_of(bench))
    service.submit_trial_job(form)
    running(bench, service, form)
    bench.close_service(service)
    bench.wait("the trial goes on", lambda: "done" in output_of(service, form))
    bench.wait("its container is gone", lambda: not podman.containers())


def test_a_limit_of_memory_holds_inside_and_is_told(bench, podman):
    service = bench.open_service()
    form = replace(bench.form("exec python3 -c 'x = bytearray(400_000_000); x[::4096] = b\"1\" * len(x[::4096])'"),
                   options=options_of(bench), memory_bytes=64 * 1024 ** 2, cpu_number=0.5)
    service.submit_trial_job(form)
    detail = bench.wait_for_end(service, form, TrialJobStatus.FAILED)
    assert detail.exit_code == 137
    assert detail.message.code == "out_of_memory"


def test_the_check_before_a_launch_asks_the_real_podman(bench, podman):
    service = bench.open_service()
    assert [finding.ok for finding in service.rehearse(quick=True, options=options_of(bench))
            if finding.check == "image"] == [True]
    missing, = [finding for finding in service.rehearse(quick=True, options=LocalTrialOptions(
        docker_image="localhost:1/none:1")) if finding.check == "image"]
    assert missing.message.code == "image_missing"
    assert "connection refused" in missing.message


def test_podman_without_root_gives_the_trial_s_files_to_the_user_who_runs_it(bench, podman, user):  # noqa: F811
    """runAs: agent, keeper and podman are that user's, and so is what root inside writes."""
    store = Path(user.pw_dir) / "store"
    store.mkdir()
    theirs = RealPodman(store, user)
    try:
        service = bench.open_service()
        code = bench.code({"trial.py": LOOKS_AROUND})
        form = replace(bench.form("python3 trial.py; ls -n made.txt", code=code, environment={"SECRET": "x"}),
                       options=options_of(bench, run_as=user.pw_name))
        service.submit_trial_job(form)
        bench.wait_for_end(service, form)
        seen, listed = bench.output(form).splitlines()
        assert json.loads(seen)["user"] == 0
        assert listed.split()[2] == "0"
        made, = Path(user.pw_dir).rglob("made.txt")
        assert made.stat().st_uid == user.pw_uid
        bench.wait("its container is gone", lambda: not theirs.containers())
        bench.close_service(service)
    finally:
        theirs.close()
