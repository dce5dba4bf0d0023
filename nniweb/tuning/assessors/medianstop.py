"""NNI's Medianstop: stop a trial whose best result is worse than the median of the others' running averages."""

import bisect

from nniweb.tuning.assessors.assessor import Assessor
from nniweb.tuning.class_args import MedianstopArgs


class MedianStop(Assessor):
    """Judged at step s (s results reported): the trial's best so far against the median, over the trials that succeeded
    and reported at least s results, of the average of their first s. Strictly worse means stop; with an even number of
    averages the middle one that is kinder to the trial decides. Before ``start_step`` results (None: half as many as
    the longest trial that succeeded has reported), and while no trial has succeeded, nothing is stopped.
    """

    def __init__(self, optimize_mode: str, start_step: int | None = 0) -> None:
        self._sign = 1.0 if optimize_mode == "maximize" else -1.0
        self._start_step = start_step
        # At [s - 1] the sorted averages of the first s results (negated when minimizing, so that more is better).
        self._averages: list[list[float]] = []

    def should_stop(self, trial: str, values: list[float]) -> bool:
        step = len(values)
        first = len(self._averages) / 2 if self._start_step is None else self._start_step
        if step == 0 or step < first or step > len(self._averages):
            return False
        averages = self._averages[step - 1]
        lower_median = averages[(len(averages) - 1) // 2]
        best = max(values) if self._sign > 0 else -min(values)
        return best < lower_median

    def trial_end(self, trial: str, values: list[float], succeeded: bool) -> None:
        if not succeeded:
            return
        total = 0.0
        for index, value in enumerate(values):
            total += self._sign * value
            if index == len(self._averages):
                self._averages.append([])
            bisect.insort(self._averages[index], total / (index + 1))


def build(optimize_mode: str, args: MedianstopArgs) -> MedianStop:
    return MedianStop(optimize_mode, args.start_step)
