"""Trials that note each start, report as they go, and end when the test lets them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

PROGRAM = """\
import os, sys, time, nni
gate = sys.argv[1]
x = nni.get_next_parameter()["x"]
name = nni.get_trial_id()
with open(os.path.join(gate, "starts"), "a") as file:
    file.write(name + "\\n")
step = 0
gone = False
while not gone:
    gone = os.path.exists(os.path.join(gate, "go"))  # looked at first: what was let through before it is reported
    while os.path.exists(os.path.join(gate, "step-%d" % step)):
        nni.report_intermediate_result(x + step)
        step += 1
    time.sleep(0.05)
nni.report_final_result(x)
"""


class GatedTrials:
    """An experiment of such trials; everything of it is in one folder."""

    def __init__(self, folder: Path) -> None:
        self.gate = folder / "gate"
        self.code = folder / "code"
        for made in (self.gate, self.code):
            made.mkdir(parents=True)
        (self.code / "trial.py").write_text(PROGRAM)

    def config(self, training_service: dict[str, Any], *, trials: int = 2, **more: Any) -> dict[str, Any]:
        return {"trialCommand": f"python3 trial.py {self.gate}", "trialCodeDirectory": str(self.code),
                "trialConcurrency": trials, "maxTrialNumber": trials,
                "tuner": {"name": "Random", "classArgs": {"seed": 1}},
                "searchSpace": {"x": {"_type": "uniform", "_value": [0, 1]}},
                "trainingService": training_service, **more}

    def step(self, number: int) -> None:
        """Let each trial report its intermediate result of this number; they come in order, from 0."""
        (self.gate / f"step-{number}").touch()

    def let_go(self) -> None:
        (self.gate / "go").touch()

    def starts(self) -> list[str]:
        """The id of a trial for each time one was started, sorted."""
        file = self.gate / "starts"
        return sorted(file.read_text().split()) if file.exists() else []
