"""Proposals that are run several times: what is told of them, and which of them are worth another run.

Pure functions of numbers, for the worker and for benchmarks.
"""

import hashlib
import math
import statistics
from collections.abc import Sequence


def replicate_seed(experiment_seed: int, replicate: int) -> int:
    """The seed of the trials with this index, 0 to 2**31 - 1: the same for each proposal of the experiment."""
    digest = hashlib.sha256(f"replicate {experiment_seed} {replicate}".encode()).digest()
    return int.from_bytes(digest[:4], "big") >> 1


def mean_and_error(values: Sequence[float]) -> tuple[float | None, float | None]:
    """The mean, None of no values; its standard error, None of fewer than two. Both None where they are not finite."""
    if not values:
        return None, None
    count = len(values)
    if not all(map(math.isfinite, values)):
        return None, None
    mean = float(statistics.mean(values))  # as fractions: the sum of the greatest numbers overflows
    if count < 2:
        return mean, None
    deviation = math.hypot(*(value - mean for value in values))
    error = deviation / math.sqrt(count * (count - 1))
    return mean, error if math.isfinite(error) else None


def may_be_better(mean: float, best: float | None, *, maximize: bool) -> bool:
    """Whether a proposal with this mean so far is worth another run, ``best`` being the mean of the best one.

    It is while its mean is not worse. A margin for its spread, and Wilcoxon's test on replicates with equal seeds,
    spend trials on proposals that turn out to be no better: ``benchmarks/replicates.py --rules`` compares them.
    """
    return best is None or (mean >= best if maximize else mean <= best)
