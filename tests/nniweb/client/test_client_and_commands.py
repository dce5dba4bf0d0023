"""The client and its commands against the views themselves: no worker is there, so nothing starts."""

import io
import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from nniweb.client import Client, Conflict, NotFound, Refused, WaitedTooLong
from nniweb.client.commands import run
from nniweb.experiments.access.accounts import make_token
from nniweb.experiments.models import Attempt, Experiment, Metric, Trial, User
from nniweb.experiments.models.account import Scope

CONFIG = """\
# mine
experimentName: mice
searchSpaceFile: ../space.json
trialCommand: python3 trial.py
trialConcurrency: 1
tuner: {name: Random}
trainingService: {platform: local}
"""


@pytest.fixture
def token(transactional_db: None, admin: User) -> str:
    return make_token(admin, admin, name="test", scope=Scope.ADMIN, expires_at=None)[0]


@pytest.fixture
def client(live_server, token: str) -> Client:
    return Client(live_server.url, token)


@pytest.fixture
def config(tmp_path: Path) -> Path:
    folder = tmp_path / "code"
    folder.mkdir()
    (tmp_path / "space.json").write_text('{"x": {"_type": "uniform", "_value": [0, 1]}}')
    (folder / "trial.py").write_text("print('hello')")
    (folder / "config.yml").write_text(CONFIG)
    return folder / "config.yml"


@pytest.fixture
def mice(token: str, make_experiment: Callable[..., Experiment], make_attempt: Callable[..., Attempt]) -> Experiment:
    """An experiment that is done, with two results."""
    experiment = make_experiment(public_id="abc123abc123", name="mice")
    for final in ("0.5", '{"default": 0.25, "other": 1}'):
        attempt = make_attempt(experiment, status="SUCCEEDED", final_value=final,
                               final_number=0.5 if final == "0.5" else 0.25)
        Metric.objects.create(attempt=attempt, n=0, kind="PERIODICAL", sequence=0, value="1.5",
                              recorded_at=attempt.created_at, received_at=attempt.created_at)
    Experiment.objects.filter(pk=experiment.pk).update(status="DONE")
    return experiment


def command(client: Client, token: str, tmp_path: Path, *arguments: object) -> tuple[int, str, str]:
    """Exit status, standard output and error of a command that is given the token in a file."""
    file = tmp_path / "token"
    file.touch(mode=0o600)
    file.write_text(token)
    out, err = io.StringIO(), io.StringIO()
    status = run([*map(str, arguments), "--server", client.server, "--token-file", str(file)], out=out, err=err)
    return status, out.getvalue(), err.getvalue()


def test_a_launch_uploads_the_code_and_tells_how_far_it_is(client: Client, config: Path) -> None:
    seen: list[tuple[int, int]] = []
    experiment = client.launch(config, progress=lambda sent, total: seen.append((sent, total)))
    assert (experiment.name, experiment.status) == ("mice", "INITIALIZED")
    assert seen[-1][0] == seen[-1][1] > len(CONFIG)
    stored = Experiment.objects.get()
    assert stored.code is not None
    assert stored.code.file_count == 3  # the code, the config, the search space from the folder above
    assert stored.search_space == {"x": {"_type": "uniform", "_value": [0, 1]}}
    assert stored.config_text.startswith('# mine\nexperimentName: mice\nsearchSpaceFile: "space.json"\n')
    with pytest.raises(WaitedTooLong, match="is INITIALIZED after 0 s. It continues."):
        experiment.wait(0)
    assert experiment.stop().status in ("STOPPING", "STOPPED")


def test_what_is_wrong_with_a_file_has_its_field_and_its_line(client: Client, config: Path) -> None:
    config.write_text(CONFIG.replace("trialConcurrency: 1", "trialConcurrency: 0"))
    with pytest.raises(Refused) as caught:
        client.launch(config)
    assert [(error.field, error.line) for error in caught.value.errors] == [("trialConcurrency", 5)]
    assert not Experiment.objects.exists()


def test_the_content_of_a_file_may_be_a_mapping(client: Client, config: Path) -> None:
    document = {"searchSpace": {"x": {"_type": "uniform", "_value": [0, 1]}}, "trialCommand": "python3 trial.py",
                "trialConcurrency": 1, "tuner": {"name": "Random"}, "trainingService": {"platform": "local"}}
    checked = client.check(document, code=config.parent)
    assert checked["code_size"]["file_count"] == 2
    assert not Experiment.objects.exists()


def test_results_are_records_and_a_table_of_pandas(client: Client, mice: Experiment) -> None:
    experiment = client.experiment(mice.public_id)
    trials = experiment.trials()
    assert [trial["final_value"] for trial in trials] == [0.5, {"default": 0.25, "other": 1}]
    assert [trial["sequence_id"] for trial in experiment.trials("final_value < 0.3")] == [1]
    metrics = experiment.metrics()
    assert [(record["sequence_id"], record["step"], record["number"]) for record in metrics] == [
        (0, 0, 1.5), (0, None, 0.5), (1, 0, 1.5), (1, None, 0.25)]
    table = trials.dataframe()
    assert list(table["parameters.x"]) == [0.5, 0.5]
    assert str(table["created_at"].dtype).startswith("datetime64")
    assert "<table" in (metrics._repr_html_() or "")


def test_the_best_trial_and_a_trial_by_number_or_id(client: Client, mice: Experiment) -> None:
    experiment = client.experiment(mice.public_id)
    best = experiment.best_trial()
    assert best is not None
    assert (best.number, best.final_number, best.parameters) == (1, 0.25, {"x": 0.5})
    assert experiment.trial(0).id == Trial.objects.get(sequence_id=0).public_id
    assert experiment.trial(best.id).metrics()[0]["value"] == 1.5
    assert best.files() == []
    with pytest.raises(NotFound, match="Trial 1 has no kept file model.bin"):
        best.download("model.bin", "/nowhere")
    with pytest.raises(NotFound, match="has no trial 7"):
        experiment.trial(7)


def test_steering_and_deleting(client: Client, mice: Experiment) -> None:
    experiment = client.experiment(mice.public_id)
    assert experiment.change(max_trial_number=50).document["max_trial_number"] == 50
    with pytest.raises(Refused, match="There is no failed trial"):
        experiment.rerun_failed()
    Experiment.objects.update(status="RUNNING")
    with pytest.raises(Conflict):
        experiment.delete()
    assert experiment.stop().status == "STOPPING"
    Experiment.objects.update(status="DONE", target="RUN", max_trial_number=2, next_sequence_id=2)
    with pytest.raises(Conflict):
        experiment.resume(max_trial_number=2)
    assert experiment.resume(max_trial_number=5, max_duration="1h").document["max_duration"] == 3600
    Experiment.objects.update(status="STOPPED")
    experiment.delete()
    assert client.experiments() == []


def test_the_commands_show_what_the_server_has(client: Client, token: str, tmp_path: Path, mice: Experiment) -> None:
    def output(*arguments: object) -> str:
        status, out, err = command(client, token, tmp_path, "experiments", *arguments)
        assert (status, err) == (0, "")
        return out

    assert output().splitlines()[1].split()[:6] == ["abc123abc123", "mice", "DONE", "2/10", "0.25", "ada"]
    assert json.loads(output("list", "--json"))[0]["id"] == "abc123abc123"
    shown = output("show", "abc")
    assert "final value {\"default\": 0.25, \"other\": 1}" in shown
    assert f"{client.server}/experiments/abc123abc123/" in shown
    assert output("trials", "abc", "--filter", "final_value < 0.3").splitlines()[1].split()[0] == "1"
    assert output("metrics", "abc").splitlines()[2].split()[-2:] == ["final", "0.5"]
    assert "DONE  2/10 ended" in output("follow", "abc")
    file = tmp_path / "results.json"
    file.write_text('[{"parameter": {"x": 0.5}, "value": 1}]')
    assert output("import", "abc", "-f", file) == ("1 result was imported for the tuner of mice. It gets it when the "
                                                   "experiment is resumed.\n")
    assert output("delete", "abc", "--yes") == "mice (abc123abc123) was deleted.\n"


def test_the_commands_and_the_client_tell_by_which_tuner_auto_proposes(
        client: Client, token: str, tmp_path: Path, mice: Experiment) -> None:
    Experiment.objects.update(tuner={"name": "Auto"}, tuner_choice={
        "tuner": "GP", "reason": {"code": "auto_model", "most": 150}})
    _, shown, _ = command(client, token, tmp_path, "experiments", "show", "abc")
    sentence = "A model of all results finds good parameters with the fewest trials, up to 150 results."
    assert f"Auto proposes by GP. {sentence}" in shown.splitlines()
    assert client.experiment(mice.public_id).document["tuner_choice"] == {
        "tuner": "GP", "message": sentence, "reason": {"code": "auto_model", "most": 150}}
    Experiment.objects.update(tuner={"name": "TPE"})
    assert client.experiment(mice.public_id).document["tuner_choice"] is None


def test_a_command_that_is_refused_says_why_and_ends_with_1(client: Client, token: str, tmp_path: Path,
                                                            mice: Experiment) -> None:
    status, out, err = command(client, token, tmp_path, "experiments", "rerun-failed", "abc")
    assert (status, out) == (1, "")
    assert "There is no failed trial" in err
    status, _, err = command(client, token, tmp_path, "experiments", "show", "zzz")
    assert (status, err.startswith('There is no experiment whose id begins with "zzz"')) == (1, True)
    status, _, err = command(client, "nniweb_wrong", tmp_path, "experiments", "list")
    assert (status, err.startswith("This token is not valid.")) == (1, True)


def test_the_command_resumes_with_a_higher_limit(client: Client, token: str, tmp_path: Path, mice: Experiment) -> None:
    Experiment.objects.update(max_trial_number=2, next_sequence_id=2)
    status, _, err = command(client, token, tmp_path, "experiments", "resume", "abc")
    assert (status, "maxTrialNumber" in err) == (1, True)
    status, out, err = command(client, token, tmp_path, "experiments", "resume", "abc", "--max-trial-number", "4")
    assert (status, err, "RUNNING" in out) == (0, "", True)
    assert Experiment.objects.get().max_trial_number == 4


def test_a_launch_that_cannot_be_says_why(client: Client, token: str, tmp_path: Path, config: Path) -> None:
    status, _, err = command(client, token, tmp_path, "launch", tmp_path / "none.yml")
    assert (status, "cannot be read: No such file" in err) == (1, True)


def test_a_trial_runs_again_after_the_end_with_what_is_changed(client: Client, token: str, tmp_path: Path,
                                                              mice: Experiment) -> None:
    Experiment.objects.filter(pk=mice.pk).update(max_trial_number=2, next_sequence_id=2)
    again = client.experiment("abc123abc123").rerun(0, {"x": 0.125})
    assert (again.document["sequence_id"], again.document["parameters"]["x"]) == (2, 0.125)
    status, out, _ = command(client, token, tmp_path, "experiments", "rerun", "abc", "1", "--set", "x=0.25")
    assert (status, out.startswith("Trial 1 runs again as trial 3 (")) == (0, True)
    assert client.experiment("abc123abc123").document["max_trial_number"] == 4


def test_trials_bring_changes_to_the_code(client: Client, config: Path) -> None:
    text = CONFIG.replace("{name: Random}", "{name: External}") + "codeVariants: true\n"
    config.write_text(text)
    experiment = client.launch(config)
    patch = "--- a/trial.py\n+++ b/trial.py\n@@ -1 +1 @@\n-print('hello')\n+print('bye')\n"
    patch = patch.replace("hello')\n", "hello')\n\\ No newline at end of file\n")
    proposed = experiment.propose({"x": 0.1}, {"x": 0.2}, patch=patch)
    assert proposed[0].document["variant"] == proposed[1].document["variant"]
    submitted = experiment.submit({"x": 0.3}, files={"trial.py": "print('bye')\n"})
    assert submitted.document["variant"] == proposed[0].document["variant"]
    changed = submitted.variant()
    assert changed is not None
    assert [(one["path"], one["text"]) for one in changed["changed_files"]] == [("trial.py", "print('bye')\n")]
    assert experiment.propose(patch=changed["diff"]) == []
    again = experiment.rerun(submitted.number, files={"trial.py": None})
    assert again.variant()["changed_files"][0]["change"] == "removed"  # type: ignore[index]
    assert experiment.submit({"x": 0.4}).variant() is None
    with pytest.raises(ValueError, match="either patch or files"):
        experiment.submit({"x": 0.4}, patch=patch, files={})
    with pytest.raises(Refused, match="leaves|has the part"):
        experiment.submit({"x": 0.4}, files={"../x": ""})


def test_a_name_is_enough_where_only_one_has_it(client: Client, token: str, tmp_path: Path, mice: Experiment,
                                                make_experiment: Callable[..., Experiment]) -> None:
    status, out, _ = command(client, token, tmp_path, "experiments", "show", "mice")
    assert (status, out.startswith("mice (abc123abc123)")) == (0, True)
    make_experiment(public_id="xyz123xyz123", name="mice")
    status, _, err = command(client, token, tmp_path, "experiments", "show", "mice")
    assert (status, err.startswith('Several experiments have this name or an id that begins with "mice"')) == (1, True)


#: What ``experiment.config.json()`` of NNI 2.10 gives, but for the folders.
OF_NNIS_CLASSES = {
    "experimentType": "hpo", "searchSpace": {"x": {"_type": "uniform", "_value": [0, 1]}},
    "trialCommand": "python3 trial.py", "trialCodeDirectory": "CODE", "trialConcurrency": 2, "maxTrialNumber": 10,
    "useAnnotation": False, "debug": False, "logLevel": "info", "experimentWorkingDirectory": "/nowhere/experiments",
    "tuner": {"name": "TPE", "classArgs": {"optimize_mode": "maximize"}},
    "trainingService": {"platform": "local", "trialCommand": "python3 trial.py", "trialCodeDirectory": "CODE",
                        "debug": False, "maxTrialNumberPerGpu": 1, "reuseMode": False}}


def test_what_a_script_configured_with_nnis_classes_is_launched_as_it_is(client: Client, config: Path) -> None:
    folder = json.dumps(str(config.parent))
    experiment = client.launch(json.loads(json.dumps(OF_NNIS_CLASSES).replace('"CODE"', folder)))
    stored = Experiment.objects.get(public_id=experiment.id)
    assert stored.code is not None
    assert stored.code.file_count == 2  # the script and the file beside it
    assert (stored.trial_command, stored.max_trial_number) == ("python3 trial.py", 10)


def test_the_dictionary_of_the_migration_page_is_launched(client: Client, token: str, config: Path,
                                                          monkeypatch: pytest.MonkeyPatch) -> None:
    page = (Path(__file__).parents[3] / "docs" / "migrate-from-nni.md").read_text()
    [text] = [block for block in re.findall(r"```python\n(.*?)```", page, re.DOTALL) if "client.launch({" in block]
    monkeypatch.chdir(config.parent)
    monkeypatch.setenv("NNIWEB_TOKEN", token)
    exec(text.replace("http://127.0.0.1:8080", client.server), {})  # noqa: S102  the page's own
    assert Experiment.objects.get().tuner == {"name": "TPE", "class_args": {"optimize_mode": "maximize"}}
