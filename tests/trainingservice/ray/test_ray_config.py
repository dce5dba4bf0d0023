"""What a file may say about Ray, and the request that comes of it."""

import json
from pathlib import Path

import pytest
from pydantic import ValidationError

from trainingservice.keeper.fetched_keeper import FETCH
from trainingservice.ray.config import RayClusterSettings, RayTrialOptions
from trainingservice.ray.job_request import asked_resources, job_request
from trainingservice.refused_values import refusals
from trainingservice.trial_job import HyperParameters, JobApplicationForm, KeeperAccess, TrialLimits


def form(**options):
    more = {key: options.pop(key) for key in ("gpu_number", "limits", "keeper") if key in options}
    access = KeeperAccess(("http://nniweb.lab:8080/",), "the-keepers-token")
    return JobApplicationForm(
        job_name="t12345678901", trial_job_id="t12345678901", experiment_id="e12345678901", sequence_id=7,
        hyper_parameters=HyperParameters("{}"), command="python3 trial.py",
        options=RayTrialOptions.model_validate(options), **{"keeper": access, **more})


def refused(model, **given):
    with pytest.raises(ValidationError) as refusal:
        model.model_validate(given)
    [(field, sentence)] = refusals(refusal.value)
    return f"{field}: {sentence}"


@pytest.mark.parametrize(("written", "meant"), [
    ("ray.lab:8265", "http://ray.lab:8265"), ("https://ray.lab/", "https://ray.lab"),
    ("https://proxy.lab/ray/", "https://proxy.lab/ray")])
def test_an_address_is_that_of_the_dashboard(written, meant):
    assert RayClusterSettings(address=written).address == meant


def test_headers_and_token_are_secrets_and_not_what_a_cluster_is_told_by():
    given = {"address": "ray.lab", "token": "sesame", "headers": "X-Proxy: open"}
    settings = RayClusterSettings.model_validate(given)
    assert "sesame" not in repr(settings)
    assert "open" not in repr(settings)
    assert settings.canonical() == {"address": "http://ray.lab"}
    assert settings.request_headers() == {"Authorization": "Bearer sesame", "X-Proxy": "open"}


def test_headers_are_lines():
    settings = RayClusterSettings(address="ray.lab", headers="X-A: one two\n\nX-B:  three \n")
    assert settings.request_headers() == {"X-A": "one two", "X-B": "three"}


@pytest.mark.parametrize(("given", "sentence"), [
    ({"address": "ray.lab", "token": "two words"}, "token: must be one word of plain characters"),
    ({"address": "ray.lab", "headers": "no name: x"}, "headers: line 1 is no header; each line must be a name"),
    ({"address": "ray.lab", "headers": "X-A: 1\nX-B"}, "headers: line 2 is no header"),
    ({"address": "ray.lab", "headers": "X-A: 1\nx-a: 2"}, '"x-a" twice'),
    ({"address": "ray.lab", "token": "a", "headers": "authorization: b"}, "leave one of them"),
    ({"address": "ray://ray.lab:10001"}, "address: must be the address of the dashboard")])
def test_wrong_settings_name_their_field(given, sentence):
    assert sentence in refused(RayClusterSettings, **given)


@pytest.mark.parametrize(("given", "sentence"), [
    ({"resources": {"GPU": 1}}, "resources: GPU has a field of its own; give it in trialGpuNumber"),
    ({"resources": {"special": 1.5}}, "resources: special must be a whole number, or less than 1"),
    ({"resources": {"special": 0}}, "resources.special: must be at least 0.0001"),
    ({"gpus": 1.5}, "gpus: is 1.5, but Ray gives whole GPUs, or a share of one"),
    ({"runtimeEnv": {"working_dir": "."}}, "runtimeEnv: working_dir cannot be given: the code comes from"),
    ({"runtimeEnv": {"pip": "requirements.txt"}}, "runtimeEnv: pip names a file, which the cluster does not have"),
    ({"runtimeEnv": {"env_vars": {"THREADS": 4}}}, "must be text; put its value in quotes"),
    ({"runtimeEnv": {"env_vars": {"NNI_KEEPER_URLS": "x"}}}, "is a name that the server itself sets"),
    ({"runtimeEnv": {"env_vars": ["A=1"]}}, "env_vars must be a group of variables"),
    ({"runtimeEnv": {"pip": ["x" * 40_000]}}, "must have fewer than 32768 characters as JSON"),
    ({"python": "python3; rm -rf /"}, "python: must be a command without blanks and quotes"),
    ({"memory": "lots"}, "memory: must be a number of megabytes")])
def test_wrong_options_name_their_field(given, sentence):
    assert sentence in refused(RayTrialOptions, **given)


def test_a_job_asks_for_what_the_options_say():
    request = job_request(form(cpus=2, memory="2gb", resources={"special": 1}, gpu_number=1), "mine")
    assert {name: value for name, value in request.items() if name.startswith("entrypoint_")} == {
        "entrypoint_num_cpus": 2, "entrypoint_num_gpus": 1, "entrypoint_memory": 2 * 1024 ** 3,
        "entrypoint_resources": {"special": 1}}
    assert request["submission_id"] == "t12345678901"
    assert request["metadata"]["nniweb_installation"] == "mine"


def test_a_share_of_a_gpu_wins_over_the_number_of_gpus_and_counts_as_one():
    options = RayTrialOptions(gpus=0.5)
    assert asked_resources(2, options) == {"CPU": 1, "GPU": 0.5}
    assert options.gpus_of_a_trial(2) == 1
    assert RayTrialOptions().gpus_of_a_trial(2) == 2
    assert options.with_gpus(2) == options
    assert RayTrialOptions().with_gpus(2).gpus == 2


def test_the_runtime_environment_is_the_users_with_the_keepers_variables():
    given = {"pip": ["torch"], "env_vars": {"OMP_NUM_THREADS": "4"}}
    runtime_env = job_request(form(runtimeEnv=given), "mine")["runtime_env"]
    assert runtime_env["pip"] == ["torch"]
    assert runtime_env["env_vars"]["OMP_NUM_THREADS"] == "4"
    assert runtime_env["env_vars"]["NNI_KEEPER_TOKEN"] == "the-keepers-token"


def test_the_token_is_in_the_runtime_environment_alone():
    request = job_request(form(), "mine")
    del request["runtime_env"]["env_vars"]["NNI_KEEPER_TOKEN"]
    assert "the-keepers-token" not in json.dumps(request)
    assert len(request["entrypoint"]) < 100, "Ray prints it into the log and shows it in a list"


def test_ray_waits_for_the_longest_end_of_a_trial_before_it_kills():
    request = job_request(form(limits=TrialLimits(grace_period=100.5)), "mine")
    assert int(request["runtime_env"]["env_vars"]["RAY_JOB_STOP_WAIT_TIME_S"]) >= 111


def test_a_private_authority_reaches_the_job_without_what_else_is_in_its_file(tmp_path: Path):
    pem = "-----BEGIN CERTIFICATE-----\nabc\n-----END CERTIFICATE-----\n"
    file = tmp_path / "ca.pem"
    file.write_text("words\n" + pem)
    access = KeeperAccess(("https://nniweb.lab/",), "token", ca_file=file)
    assert job_request(form(keeper=access), "mine")["runtime_env"]["env_vars"]["NNI_RAY_AUTHORITY"] == pem


def test_a_request_is_small_whoever_lists_thousands_of_jobs():
    assert len(FETCH) < len(json.dumps(job_request(form(), "mine"))) < 8000
