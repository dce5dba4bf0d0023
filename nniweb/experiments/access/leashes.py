"""Leashes of tokens: what a token may do besides what its scope says, for programs that search on their own.

Which address needs which role is in ``nniweb.http.callers.leash_table``. Here is what depends on the thing asked for:
the clusters, and whether the leash still holds.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.db.models import Q

from nniweb.experiments.access.request_actor import asking_token
from nniweb.experiments.access.visibility import visible_clusters
from nniweb.experiments.errors import Refused
from nniweb.experiments.models import ApiToken, Budget, Cluster, Experiment, Trial, User
from nniweb.experiments.models.account import LeashRole, Scope
from nniweb.experiments.models.experiment_cluster import rows_by_cluster
from trainingservice.reasons import Reason
from trainingservice.words.shown_value import shown

#: Most trials at a time that a leash can be given.
MOST_TRIALS = 1_000_000
#: Most clusters that one leash can name.
MOST_CLUSTERS = 100
#: Fields of an experiment with whose higher values its tuner has more trials, or longer ones, or sooner.
_LETS_MORE_RUN = ("trial_concurrency", "max_trial_number", "max_duration", "max_trial_duration", "priority")


@dataclass(frozen=True)
class Leash:
    """The limits of a token to be made. ``clusters``: none stands for all that its person may use."""

    roles: tuple[LeashRole, ...]
    everything: bool = False
    clusters: tuple[Cluster, ...] = ()
    max_trials: int | None = None

    @property
    def scope(self) -> Scope:
        """It never sees more than a member sees."""
        return Scope.READ if set(self.roles) == {LeashRole.READ} else Scope.CHANGE

    @property
    def fields(self) -> dict[str, Any]:
        """Of the token's row."""
        return {"roles": [role.value for role in self.roles], "everything": self.everything,
                "clusters": [cluster.public_id for cluster in self.clusters], "max_trials": self.max_trials}


def leash_of(user: User, *, roles: Iterable[str], everything: bool = False, clusters: Collection[str] = (),
             max_trials: int | None = None) -> Leash | None:
    """The leash that these wishes describe for a token of this person; None where nothing is limited.

    ``clusters``: names or ids. Raises Refused for each field that is wrong, with its name.
    """
    wanted = set(roles)
    wrong: list[tuple[str, str]] = []
    if unknown := sorted(wanted - set(LeashRole.values)):
        wrong.append(("roles", f"There is no role {shown(unknown[0])}. Roles: {', '.join(LeashRole.values)}."))
    ordered = tuple(role for role in LeashRole if role.value in wanted)
    if not wanted and (everything or clusters or max_trials is not None):
        wrong.append(("roles", "Limits need at least one role. Choose what the token may do: "
                               f"{', '.join(LeashRole.values)}."))
    if ordered and not everything and LeashRole.LAUNCH not in ordered \
            and wanted & {LeashRole.PROPOSE.value, LeashRole.STEER.value}:
        wrong.append(("everything", "Without the role launch the token would have nothing of its own to act on. Add "
                                    "the role launch, or let it act on everything that its person may change."))
    if max_trials is not None and not 1 <= max_trials <= MOST_TRIALS:
        wrong.append(("max_trials", f"must be from 1 to {MOST_TRIALS}."))
    found = _clusters(user, clusters, wrong)
    if wrong:
        raise Refused.for_fields(wrong)
    return Leash(ordered, everything, found, max_trials) if ordered else None


def _clusters(user: User, wanted: Collection[str], wrong: list[tuple[str, str]]) -> tuple[Cluster, ...]:
    if len(wanted) > MOST_CLUSTERS:
        wrong.append(("clusters", f"must have at most {MOST_CLUSTERS} elements."))
        return ()
    found: dict[int, Cluster] = {}
    usable = visible_clusters(user)
    for name in wanted:
        cluster = usable.filter(Q(public_id=name) | Q(name=name)).order_by("pk").first()
        if cluster is None:
            wrong.append(("clusters", f"{user.username} cannot use a cluster named {shown(name)}."))
        else:
            found[cluster.pk] = cluster
    return tuple(found.values())


def present() -> ApiToken | None:
    """The leash of the present request: its token, where that has one."""
    token = asking_token()
    return token if token is not None and token.has_leash else None


def must_hold() -> None:
    """Inside the transaction of a change: raises Refused where the leash of the present request was ended since the
    request began. Whoever ends it waits until the transaction is over, and then stops what it has made.
    """
    if (leash := present()) is not None:
        rows = ApiToken.objects.select_for_update(no_key=True, of=("self",)).select_related("ended_by")
        row = rows.filter(pk=leash.pk).first()
        if row is None or row.has_ended:
            raise Refused(why_ended(row or leash))


def why_ended(token: ApiToken) -> Reason:
    """Who ended the token, as the reason of what ends with it."""
    return Reason("token_ended", token=str(token), by=token.ended_by.username if token.ended_by is not None else "")


def must_not(wish: str, field: str = "") -> None:
    """Raises Refused where the present request is one of a leash. ``wish``: what none may do, such as "share an
    experiment".
    """
    if (leash := present()) is not None:
        raise Refused(Reason("leash_forbids", token=str(leash), wish=wish), field)


def must_not_raise(experiment: Experiment, values: Mapping[str, Any],
                   clusters: Sequence[Mapping[str, Any]] = ()) -> None:
    """Raises Refused where the leash of the present request has ``max_trials`` or a budget, has not launched the
    experiment, and one of these new values lets more run of it: trials of its tuner do not count for the leash.

    ``values``: by field of the experiment; the experiment still has those from before, and ``clusters`` is its list of
    clusters from before.
    """
    leash = present()
    if leash is None or experiment.token_id == leash.pk:
        return
    raised = [field for field in _LETS_MORE_RUN if field in values
              and _is_more(values[field], getattr(experiment, field))]
    home = [{"name": experiment.cluster.name}]
    if "clusters" in values and _is_more_on_clusters(values["clusters"] or home, clusters or home):
        raised.append("clusters")
    if raised and (leash.max_trials is not None or Budget.objects.filter(token=leash).exists()):
        raise Refused.for_fields([(field, Reason("leash_forbids", token=str(leash), wish=(
            f"raise {field} of an experiment that it has not launched, because its trials at a time or its budget are "
            "limited"))) for field in raised])


def _is_more(new: int | None, before: int | None) -> bool:
    """Of limits, where None stands for no limit."""
    return before is not None and (new is None or new > before)


def _is_more_on_clusters(new: Sequence[Mapping[str, Any]], before: Sequence[Mapping[str, Any]]) -> bool:
    """Whether one of the clusters gets trials that it did not get before, or more at a time."""
    known = {entry["name"]: entry for entry in before if _takes_trials(entry)}
    return any(entry["name"] not in known or _is_more(entry.get("upTo"), known[entry["name"]].get("upTo"))
               for entry in new if _takes_trials(entry))


def _takes_trials(entry: Mapping[str, Any]) -> bool:
    return not entry.get("drained") and bool(entry.get("weight", 1.0))


def must_reach(cluster: Cluster, field: str) -> None:
    """Raises Refused where the leash of the present request may run no trials on the cluster. A cluster that is not
    stored yet would be made by the launch, which is for people: but for the platform of the server's own machine.
    """
    leash = present()
    if leash is None:
        return
    is_reached = reaches(leash, [cluster.public_id]) if cluster.pk is not None else \
        bool(cluster.pinned_host) and not leash.clusters
    if not is_reached:
        raise Refused(Reason("leash_cluster", token=str(leash), cluster=cluster.name, allowed=names_of(leash)), field)


def reaches(leash: ApiToken, clusters: Iterable[str]) -> bool:
    """Whether all these clusters (public ids) are among those of the leash."""
    return not leash.clusters or set(clusters) <= set(leash.clusters)


def names_of(token: ApiToken) -> list[str]:
    """Names of the clusters of the leash that there still are; [] also where it may use all."""
    return list(Cluster.objects.filter(public_id__in=token.clusters).order_by("name").values_list("name", flat=True)) \
        if token.clusters else []


def why_not_on(leash: ApiToken, experiment_id: str | None, trial_id: str | None) -> str:
    """Why the leash may not act on this experiment or trial (public ids), a sentence; "" where it may as far as the
    leash says. Of what is not there it says the same as of what is another's.
    """
    experiment: Experiment | None
    if trial_id is not None:
        trial = Trial.objects.select_related("experiment__cluster").filter(public_id=trial_id).first()
        experiment = trial.experiment if trial is not None else None
        own = trial is not None and leash.pk in (trial.token_id, trial.experiment.token_id)
    else:
        experiment = Experiment.objects.select_related("cluster").filter(public_id=experiment_id).first()
        own = experiment is not None and experiment.token_id == leash.pk
    if not own and not leash.everything:
        return "This token acts only on what it has launched itself."
    if experiment is not None and not reaches(leash, _public_ids(experiment)):
        return f"This token may use only the clusters {', '.join(names_of(leash)) or 'that were deleted since'}, and " \
               "the experiment runs on others."
    return ""


def _public_ids(experiment: Experiment) -> Sequence[str]:
    """Of the clusters on which its trials may run."""
    rows = rows_by_cluster(experiment)
    return [experiment.cluster.public_id, *(row.cluster.public_id for row in rows.values() if row.is_listed)]
