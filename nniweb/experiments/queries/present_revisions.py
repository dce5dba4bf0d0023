"""Up to which revision everything of an experiment is there to be read.

A reader remembers a revision and asks later for what came after it, so it must not remember one while a smaller one may
still be committed. On SQLite the experiment's row says it. On PostgreSQL reports do not change that row each time:
their trials' rows say what is newest, and ``drawn_revisions`` how far that can be believed. Output alone changes no
trial's row; who shows it looks for it.
"""

from collections.abc import Collection
from dataclasses import dataclass

from django.db import connection
from django.db.models import OuterRef, QuerySet, Subquery

from nniweb.experiments.models import Experiment, Trial
from nniweb.experiments.pubsub.drawn_revisions import drawn

#: The revision of the trial of an experiment that changed last: one look into the index for each experiment.
_NEWEST = Subquery(Trial.objects.filter(experiment=OuterRef("pk")).order_by("-revision").values("revision")[:1])


@dataclass(frozen=True, slots=True)
class Present:
    """What may be remembered of an experiment. ``revision``: that of its latest change, output not counted.

    ``upto``: all rows up to this revision are there. The same as ``revision``, or larger.
    """

    revision: int
    upto: int


def present(experiment_pk: int) -> Present | None:
    """Of one experiment, None where it is not there. To be asked before the rows are read, and in another statement."""
    return present_of(Experiment.objects.filter(pk=experiment_pk)).get(experiment_pk)


def present_of(experiments: QuerySet[Experiment]) -> dict[int, Present]:
    """Of several experiments, by primary key; see ``present``."""
    if connection.vendor != "postgresql":
        return {pk: Present(revision, revision) for pk, revision in experiments.values_list("pk", "revision")}
    known, found = drawn(), {}
    for pk, revision, newest in experiments.values_list("pk", "revision", _NEWEST):
        limit = max(known.limit(pk), revision)
        found[pk] = Present(max(revision, min(newest or 0, limit)), limit)
    return found


def certain_upto(experiment_pk: int) -> int | None:
    """Rows above this revision must not be told to somebody who remembers the highest one; None where there are none
    such. To be asked before the rows are read, and in another statement.
    """
    if connection.vendor != "postgresql":
        return None
    found = present(experiment_pk)
    return None if found is None else found.upto


def revisions_as_read(experiments: Collection[Experiment]) -> dict[int, int]:
    """The revisions of experiments whose rows were read already, by primary key; of their trials nothing yet.

    Where an experiment's row has changed meanwhile it is the revision of the row that was read.
    """
    read = {experiment.pk: experiment.revision for experiment in experiments}
    if connection.vendor != "postgresql" or not read:
        return read
    known = drawn()
    for pk, revision, newest in Experiment.objects.filter(pk__in=list(read)).values_list("pk", "revision", _NEWEST):
        if revision == read[pk]:
            read[pk] = max(revision, min(newest or 0, known.limit(pk)))
    return read
