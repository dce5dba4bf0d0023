"""The bundled examples, run by the real server from launch to DONE."""

import time
from pathlib import Path

import pytest
import yaml

from tests.end_to_end.running_server import ROOT, RunningServer

EXAMPLES = ROOT / "examples"


def example(name: str, **changes: object) -> dict[str, object]:
    return {**yaml.safe_load((EXAMPLES / name / "config.yml").read_text()), **changes}


@pytest.fixture
def code_folder(tmp_path: Path) -> Path:
    """Apart from the server's data folder: one that holds it is refused."""
    folder = tmp_path / "code"
    folder.mkdir()
    return folder


@pytest.mark.parametrize("most", [3, pytest.param(12, marks=pytest.mark.slow)])
def test_an_empty_installation_launches_the_demo_and_it_learns(make_server, most: int) -> None:
    server = make_server({"NNIWEB_DEMO": "1"}, starts_empty=True).start()
    started = time.monotonic()
    [demo] = server.wait_until(lambda: server.get("experiments/")["results"], 60, "the demo is launched")
    server.patch(f"experiments/{demo['id']}/", {"max_trial_number": most})
    server.wait_until(lambda: any(trial["intermediate_count"] for trial in
                                  server.get(f"experiments/{demo['id']}/trials/")["results"]),
                      started + 60 - time.monotonic(), "something moves within a minute of the start")
    server.wait_for_experiment(demo["id"], patience=110)
    trials = server.get_all(f"experiments/{demo['id']}/trials/")
    assert len(trials) >= most, "some may have begun before the limit was set"
    assert [trial["sequence_id"] for trial in trials] == list(range(len(trials)))
    assert {trial["status"] for trial in trials} == {"SUCCEEDED"}
    assert all(trial["intermediate_count"] > 5 and trial["final_number"] is not None for trial in trials)
    assert max(trial["final_number"] for trial in trials) > 0.9
    curve = [row["number"] for row in server.get(f"trials/{trials[0]['id']}/metrics/", kind="PERIODICAL")["results"]]
    assert len(set(curve)) > 3, "a real learning curve"


@pytest.mark.slow
def test_an_installation_with_an_experiment_launches_no_demo(make_server) -> None:
    server = make_server({"NNIWEB_DEMO": "1"})
    quiet = make_server(name="data")
    quiet.start()
    quiet.launch(example("quadratic", maxTrialNumber=1), EXAMPLES / "quadratic")
    quiet.stop()
    server.start()
    names = {experiment["name"] for experiment in server.get("experiments/")["results"]}
    assert names == {"quadratic"}


@pytest.mark.slow
def test_two_hundred_trials_none_lost_none_double(running_server: RunningServer) -> None:
    server = running_server
    experiment = server.launch(example("quadratic", maxTrialNumber=200, trialConcurrency=8), EXAMPLES / "quadratic")
    server.wait_for_experiment(experiment, patience=110)
    trials = server.get_all(f"experiments/{experiment}/trials/")
    assert [trial["sequence_id"] for trial in trials] == list(range(200))
    assert {trial["status"] for trial in trials} == {"SUCCEEDED"}
    assert len({trial["id"] for trial in trials}) == 200
    assert len({str(trial["parameters"]) for trial in trials}) == 200
    created = [trial["created_at"] for trial in trials]
    assert created == sorted(created)
    for trial in trials:
        metrics = server.get_all(f"trials/{trial['id']}/metrics/")
        assert [row["sequence"] for row in metrics if row["kind"] == "PERIODICAL"] == \
            list(range(trial["intermediate_count"]))
        assert [row["value"] for row in metrics if row["kind"] == "FINAL"] == [trial["final_value"]]
    assert all(trial["final_number"] is not None for trial in trials)


def test_what_a_trial_reports_comes_back_exactly_and_harms_nothing(running_server: RunningServer,
                                                                   code_folder: Path) -> None:
    values = ["float('nan')", "1e308", "{'default': 0.5, 'loss': [1, 2]}", "list(range(20000))", "'text'",
              "'a\\x00b\\ud800c'", "None", "True", "float('inf')"]
    finals = {"{'default': float('nan'), 'note': '\\ud800'}": None, "1e308": 1e308, "list(range(20000))": None,
              "'text'": None, "'a\\x00b\\ud800c'": None, "0.25": 0.25, "float('inf')": None, "0.5": 0.5}
    (code_folder / "trial.py").write_text(
        "import nni\nnni.get_next_parameter()\n"
        + "".join(f"nni.report_intermediate_result({value})\n" for value in values)
        + f"nni.report_final_result([{', '.join(finals)}][nni.get_sequence_id()])\n")
    server = running_server
    experiment = server.launch({
        "trialCommand": "python3 trial.py", "trialCodeDirectory": str(code_folder), "trialConcurrency": 2,
        "maxTrialNumber": len(finals), "assessor": {"name": "Medianstop"},
        "tuner": {"name": "TPE", "classArgs": {"tpe_args": {"n_startup_jobs": 2}}},
        "searchSpace": {"x": {"_type": "uniform", "_value": [0, 1]}},
        "trainingService": {"platform": "local"}}, code_folder)
    server.wait_for_experiment(experiment)
    trials = server.get_all(f"experiments/{experiment}/trials/")
    assert [trial["final_number"] for trial in trials] == list(finals.values())
    assert trials[0]["final_value"] == '{"default": NaN, "note": "\\ud800"}'
    for trial in trials:
        assert trial["status"] == "SUCCEEDED", trial["message"]
        rows = server.get_all(f"trials/{trial['id']}/metrics/", kind="PERIODICAL")
        assert [row["value"] for row in rows][:3] == ["NaN", "1e+308", '{"default": 0.5, "loss": [1, 2]}']
        assert len(rows[3]["value"]) > 100_000
        assert rows[5]["value"] == '"a\\u0000b\\ud800c"'
        assert [row["number"] for row in rows] == [None, 1e308, 0.5, None, None, None, None, None, None]


def test_a_trial_that_can_never_run_and_one_that_fails_say_why(running_server: RunningServer,
                                                               code_folder: Path) -> None:
    server = running_server
    base = {"trialCodeDirectory": str(code_folder), "trialConcurrency": 1, "maxTrialNumber": 1,
            "tuner": {"name": "Random"}, "searchSpace": {"x": {"_type": "choice", "_value": [1]}},
            "trainingService": {"platform": "local"}}
    failing = server.launch({**base, "trialCommand": "echo 'no such data set' >&2; exit 3"}, code_folder)
    missing = server.launch({**base, "trialCommand": "no-such-program-anywhere"}, code_folder)
    for experiment, words in ((failing, ("exit code 3", "no such data set")), (missing, ("not found", "127"))):
        server.wait_for_experiment(experiment)
        [trial] = server.get_all(f"experiments/{experiment}/trials/")
        assert trial["status"] == "FAILED"
        assert all(word in trial["message"] for word in words), trial["message"]


def test_variables_reach_the_trial_and_kept_files_come_back(running_server: RunningServer, code_folder: Path) -> None:
    server = running_server
    experiment = server.launch({
        "trialCommand": "mkdir -p out && printf \"$GREETING\" > out/model.bin && echo left > out/rest.txt",
        "trialCodeDirectory": str(code_folder), "trialConcurrency": 1, "maxTrialNumber": 1,
        "environment": {"GREETING": "it's me"}, "keepFiles": ["out/*.bin"], "tuner": {"name": "Random"},
        "searchSpace": {"x": {"_type": "choice", "_value": [1]}},
        "trainingService": {"platform": "local"}}, code_folder)
    server.wait_for_experiment(experiment)
    [trial] = server.get_all(f"experiments/{experiment}/trials/")
    [file] = server.get_all(f"trials/{trial['id']}/files/")
    assert (file["name"], file["size"]) == ("out/model.bin", 7)
    content = server.request("GET", f"trials/{trial['id']}/files/{file['id']}/")
    assert content.content == b"it's me"
    assert "attachment" in content.headers["Content-Disposition"]
