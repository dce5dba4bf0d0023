"""A plug-in in NNI's style, without a keeper: its metric listener is the only way home of a whole search."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.end_to_end.running_server import ROOT, SCRIPTED_PLATFORMS, RunningServer

EXAMPLE = ROOT / "examples" / "my_platform"
#: Not of NNI's interface.
ADDITIONS = ("resume_trial_jobs", "rehearse", "clean_up_experiment", "forget_trial_jobs", "last_lines", "hear",
             "open_metric_emitter", "close_metric_emitter", "output_folder", "list_machines", "trouble")

TRIAL = """
import nni
x = nni.get_next_parameter()["x"]
for step in range(3):
    nni.report_intermediate_result(abs(x - 0.25) + 1 / (step + 1))
nni.report_final_result({"default": abs(x - 0.25), "step": step})
"""


@pytest.fixture
def server(make_server: Any) -> RunningServer:
    server: RunningServer = make_server({
        "NNIWEB_EXTRA_PLATFORMS": f"{SCRIPTED_PLATFORMS},small=my_platform.small_service:SmallTrainingService",
        "PYTHONPATH": f"{ROOT}:{EXAMPLE}"})
    return server.start()


@pytest.fixture
def code(tmp_path: Path) -> Path:
    folder = tmp_path / "code"
    folder.mkdir()
    (folder / "trial.py").write_text(TRIAL)
    return folder


def config(folder: Path, **changes: object) -> dict[str, object]:
    return {"trialCommand": "python3 trial.py", "trialCodeDirectory": str(folder), "trialConcurrency": 2,
            "maxTrialNumber": 8, "searchSpace": {"x": {"_type": "uniform", "_value": [0, 1]}},
            "tuner": {"name": "TPE", "classArgs": {"optimize_mode": "minimize"}},
            "trainingService": {"platform": "small"}, **changes}


def test_the_example_has_the_members_of_nnis_interface_and_none_of_ours() -> None:
    text = (EXAMPLE / "my_platform" / "small_service.py").read_text()
    assert len(text.splitlines()) < 80
    members = ("list_trial_jobs", "get_trial_job", "add_trial_job_metric_listener", "remove_trial_job_metric_listener",
               "submit_trial_job", "update_trial_job", "is_multi_phase_job_supported", "cancel_trial_job",
               "set_cluster_metadata", "get_cluster_metadata", "run", "clean_up")
    assert [name for name in members if f"def {name}(" not in text and f"\n    {name} = " not in text] == []
    assert [name for name in ADDITIONS if name in text] == []
    assert "keepers_report" not in text


@pytest.mark.slow
def test_a_search_whose_only_way_home_is_the_listener(server: RunningServer, code: Path) -> None:
    experiment = server.launch(config(code), code)
    server.wait_for_experiment(experiment, patience=110)
    trials = server.get_all(f"experiments/{experiment}/trials/")
    assert len(trials) == 8
    for trial in trials:
        assert trial["status"] == "SUCCEEDED", trial["message"]
        x = trial["parameters"]["x"]
        assert trial["final_number"] == pytest.approx(abs(x - 0.25))
        assert trial["metrics"]["step"]["final"] == 2
        assert trial["intermediate_count"] == 3
        assert trial["url"].startswith("file:///")
        assert 0 < trial["duration"] < 60
        rows = server.get_all(f"trials/{trial['id']}/metrics/")
        assert [(row["kind"], row["sequence"]) for row in rows] == [
            ("PERIODICAL", 0), ("PERIODICAL", 1), ("PERIODICAL", 2), ("FINAL", 0)]
        assert json.loads(rows[-1]["value"]) == {"default": abs(x - 0.25), "step": 2}


@pytest.mark.slow
def test_failed_and_canceled_trials_end_by_the_services_word(server: RunningServer, code: Path) -> None:
    def launch(command: str, **changes: object) -> str:
        return server.launch(config(code, trialCommand=command, maxTrialNumber=1, **changes), code)

    failing, limited, running = launch("exit 3"), launch("sleep 300", maxTrialDuration="2s"), launch("sleep 300")
    server.wait_for_experiment(failing)
    [failed] = server.get_all(f"experiments/{failing}/trials/")
    assert (failed["status"], failed["exit_code"]) == ("FAILED", 3)
    [trial] = server.wait_until(lambda: [
        trial for trial in server.get_all(f"experiments/{running}/trials/") if trial["status"] == "RUNNING"],
        60, "the trial runs")
    server.post(f"trials/{trial['id']}/actions/cancel/", {})
    for experiment, status in ((running, "USER_CANCELED"), (limited, "EARLY_STOPPED")):
        server.wait_for_experiment(experiment)
        [trial] = server.get_all(f"experiments/{experiment}/trials/")
        assert (trial["status"], trial["duration"] < 60) == (status, True), trial


@pytest.mark.slow
def test_files_that_only_a_keeper_would_send_are_refused(server: RunningServer, code: Path) -> None:
    answer = server.request("POST", "experiments/", json={
        "config": json.dumps(config(code, keepFiles=["*.pt"])), "base_directory": str(code)})
    assert answer.status_code == 400
    assert "keeper" in answer.text
    assert "keepFiles" in answer.text
