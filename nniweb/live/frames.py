"""What changed since a revision, read from the rows. Blocking; called on threads."""

from base64 import b64encode
from collections.abc import Collection, Iterable, Mapping
from datetime import datetime
from typing import Any

from django.db.models import Max, QuerySet
from django.utils import timezone

from nniweb.api.experiments.experiment_log import LogLineSerializer
from nniweb.api.trials.trial_attempts import reading_document
from nniweb.documents.experiments import NOT_IN_LISTS, summaries
from nniweb.documents.last_heard import last_heard
from nniweb.documents.trials import (
    MetricSerializer,
    TrialEventSerializer,
    TrialFileSerializer,
    TrialSerializer,
    advice_documents,
    with_details,
)
from nniweb.experiments.access.visibility import visible_experiments, visible_trials
from nniweb.experiments.clusters.worker_presence import worker_is_alive
from nniweb.experiments.models import (
    Attempt,
    Cluster,
    Experiment,
    LogLine,
    Machine,
    Metric,
    ResourceReading,
    Trial,
    TrialEvent,
    TrialFile,
    TrialOutput,
    User,
)
from nniweb.experiments.queries.history import last_event
from nniweb.experiments.queries.present_revisions import present, present_of
from nniweb.experiments.sql.database_health import trouble

#: A frame carries at most so many trials; a page that missed more asks for its rows anew.
MOST_TRIALS = 200
#: At most so many lines of a log; a page that missed more asks for the last ones.
MOST_LOG_LINES = 500
#: At most so many metrics and events of one trial.
MOST_METRICS = 2000
#: At most so many bytes of one stream.
MOST_OUTPUT = 256 * 1024

#: ``SHARED_WITH`` is for the hub, which takes it out before the frame is sent.
Frame = dict[str, Any]
#: Primary keys of owner and group of an experiment: while they stay, who saw it goes on seeing it.
Shared = tuple[int | None, int | None]
SHARED_WITH = "shared_with"
#: Primary keys of the latest reading and the latest kept file of a trial, and when its keeper was heard last.
Beat = tuple[int | None, int | None, datetime | None]


def may_watch_experiment(user: User, public_id: str) -> tuple[int, Shared] | None:
    """The experiment's primary key and whose it is, None where this person sees no such experiment."""
    found = visible_experiments(user).filter(public_id=public_id).values_list("pk", "owner_id", "group_id").first()
    return found and (found[0], found[1:])


def may_watch_trial(user: User, public_id: str) -> tuple[int, int, Shared] | None:
    """Primary keys of the trial and its experiment, and whose it is; None where this person sees no such trial."""
    found = visible_trials(user).filter(public_id=public_id).values_list(
        "pk", "experiment_id", "experiment__owner_id", "experiment__group_id").first()
    return found and (found[0], found[1], found[2:])


def may_go_on(user: User, experiment_pk: int) -> bool:
    """Whether this person still sees an experiment that has become somebody else's, or is shared with others now."""
    return visible_experiments(user).filter(pk=experiment_pk).exists()


def revisions_of(experiment_pks: Iterable[int]) -> dict[int, int]:
    """The present revision of each experiment that is still there."""
    return present_revisions(Experiment.objects.filter(pk__in=list(experiment_pks), deleted_at=None))


def present_revisions(experiments: QuerySet[Experiment]) -> dict[int, int]:
    """The present revisions, by primary key."""
    return {pk: found.revision for pk, found in present_of(experiments).items()}


def _summary_of(experiments: QuerySet[Experiment]) -> list[dict[str, Any]]:
    return summaries(experiments.select_related("cluster", "owner", "group").defer(*NOT_IN_LISTS))


def experiment_frame(experiment_pk: int, since: int) -> Frame | None:
    """The experiment as it is now and its trials that changed after ``since``; None where it is gone.

    The revision is read before the rows: what commits in between is sent again next time.
    """
    found = Experiment.objects.filter(pk=experiment_pk, deleted_at=None)
    now, shared = present(experiment_pk), found.values_list("owner_id", "group_id").first()
    if now is None or shared is None:
        return None
    revision = now.revision
    changed = Trial.objects.filter(experiment=experiment_pk, revision__gt=since).order_by("revision", "pk")
    trials = list(with_details(changed)[: MOST_TRIALS + 1])
    complete = len(trials) <= MOST_TRIALS
    documents = TrialSerializer(trials, many=True, context={"now": timezone.now()}).data if complete else []
    summary = next(iter(_summary_of(found)), None)
    return {"revision": revision, "since": since, "experiment": summary, "trials": documents, "complete": complete,
            "last_event": last_event(experiment_pk),
            "trouble": trouble(), SHARED_WITH: shared}


def log_frame(experiment_pk: int, since: int) -> Frame | None:
    """The lines of an experiment's log that were written after ``since``; None where the experiment is gone."""
    found = Experiment.objects.filter(pk=experiment_pk, deleted_at=None)
    now, shared = present(experiment_pk), found.values_list("owner_id", "group_id").first()
    if now is None or shared is None:
        return None
    revision = now.revision
    newer = LogLine.objects.filter(experiment=experiment_pk, revision__gt=since, revision__lte=revision)
    lines = list(newer.order_by("number")[: MOST_LOG_LINES + 1])
    complete = len(lines) <= MOST_LOG_LINES
    return {"revision": revision, "since": since, "lines": LogLineSerializer(lines, many=True).data if complete else [],
            "complete": complete, SHARED_WITH: shared}


def trial_frame(trial_pk: int, since: int) -> Frame | None:
    """One trial as it is now, and its metrics, output and events after ``since``; None where it is gone.

    The revision is read before the rows, as in ``experiment_frame``.
    """
    found = Trial.objects.filter(pk=trial_pk, experiment__deleted_at=None)
    of = found.values_list("experiment_id", "experiment__owner_id", "experiment__group_id").first()
    seen, trial = of and present(of[0]), with_details(found).first()
    if of is None or seen is None or trial is None:
        return None
    newer = {"attempt__trial": trial_pk, "revision__gt": since, "revision__lte": seen.upto}
    metrics = Metric.objects.filter(**newer).select_related("attempt").order_by("attempt", "n")[: MOST_METRICS + 1]
    documents = MetricSerializer(metrics, many=True).data
    output, output_revision = _output_since(newer)
    complete = len(documents) <= MOST_METRICS and output is not None
    # output alone is no change of the trial, nor of the experiment
    revision = max(seen.revision, output_revision, min(since, seen.upto))
    events = TrialEvent.objects.filter(trial=trial_pk).select_related("actor").order_by("pk")[:MOST_METRICS]
    files = TrialFile.objects.filter(attempt__trial=trial_pk).select_related("attempt").order_by(
        "attempt__number", "name")[:MOST_METRICS]
    now = timezone.now()
    return {"revision": revision, "since": since,
            "trial": TrialSerializer(trial, context={"now": now}).data, "advice": advice_documents(trial_pk),
            "heard": last_heard(trial_pk, now),
            "metrics": documents if complete else [], "output": output if complete else [], "complete": complete,
            "events": TrialEventSerializer(events, many=True).data, "reading": _last_reading(trial_pk),
            "files": TrialFileSerializer(files, many=True).data, "next": _next_trial(trial), "trouble": trouble(),
            SHARED_WITH: of[1:]}


def _next_trial(trial: Trial) -> str | None:
    later = Trial.objects.filter(experiment=trial.experiment_id, sequence_id__gt=trial.sequence_id)
    return later.order_by("sequence_id").values_list("public_id", flat=True).first()


def _last_reading(trial_pk: int) -> dict[str, Any] | None:
    """What the trial's keeper read last of its machine, and in which attempt."""
    last = ResourceReading.objects.filter(attempt__trial=trial_pk).order_by("-pk").values_list(
        "attempt__number", "at", "data").first()
    return None if last is None else {"attempt": last[0], **reading_document(last[1], last[2])}


def beats_of(trial_pks: Iterable[int]) -> dict[int, Beat]:
    """What tells that a trial has something new that comes without a revision: its latest reading and kept file, and a
    report in which nothing was new.
    """
    pks = list(trial_pks)
    readings = dict(ResourceReading.objects.filter(attempt__trial__in=pks).values_list("attempt__trial").annotate(
        Max("pk")).order_by())
    files = dict(TrialFile.objects.filter(attempt__trial__in=pks).values_list("attempt__trial").annotate(
        Max("pk")).order_by())
    heard = dict(Attempt.objects.filter(trial__in=pks).values_list("trial").annotate(Max("heard_at")).order_by())
    return {pk: (readings.get(pk), files.get(pk), heard.get(pk)) for pk in pks}


def state_of_clusters() -> int:
    """A number that changes when anything of any cluster does that its pages show; trials ring by themselves."""
    clusters = Cluster.objects.order_by("pk").values_list(
        "pk", "name", "enabled", "health", "message", "lease_holder", "settings_revision", "rehearsed_at", "group",
        "owner")
    machines = Machine.objects.order_by("pk").values_list("pk", "seen_at", "healthy", "message")
    return hash((tuple(clusters), tuple(machines)))


def _output_since(newer: dict[str, Any]) -> tuple[list[dict[str, Any]] | None, int]:
    """Pieces of output in order, and the highest of their revisions, 0 where there are none. None and 0 where there are
    too many, or they are in the storage of files.

    As bytes, in base64: a character may begin in one piece and end in the next.
    """
    pieces, size, highest = [], 0, 0
    rows = TrialOutput.objects.filter(**newer).order_by("attempt__number", "stream", "offset").values_list(
        "attempt__number", "stream", "offset", "data", "skipped", "storage_path", "revision")
    for attempt, stream, offset, data, skipped, path, revision in rows.iterator(8):
        size += len(data)
        if path is not None or size > MOST_OUTPUT:
            return None, 0
        highest = max(highest, revision)
        pieces.append({"attempt": attempt, "stream": stream, "offset": offset, "skipped": skipped,
                       "base64": b64encode(data).decode("ascii")})
    return pieces, highest


def list_frame(user: User, experiment_pks: Iterable[int], shown: Collection[str]) -> Frame:
    """Those of the experiments this person sees, as a list shows them, and the ids of those that are gone.

    ``shown``: ids that this person has seen. Of others nobody is told that they are gone: that they were there is not
    everybody's business.
    """
    pks = list(experiment_pks)
    rows = _summary_of(visible_experiments(user).filter(pk__in=pks))
    seen = {row["id"] for row in rows}
    gone = [public_id for public_id in Experiment.objects.filter(pk__in=pks).values_list("public_id", flat=True)
            if public_id in shown and public_id not in seen]
    return {"experiments": rows, "gone": gone, "worker_alive": worker_is_alive(), "trouble": trouble()}


def changed_since(user: User, shown: Mapping[str, int]) -> tuple[set[int], set[str]]:
    """Of what a page shows (revisions by id): primary keys of what is at another revision, and ids of what is not there
    for this person, whether it was deleted, is hidden from them, or never was.
    """
    visible = visible_experiments(user).filter(public_id__in=list(shown))
    revisions, found = present_revisions(visible), list(visible.values_list("pk", "public_id"))
    changed = {pk for pk, public_id in found if revisions.get(pk) != shown[public_id]}
    return changed, shown.keys() - {public_id for _, public_id in found}
