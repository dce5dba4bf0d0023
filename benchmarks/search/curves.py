"""Learning curves, and how many of the best ones an assessor ends before they are good."""

from __future__ import annotations

import numpy as np

from nniweb.tuning.algorithms import build_assessor
from nniweb.tuning.assessors.assessment import Assessment

CURVES = 300
STEPS = 30
BEST = 20


def curves(seed: int) -> list[list[float]]:
    """Accuracies step by step: each rises to a level of its own at a pace of its own. Low learning rates rise slowly,
    and often to a higher level, so that early values say little; each value has noise.
    """
    chance = np.random.default_rng(seed)
    steps = np.arange(1, STEPS + 1)
    found = []
    for _ in range(CURVES):
        pace = 10 ** chance.uniform(-1.3, 0.0)
        level = 0.95 - 0.4 * chance.random() ** 2 - 0.08 * (np.log10(pace) + 1.3) / 1.3
        start = chance.uniform(0.05, 0.2)
        values = level - (level - start) * np.exp(-pace * steps) + chance.normal(0, 0.01, STEPS)
        found.append([float(value) for value in values])
    return found


def lost_and_saved(name: str, class_args: dict[str, object], seed: int) -> tuple[int, float]:
    """Of the BEST curves with the best ends, how many were ended early, and what share of all steps was not made.
    Eight run at once, a step each in turn; the next begins when one is over.
    """
    told = curves(seed)
    assessment = Assessment(build_assessor(name, {"optimize_mode": "maximize", **class_args}, "maximize"))
    best = set(sorted(range(CURVES), key=lambda number: -told[number][-1])[:BEST])
    waiting, running = list(range(CURVES))[::-1], dict.fromkeys((), 0)
    lost, made = 0, 0
    while waiting or running:
        while waiting and len(running) < 8:
            running[waiting.pop()] = 0
        for number, step in list(running.items()):
            made += 1
            stop = assessment.intermediate([{"trial": str(number), "sequence": step, "value": told[number][step]}])
            if stop or step + 1 == STEPS:
                del running[number]
                lost += bool(stop) and step + 1 < STEPS and number in best
                assessment.trial_end(str(number), succeeded=not stop)
            else:
                running[number] = step + 1
    return lost, 1 - made / (CURVES * STEPS)
