"""Trials whose command runs in a container, with a program in place of podman that runs it on the machine."""

import json
import os
import signal

import pytest

from tests.fakes.scripted_container_engine import ScriptedContainerEngine
from tests.trialkeeper.keeper_run import wait_until
from trialkeeper import container_engine, contract, machine
from trialkeeper.container_engine import prepare_image, remove_container

IMAGE = "localhost/train:1"


@pytest.fixture
def engine(tmp_path, monkeypatch):
    return ScriptedContainerEngine(tmp_path / "engine", monkeypatch, images=(IMAGE,))


@pytest.fixture
def container(engine):
    return {"image": IMAGE, "engine": "podman", "program": str(engine.program), "rootless": True, "network": "none"}


def test_the_command_runs_inside_with_its_variables_files_and_metrics(keeper, server, engine, container):
    code = "import nni; p = nni.get_next_parameter(); nni.report_final_result(p['x'])"
    assert keeper.run(f"echo $SECRET $NNI_TRIAL_JOB_ID; pwd; /usr/bin/python3 -c \"{code}\"", container=container,
                      environment={"SECRET": "correct horse"}) == 0, keeper.log()
    assert server.output() == f"correct horse {server.job_name}\n{keeper.folder}/code\n"
    assert [(entry["kind"], entry["value"]) for entry in server.of_type("metric")] == [("FINAL", "1")]
    assert (server.ended["reason"], server.ended["exit_code"]) == ("exited", 0)
    call, = engine.calls()
    assert call.startswith("run --rm --name nniweb-")
    assert "correct horse" not in call
    assert server.token not in call
    assert f"source={keeper.folder}/nni,target={keeper.folder}/nni " in call
    assert f"source={keeper.folder}," not in call, "neither the journal nor the token"


def test_the_machine_s_own_variables_are_not_those_of_the_trial(keeper, server, container):
    assert keeper.run("echo [$OF_THE_MACHINE]", variables={"OF_THE_MACHINE": "x"}, container=container) == 0
    assert server.output() == "[]\n"


@pytest.mark.parametrize("code", [3, 125, 126, 127])
def test_exit_codes_of_the_engine_s_own_are_the_command_s_where_the_command_gave_them(keeper, server, container, code):
    assert keeper.run(f"exit {code}", container=container) == code
    assert (server.ended["reason"], server.ended["exit_code"]) == ("exited", code)


@pytest.mark.parametrize("put", ["mkfifo", "ln -s /dev/zero", "mkdir"])
def test_what_a_trial_puts_in_the_place_of_its_exit_code_holds_up_nobody(keeper, server, container, put):
    place = f"{keeper.folder}/container/exit_code"
    assert keeper.run(f"{put} {place}; kill -9 $PPID", container=container) == 137
    assert server.ended["exit_code"] is None, server.ended


@pytest.mark.parametrize("put", ["mkfifo", "ln -s /dev/zero", "mkdir"])
def test_what_a_trial_puts_in_the_place_of_its_metrics_holds_up_nobody(keeper, server, container, put):
    place = f"{keeper.folder}/{contract.NNI_FOLDER}/{contract.METRICS_FILE}"
    process = keeper.start(f"mkdir -p {os.path.dirname(place)}; rm -f {place}; {put} {place}; exit 3",
                           container=container)
    try:
        assert process.wait(60) == 3
    finally:
        process.kill()
    assert server.ended["exit_code"] == 3


def test_a_container_that_cannot_be_started_is_no_end_of_the_command(keeper, server, engine, container):
    engine.write("failure", "Error: something odd", "Error: OCI runtime error: no such device")
    assert keeper.run("true", container=container) == 1
    assert (server.ended["reason"], server.ended["exit_code"]) == ("not_started", None)
    assert server.ended["message"] == (f"podman on {machine.host()} could not start the container (exit code 125): "
                                       "Error: OCI runtime error: no such device")


def test_an_engine_that_fails_while_the_command_runs_is_told_apart(keeper, server, engine, container):
    engine.write("dies")
    process = keeper.start("touch began; sleep 60", container=container)
    wait_until(lambda: keeper.exists("code/began"))
    engine.remove("dies")
    assert process.wait(60) == 1
    assert server.ended["reason"] == "lost"
    assert "podman failed while the trial ran (exit code 125): Error: the connection" in server.ended["message"]
    assert [call for call in engine.calls("rm") if call.startswith("rm --force --ignore")]
    assert not keeper.trial_processes()


def test_a_stop_reaches_what_is_inside_and_nothing_of_the_container_stays(keeper, server, engine, container):
    process = keeper.start("trap 'echo cleaned up; exit 9' TERM; touch began; while :; do sleep 0.05; done",
                           container=container)
    wait_until(lambda: keeper.exists("code/began"))
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) == 9
    assert server.output() == "cleaned up\n"
    assert server.ended["reason"] == "stopped"
    assert not keeper.trial_processes()


def test_what_ignores_term_is_killed_after_the_grace_period_with_its_container(keeper, server, engine, container):
    process = keeper.start("trap '' TERM; touch began; while :; do sleep 0.05; done", container=container)
    wait_until(lambda: keeper.exists("code/began"))
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) == 137
    assert server.ended["reason"] == "stopped"
    name = "nniweb-" + keeper.journal_lines()[0]["journal_id"]
    assert engine.calls("rm")[-1].endswith(name)
    assert not keeper.trial_processes()


def test_a_keeper_that_comes_after_a_killed_one_removes_its_container(keeper, server, engine, container):
    first = keeper.start("touch began; sleep 60", container=container)
    wait_until(lambda: keeper.exists("code/began"))
    first.kill()
    first.wait()
    assert keeper.start().wait(60) == 1
    assert server.ended["reason"] == "lost"
    assert engine.calls("rm")[-1].endswith("nniweb-" + keeper.journal_lines()[0]["journal_id"])
    assert not keeper.trial_processes()
    assert len(engine.calls("run")) == 1


def test_a_folder_that_is_removed_takes_the_container_of_an_unfinished_attempt_along(agent, attempt, engine, container):
    """As after a power cut: nothing lives in it, and nobody finished the attempt."""
    attempt.folder.mkdir()
    keeper = attempt.start("touch began; sleep 60", container=container)
    wait_until(lambda: attempt.exists("code/began"))
    keeper.kill()
    keeper.wait()
    for pid in attempt.trial_processes():
        os.kill(pid, signal.SIGKILL)
    name = "nniweb-" + attempt.journal_lines()[0]["journal_id"]
    assert agent.ask("remove", folder=str(attempt.folder))["ok"]
    assert engine.calls("rm")[-1].endswith(name)


def test_readings_are_of_what_is_inside(keeper, server, container):
    keeper.start("/usr/bin/python3 -c \"x = bytearray(80_000_000); import time; time.sleep(60)\"", container=container)
    wait_until(lambda: any((report.get("resources") or {}).get("memory_bytes", 0) > 80_000_000
                           for report in server.reports))


# --- images ------------------------------------------------------------------------------------


def test_the_agent_says_whether_an_image_is_there_and_pulls_one_that_is_not(engine, agent):
    engine.write("pullable", "docker.io/there:1")
    found = {"ok": True, "engine": "podman", "program": str(engine.program), "rootless": os.geteuid() != 0,
             "problem": "", "detail": ""}

    def ask(image, pull):
        answer = agent.ask("image", image=image, engine="auto", pull=pull)
        answer.pop("id")
        return answer

    assert ask(IMAGE, "never") == found
    assert engine.calls("pull") == []
    assert ask("docker.io/there:1", "never")["problem"] == "image_missing"
    assert ask("docker.io/there:1", "missing") == found
    assert ask("docker.io/there:1", "never") == found
    assert len(engine.calls("pull")) == 1
    assert ask(IMAGE, "always")["problem"] == "pull_failed"
    failed = ask("docker.io/nowhere:1", "missing")
    assert (failed["problem"], failed["detail"]) == (
        "pull_failed", "Error: initializing source docker://docker.io/nowhere:1: manifest unknown")
    for wrong in ({"image": "--privileged"}, {"engine": "lxc"}, {"pull": "often"}, {"image": None}):
        assert not agent.ask("image", **{"image": IMAGE, "engine": "auto", "pull": "never", **wrong})["ok"]


def test_a_machine_without_an_engine_says_so(monkeypatch, tmp_path):
    monkeypatch.setattr(container_engine, "_FOLDERS", ())
    monkeypatch.setenv("PATH", str(tmp_path))
    assert prepare_image(IMAGE, "auto", "missing")["problem"] == contract.NO_ENGINE


def test_docker_is_asked_whether_root_inside_is_root_outside(monkeypatch, tmp_path):
    engine = ScriptedContainerEngine(tmp_path / "docker", monkeypatch, "docker", images=(IMAGE,))
    found = prepare_image(IMAGE, "docker", "never")
    assert (found["engine"], found["program"], found["rootless"], found["problem"]) == (
        "docker", str(engine.program), False, "")
    assert prepare_image("localhost/other:1", "docker", "never")["problem"] == "image_missing"
    assert engine.calls("info")


def test_an_engine_that_does_not_work_is_told_with_its_words(monkeypatch, tmp_path):
    program = tmp_path / "podman"
    program.write_text("#!/bin/sh\necho 'cannot clone: Operation not permitted' >&2\nexit 125\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    found = prepare_image(IMAGE, "auto", "missing")
    assert (found["problem"], found["detail"]) == ("engine_unusable", "cannot clone: Operation not permitted")
    assert remove_container({"engine": "podman", "program": str(program)}, "x").startswith("cannot clone")
    assert "cannot be run" in remove_container({"engine": "podman", "program": f"{tmp_path}/gone"}, "x")


def test_a_job_says_nothing_of_a_container_where_there_is_none(keeper, server, engine):
    assert keeper.run("echo plain", container=None) == 0
    assert server.output() == "plain\n"
    assert engine.calls() == []
    assert json.loads((keeper.folder / contract.JOB_FILE).read_text())["container"] is None
