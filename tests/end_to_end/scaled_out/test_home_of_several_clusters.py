"""The worker of an experiment's home is killed for good, and another of its clusters searches on."""

from __future__ import annotations

from pathlib import Path

import pytest

from nniweb.worker.rounds.placing.homes import HOME_AWAY_SECONDS
from tests.end_to_end.scaled_out.several_processes import Installation

TRIAL = """import time, nni
x = nni.get_next_parameter()["x"]
time.sleep(0.5)
nni.report_final_result(x)
"""


@pytest.mark.timeout(400)
@pytest.mark.slow
def test_a_search_goes_on_when_the_worker_of_its_home_never_comes_back(installation: Installation, tmp_path: Path
                                                                       ) -> None:
    web, here = installation.web("web").start(), installation.worker("here").start()
    code = tmp_path / "code"
    code.mkdir()
    (code / "trial.py").write_text(TRIAL)
    experiment = web.launch({
        "trialCommand": "python3 trial.py", "trialCodeDirectory": str(code), "trialConcurrency": 4,
        "maxTrialNumber": 40, "searchSpace": {"x": {"_type": "uniform", "_value": [0, 1]}},
        "tuner": {"name": "Random", "classArgs": {"seed": 1}},
        "trainingService": [{"platform": "local"},
                            {"platform": "scripted_anywhere", "folder": str(tmp_path / "anywhere")}]}, code)
    path = f"experiments/{experiment}/"
    web.wait_until(lambda: all(one["ended"] for one in web.get(f"{path}clusters/")), what="both clusters run trials")
    other = installation.worker("abroad", host="elsewhere").start()
    here.kill()
    assert other.is_alive
    web.wait_until(lambda: web.get(path)["cluster"] != "local", HOME_AWAY_SECONDS + 90, "the home moves")
    web.wait_for_experiment(experiment, "DONE", "NO_MORE_TRIAL", patience=120)

    def not_known() -> list[str]:
        """Where those are that have not succeeded: only what ran on the lost cluster may be unknown."""
        return [row["cluster"] for row in web.get_all(f"{path}trials/") if row["status"] != "SUCCEEDED"]

    web.wait_until(lambda: set(not_known()) <= {"local"}, 60, "all other trials have ended")
    assert len(not_known()) <= 4
    assert len(web.get_all(f"{path}trials/")) == 40
    assert "home moved" in [event["kind"] for event in web.get(f"{path}events/")["results"]]
