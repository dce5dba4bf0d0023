"""Which machine and GPU ran which attempt when, and what waited: thinned to what can be seen in a window of time."""

from __future__ import annotations

import heapq
import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from django.db.models import Case, DateTimeField, F, FilteredRelation, Max, Q, TextField, Value, When
from django.db.models.expressions import Combinable
from django.db.models.functions import Cast, Coalesce

from nniweb.experiments.charts.trial_ids import trial_ids
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
#: Begin, end (None while it goes on) and the place of its row among all: of each attempt there is one, and of nearly
#: all of many nothing more is needed.
_Span = tuple[float, float | None, int]


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
    #: How many runs it stands for.
    count: int = 1

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
    read = _Attempts(experiment)
    extent = _extent(experiment, read, present)
    window = (extent[0] if begin is None else begin, extent[1] if end is None else end)
    pixel = max(window[1] - window[0], 1e-3) / width
    places = list(_lanes_by_place(experiment, read.runs))
    rows: list[Row] = []
    for place, lanes in places:
        rows += _rows(read, place, lanes[:MOST_ROWS - len(rows)], window, pixel, present)
    first, last = window
    seen = [wait for wait in read.waits if wait[0] <= last and (wait[1] is None or wait[1] >= first)]
    long = [wait for wait in seen if wait[1] is None or wait[1] - wait[0] >= SHORTEST_WAIT * pixel]
    merged = sum(bar.count for row in rows for bar in row.bars if bar.count > 1)
    shown = long if len(long) <= MOST_WAITS else sorted(
        heapq.nsmallest(MOST_WAITS, long, key=lambda wait: (wait[1] is not None, wait[0])),
        key=_begin)  # those that wait first
    return Timeline(rows, _wait_lanes(read.with_reasons(shown)), extent, window, present, merged,
                    len(seen) - len(shown), sum(len(lanes) for _, lanes in places) - len(rows), experiment.revision)


# --- reading ----------------------------------------------------------------------------------


class _Attempts:
    """All attempts of an experiment as spans of time, in order of their beginning. Three queries.

    Of 100,000 trials each further column takes 20 ms, and an object for each attempt and each wait 100 ms.
    """

    def __init__(self, experiment: Experiment) -> None:
        self._experiment = experiment
        self.runs: dict[_Place, list[_Span]] = defaultdict(list)
        self.waits: list[_Span] = []
        self._rows = self._read()
        self._statuses: dict[int, str] = {}  # by place of the row, where it is not the trial's
        self._sort()

    def _read(self) -> Sequence[tuple[Any, ...]]:
        ids = trial_ids(self._experiment, newest=Max("sequence_id"))
        if ids["first"] is None:
            return []
        # one that came meanwhile would lack its attempts
        trials = Trial.objects.filter(experiment=self._experiment, sequence_id__lte=ids["newest"])
        # else PostgreSQL reads the attempts of all experiments
        trials = trials.annotate(tried=FilteredRelation("attempts", condition=Q(
            attempts__trial__gte=ids["first"], attempts__trial__lte=ids["last"])))
        was_tried = Q(tried__number__isnull=False)  # else it was imported, or never given to the platform
        begin = Case(When(tried__number__gt=1, then=F("tried__created_at")), default=F("created_at"))
        started = Case(When(was_tried, then=F("tried__started_at")), default=F("started_at"))
        ended = Coalesce(F("tried__ended_at"), F("ended_at"))
        return list(trials.order_by("sequence_id", "tried__number").values_list(  # type: ignore[misc]  # no "tried" there
            "public_id", "sequence_id", "status", "tried__number", _seconds(begin), _seconds(started), _seconds(ended),
            "tried__machine_name", Cast("tried__gpu_indices", TextField()),
            *(["tried__cluster__name"] if self._experiment.several_clusters else [])))

    def _sort(self) -> None:
        several = self._experiment.several_clusters
        places: dict[tuple[Any, ...], list[list[_Span]]] = {}  # those of a machine and its GPUs, as they are read
        before = None
        for index, row in enumerate(self._rows):
            if row[1] == before:
                self._statuses[index - 1] = TrialJobStatus.FAILED.value  # it was tried again
            before = row[1]
            since, started, ended = row[4:7]
            until = started if started is not None else ended
            if until is None or until > since:
                self.waits.append((since, until, index))
            if started is None:
                continue
            span = (started, ended if ended is None or ended > started else started, index)
            place = row[7:]
            if (found := places.get(place)) is None:
                machine, gpus, *cluster = place
                name = place_name(cluster[0] or "", machine or "") if several else machine or ""
                found = places[place] = [self.runs[name, gpu] for gpu in json.loads(gpus or "null") or [None]]
            for spans in found:
                spans.append(span)
        for spans in self.runs.values():
            spans.sort(key=_begin)
        self.waits.sort(key=_begin)

    def run(self, span: _Span) -> Run:
        begin, end, index = span
        public_id, sequence_id, _, number, *_ = self._rows[index]
        return Run(public_id, sequence_id, number or 1, self.status(index), begin, end)

    def status(self, index: int) -> str:
        return self._statuses.get(index) or str(self._rows[index][2])

    def with_reasons(self, spans: Sequence[_Span]) -> list[Wait]:
        """At most ``MOST_WAITS`` of them."""
        sequences = {self._rows[index][1] for _, _, index in spans}
        told = {(sequence_id, number): more for sequence_id, number, *more in Trial.objects.filter(
            experiment=self._experiment, sequence_id__in=sequences).values_list(
                "sequence_id", "attempts__number", "message", "reason_arguments", _seconds(F("attempts__created_at")),
                _seconds(F("attempts__submitted_at")))} if sequences else {}
        waits = []
        for begin, end, index in spans:
            public_id, sequence_id, _, number, *_ = self._rows[index]
            message, arguments, created, submitted = told.get((sequence_id, number), ("", None, None, None))
            waits.append(Wait(
                public_id, sequence_id, number or 1, begin, end,
                message if end is None else _waited_for(begin, created, submitted, end),
                jobs_named_by(arguments) if end is None else []))
        return waits


def _begin(span: _Span) -> float:
    return span[0]


def _seconds(at: Combinable) -> SecondsBetween:
    """A time as a number: of 100,000 trials numbers are read in half the time."""
    return SecondsBetween(Value(EPOCH, output_field=DateTimeField()), at)


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


def _extent(experiment: Experiment, read: _Attempts, now: float) -> tuple[float, float]:
    everything = [spans for spans in (*read.runs.values(), read.waits) if spans]
    begin = min((spans[0][0] for spans in everything),
                default=(experiment.started_at or experiment.created_at).timestamp())
    goes_on = not experiment.is_finished
    last = float("-inf")
    for spans in everything:
        for _, end, _ in spans:
            if end is None:
                goes_on = True
            elif end > last:
                last = end
    end = max(last, now) if goes_on or not everything else last
    return begin, max(end, begin + 1.0)


# --- lanes --------------------------------------------------------------------------------------


def _lanes_by_place(experiment: Experiment, runs: dict[_Place, list[_Span]]
                    ) -> Iterable[tuple[_Place, list[list[_Span]]]]:
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


def _in_lanes(runs: list[_Span]) -> list[list[_Span]]:
    """Runs that were going on at the same time on different lanes, each on the first that is free."""
    lanes: list[list[_Span]] = []
    free: list[int] = []
    busy: list[tuple[float, int]] = []
    for span in runs:
        begin, end, _ = span
        while busy and busy[0][0] <= begin:
            heapq.heappush(free, heapq.heappop(busy)[1])
        if free:
            lane = heapq.heappop(free)
            lanes[lane].append(span)
        else:
            lane = len(lanes)
            lanes.append([span])
        heapq.heappush(busy, (float("inf") if end is None else end, lane))
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


def _rows(read: _Attempts, place: _Place, lanes: list[list[_Span]], window: tuple[float, float], pixel: float,
          now: float) -> Iterable[Row]:
    """Each lane with what is seen of it. A run is part of the bar before it where neither could be seen alone."""
    machine, gpu = place
    first, last = window
    narrow, gap, widest = NARROW * pixel, GAP * pixel, WIDEST * pixel
    for number, spans in enumerate(lanes):
        row = Row(machine, gpu, number)
        busy = 0.0
        bar: Bar | None = None
        for span in spans:
            begin, end, index = span
            over = now if end is None else end
            if begin > last or end is not None and end < first:
                continue
            row.runs += 1
            within = (over if over < last else last) - (begin if begin > first else first)
            if within > 0:  # not where it began after now by this clock, or the window is of what comes
                busy += within
            if bar is not None and bar.end is not None and over - begin < narrow and begin - bar.end < gap \
                    and over - bar.begin < widest and (bar.count > 1 or bar.end - bar.begin < narrow):
                bar.end = None if end is None else max(bar.end, end)
                bar.statuses[read.status(index)] += 1
                bar.count += 1
            else:
                run = read.run(span)
                bar = Bar(run, begin, end, Counter([run.status]))
                row.bars.append(bar)
        row.busy = busy / max(last - first, 1e-3)
        yield row
