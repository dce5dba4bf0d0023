"""Trials that do what a test tells them, step by step: ``trials.tell(0, "metric 0.5")``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.end_to_end.running_server import RunningServer

PROGRAM = """\
import json, os, pathlib, sys, time
import nni

orders = pathlib.Path(sys.argv[1])
nni.get_next_parameter()
number = 0
while True:
    order = orders / f"{os.environ['NNI_TRIAL_SEQ_ID']}-{number}"
    while not order.exists():
        time.sleep(0.02)
    word, _, rest = order.read_text().partition(" ")
    if word == "metric":
        nni.report_intermediate_result(json.loads(rest))
    elif word == "final":
        nni.report_final_result(json.loads(rest))
    elif word == "next":
        nni.get_next_parameter()
    elif word == "print":
        sys.stdout.write(rest.encode().decode("unicode_escape"))
        sys.stdout.flush()
    elif word == "fail":
        sys.exit(rest)
    elif word == "end":
        sys.exit(0)
    number += 1
"""


class LedTrials:
    """The trials of one experiment, which wait for orders. Trials are told by their number."""

    def __init__(self, server: RunningServer, folder: Path, **config: Any) -> None:
        self._orders = folder / "orders"
        self._orders.mkdir(parents=True)
        (folder / "trial.py").write_text(PROGRAM)
        self._told: dict[int, int] = {}
        self.experiment = server.launch({
            "experimentName": "led", "trialCommand": f"python3 trial.py {self._orders}",
            "trialCodeDirectory": str(folder), "trialConcurrency": 1, "maxTrialNumber": 3,
            "tuner": {"name": "Random", "classArgs": {"seed": 1}},
            "searchSpace": {"x": {"_type": "uniform", "_value": [0, 1]}},
            "trainingService": {"platform": "local"}, **config}, folder)

    def tell(self, trial: int, *orders: str) -> None:
        """``metric JSON``, ``final JSON``, ``next`` (asks for another parameter set), ``print TEXT`` (with escapes),
        ``fail WORDS``, ``end``.
        """
        for order in orders:
            number = self._told.get(trial, 0)
            self._told[trial] = number + 1
            written = self._orders / "new"
            written.write_text(order)
            written.rename(self._orders / f"{trial}-{number}")
