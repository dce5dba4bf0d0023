"""What trials of an experiment need of GPU memory, by what its ended attempts needed.

A model is fitted when it is asked for and further attempts have ended; looks for those are REFRESH seconds apart. Any
thread may ask.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.db.models import Q

from nniweb.experiments.memory.predictor import MOST, MemoryModel, Prediction, Seen, fit
from nniweb.experiments.models import Attempt, TrialParameters
from trialkeeper import contract

#: Seconds between two looks at what has ended in one experiment.
REFRESH = 2.0
#: Experiments whose models are kept.
_MOST_KNOWN = 200
#: Ends after which a trial had what it needed: it was not cut short by an error of its own.
_TELLING = Q(exit_code=0) | Q(end_reason__in=[contract.STOPPED, contract.TIME_LIMIT, contract.FROZEN])


@dataclass
class _Known:
    looked_at: float
    #: Primary keys of the attempts that it knows.
    attempts: tuple[int, ...]
    model: MemoryModel | None


_models: OrderedDict[int, _Known] = OrderedDict()
_lock = threading.Lock()


def model_of(experiment_pk: int, monotonic: float | None = None) -> MemoryModel | None:
    """The model of an experiment; None while too little is known. One question, or none."""
    now = time.monotonic() if monotonic is None else monotonic
    with _lock:
        known = _models.get(experiment_pk)
        if known is not None and now - known.looked_at < REFRESH:
            return known.model
    rows = list(Attempt.objects.filter(
        Q(gpu_peak__isnull=False) & _TELLING | Q(out_of_memory=contract.GPU_MEMORY), trial__experiment=experiment_pk,
        stage=Attempt.Stage.ENDED).order_by("-pk").values_list(
            "pk", "trial", "gpu_peak", "out_of_memory", "gpu_alone", "gpu_total", "gpu_memory")[:MOST])
    # the newest of each trial: what it had alone says more than that it ran out before
    rows = list({row[1]: row for row in reversed(rows)}.values())
    attempts = tuple(row[0] for row in rows)
    if known is None or known.attempts != attempts:
        given = dict(TrialParameters.objects.filter(trial__in={row[1] for row in rows}, index=0).values_list(
            "trial", "value"))
        known = _Known(now, attempts, fit([
            Seen(_parameters(given.get(trial)), _least(peak, memory, total if alone else held), bool(memory))
            for _, trial, peak, memory, alone, total, held in rows]))
    known.looked_at = now
    with _lock:
        _models[experiment_pk] = known
        _models.move_to_end(experiment_pk)
        if len(_models) > _MOST_KNOWN:
            _models.popitem(last=False)
    return known.model


def _least(peak: int | None, memory: str | None, had: int | None) -> int:
    """Bytes that the attempt needed, and where it ran out, at least. ``had``: that it could have."""
    return max(peak or 0, had or 0) if memory else peak or 0


def predicted(experiment_pk: int, parameters: Any) -> Prediction | None:
    """What a trial with these parameters needs; None while too little is known."""
    model = model_of(experiment_pk)
    return None if model is None else model.predict(_parameters(parameters))


def forget_models() -> None:
    """For tests, whose databases begin anew."""
    with _lock:
        _models.clear()


def _parameters(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}
