"""Who is meant by the jobs that a reason names ("GPU 0 is held by ovy2pm6wxrk4"), for those who may see them.

Reasons keep the names, which tell a stranger nothing: they are stored once and read by people who see different
experiments. static/js/ui/named_trials.js asks for the names and shows trials in their place.
"""

import re
from collections.abc import Iterable
from typing import Any

from nniweb.experiments.access.visibility import visible_trials
from nniweb.experiments.models import User

#: A trial's public id; later attempts add to it (transitions.py).
_JOB = re.compile(r"([a-z][a-z0-9]{11})(?:[rs]\d+)?")
#: Most names in one question.
MOST_JOBS = 200


def trials_of_jobs(jobs: Iterable[str], user: User) -> list[dict[str, Any]]:
    """``{"job", "id", "sequence_id", "experiment", "experiment_name"}`` of those this person may see, in the order of
    ``jobs``. One query.
    """
    ids = {job: match[1] for job in jobs if (match := _JOB.fullmatch(job))}
    found = {trial.public_id: trial for trial in visible_trials(user).filter(
        public_id__in=set(ids.values())).select_related("experiment").only(
        "public_id", "sequence_id", "experiment__public_id", "experiment__name")}
    return [{"job": job, "id": public_id, "sequence_id": found[public_id].sequence_id,
             "experiment": found[public_id].experiment.public_id, "experiment_name": found[public_id].experiment.name}
            for job, public_id in ids.items() if public_id in found]
