"""From a trial's object and its pods to what is known of the trial. Pure functions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from trainingservice.keeper.keeper_exit import observed_exit
from trainingservice.kubernetes_base import names, pods
from trainingservice.kubernetes_base.api import Object
from trainingservice.kubernetes_base.kind import Phase, Seen
from trainingservice.kubernetes_base.pod_template import ATTEMPT_FOLDER
from trainingservice.polling.job_record import Observation
from trainingservice.reasons import together
from trainingservice.trial_job_status import TrialJobStatus
from trialkeeper import contract

#: Seconds a pod may outstay its deletion before it is taken for one on a dead node.
OUTSTAYS = 60.0
#: Key beside those of a keeper's last word: what the cluster said of its pod while that was there.
CAUSE = "cause"
#: Exit codes of a container that was told to end, or made to.
_STOPPED_CODES = frozenset({137, 143})


def reporting_pod(of_trial: Sequence[Object], role: str) -> Object | None:
    """The pod whose keeper reports, the living one where one was made again; None where there is none yet.

    A pod whose keeper found the attempt taken is none: a controller makes a replacement while the first pod still ends.
    """
    candidates = [pod for pod in of_trial if (pod["metadata"].get("labels") or {}).get(names.ROLE) == role.lower()
                  and pods.replica_index(pod) == 0 and not pods.found_attempt_taken(pod)]
    running = [pod for pod in candidates if not pods.is_over(pod)]
    return next(iter([*running, *candidates]), None)


def pods_that_run(of_trial: Sequence[Object], now: float) -> list[Object]:
    """Pods in which something of the trial may still run."""
    def outstays(pod: Object) -> bool:
        deleted = pods.seconds(pod["metadata"].get("deletionTimestamp"))
        return deleted is not None and now > deleted + OUTSTAYS

    return [pod for pod in of_trial if not pods.is_over(pod) and not outstays(pod)]


def observation(seen: Seen, of_trial: Sequence[Object], reporting: Object | None, container: str,
                end: Mapping[str, Any] | None) -> Observation:
    """What it all means. ``end``: what the reporting keeper left, where its pod may be gone already."""
    ended = None if reporting is None else pods.termination_of(reporting, container)
    end = seen.end or (ended.end if ended is not None else None) or end
    machine = seen.node or ("" if reporting is None else pods.node_of(reporting))
    place = "" if reporting is None else f"{reporting['metadata']['name']}:{ATTEMPT_FOLDER}/{contract.CODE_FOLDER}"
    if seen.phase.is_end:
        result = _end(seen, of_trial, reporting, container, end)
    else:
        runs = seen.phase is Phase.RUNNING or (reporting is not None and pods.is_running(reporting))
        trouble = pods.why_waiting(of_trial)
        started = _started_at(reporting, container)
        if runs:
            result = Observation(TrialJobStatus.RUNNING, message=seen.message or trouble,
                                 start_time=started or seen.start_time)
        else:
            result = Observation(TrialJobStatus.WAITING,
                                 message=trouble or pods.why_not_admitted(of_trial) or seen.message)
    return replace(result, machine=machine, working_directory=place)


def _end(seen: Seen, of_trial: Sequence[Object], reporting: Object | None, container: str,
         end: Mapping[str, Any] | None) -> Observation:
    said = None if end is None else replace(observed_exit(end), cause=_text(end.get(CAUSE)))
    if said is not None and (cause := _cause(said, seen, reporting, container)):
        if said.status is TrialJobStatus.SYS_CANCELED:
            return replace(said, message=cause, cause=cause)
        return replace(said, message=together((said.message or "", cause)), cause=cause)  # the keeper itself was spared
    if seen.phase is Phase.CANCELED and (said is None or said.status is TrialJobStatus.SYS_CANCELED):
        return replace(said or Observation(TrialJobStatus.SYS_CANCELED, start_time=seen.start_time,
                                           end_time=seen.end_time), message=seen.message)
    culprit = _culprit(of_trial, reporting, container) if seen.phase is Phase.FAILED else None
    failed_elsewhere = said is not None and (
        seen.phase is Phase.FAILED and said.status is TrialJobStatus.SUCCEEDED
        or culprit is not None and said.status is TrialJobStatus.SYS_CANCELED)  # the cluster then stops the others
    if said is not None and not failed_elsewhere:
        return said
    if seen.phase is Phase.SUCCEEDED:
        return Observation(TrialJobStatus.SUCCEEDED, message="", exit_code=0, start_time=seen.start_time,
                           end_time=seen.end_time, ended_by_itself=True)
    failed = culprit or reporting
    if failed is not None and (failed.get("status") or {}).get("phase") != "Failed":
        failed = None
    ended = None if reporting is None else pods.termination_of(reporting, container)
    reasons = [*([pods.why_ended(failed, container)] if failed is not None else []), seen.message]
    return Observation(TrialJobStatus.FAILED,
                       message=together(reasons) or pods.of_kubernetes("platform_failed", "The trial failed."),
                       exit_code=seen.exit_code if ended is None else ended.exit_code,
                       start_time=(ended.started_at if ended is not None else None) or seen.start_time,
                       end_time=seen.end_time)


def _text(value: object) -> str:
    """A text, with its code where it has one; "" for what is none."""
    return value if isinstance(value, str) else ""


def _cause(said: Observation, seen: Seen, reporting: Object | None, container: str) -> str:
    """What the keeper that had this last word cannot know of its end, a sentence; "" for nothing."""
    if said.status is TrialJobStatus.SYS_CANCELED:
        return (pods.why_disrupted(reporting) if reporting is not None else "") or seen.disrupted or said.cause
    if said.status is TrialJobStatus.FAILED:
        return (pods.ran_out_of_memory(reporting, container) if reporting is not None else "") or seen.out_of_memory \
            or said.cause
    return ""


def _culprit(of_trial: Sequence[Object], reporting: Object | None, container: str) -> Object | None:
    """Another pod that failed by itself, not because it was told to end."""
    for pod in of_trial:
        ended = pods.termination_of(pod, container)
        if pod is reporting or (pod.get("status") or {}).get("phase") != "Failed" or ended is None \
                or pods.found_attempt_taken(pod):
            continue
        stopped = (ended.end.get("reason") == contract.STOPPED if ended.end is not None
                   else ended.exit_code in _STOPPED_CODES and ended.reason != "OOMKilled")
        if not stopped:
            return pod
    return None


def _started_at(reporting: Object | None, container: str) -> float | None:
    for status in ((reporting or {}).get("status") or {}).get("containerStatuses") or []:
        if status.get("name") == container:
            return pods.seconds(((status.get("state") or {}).get("running") or {}).get("startedAt"))
    return None
