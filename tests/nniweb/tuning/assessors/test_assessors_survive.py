"""What every assessor owes: failed trials, results without a number, the same result twice, and a restart in the middle
change no verdict.
"""

import math
from typing import Any

import pytest

from nniweb.tuning.process.experiment_tuning import ExperimentTuning

STEPS, TRIALS = 12, 14
SPACE = {"x": {"_type": "uniform", "_value": [0, 1]}}
ASSESSORS: list[tuple[str, dict[str, Any]]] = [
    ("Medianstop", {"start_step": 2}), ("Curvefitting", {"epoch_num": STEPS, "start_step": 6}),
    ("Percentile", {"percentile": 50.0, "n_startup_trials": 2}), ("SuccessiveHalving", {"reduction_factor": 2}),
    ("Wilcoxon", {"p_threshold": 0.2})]
#: Fitting a dozen curves to each prefix of a trial, or testing its ranks, is dear.
EACH = pytest.mark.parametrize(("name", "args"), [
    pytest.param(name, args, id=name, marks=[pytest.mark.slow] if name in ("Curvefitting", "Wilcoxon") else [])
    for name, args in ASSESSORS])
Record = list[dict[str, Any]]


def tuning(name: str, args: dict[str, Any]) -> ExperimentTuning:
    return ExperimentTuning({"search_space": SPACE, "tuner": {"name": "Random"}, "optimize_mode": "maximize",
                             "assessor": {"name": name, "class_args": args}, "seed": 1})


def curve(trial: int) -> list[float]:
    """Learns towards an end of its own; the fifth is the best."""
    end = 1.0 if trial == 4 else 0.3 + 0.05 * (trial * 5 % 12)
    return [end * (1 - math.exp(-0.5 * step)) for step in range(1, STEPS + 1)]


class Run:
    """An experiment whose trials run one after the other; what is recorded of it, and what was to be stopped."""

    def __init__(self, name: str, args: dict[str, Any], *, is_rough: bool) -> None:
        self.made = lambda: tuning(name, args)
        self.tuning = self.made()
        self.is_rough = is_rough
        self.record: Record = []
        self.stopped: list[tuple[int, int]] = []

    def go(self, restart_at: tuple[int, int] | None = None) -> list[tuple[int, int]]:
        for trial in range(TRIALS):
            self.run_trial(trial, restart_at)
        return self.stopped

    def run_trial(self, trial: int, restart_at: tuple[int, int] | None) -> None:
        fails_at = 5 if self.is_rough and trial % 4 == 3 else STEPS
        for step, value in enumerate(curve(trial)[:fails_at]):
            if restart_at == (trial, step):
                self.tuning = self.made()
                assert self.tuning.restore(list(self.record)) == {"stop": []}
            if self.is_stopped(trial, step, value):
                self.stopped.append((trial, step))
                break
        else:
            self.end(trial, succeeded=fails_at == STEPS)
            return
        self.end(trial, succeeded=False)

    def is_stopped(self, trial: int, step: int, value: float) -> bool:
        report = {"trial": f"t{trial}", "sequence": step, "value": value}
        if self.is_rough and step == 1 and trial % 3 == 0:
            report["value"] = None  # it reported NaN
        reports = [report, dict(report)] if self.is_rough else [report]
        self.record += [{"event": "intermediate", **one} for one in reports]
        return self.tuning.intermediate(reports)["stop"] == [f"t{trial}"]

    def end(self, trial: int, *, succeeded: bool) -> None:
        for _ in range(2 if self.is_rough else 1):
            self.record.append({"event": "trial_end", "trial": f"t{trial}", "succeeded": succeeded})
            self.tuning.trial_end(f"t{trial}", succeeded)


@EACH
def test_bad_trials_are_stopped_and_the_best_is_not(name: str, args: dict[str, Any]) -> None:
    stopped = {trial for trial, _ in Run(name, args, is_rough=False).go()}
    assert stopped
    assert 4 not in stopped


@EACH
def test_failures_nan_and_doubles_spare_the_best_too(name: str, args: dict[str, Any]) -> None:
    stopped = {trial for trial, _ in Run(name, args, is_rough=True).go()}
    assert stopped
    assert 4 not in stopped


@EACH
@pytest.mark.parametrize("restart_at", [(1, 0), (6, 3), (9, 1), (13, 0)])
def test_a_restart_in_the_middle_changes_no_verdict(name: str, args: dict[str, Any], restart_at: tuple[int, int]
                                                    ) -> None:
    assert Run(name, args, is_rough=True).go(restart_at) == Run(name, args, is_rough=True).go()


@EACH
def test_a_trial_that_began_slowly_is_not_stopped_by_a_restart_after_faster_ones_have_ended(
        name: str, args: dict[str, Any]) -> None:
    first = tuning(name, args)
    stopped: list[str] = []

    def told(trial: str, step: int, value: float) -> Record:
        report = {"trial": trial, "sequence": step, "value": value}
        stopped.extend(first.intermediate([report])["stop"])
        return [{"event": "intermediate", **report}]

    slow = [event for step in range(5) for event in told("slow", step, 0.1)]
    history: Record = []
    for trial in ("t0", "t1", "t2", "t3"):
        history += [event for step in range(STEPS) for event in told(trial, step, 0.3 + 0.04 * step)]
        history.append({"event": "trial_end", "trial": trial, "succeeded": True})
        first.trial_end(trial, True)
    slow += told("slow", 5, 0.9)
    assert stopped == []
    assert tuning(name, args).restore([*history, *slow]) == {"stop": []}  # trial by trial, as the server tells it
