"""NNI's REST interface, call by call: NNI's spelling, our rules about who may."""

import json
from datetime import timedelta

import pytest
from django.utils import timezone
from rest_framework.test import APIClient

from nniweb.experiments.models import ApiToken, Attempt, Metric, Trial, TrialOutput, TrialParameters, User
from nniweb.experiments.models.account import Role


@pytest.fixture
def experiment(make_experiment):
    return make_experiment(config={"searchSpace": {}, "trialCommand": "true", "tuner": {"name": "Random"}},
                           started_at=timezone.now())


@pytest.fixture
def finished(experiment, make_attempt):
    """A trial that succeeded with two intermediate results and a final one."""
    now = timezone.now()
    attempt = make_attempt(experiment, status="SUCCEEDED", ask_number=3, final_value='{"default": 0.5}',
                           final_number=0.5, started_at=now, ended_at=now + timedelta(seconds=2))
    for n, (kind, sequence, value) in enumerate([("PERIODICAL", 0, "0.1"), ("PERIODICAL", 1, "NaN"),
                                                 ("FINAL", 0, '{"default": 0.5}')]):
        Metric.objects.create(attempt=attempt, n=n, kind=kind, sequence=sequence, value=value, parameter_id="3",
                              recorded_at=now, received_at=now)
    TrialOutput.objects.create(attempt=attempt, stream="stdout", offset=0, data=b"hello\n", revision=1)
    return attempt.trial


@pytest.fixture
def nni(admin, experiment):
    client = APIClient()
    client.credentials(HTTP_AUTHORIZATION=f"Token {ApiToken.make(admin)}")

    def call(method: str, path: str, body=None, status: int = 200):
        answer = getattr(client, method)(f"/nni/{experiment.public_id}/api/v1/nni/{path}", body, format="json")
        assert answer.status_code == status, answer.content
        return json.loads(answer.content) if answer.content else None

    return call


def test_the_profile_and_the_status(nni, experiment) -> None:
    profile = nni("get", "experiment")
    assert profile["id"] == experiment.public_id
    assert profile["params"]["trialConcurrency"] == 2
    assert profile["params"]["searchSpace"] == experiment.search_space
    assert profile["params"]["trainingService"]["platform"] == "local"
    assert isinstance(profile["execDuration"], int)
    assert nni("get", "check-status") == {"status": "RUNNING", "errors": []}


def test_the_version_is_that_of_nni_3(admin, experiment) -> None:
    client = APIClient()
    client.credentials(HTTP_AUTHORIZATION=f"Token {ApiToken.make(admin)}")
    assert client.get(f"/nni/{experiment.public_id}/api/v1/nni/version").content == b"3.0.0"


def test_a_failed_experiment_tells_its_reason(nni, experiment) -> None:
    type(experiment).objects.update(status="ERROR", message="The tuner failed.")
    assert nni("get", "check-status") == {"status": "ERROR", "errors": ["The tuner failed."]}


def test_trials_have_nnis_form(nni, finished, experiment) -> None:
    [trial] = nni("get", "trial-jobs")
    assert trial["trialJobId"] == finished.public_id
    assert (trial["status"], trial["sequenceId"]) == ("SUCCEEDED", 0)
    assert trial["endTime"] - trial["startTime"] == 2000
    assert json.loads(trial["hyperParameters"][0]) == {"parameter_id": 3, "parameter_index": 0,
                                                       "parameter_source": "algorithm", "parameters": {"x": 0.5}}
    [final] = trial["finalMetricData"]
    assert json.loads(json.loads(final["data"])) == {"default": 0.5}
    assert nni("get", f"trial-jobs/{finished.public_id}") == trial
    assert nni("get", "trial-jobs?status=FAILED") == []
    assert nni("get", "trial-jobs/nowhere") is None
    assert nni("get", "job-statistics") == [{"trialJobStatus": "SUCCEEDED", "trialJobNumber": 1}]
    assert nni("get", "export-data") == [{"parameter": {"x": 0.5}, "value": '{"default": 0.5}',
                                          "trialJobId": finished.public_id}]


def test_a_trial_with_several_parameter_sets_shows_each_with_its_result(nni, finished, experiment) -> None:
    type(experiment).objects.update(multi_phase=True)
    Trial.objects.update(parameter_set_count=2, result_index=1)
    finished.parameter_sets.update(final_value='{"default": 0.5}', final_number=0.5)
    TrialParameters.objects.create(trial=finished, index=1, parameter_id=4, value={"x": 1}, final_value="0.75",
                                   final_number=0.75)
    TrialParameters.objects.create(trial=finished, index=2, value=None)
    now = timezone.now()
    for n, value in ((10, "0.75"), (11, "0.9")):
        Metric.objects.create(attempt=finished.attempts.get(), n=n, kind="FINAL", sequence=0, value=value,
                              parameter_id="4", recorded_at=now, received_at=now)
    [trial] = nni("get", "trial-jobs")
    assert [json.loads(given)["parameters"] for given in trial["hyperParameters"]] == [{"x": 0.5}, {"x": 1}]
    assert [(one["parameterId"], json.loads(one["data"])) for one in trial["finalMetricData"]] == [
        ("3", '{"default": 0.5}'), ("4", "0.75")]
    assert nni("get", "export-data") == [
        {"parameter": {"x": 0.5}, "value": '{"default": 0.5}', "trialJobId": finished.public_id},
        {"parameter": {"x": 1}, "value": "0.75", "trialJobId": finished.public_id}]


def test_metrics_are_texts_within_texts(nni, finished) -> None:
    metrics = nni("get", "metric-data")
    assert [(metric["type"], metric["sequence"], metric["parameterId"]) for metric in metrics] == [
        ("PERIODICAL", 0, "3"), ("PERIODICAL", 1, "3"), ("FINAL", 0, "3")]
    assert json.loads(metrics[1]["data"]) == "NaN"
    assert nni("get", f"metric-data/{finished.public_id}?type=FINAL") == metrics[2:]
    assert nni("get", "metric-data-range/0/5") == metrics
    assert nni("get", "metric-data-range/1/5") == []
    assert nni("get", "metric-data-latest") == [metrics[2], metrics[1]]


def test_a_repeated_trial_shows_the_results_of_its_last_attempt(nni, finished) -> None:
    second = Attempt.objects.create(trial=finished, number=2, job_name="again", created_at=timezone.now())
    Metric.objects.create(attempt=second, n=1, kind="FINAL", sequence=0, value="7", recorded_at=timezone.now(),
                          received_at=timezone.now())
    assert [metric["data"] for metric in nni("get", "metric-data")] == ['"7"']


@pytest.mark.parametrize(("kind", "params", "field", "value"), [
    ("TRIAL_CONCURRENCY", {"trialConcurrency": 5}, "trial_concurrency", 5),
    ("MAX_TRIAL_NUM", {"maxTrialNumber": 50}, "max_trial_number", 50),
    ("MAX_TRIAL_NUM", {"maxTrialNum": 51}, "max_trial_number", 51),
    # nnictl up to 2.10: NNI 1's name beside what it was answered
    ("MAX_TRIAL_NUM", {"maxTrialNumber": 10, "maxTrialNum": 52}, "max_trial_number", 52),
    ("MAX_EXEC_DURATION", {"maxExperimentDuration": "1h"}, "max_duration", 3600),
    ("MAX_EXEC_DURATION", {"maxExecDuration": 90}, "max_duration", 90),
    ("SEARCH_SPACE", {"searchSpace": {"x": {"_type": "uniform", "_value": [0, 2]}}}, "search_space",
     {"x": {"_type": "uniform", "_value": [0, 2]}}),
    ("SEARCH_SPACE", {"searchSpace": '{"x": {"_type": "uniform", "_value": [0, 3]}}'}, "search_space",
     {"x": {"_type": "uniform", "_value": [0, 3]}}),
])
def test_only_the_member_of_the_update_type_is_changed(nni, experiment, kind, params, field, value) -> None:
    profile = nni("get", "experiment")
    nni("put", f"experiment?update_type={kind}", {**profile, "params": {"experimentName": "other", **params}})
    experiment.refresh_from_db()
    assert getattr(experiment, field) == value
    assert experiment.name == "quadratic"


@pytest.mark.parametrize(("kind", "params", "words"), [
    ("TRIAL_CONCURRENCY", {"trialConcurrency": 0}, "must be at least 1"),
    ("TRIAL_CONCURRENCY", {}, "has no params.trialConcurrency"),
    ("SEARCH_SPACE", {"searchSpace": {"x": {"_type": "unform", "_value": [0, 1]}}}, "uniform"),
    ("SEARCH_SPACE", {"searchSpace": "{"}, "is no JSON"),
    ("SEARCH_SPACE", {"searchSpace": '{"x": ' * 100_000}, "is no JSON"),
    ("SEARCH_SPACE", {"searchSpace": '{"x": ' * 200 + "1" + "}" * 200}, "levels deep"),
    ("SOMETHING", {}, "must be one of TRIAL_CONCURRENCY"),
])
def test_a_wrong_update_is_answered_with_a_sentence(nni, kind, params, words) -> None:
    assert words in nni("put", f"experiment?update_type={kind}", {"params": params}, status=400)["error"]


def test_trials_are_submitted_and_canceled(nni, experiment) -> None:
    assert nni("post", "trial-jobs", {"x": 0.25}) == {"sequenceId": 0}
    [trial] = nni("get", "trial-jobs")
    assert json.loads(trial["hyperParameters"][0])["parameter_source"] == "customized"
    assert nni("delete", f"trial-jobs/{trial['trialJobId']}") is None
    assert nni("get", "trial-jobs")[0]["status"] == "USER_CANCELED"
    nni("delete", f"trial-jobs/{trial['trialJobId']}")
    assert "no such object" in nni("delete", "trial-jobs/nowhere", status=404)["error"]
    assert "must be an object" in nni("post", "trial-jobs", [1], status=400)["error"]


@pytest.mark.parametrize("path", ["trial-jobs?status=%00", "metric-data?type=%00"])
def test_a_filter_by_what_no_database_stores_finds_nothing(nni, finished, path) -> None:
    assert nni("get", path) == []


def test_parameters_that_no_database_stores_are_refused_with_a_sentence(nni) -> None:
    error = nni("post", "trial-jobs", {"x": "\0"}, status=400)["error"]
    assert error == "x: The text of x contains the character U+0000, which is not allowed in text."


def test_results_from_elsewhere_are_for_the_tuner(nni, experiment) -> None:
    assert nni("post", "experiment/import-data", [{"parameter": {"x": 0.5}, "value": "0.25"},
                                                  {"parameter": {"x": 1}, "value": {"default": 2, "loss": 1}}]) is None
    first = [{"parameter": {"x": 0.5}, "value": 0.25}, {"parameter": {"x": 1}, "value": {"default": 2, "loss": 1}}]
    assert [json.loads(text) for text in nni("get", "experiment/imported-data")] == [first]
    second = [{"parameter": {"x": 0.75}, "value": 3.0}]
    nni("post", "experiment/import-data", second)
    assert [json.loads(text) for text in nni("get", "experiment/imported-data")] == [first, second]
    assert "Must be a finite number" in nni("post", "experiment/import-data", [{"parameter": {}, "value": "x"}],
                                            status=400)["error"]


def test_the_experiment_is_stopped(nni, experiment) -> None:
    nni("delete", "experiment")
    assert nni("get", "check-status")["status"] == "STOPPING"


def test_the_registry_knows_this_experiment_alone(nni, experiment, make_experiment) -> None:
    make_experiment()
    [entry] = nni("get", "experiments-info")
    assert entry == nni("get", "experiment-metadata")
    assert (entry["id"], entry["pid"], entry["endTime"]) == (experiment.public_id, None, "N/A")


def test_output_is_read_under_nnis_names(nni, admin, finished, experiment) -> None:
    client = APIClient()
    client.credentials(HTTP_AUTHORIZATION=f"Token {ApiToken.make(admin)}")
    root = f"/nni/{experiment.public_id}/api/v1/nni"
    for name in ("trial-file/{}/trial.log", "trial-file/{}/stdout", "trial-log/{}/TRIAL_LOG"):
        assert client.get(f"{root}/{name.format(finished.public_id)}").content == b"hello\n"
    assert client.get(f"{root}/trial-file/{finished.public_id}/stderr").content == b"stderr is empty."
    assert client.get(f"{root}/trial-file/{finished.public_id}/model.bin").status_code == 404


@pytest.mark.parametrize(("method", "path", "words"), [
    ("post", "experiment", "was already started"),
    ("put", "experiment/cluster-metadata", "at the launch"),
    ("post", "tensorboard", "Start it on the page"),
    ("get", "tensorboard-tasks", "Start it on the page"),
])
def test_what_is_done_otherwise_here_is_refused_with_how(nni, method, path, words) -> None:
    assert words in nni(method, path, {}, status=404)["error"]
    assert nni("get", "experiment/imported-data") == []
    assert "nothing at elsewhere/x" in nni("get", "elsewhere/x", status=404)["error"]


#: Every call of NNI 3.0's interface, and of its web page and nnictl: method, path, body, and how it is answered: with
#: the type of a JSON body, with text, with nothing, or refused.
CALLS = [
    ("get", "version", None, "text"), ("get", "check-status", None, dict), ("get", "experiment", None, dict),
    ("post", "experiment", {"experimentName": "other"}, "refused"),
    ("put", "experiment?update_type=TRIAL_CONCURRENCY", {"params": {"trialConcurrency": 3}}, "nothing"),
    ("put", "experiment?update_type=MAX_EXEC_DURATION", {"params": {"maxExperimentDuration": "2h"}}, "nothing"),
    ("put", "experiment?update_type=SEARCH_SPACE",
     {"params": {"searchSpace": {"x": {"_type": "uniform", "_value": [0, 2]}}}}, "nothing"),
    ("put", "experiment?update_type=MAX_TRIAL_NUM", {"params": {"maxTrialNumber": 20}}, "nothing"),
    ("put", "experiment/cluster-metadata", {"trial_config": {}}, "refused"),
    ("post", "experiment/import-data", [{"parameter": {"x": 1}, "value": 2}], "nothing"),
    ("get", "experiment/imported-data", None, list), ("get", "experiment-metadata", None, dict),
    ("get", "experiments-info", None, list), ("get", "job-statistics", None, list), ("get", "trial-jobs", None, list),
    ("get", "trial-jobs?status=SUCCEEDED", None, list), ("get", "trial-jobs/{trial}", None, dict),
    ("post", "trial-jobs", {"x": 0.5}, dict), ("get", "metric-data", None, list),
    ("get", "metric-data?type=FINAL", None, list), ("get", "metric-data/{trial}", None, list),
    ("get", "metric-data-range/0/9", None, list), ("get", "metric-data-latest", None, list),
    ("get", "export-data", None, list), ("get", "trial-file/{trial}/trial.log", None, "text"),
    ("get", "trial-file/{trial}/stderr", None, "text"), ("get", "trial-log/{trial}/TRIAL_LOG", None, "text"),
    ("get", "trial-file/{trial}/model.onnx", None, "refused"), ("post", "tensorboard", {"trials": "x"}, "refused"),
    ("get", "tensorboard/1", None, "refused"), ("put", "tensorboard/1", {}, "refused"),
    ("delete", "tensorboard/1", None, "refused"), ("get", "tensorboard-tasks", None, "refused"),
    ("delete", "tensorboard-tasks", None, "refused"), ("delete", "trial-jobs/{trial}", None, "nothing"),
    ("delete", "experiment", None, "nothing"),
]


def test_every_call_of_nnis_interface_is_answered_or_refused_with_a_sentence(admin, experiment, finished) -> None:
    client = APIClient()
    client.credentials(HTTP_AUTHORIZATION=f"Token {ApiToken.make(admin)}")
    wrong = []
    for method, path, body, wanted in CALLS:
        address = f"/nni/{experiment.public_id}/api/v1/nni/{path.format(trial=finished.public_id)}"
        answer = getattr(client, method)(address, body, format="json")
        if not is_as_wanted(answer, wanted):
            wrong.append(f"{method} {path}: {answer.status_code} {answer.content[:200]!r}")
    assert not wrong, "\n".join(wrong)


def is_as_wanted(answer, wanted) -> bool:
    if wanted == "refused":
        return answer.status_code == 404 and json.loads(answer.content)["error"].endswith(".")
    if answer.status_code != 200:
        return False
    if wanted in ("text", "nothing"):
        return bool(answer.content) == (wanted == "text")
    return isinstance(json.loads(answer.content), wanted)


def test_strangers_see_nothing_and_viewers_change_nothing(experiment) -> None:
    root = f"/nni/{experiment.public_id}/api/v1/nni/"
    client = APIClient()
    assert client.get(f"{root}experiment").status_code in (401, 403)
    for role, seen in ((Role.MEMBER, 404), (Role.VIEWER, 404)):
        stranger = User.objects.create_user(f"one-{role}", role=role)
        client.credentials(HTTP_AUTHORIZATION=f"Token {ApiToken.make(stranger)}")
        assert client.get(f"{root}experiment").status_code == seen
        assert "error" in client.get(f"{root}experiment").json()
    viewer = User.objects.create_user("viewer", role=Role.VIEWER)
    type(experiment).objects.update(owner=viewer)
    client.credentials(HTTP_AUTHORIZATION=f"Token {ApiToken.make(viewer)}")
    assert client.get(f"{root}experiment").status_code == 200
    assert client.delete(f"{root}experiment").status_code == 403


@pytest.mark.parametrize(("url", "folder"), [
    ("file:///data/clusters/c/agent/my%20trial", "/data/clusters/c/agent/my trial"),
    ("ssh://ada@10.0.0.1:2222/home/ada/nni/trial", "file://10.0.0.1:/home/ada/nni/trial"),
    ("https://kube/jobs/7", "/code"), ("", "/code"),
])
def test_the_log_path_is_the_folder_of_the_trials_output(nni, finished, url, folder) -> None:
    Attempt.objects.update(url=url, working_directory="/code")
    Trial.objects.update(status="FAILED")
    [trial] = nni("get", "trial-jobs")
    assert (trial["logPath"], trial["stderrPath"]) == (folder, f"{folder}/stderr")


def test_a_trial_whose_folder_is_not_known_names_no_file(nni, finished) -> None:
    Attempt.objects.update(url="", working_directory="")
    Trial.objects.update(status="FAILED")
    [trial] = nni("get", "trial-jobs")
    assert "stderrPath" not in trial
