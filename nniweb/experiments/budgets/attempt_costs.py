"""Whose an attempt is, what it asks for, and at which prices: one statement for any number of attempts.

By hand: each trial asks when it ends.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, NamedTuple

from django.db import connection
from django.db.models import Value
from django.db.models.functions import Coalesce, Greatest

from nniweb.experiments.models import Attempt, Cluster, Experiment
from nniweb.experiments.models.limits import MICROS

#: More than this is not believed: whole numbers of the ledger shall fit into their columns, and sums of them.
_MOST_GPUS, _MOST_MILLI_CPUS = 1_000_000, 100_000_000


@dataclass(frozen=True, slots=True)
class AttemptCosts:
    """One attempt. Primary keys and names of whose it is; None and "" where there is nobody."""

    pk: int
    job_name: str
    number: int
    created_at: datetime
    started_at: datetime | None
    machine: str
    trial: str
    sequence_id: int
    experiment_pk: int
    experiment: str
    experiment_name: str
    owner_pk: int | None
    owner: str
    group_pk: int | None
    group: str
    token_pk: int | None
    token: str
    cluster_pk: int
    cluster: str
    gpus: int
    milli_cpus: int
    #: Of an hour, in millionths.
    gpu_hour_price: int
    cpu_hour_price: int

    def running(self, now: datetime) -> int:
        """Milliseconds for which its command has run, as far as the server knows: no more than since it was made,
        whatever the clock of its machine said.
        """
        if self.started_at is None:
            return 0
        return max(0, round((now - max(self.started_at, self.created_at)).total_seconds() * 1000))


class Asked(NamedTuple):
    """What a trial asks for on all its nodes."""

    gpus: int
    cpus: float


#: Whom an attempt is charged to: as it was when it began; where an earlier version made it, as its experiment has it.
OWNER, GROUP = "COALESCE(a.charged_owner_id, e.owner_id)", "COALESCE(a.charged_group_id, e.group_id)"
#: Of an experiment on several clusters, what its trials ask for on each of them, or asked for when they began; a
#: machine's price goes before its cluster's; a trial that somebody else asked for is charged to that one's token.
_STATEMENT = f"""SELECT a.id, a.job_name, a.number, a.created_at, a.started_at, a.machine_name, t.public_id,
 t.sequence_id, e.id, e.public_id, e.name, u.id, u.username, g.id, g.name, k.id, k.name, c.id, c.name,
 COALESCE(a.charged_gpus, r.gpus_of_a_trial, e.gpus_of_a_trial),
 COALESCE(a.charged_cpus, r.cpus_of_a_trial, e.cpus_of_a_trial),
 COALESCE(m.gpu_hour, p.gpu_hour), COALESCE(m.cpu_hour, p.cpu_hour)
 FROM experiments_attempt a
 JOIN experiments_trial t ON t.id = a.trial_id
 JOIN experiments_experiment e ON e.id = t.experiment_id
 JOIN experiments_cluster c ON c.id = COALESCE(a.cluster_id, e.cluster_id)
 LEFT JOIN experiments_user u ON u.id = {OWNER}
 LEFT JOIN auth_group g ON g.id = {GROUP}
 LEFT JOIN experiments_apitoken k ON k.id = COALESCE(t.token_id, e.token_id)
 LEFT JOIN experiments_experimentcluster r ON r.experiment_id = e.id AND r.cluster_id = c.id
 LEFT JOIN experiments_price p ON p.cluster_id = c.id AND p.machine = ''
 LEFT JOIN experiments_price m ON m.cluster_id = c.id AND m.machine = a.machine_name AND a.machine_name <> ''
 WHERE """
#: Written as the index ``attempts_unfinished`` has it.
UNDER_WAY = "a.stage IN ('submitting', 'submitted')"


def charged_to(experiment: Experiment) -> dict[str, int]:
    """Columns of a new attempt of this experiment: to whom it is charged, whoever owns or shares the experiment later.
    """
    return {"charged_owner_id": experiment.owner_id or 0, "charged_group_id": experiment.group_id or 0}


def keep_what_they_asked_for(experiment: Experiment, cluster: Cluster, before: Asked, now: Asked) -> None:
    """The trials of an experiment ask for something else on a cluster from now on: what is under way there is charged
    for what it was given. In the transaction of the change.
    """
    there = Attempt.objects.under_way().filter(trial__experiment=experiment, cluster=cluster)
    there.filter(stage=Attempt.Stage.SUBMITTED, charged_gpus=None).update(
        charged_gpus=before.gpus, charged_cpus=before.cpus)
    # which of these one is given that is on its way is not known here; one that has no token is given what is asked now
    there.filter(stage=Attempt.Stage.SUBMITTING).exclude(token_hashes=[]).update(
        charged_gpus=Greatest(Coalesce("charged_gpus", Value(before.gpus)), Value(now.gpus)),
        charged_cpus=Greatest(Coalesce("charged_cpus", Value(before.cpus)), Value(now.cpus)))


def costs_of(condition: str, values: Sequence[Any] = ()) -> list[AttemptCosts]:
    """Of the attempts that meet a condition: SQL about a (the attempt), t (its trial), e (its experiment) and k (the
    token), with ``%s`` for each of ``values``. It is one of the program's few texts.
    """
    with connection.cursor() as cursor:
        cursor.execute(_STATEMENT + condition, values)
        return [_read(row) for row in cursor.fetchall()]


def _read(row: Sequence[Any]) -> AttemptCosts:
    values = list(row)
    values[3], values[4] = _time(row[3]), _time(row[4])
    for place in (12, 14, 16):
        values[place] = row[place] or ""
    values[19] = min(int(row[19]), _MOST_GPUS)
    values[20] = min(round(float(row[20]) * 1000), _MOST_MILLI_CPUS)
    values[21], values[22] = millionths(row[21]), millionths(row[22])
    return AttemptCosts(*values)


def millionths(price: Any) -> int:
    """A price, None for none. SQLite's driver gives numbers, PostgreSQL's decimals."""
    return 0 if price is None else round(Decimal(str(price)) * MICROS)


def _time(stored: datetime | None) -> datetime | None:
    """SQLite's driver says nothing of the zone, which is UTC."""
    return stored.replace(tzinfo=UTC) if stored is not None and stored.tzinfo is None else stored
