"""All that a trial's page shows when it is opened."""

import logging
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from django.db.models import Q
from django.utils import timezone

from nniweb.api.trials.trial_attempts import resource_samples_of
from nniweb.api.trials.trial_output import read_part
from nniweb.dashboard.experiment_tabs.shown_variants import VariantDiff, diff_of
from nniweb.dashboard.trial.no_readings import no_readings
from nniweb.dashboard.words import ordinal
from nniweb.documents.checkpoints import checkpoints_of_trial
from nniweb.documents.last_heard import last_heard
from nniweb.documents.places import place_document
from nniweb.documents.trials import TrialFileSerializer, TrialSerializer, advice_documents, with_details
from nniweb.experiments.checkpoints.joined_attempts import chain_of
from nniweb.experiments.clusters.cluster_platform import runs_without_keeper
from nniweb.experiments.lifecycle.reason_columns import from_document
from nniweb.experiments.memory.estimates import predicted
from nniweb.experiments.memory.predictor import Prediction
from nniweb.experiments.models import (
    Attempt,
    Checkpoint,
    Metric,
    Trial,
    TrialEvent,
    TrialFile,
    TrialOutput,
    TrialParameters,
)
from nniweb.experiments.models.experiment_cluster import options_on
from nniweb.experiments.output.pieces import stream_end
from nniweb.experiments.output.segments import OutputDamaged
from nniweb.experiments.queries.present_revisions import present
from nniweb.experiments.results.best_so_far import evenly
from nniweb.experiments.results.rank import rank_of
from nniweb.experiments.retention.policy import removed_sentences
from nniweb.http.error_form import STORAGE_AWAY
from nniweb.storage.elsewhere import StorageFailed
from trainingservice.nodes.options import rank_rows
from trainingservice.reasons import share_in_words
from trialkeeper import contract

logger = logging.getLogger(__name__)

#: Bytes of a stream that the page begins with; what is before can be downloaded.
SHOWN_OUTPUT = 64 * 1024
#: Most points of the metric's curve that the page begins with.
MOST_POINTS = 1000
MOST_EVENTS = 200
MOST_SETS = 200
MOST_CHECKPOINTS = 100
#: Of trials without a keeper.
_NOT_SENT = {"output": "Not stored. The trial runs without a keeper, which would send what it prints.",
             "readings": "Not measured. The trial runs without a keeper, which would measure what it uses."}
#: Colours, cursor movements and titles that programs send to terminals.
TERMINAL_CODES = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[ -/]*[0-~]")


def without_terminal_codes(text: str) -> str:
    return TERMINAL_CODES.sub("", text)


@dataclass(frozen=True)
class Stream:
    """The end of stdout or stderr."""

    name: str
    #: (bytes missing before it, text)
    parts: list[tuple[int, str]]
    #: Bytes before the first part, which are on the server.
    before: int
    next_offset: int


class TrialReport:
    """``attempt``: the number of the attempt whose output, metrics and readings are shown; the latest if there is no
    such one.
    """

    def __init__(self, trial: Trial, attempt: int | None = None) -> None:
        self._trial = with_details(Trial.objects.filter(pk=trial.pk)).get()
        # read before what it covers: what comes in between is sent again by the live connection
        now = present(trial.experiment_id)
        self.revision = 0 if now is None else now.revision
        self.document: dict[str, Any] = dict(TrialSerializer(self._trial, context={"now": timezone.now()}).data)
        self._experiment = trial.experiment
        #: Everything that is known of each attempt, in order.
        self.attempts = list(Attempt.objects.filter(trial=trial).select_related("resumed_from", "cluster").order_by(
            "number"))
        for one in self.attempts:
            one.trial = trial
        #: The one that is shown; None before the first.
        self.attempt = next((found for found in self.attempts if found.number == attempt),
                            self.attempts[-1] if self.attempts else None)

    @property
    def is_carried_on(self) -> bool:
        """Whether an attempt went on from a checkpoint of the trial that this one continues."""
        return any(attempt.resumed_from is not None and attempt.resumed_from.trial_id != self._trial.pk
                   for attempt in self.attempts)

    @property
    def ranks(self) -> list[dict[str, Any]]:
        """Of a trial with several nodes; [] of others, and before it was placed."""
        return [] if self.attempt is None else rank_rows(self.attempt.platform_state)

    @property
    def placement(self) -> str:
        """Of an experiment on several clusters, where the attempt that is shown runs and what the others said."""
        if self.attempt is None or self.attempt.placement is None:
            return ""
        return f"Placed on {self.attempt.runs_on.name}. {from_document('', self.attempt.placement)}".rstrip()

    @cached_property
    def gpu_memory(self) -> Prediction | None:
        """What trials with other parameters say that it needs; None where too little is known, or it has no GPU."""
        if self.attempt is None or not self.attempt.gpu_indices:
            return None
        first = TrialParameters.objects.filter(trial=self._trial, index=0).values_list("value", flat=True).first()
        return predicted(self._trial.experiment_id, first)

    @property
    def machine_share(self) -> str:
        """What the attempt may have of its machine beside GPUs, such as "2 CPUs and 8.0 GB of memory"; "" where it did
        not ask for any.
        """
        return "" if self.attempt is None else share_in_words(self.attempt.held_cpus, self.attempt.held_memory)

    @cached_property
    def place(self) -> dict[str, Any] | None:
        """The warm place in which the attempt that is shown runs or ran, and the trials that shared it."""
        return place_document(self.attempt)

    @cached_property
    def variant(self) -> VariantDiff | None:
        """What it has instead of files of the experiment's code."""
        return diff_of(self._trial)

    @property
    def is_earlier(self) -> bool:
        """Whether what is shown is not the latest attempt's."""
        return self.attempt is not None and self.attempt != self.attempts[-1]

    @cached_property
    def heard(self) -> dict[str, Any] | None:
        """When its keeper was heard last, and when it will be."""
        return last_heard(self._trial.pk, timezone.now())

    @cached_property
    def advice(self) -> list[dict[str, Any]]:
        return advice_documents(self._trial.pk)

    @cached_property
    def removed(self) -> dict[str, str]:
        """For each kind of ``retention.OF_TRIALS`` the sentence that retention removed it, "" where it has not."""
        return removed_sentences(self._trial)

    @cached_property
    def missing(self) -> dict[str, str]:
        """For output and readings why there are none: retention removed them, or nobody sends any; "" otherwise."""
        cluster = self.attempt.runs_on if self.attempt is not None else self._experiment.cluster
        sent = {} if not runs_without_keeper(cluster, self.attempt) else _NOT_SENT
        return {kind: self.removed[kind] or sent.get(kind, "") for kind in ("output", "readings")}

    @cached_property
    def parameter_sets(self) -> list[TrialParameters]:
        """Those of a trial that has several, the first ones; their results are in them."""
        if self._trial.parameter_set_count < 2:
            return []
        sets = TrialParameters.objects.filter(Q(index=0) | Q(value__isnull=False), trial=self._trial)
        return list(sets.order_by("index")[:MOST_SETS])

    @property
    def sets_left_out(self) -> bool:
        return self._trial.parameter_set_count > MOST_SETS

    @cached_property
    def readings(self) -> list[dict[str, Any]]:
        return resource_samples_of(self.attempt)

    @cached_property
    def events(self) -> Sequence[TrialEvent]:
        events = TrialEvent.objects.filter(trial=self._trial).select_related("actor").order_by("-pk")[:MOST_EVENTS]
        return list(reversed(events))

    @property
    def history(self) -> list[tuple[TrialEvent, float | None]]:
        """Each event with the seconds since the one before."""
        before = [None, *self.events[:-1]]
        return [(event, None if last is None else max(0.0, (event.at - last.at).total_seconds()))
                for event, last in zip(self.events, before, strict=True)] if self.events else []

    @cached_property
    def checkpoints(self) -> list[Checkpoint]:
        """Those that are kept, the newest first, and those from which an attempt went on."""
        return list(checkpoints_of_trial(self._trial.pk)[:MOST_CHECKPOINTS])

    @cached_property
    def files(self) -> Sequence[TrialFile]:
        files = TrialFile.objects.filter(attempt__trial=self._trial).select_related("attempt")
        return list(files.order_by("attempt__number", "name"))

    @cached_property
    def rank(self) -> str:
        """"1st of 196"; "" where the result has no place."""
        found = rank_of(self._trial)
        return f"{ordinal(found.place)} of {found.of}" if found else ""

    @cached_property
    def previous(self) -> str | None:
        """Public id of the trial before this one."""
        return self._neighbour(sequence_id__lt=self._trial.sequence_id, order="-sequence_id")

    @cached_property
    def next(self) -> str | None:
        return self._neighbour(sequence_id__gt=self._trial.sequence_id, order="sequence_id")

    def _neighbour(self, *, order: str, **where: int) -> str | None:
        near = Trial.objects.filter(experiment=self._trial.experiment_id, **where).order_by(order)
        return near.values_list("public_id", flat=True).first()

    @cached_property
    def streams(self) -> list[Stream]:
        return [self._stream(name) for name in ("stdout", "stderr")]

    def _stream(self, name: str) -> Stream:
        rows = TrialOutput.objects.filter(attempt=self.attempt, stream=name)
        start = stream_end(rows) - SHOWN_OUTPUT
        if start < 4:  # what is left out must hold a character, to be asked for
            start = 0
        may_grow = self.attempt is not None and self.attempt.stage != Attempt.Stage.ENDED
        try:
            part = read_part(rows, start, SHOWN_OUTPUT + 4, may_grow=may_grow)
        except OutputDamaged as damage:
            return Stream(name, [(0, f"[{damage}]")], 0, 0)
        except StorageFailed as error:
            logger.warning("output cannot be shown: %s", error)
            return Stream(name, [(0, f"[{STORAGE_AWAY}]")], 0, 0)
        parts, position, missing = [], 0, 0
        for gap in part["gaps"]:
            parts.append((missing, without_terminal_codes(part["text"][position:gap["position"]])))
            position, missing = gap["position"], gap["skipped"]
        parts.append((missing, without_terminal_codes(part["text"][position:])))
        return Stream(name, [part for part in parts if part[0] or part[1]], start, part["next_offset"])

    @cached_property
    def _metrics(self) -> list[tuple[int, str, int, float | None]]:
        metrics = Metric.objects.filter(attempt=self.attempt, kind__in=(contract.PERIODICAL, contract.FINAL))
        return list(metrics.order_by("n").values_list("n", "kind", "sequence", "number"))

    @cached_property
    def curve(self) -> list[tuple[int, float]]:
        """(sequence, value) of intermediate results: of each sequence the last, without those that are no number. They
        are joined with those of the attempts that the one that is shown continues.
        """
        attempt = self.attempt
        chain = {} if attempt is None else chain_of(attempt)
        last: dict[int, float | None] = {}
        if attempt is not None and len(chain) > 1:
            earlier = [pk for pk in chain if pk != attempt.pk]
            for pk, sequence, number in Metric.objects.filter(
                    attempt__in=earlier, kind=contract.PERIODICAL, number__isnull=False).order_by(
                    "attempt", "n").values_list("attempt", "sequence", "number"):
                last[chain[pk] + sequence] = number
        first = chain.get(attempt.pk, 0) if attempt is not None else 0
        last |= {first + sequence: number for _, kind, sequence, number in self._metrics
                 if kind == contract.PERIODICAL and number is not None}
        return sorted((step, number) for step, number in last.items() if number is not None)

    @property
    def run(self) -> dict[str, Any] | None:
        """Where and how long the attempt that is shown ran; None before the first."""
        attempt = self.attempt
        return None if attempt is None else {
            "machine": attempt.machine_name, "gpu_indices": attempt.gpu_indices, "started_at": attempt.started_at,
            "duration": attempt.duration, "ended": attempt.stage == Attempt.Stage.ENDED}

    @property
    def no_reading(self) -> str:
        """What is said of the machine where there is no reading."""
        run = self.run if self.is_earlier else None
        return self.missing["readings"] or no_readings(run or {
            **self.document, "ended": self.document["ended_at"] is not None})

    def for_script(self) -> dict[str, Any]:
        curve = evenly(self.curve, MOST_POINTS)
        return {
            "trial": self.document, "revision": self.revision, "curve": curve,
            "left_out": len(self.curve) - len(curve), "attempt": self.attempt.number if self.attempt else 0,
            "streams": {stream.name: {"begins": stream.before, "next": stream.next_offset} for stream in self.streams},
            "readings": self.readings, "run": self.run, "optimize_mode": self._experiment.optimize_mode,
            "advice": self.advice, "heard": self.heard, "removed": self.removed, "missing": self.missing,
            "files": TrialFileSerializer(self.files, many=True).data,
            "nodes": int(options_on(self._experiment, self.attempt.cluster_id if self.attempt else None).get("nodes")
                         or 1),
        }
