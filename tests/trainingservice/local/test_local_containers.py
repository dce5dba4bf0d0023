"""Local trials in an image, with a program in place of podman that runs them on the machine."""

from dataclasses import replace

import pytest

from tests.fakes.scripted_container_engine import ScriptedContainerEngine
from trainingservice.errors import PermanentError
from trainingservice.local.config import LocalTrialOptions
from trainingservice.trial_job_status import TrialJobStatus

IMAGE = "localhost/train:1"
IN_IMAGE = LocalTrialOptions(docker_image=IMAGE)


@pytest.fixture
def engine(tmp_path, monkeypatch):
    return ScriptedContainerEngine(tmp_path / "engine", monkeypatch, images=(IMAGE,))


@pytest.fixture
def service(engine, bench):
    return bench.open_service()


def run(bench, service, command, options=IN_IMAGE, **more):
    form = replace(bench.form(command, **more), options=options)
    service.submit_trial_job(form)
    return form, bench.wait_for_end(service, form)


def test_a_trial_runs_in_its_image_in_the_code_folder_itself(bench, service, engine):
    code = bench.code({"data.txt": "as launched"})
    form, detail = run(bench, service, "cat data.txt; echo [$VIRTUAL_ENV$PYTHONHASHSEED]", code=code)
    assert detail.status is TrialJobStatus.SUCCEEDED, detail.message
    assert bench.output(form) == "as launched[]\n"
    assert detail.interpreter is None, "the Python of the image is not known here"
    call, = engine.calls("run")
    assert f"type=bind,source={code.folder},target={code.folder} " in call
    assert f"--label nniweb.job={form.job_name} " in call
    assert call.split()[-2] == IMAGE


def test_a_trial_whose_image_is_missing_fails_before_anything_is_started(bench, service, engine):
    form = replace(bench.form("true"), options=LocalTrialOptions(docker_image="localhost/none:1", image_pull="never"))
    with pytest.raises(PermanentError) as caught:
        service.submit_trial_job(form)
    assert caught.value.reason.code == "image_missing"
    assert engine.calls("run") == []
    assert not list(service.context.state_folder.rglob(form.job_name))


def test_a_trial_waits_while_its_image_is_pulled(bench, service, engine):
    engine.write("slow")
    engine.write("pullable", "localhost/far:1")
    form = replace(bench.form("echo ran"), options=LocalTrialOptions(docker_image="localhost/far:1"))
    service.submit_trial_job(form)
    bench.wait("a word about the image", lambda: "localhost/far:1" in service.get_trial_job(form.job_name).message)
    assert service.get_trial_job(form.job_name).status is TrialJobStatus.WAITING
    engine.remove("slow")
    assert bench.wait_for_end(service, form).status is TrialJobStatus.SUCCEEDED


def test_the_check_before_a_launch_says_what_is_wrong_with_the_image(service, engine):
    def said(**options):
        findings = service.rehearse(quick=True, options=LocalTrialOptions(**options))
        return [finding for finding in findings if finding.check == "image"]

    assert [finding.ok for finding in said(docker_image=IMAGE)] == [True]
    missing, = said(docker_image="localhost/none:1")
    assert missing.blocks
    assert missing.message.code == "image_missing"
    assert said() == []
    assert service.check_command("no-such-program", None, {}, IN_IMAGE) == []


def test_an_administrator_decides_which_images_run_on_this_machine(bench, service, engine):
    service.set_cluster_metadata("local_config", '{"containers": {"required": true, "images": ["docker.io/*"]}}')
    for options in (IN_IMAGE, LocalTrialOptions()):
        with pytest.raises(PermanentError) as caught:
            service.submit_trial_job(replace(bench.form("true"), options=options))
        assert caught.value.reason.code == "container_not_permitted"
        findings = service.rehearse(quick=True, options=options)
        assert [finding.check for finding in findings if finding.blocks] == ["image"]
    assert engine.calls("run") == []


def test_a_trial_in_an_image_is_started_plainly_where_others_are_forked(bench, service, engine):
    form = replace(bench.form("python3 -c pass"), options=IN_IMAGE, warm_start=True)
    service.submit_trial_job(form)
    bench.wait_for_end(service, form)
    assert len(engine.calls("run")) == 1


def test_a_cancel_ends_what_is_inside(bench, service, engine):
    form = replace(bench.form(f"echo x > {bench.witness}/began; sleep 600"), options=IN_IMAGE)
    service.submit_trial_job(form)
    bench.wait_for_file(bench.witness / "began")
    service.cancel_trial_job(form.job_name)
    bench.wait_for_end(service, form, TrialJobStatus.USER_CANCELED)
