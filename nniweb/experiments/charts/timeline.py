"""Which machine and GPU ran which attempt when, and what waited: thinned to what can be seen in a window of time."""

from __future__ import annotations

import heapq
import re
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime

from django.db.models import DateTimeField, F, Value

from nniweb.experiments.models import Experiment, Machine, Trial
from nniweb.experiments.models.experiment_cluster import rows_by_cluster
from nniweb.experiments.sql.seconds_between import SecondsBetween
from trainingservice.reasons import jobs_named_by
from trainingservice.trial_job_status import TrialJobStatus
from trialkeeper.whole_number import whole_number

#: Pixels below which a bar is too narrow to be seen alone, the gap below which narrow ones are drawn as one, and how
#: wide such a one becomes at most: where it is busy and where not, and what failed when, shall still be seen.
NARROW, GAP, WIDEST = 3.0, 1.5, 8.0
#: Waits too short to be seen, in pixels, are left out; of the others so many can lie above each other.
SHORTEST_WAIT, MOST_WAIT_LANES = 3.0, 8
#: Rows, and waits, that nobody reads and no browser draws soon are left out, and said to be.
MOST_ROWS, MOST_WAITS = 1000, 5000

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
#: Machine and GPU; no GPU where none is known.
_Place = tuple[str, int | None]


@dataclass(frozen=True, slots=True)
class Run:
    """An attempt that began. Times in seconds since the epoch."""

    trial_id: str
    sequence_id: int
    attempt: int
    status: str
    begin: float
    #: None while it goes on.
    end: float | None


@dataclass(frozen=True, slots=True)
class Wait:
    """The time before an attempt began."""

    trial_id: str
    sequence_id: int
    attempt: int
    begin: float
    #: None while it waits.
    end: float | None
    #: Why it waits, or for how long it waited for what.
    reason: str
    #: Jobs that the reason names.
    jobs: list[str]


@dataclass(slots=True)
class Bar:
    """One run, or several that are too narrow to be told apart."""

    first: Run
    begin: float
    end: float | None
    statuses: Counter[str] = field(default_factory=Counter)

    @property
    def count(self) -> int:
        return self.statuses.total()

    @property
    def status(self) -> str:
        """That of most of them."""
        return self.statuses.most_common(1)[0][0]


@dataclass
class Row:
    """A GPU, or a slot of a machine whose GPUs are not known. Trials that share one lie on ``lane`` 0, 1 ..."""

    machine: str
    gpu: int | None
    lane: int
    bars: list[Bar] = field(default_factory=list)
    #: Runs in the window, and the part of the window in which there was one.
    runs: int = 0
    busy: float = 0.0


@dataclass(frozen=True)
class Timeline:
    rows: list[Row]
    #: Lane -> waits.
    waits: list[list[Wait]]
    #: Begin and end of the whole, and of the window.
    extent: tuple[float, float]
    window: tuple[float, float]
    now: float
    #: Runs that are not drawn alone, and waits and rows that are not drawn.
    merged: int
    waits_left_out: int
    rows_left_out: int
    revision: int


def timeline_of(experiment: Experiment, now: datetime, *, width: int, begin: float | None = None,
                end: float | None = None) -> Timeline:
    """The window from ``begin`` to ``end`` (seconds since the epoch; None: all there is) for ``width`` pixels.

    Lanes are those of the whole, so that a bar stays where it is when the window changes.
    """
    present = now.timestamp()
    runs, waits = _read(experiment)
    extent = _extent(experiment, runs, waits, present)
    window = (extent[0] if begin is None else begin, extent[1] if end is None else end)
    pixel = max(window[1] - window[0], 1e-3) / width
    places = list(_lanes_by_place(experiment, runs))
    rows: list[Row] = []
    for place, lanes in places:
        rows += _rows(place, lanes[:MOST_ROWS - len(rows)], window, pixel, present)
    seen = [wait for wait in waits if _overlaps(wait.begin, wait.end, window)]
    long = [wait for wait in seen if wait.end is None or wait.end - wait.begin >= SHORTEST_WAIT * pixel]
    merged = sum(bar.count for row in rows for bar in row.bars if bar.count > 1)
    shown = long if len(long) <= MOST_WAITS else sorted(
        heapq.nsmallest(MOST_WAITS, long, key=lambda wait: (wait.end is not None, wait.begin)),
        key=lambda wait: wait.begin)  # those that still wait first
    return Timeline(rows, _wait_lanes(shown), extent, window, present, merged, len(seen) - len(shown),
                    sum(len(lanes) for _, lanes in places) - len(rows), experiment.revision)


# --- reading ----------------------------------------------------------------------------------


def _read(experiment: Experiment) -> tuple[dict[_Place, list[Run]], list[Wait]]:
    """Runs by place and waits, each in order of their beginning. One query."""
    at = [SecondsBetween(Value(EPOCH, output_field=DateTimeField()), F(name)) for name in (
        "created_at", "started_at", "ended_at", "attempts__created_at", "attempts__submitted_at",
        "attempts__started_at", "attempts__ended_at")]  # as numbers: of 100,000 trials they are made in half the time
    rows = list(Trial.objects.filter(experiment=experiment).order_by("sequence_id", "attempts__number").values_list(
        "public_id", "sequence_id", "status", "message", *at[:3], "attempts__number", *at[3:],
        "attempts__machine_name", "attempts__gpu_indices", "reason_arguments", "attempts__cluster__name"))
    runs: dict[_Place, list[Run]] = defaultdict(list)
    waits = []
    for index, (public_id, sequence_id, status, message, trial_created, trial_started, trial_ended, number, created,
                submitted, started, ended, machine, gpus, arguments, cluster) in enumerate(rows):
        if number is None:  # imported, or never given to the platform
            started, ended = trial_started, trial_ended
        is_last = index + 1 == len(rows) or rows[index + 1][0] != public_id
        if not is_last:
            status = TrialJobStatus.FAILED.value  # it was tried again
        elif ended is None:
            ended = trial_ended
        attempt = number or 1
        since = trial_created if attempt == 1 else created
        until = started or ended
        if until is None or until > since:
            reason = message if until is None else _waited_for(since, created, submitted, until)
            waits.append(Wait(public_id, sequence_id, attempt, since, until, reason,
                              jobs_named_by(arguments) if until is None else []))
        if started is not None:
            run = Run(public_id, sequence_id, attempt, status, started,
                      None if ended is None else max(started, ended))
            name = place_name(cluster or "", machine or "") if experiment.several_clusters else machine or ""
            for gpu in gpus or [None]:
                runs[name, gpu].append(run)
    for found in runs.values():
        found.sort(key=lambda run: run.begin)
    waits.sort(key=lambda wait: wait.begin)
    return runs, waits


def place_name(cluster: str, machine: str) -> str:
    """Of a machine where there are several clusters: sorted by it, rows are grouped by cluster."""
    return f"{cluster}: {machine}" if machine else cluster


def _waited_for(since: float, given: float | None, submitted: float | None, until: float) -> str:
    """What a wait that is over was for: a slot, the submission, the platform."""
    parts = []
    for name, begin, end in (("for a free slot", since, given or until), ("to be submitted", given, submitted or until),
                             ("for the platform", submitted, until)):
        seconds = end - begin if begin is not None else 0.0
        if seconds >= 0.05:
            parts.append(f"{seconds:.1f} s {name}")
    return ", ".join(parts)


def _extent(experiment: Experiment, runs: dict[_Place, list[Run]], waits: list[Wait], now: float
            ) -> tuple[float, float]:
    everything = [run for found in runs.values() for run in found] + waits
    begins = [item.begin for item in everything] or [(experiment.started_at or experiment.created_at).timestamp()]
    goes_on = not experiment.is_finished or any(item.end is None for item in everything)
    ends = [item.end for item in everything if item.end is not None]
    end = max([*ends, now] if goes_on or not ends else ends)
    return min(begins), max(end, min(begins) + 1.0)


# --- lanes --------------------------------------------------------------------------------------


def _lanes_by_place(experiment: Experiment, runs: dict[_Place, list[Run]]
                    ) -> Iterable[tuple[_Place, list[list[Run]]]]:
    """Places in the order of their names with the lanes of their runs; also those that ran nothing."""
    lanes = {place: _in_lanes(found) for place, found in runs.items()}
    uses_gpus = bool(experiment.trial_gpu_number) or any(gpu is not None for _, gpu in runs)
    machines = {machine for machine, _ in runs if machine}
    if uses_gpus:
        several = experiment.several_clusters
        clusters = list(rows_by_cluster(experiment)) if several else [experiment.cluster_id]
        for cluster, name, gpus in Machine.objects.filter(cluster__in=clusters).values_list(
                "cluster__name", "name", "gpu_summary"):
            for gpu in gpus:
                lanes.setdefault((place_name(cluster, name) if several else name, int(gpu.get("index", 0))), [[]])
    elif len(machines) <= 1 and lanes:
        # the slots of the only machine, also those that were never used
        [place] = [place for place in lanes if place[0]] or [("", None)]
        lanes[place] += [[] for _ in range(len(lanes[place]), min(experiment.trial_concurrency, 64))]
    return sorted(lanes.items(), key=lambda item: (not item[0][0], _natural(item[0][0]), item[0][1] or 0))


def _natural(name: str) -> list[tuple[int, str]]:
    """gpu-2 before gpu-10."""
    return [(number, "") if (number := whole_number(part)) is not None else (0, part)
            for part in re.split(r"(\d+)", name)]


def _in_lanes(runs: list[Run]) -> list[list[Run]]:
    """Runs that were going on at the same time on different lanes, each on the first that is free."""
    lanes: list[list[Run]] = []
    free: list[int] = []
    busy: list[tuple[float, int]] = []
    for run in runs:
        while busy and busy[0][0] <= run.begin:
            heapq.heappush(free, heapq.heappop(busy)[1])
        if not free:
            heapq.heappush(free, len(lanes))
            lanes.append([])
        lane = heapq.heappop(free)
        lanes[lane].append(run)
        heapq.heappush(busy, (float("inf") if run.end is None else run.end, lane))
    return lanes


def _wait_lanes(waits: list[Wait]) -> list[list[Wait]]:
    lanes: list[list[Wait]] = []
    for wait in waits:
        for lane in lanes:
            last = lane[-1].end
            if last is not None and last <= wait.begin:
                lane.append(wait)
                break
        else:
            if len(lanes) < MOST_WAIT_LANES:
                lanes.append([wait])
            else:
                lanes[-1].append(wait)  # they lie on top of each other: there are more than can be told apart
    return lanes


# --- bars ----------------------------------------------------------------------------------------


def _rows(place: _Place, lanes: list[list[Run]], window: tuple[float, float], pixel: float, now: float
          ) -> Iterable[Row]:
    machine, gpu = place
    for number, runs in enumerate(lanes):
        row = Row(machine, gpu, number)
        for run in runs:
            if not _overlaps(run.begin, run.end, window):
                continue
            row.runs += 1
            begin, end = max(run.begin, window[0]), min(now if run.end is None else run.end, window[1])
            row.busy += max(0.0, end - begin) / max(window[1] - window[0], 1e-3)
            _draw(row.bars, run, pixel, now)
        yield row


def _draw(bars: list[Bar], run: Run, pixel: float, now: float) -> None:
    """Add a run: to the bar before it, where neither could be seen alone."""
    last = bars[-1] if bars else None
    end = now if run.end is None else run.end
    if last is not None and last.end is not None and end - run.begin < NARROW * pixel \
            and run.begin - last.end < GAP * pixel and end - last.begin < WIDEST * pixel \
            and (last.count > 1 or last.end - last.begin < NARROW * pixel):
        last.end = None if run.end is None else max(last.end, run.end)
        last.statuses[run.status] += 1
    else:
        bars.append(Bar(run, run.begin, run.end, Counter([run.status])))


def _overlaps(begin: float, end: float | None, window: tuple[float, float]) -> bool:
    return begin <= window[1] and (end is None or end >= window[0])
