"""The local platform with real agents, keepers and trials: what is its own, beside the conformance suite."""

import json
import os
import pickle
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from trainingservice.errors import InvalidMetadata
from trainingservice.local import rehearsal
from trainingservice.local.agent_process import AgentProcess
from trainingservice.local.config import LocalTrialOptions
from trainingservice.local.service import LocalTrainingService
from trainingservice.testing.processes import is_alive
from trainingservice.trial_job import ResumedJob, TrialJobDetail, job_document
from trainingservice.trial_job_status import TrialJobStatus
from trainingservice.words.byte_size import byte_size
from trialkeeper.attempt_folder import keeper_pid

RUNNING, FAILED, USER_CANCELED, EARLY_STOPPED = (TrialJobStatus.RUNNING, TrialJobStatus.FAILED,
                                                 TrialJobStatus.USER_CANCELED, TrialJobStatus.EARLY_STOPPED)


@pytest.fixture
def lasting(bench):
    """Makes a form of a job that runs until its file appears, and that file."""
    def make(**more):
        go = bench.witness / f"go{len(list(bench.witness.iterdir()))}{time.monotonic_ns()}"
        return bench.form(f'echo here; until [ -e "{go}" ]; do sleep 0.02; done', **more), go
    return make


def folder_of(bench, form):
    return bench.context().state_folder / "trials" / form.experiment_id / form.job_name


def test_the_command_runs_in_the_code_folder_itself_and_nothing_of_ours_is_put_there(bench, service):
    code = bench.code({"readme": "mine"})
    form = bench.form("pwd; echo made > by_the_trial", code=code)
    service.submit_trial_job(form)
    detail = bench.wait_for_end(service, form)
    assert bench.output(form).strip() == str(code.folder)
    assert sorted(path.name for path in code.folder.iterdir()) == ["by_the_trial", "readme"]
    assert detail.url == folder_of(bench, form).as_uri()
    assert detail.working_directory == str(code.folder)


def test_a_snapshot_is_the_code_as_it_was_at_the_first_trial(bench, service):
    code = bench.code({"say.sh": "echo first\n", "data/big": "x", ".nniignore": "data/\n"})
    snapshot = LocalTrialOptions(snapshot_code=True)
    only_folder = replace(code, archive=None, sha256=None)
    first = replace(bench.form("sh say.sh; ls; touch left_by_first", code=only_folder), options=snapshot)
    service.submit_trial_job(first)
    bench.wait_for_end(service, first)
    (code.folder / "say.sh").write_text("echo edited\n")
    second = replace(bench.form("sh say.sh; ls", code=only_folder), options=snapshot)
    service.submit_trial_job(second)
    bench.wait_for_end(service, second)
    assert bench.output(first) == bench.output(second) == "first\nsay.sh\n"
    assert not (code.folder / "left_by_first").exists()
    service.clean_up_experiment(bench.experiment)
    assert bench.platform.left_behind(bench.experiment) == []


def test_secrets_of_the_server_stay_with_the_server(bench, monkeypatch):
    monkeypatch.setenv("NNIWEB_SECRET_KEY", "do not tell")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "do not tell")
    monkeypatch.setenv("LC_MONETARY", "C")
    service = bench.open_service()
    script = "import json, os; print(json.dumps(dict(os.environ)))"
    form = bench.form("python3 trial.py", code=bench.code({"trial.py": script}))
    service.submit_trial_job(form)
    bench.wait_for_end(service, form)
    environment = json.loads(bench.output(form))
    assert "do not tell" not in bench.output(form)
    assert form.keeper.token not in bench.output(form)
    assert environment["LC_MONETARY"] == "C"
    assert environment["HOME"] == os.environ["HOME"]


def test_a_job_is_handed_over_within_moments_of_its_submission(bench, service):
    warm = bench.form("true")
    service.submit_trial_job(warm)
    bench.wait_for_end(service, warm)
    pauses = []
    for _ in range(5):
        form = bench.form("true")
        begin = time.monotonic()
        service.submit_trial_job(form)
        while not folder_of(bench, form).exists() and time.monotonic() < begin + 10:
            time.sleep(0.001)
        pauses.append(time.monotonic() - begin)
        bench.wait_for_end(service, form)
    assert min(pauses) < 0.1, pauses


def test_the_agent_is_started_again_when_it_dies_and_trials_go_on(bench, service, lasting):
    form, go = lasting()
    service.submit_trial_job(form)
    bench.wait_for_status(service, form, RUNNING)
    bench.wait("it has said something", lambda: bench.output(form))
    agent = service._agent.pid
    os.kill(agent, signal.SIGKILL)
    bench.wait("there is another agent", lambda: service._agent.pid not in (None, agent))
    assert keeper_pid(str(folder_of(bench, form))) is not None
    after, _ = lasting()
    service.submit_trial_job(after)
    bench.wait_for_status(service, after, RUNNING)
    go.touch()
    bench.wait_for_end(service, form)
    assert [entry["type"] for entry in bench.entries(form)].count("started") == 1


def test_the_agent_has_a_session_of_its_own(bench, service):
    bench.wait("the agent runs", lambda: service._agent.pid)
    assert os.getsid(service._agent.pid) == service._agent.pid


SERVER = """
import sys, pickle, threading
from pathlib import Path
from trainingservice.base import ServiceContext
from trainingservice.local.config import LocalClusterSettings
from trainingservice.local.service import LocalTrainingService
form = pickle.load(open(sys.argv[2], "rb"))
service = LocalTrainingService(LocalClusterSettings(), ServiceContext("conformance", Path(sys.argv[1])))
service.resume_trial_jobs([])
threading.Thread(target=service.run, daemon=True).start()
service.submit_trial_job(form)
while service.get_trial_job(form.job_name).status != "RUNNING":
    pass
pickle.dump(service.get_trial_job(form.job_name), open(sys.argv[3], "wb"))
print("running", service._agent.pid, flush=True)
sys.stdin.read()
"""


def test_a_killed_server_leaves_its_trials_running_and_the_next_one_finds_them(bench, lasting, tmp_path):
    form, go = lasting()
    (tmp_path / "form").write_bytes(pickle.dumps(form))
    server = subprocess.Popen([sys.executable, "-c", SERVER, str(bench.context().state_folder), str(tmp_path / "form"),
                               str(tmp_path / "detail")], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                              cwd=Path(__file__).parents[3])
    word, agent = server.stdout.readline().split()
    assert word == "running"
    server.kill()
    server.communicate()
    bench.wait("its agent has ended", lambda: not is_alive(int(agent)))
    detail = pickle.loads((tmp_path / "detail").read_bytes())
    service = bench.open_service([ResumedJob(detail)])
    assert service.get_trial_job(form.job_name).status is RUNNING
    go.touch()
    bench.wait_for_end(service, form)
    assert [entry["type"] for entry in bench.entries(form)].count("started") == 1


def test_a_submission_that_had_not_reached_the_machine_is_made_again_once(bench, service, lasting):
    form, go = lasting()
    service.submit_trial_job(form)
    detail = bench.wait_for_status(service, form, RUNNING)
    bench.close_service(service)
    never, _ = lasting()
    waiting = replace(detail, id=never.job_name, form=never, status=TrialJobStatus.WAITING)
    successor = bench.open_service([ResumedJob(detail, submitted=False), ResumedJob(waiting, submitted=False)])
    bench.wait("the one that had arrived is found",
               lambda: successor.get_trial_job(form.job_name).status is RUNNING)
    assert successor.get_trial_job(never.job_name).status is TrialJobStatus.WAITING
    assert not folder_of(bench, never).exists()
    for known in (form, never):
        successor.submit_trial_job(known)
    bench.wait_for_status(successor, never, RUNNING)
    go.touch()
    bench.wait_for_end(successor, form)


def test_a_keeper_that_was_killed_before_its_trial_started_is_started_again(bench, service, lasting):
    form, go = lasting()
    folder = folder_of(bench, form)
    folder.mkdir(parents=True, mode=0o700)
    waiting = TrialJobDetail(form.job_name, TrialJobStatus.WAITING, form, submit_time=time.time())
    document = job_document(form, platform="local", code={"folder": str(form.code.folder)})
    (folder / "job.json").write_text(json.dumps(document))  # an agent died between writing this and forking
    successor = bench.open_service([ResumedJob(waiting)])
    bench.wait_for_status(successor, form, RUNNING)
    go.touch()
    bench.wait_for_end(successor, form)


def test_a_job_that_a_power_cut_left_empty_before_it_began_is_written_again(bench, lasting):
    form, go = lasting()
    folder = folder_of(bench, form)
    folder.mkdir(parents=True, mode=0o700)
    waiting = TrialJobDetail(form.job_name, TrialJobStatus.WAITING, form, submit_time=time.time())
    for name in ("job.json", "access.json"):
        (folder / name).touch()
    successor = bench.open_service([ResumedJob(waiting)])
    bench.wait_for_status(successor, form, RUNNING)
    go.touch()
    bench.wait_for_end(successor, form)


def test_an_archive_of_a_snapshot_that_a_power_cut_left_empty_is_packed_again(bench, service):
    only_folder = replace(bench.code({"say.sh": "echo said\n"}), archive=None, sha256=None)
    snapshot = LocalTrialOptions(snapshot_code=True)
    first = replace(bench.form("sh say.sh", code=only_folder), options=snapshot)
    service.submit_trial_job(first)
    bench.wait_for_end(service, first)
    [archive] = (bench.context().state_folder / "code" / first.experiment_id).iterdir()
    archive.write_bytes(b"")
    successor = bench.open_service()
    second = replace(bench.form("sh say.sh", code=only_folder), options=snapshot)
    successor.submit_trial_job(second)
    bench.wait_for_end(successor, second)
    assert bench.output(second) == "said\n"


def test_attempt_folders_are_the_user_s_alone(bench, service):
    form = bench.form("true")
    service.submit_trial_job(form)
    bench.wait_for_end(service, form)
    for folder in (folder_of(bench, form), folder_of(bench, form).parent, folder_of(bench, form).parent.parent):
        assert folder.stat().st_mode & 0o077 == 0


def test_a_command_in_a_missing_folder_fails_with_its_name(bench, service):
    form = bench.form("true", code=bench.code({}))
    form.code.folder.rmdir()
    service.submit_trial_job(form)
    assert str(form.code.folder) in bench.wait_for_status(service, form, FAILED).message


def test_an_experiment_can_be_removed_while_keepers_still_wait_for_a_server_that_is_away(bench, service):
    forms = [bench.form("echo here") for _ in range(3)]
    bench.server.close()
    for form in forms:
        service.submit_trial_job(form)
    for form in forms:
        bench.wait_for_status(service, form, TrialJobStatus.SUCCEEDED)
    assert bench.platform.left_behind(bench.experiment)
    begin = time.monotonic()
    service.clean_up_experiment(bench.experiment)
    assert time.monotonic() - begin < 60, "they would wait for a day"
    assert bench.platform.left_behind(bench.experiment) == []
    assert bench.trial_processes(forms[0]) == []


# --- metadata and rehearsal -----------------------------------------------------------------


def test_local_config_is_read_and_wrong_values_are_refused_by_field(bench):
    service = bench.platform.new_service(bench.context())
    text = '{"gpuIndices": "0,1", "maxTrialNumPerGpu": 2}'
    service.set_cluster_metadata("local_config", text)
    assert service.get_cluster_metadata("local_config") == text
    for value, field in [('{"gpuIndices": "a"}', "local_config.gpuIndices"), ("[]", "local_config"),
                         ("{", "local_config"),
                         ('{"maxTrialNumPerGpu": 0}', "local_config.maxTrialNumPerGpu"),
                         ('{"gpus": 1}', "local_config.gpus")]:
        with pytest.raises(InvalidMetadata) as caught:
            service.set_cluster_metadata("local_config", value)
        assert caught.value.field == field
    assert service.get_cluster_metadata("local_config") == text
    with pytest.raises(InvalidMetadata):
        service.set_cluster_metadata("machine_list", "[]")


def rehearse(service: LocalTrainingService, **arguments):
    return {finding.check: finding for finding in service.rehearse(**arguments)}


def test_a_rehearsal_tries_everything_and_leaves_nothing_running(bench):
    service = bench.platform.new_service(bench.context())
    findings = rehearse(service)
    assert set(findings) == {"interpreter", "folder", "disk", "gpus", "processes", "trial", "connection"}
    assert [finding for finding in findings.values() if finding.blocks] == []
    assert findings["trial"].message == "An empty test trial succeeded."
    assert service._agent.pid is None
    assert list((bench.context().state_folder / "rehearsal").iterdir()) == []


def test_a_quick_rehearsal_starts_nothing(bench, monkeypatch):
    service = bench.platform.new_service(bench.context())
    monkeypatch.setattr(AgentProcess, "client", lambda *_: pytest.fail("an agent was started"))
    assert set(rehearse(service, quick=True)) == {"interpreter", "folder", "disk"}


def test_a_quick_rehearsal_leaves_an_agent_that_runs_as_it_is(bench, service):
    pid = bench.wait("the agent runs", lambda: service._agent.pid)
    rehearse(service, quick=True)
    assert service._agent.pid == pid


def test_a_rehearsal_says_that_the_folder_cannot_be_written(bench, tmp_path):
    (tmp_path / "file").write_text("in the way")
    service = bench.platform.new_service(replace(bench.context(), state_folder=tmp_path / "file" / "state"))
    findings = rehearse(service)
    assert findings["folder"].blocks
    assert "make it writable" in findings["folder"].message


@pytest.mark.parametrize(("free", "ok", "blocks"), [(50, False, True), (500, False, False), (5000, True, False)])
def test_a_rehearsal_looks_at_the_disk(bench, monkeypatch, free, ok, blocks):
    usage = rehearsal.shutil.disk_usage(".")._replace(free=free * 1024 * 1024)
    monkeypatch.setattr(rehearsal.shutil, "disk_usage", lambda path: usage)
    service = bench.platform.new_service(bench.context())
    finding = rehearse(service, quick=True)["disk"]
    assert (finding.ok, finding.blocks) == (ok, blocks)
    assert f"{byte_size(free * 1024 * 1024)} are free" in finding.message


def test_a_rehearsal_looks_at_gpus_when_the_options_speak_of_them(bench, nvidia_smi):
    service = bench.platform.new_service(bench.context())
    wrong = rehearse(service, quick=True, options=LocalTrialOptions(gpu_indices=[5]))["gpus"]
    assert wrong.blocks
    assert "names GPU 5" in wrong.message
    right = rehearse(service, quick=True, options=LocalTrialOptions(gpu_indices=[1]))["gpus"]
    assert right.ok
    assert "2 GPU(s)" in right.message
    nvidia_smi.fail()
    failing = rehearse(service, quick=True, options=LocalTrialOptions(gpu_indices=[1]))["gpus"]
    assert (failing.ok, failing.temporary) == (False, True)
    assert "could not talk to the driver" in failing.message


@pytest.mark.parametrize("options", [LocalTrialOptions(use_active_gpu=True), LocalTrialOptions().with_gpus(1)])
def test_a_rehearsal_blocks_trials_with_gpus_where_there_is_no_nvidia_smi(bench, options):
    service = bench.platform.new_service(bench.context())
    finding = rehearse(service, quick=True, options=options)["gpus"]
    assert finding.blocks
    assert "no nvidia-smi" in finding.message


def test_a_rehearsal_says_that_a_trial_asks_for_more_gpus_than_there_are(bench, nvidia_smi):
    service = bench.platform.new_service(bench.context())
    assert not rehearse(service, quick=True, options=LocalTrialOptions().with_gpus(3))["gpus"].ok
    assert rehearse(service, quick=True, options=LocalTrialOptions().with_gpus(2))["gpus"].ok


def test_nnis_defaults_written_out_ask_for_no_gpu(bench):
    service = bench.platform.new_service(bench.context())
    options = LocalTrialOptions(use_active_gpu=False, max_trial_number_per_gpu=1)
    assert "gpus" not in rehearse(service, quick=True, options=options)
