"""Trials in an image on another machine, with a program in place of podman that runs them on it."""

from dataclasses import replace

import pytest

from tests.fakes.scripted_container_engine import ScriptedContainerEngine
from tests.trainingservice.remote.conftest import LoginVariables
from trainingservice.remote.config import RemoteClusterSettings, RemoteTrialOptions
from trainingservice.trial_job_status import TrialJobStatus

IMAGE = "localhost/train:1"


@pytest.fixture
def engine(machine):
    return ScriptedContainerEngine(machine.folder / "engine", LoginVariables(machine), images=(IMAGE,))


def options(**more):
    return RemoteTrialOptions(**{"docker_image": IMAGE, **more})


def test_a_trial_runs_in_its_image_without_what_is_about_the_machine(bench, machine, engine):
    bench.platform.machine_list = [machine.settings(prepare_command="false", python_path="/nonexistent",
                                                    environment={"DATA": "/mnt/data"})]
    service = bench.open_service()
    code = bench.code({"data.txt": "as launched"})
    form = replace(bench.form("cat data.txt; echo [$DATA]", code=code), options=options())
    service.submit_trial_job(form)
    bench.wait_for_end(service, form)
    assert bench.output(form) == "as launched[/mnt/data]\n"
    assert len(engine.calls("run")) == 1


def test_a_trial_waits_for_the_pull_and_one_whose_image_cannot_come_fails_with_the_reason(bench, machine, engine):
    engine.write("slow")
    engine.write("pullable", "localhost/far:1")
    service = bench.open_service()
    waits, lacks = (replace(bench.form("true"), options=options(docker_image=image, **more)) for image, more in (
        ("localhost/far:1", {}), ("localhost/none:1", {"image_pull": "never"})))
    service.submit_trial_job(waits)
    service.submit_trial_job(lacks)
    failed = bench.wait_for_status(service, lacks, TrialJobStatus.FAILED)
    assert failed.message.code == "image_missing"
    bench.wait("a word about the pull", lambda: "localhost/far:1" in service.get_trial_job(waits.job_name).message)
    engine.remove("slow")
    bench.wait_for_end(service, waits)
    assert len(engine.calls("run")) == 1


def test_the_check_of_a_machine_says_whether_it_can_run_the_image(bench, machine, engine):
    service = bench.platform.new_service(bench.context())

    def said(quick, **more):
        finding, = [one for one in service.rehearse(quick=quick, options=options(**more)) if one.check == "image"]
        return finding

    try:
        assert said(True).ok
        missing = said(True, docker_image="localhost/none:1", image_pull="never")
        assert (missing.blocks, missing.message.code) == (True, "image_missing")
        will_come = said(True, docker_image="localhost/none:1")
        assert will_come.ok
        assert "pulls it before the first trial" in will_come.message
        assert engine.calls("pull") == [], "before a launch nothing is pulled there"
        cannot_come = said(False, docker_image="localhost/none:1")
        assert (cannot_come.blocks, cannot_come.message.arguments["cause"]) == (True, "pull_failed")
    finally:
        service.clean_up()


def test_a_shared_storage_has_no_way_into_an_image():
    storage = {"storageType": "NFS", "localMountPoint": "/mnt/here", "localMounted": "usermount",
               "remoteMountPoint": "mnt", "nfsServer": "nas", "exportedDirectory": "/export"}
    settings = RemoteClusterSettings.model_validate({
        "machineList": [{"host": "ada", "user": "me", "password": "secret"}], "sharedStorage": storage})
    (field, said), = options().refused_on(settings, options(), by_administrator=True)
    assert field == "dockerImage"
    assert "sharedStorage" in said
    assert RemoteTrialOptions().refused_on(settings, options(), by_administrator=True) == []
