"""Why a job waits: Slurm's reason codes in plain sentences.

Source: Slurm's own page "Job Reason Codes" and what Slurm 22.05 says. A code that is not here is shown as it is.
"""

from __future__ import annotations

import re

from trainingservice.reasons import Reason

_SENTENCES = {
    "None": "the scheduler has not processed it yet",
    "Priority": "other jobs in this partition go first",
    "Resources": "what it asks for is in use; it is next when enough becomes free",
    "BeginTime": "it may not start before its begin time, which Slurm also sets when it queues a job again",
    "Dependency": "it depends on a job that has not ended",
    "DependencyNeverSatisfied": "it depends on a job that did not end as required, so it will never start",
    "JobHeldUser": "you hold it; release it with scontrol release",
    "JobHeldAdmin": "an administrator of the cluster holds it; ask there",
    "Licenses": "a licence that it asks for is in use",
    "Prolog": "its node is being prepared",
    "Cleaning": "its last run is being cleaned up",
    "Reservation": "the reservation that it asks for has not started",
    "ReqNodeNotAvail": "nodes that it needs are down, drained or reserved",
    "NodeDown": "a node that it needs is down",
    "BadConstraints": "no node has what it asks for, so it will never start; ask for less",
    "PartitionDown": "its partition is down; it starts when the cluster's administrators enable the partition again",
    "PartitionInactive": "its partition accepts no jobs at the moment",
    "PartitionConfig": "what it asks for is not possible in its partition; ask for less, or choose another partition",
    "PartitionNodeLimit": "it asks for more or fewer nodes than its partition allows",
    "PartitionTimeLimit": "its time limit is longer than its partition allows; set a shorter timeLimit",
    "AccountNotAllowed": "its account may not use this partition; choose another account or partition",
    "InvalidAccount": "the cluster does not know its account; correct account",
    "InvalidQOS": "its quality of service is not valid; correct qos",
    "QOSNotAllowed": "its quality of service is not allowed in this partition; correct qos or partition",
    "QOSTimeLimit": "its quality of service has used up its time",
    "QOSUsageThreshold": "the usage of its quality of service is above the limit",
    "SchedDefer": "the scheduler delays new jobs for a moment",
    "SystemFailure": "Slurm itself, a file system or the network has failed; ask the cluster's administrators",
    "MaxRequeue": "it was queued again too often",
    "launch_failed_requeued_held": "it could not be launched on its node and is held; check the node, then use "
                                   "scontrol release",
    "job_requeued_in_held_state": "somebody queued it again and holds it; release it with scontrol release",
}
#: Limits of accounts and qualities of service. Their codes are put together of these parts.
_LIMIT = re.compile(r"(?P<of>Assoc|QOS)?(?P<kind>Grp|Max)(?P<what>[A-Za-z]+?)"
                    r"(?:RunMinutes|Minutes)?(?P<per>PerUser|PerAccount|PerJob|PerNode)?(?:Limit)?")
_UNITS = {"cpu": "CPUs", "cpus": "CPUs", "gres": "GPUs or other generic resources", "mem": "memory", "memory": "memory",
          "node": "nodes", "nodes": "nodes", "job": "jobs", "jobs": "jobs", "submit": "submitted jobs",
          "submitjob": "submitted jobs", "submitjobs": "submitted jobs", "wall": "run time", "wallduration": "run time",
          "bb": "burst buffers", "billing": "billed units", "license": "licences"}


def why_it_waits(reason: str) -> Reason:
    """A sentence for a pending job's reason as squeue shows it."""
    code, _, detail = reason.strip().partition(",")
    code = code.strip("() ")
    if code in ("", "None"):
        return _in_queue("None", f"{_SENTENCES['None']}.")
    known = _SENTENCES.get(code) or _of_limit(code) or _spelled_out(code)
    said = f" (Slurm: {code})" if known else ""
    more = f" {' '.join(detail.split())[:200]}" if detail.strip() else ""
    return _in_queue(code, f"{known or code}{said}.{more}")


def _in_queue(code: str, said: str) -> Reason:
    return Reason("scheduler", scheduler="Slurm", cause=code, said=said)


def _of_limit(code: str) -> str:
    found = _LIMIT.fullmatch(code)
    if found is None or found["of"] is None and found["per"] is None:
        return ""
    whose = "of its account" if found["of"] == "Assoc" or found["per"] == "PerAccount" else "of its quality of service"
    what = _UNITS.get(found["what"].lower(), found["what"])
    if found["kind"] == "Grp":
        return f"the limit {whose} for {what} is reached; it starts when other jobs under it end"
    if found["per"] in ("PerJob", "PerNode"):
        return f"it asks for more {what} than the limit {whose} allows one job, so it will not start; ask for less"
    return f"the limit {whose} for {what} is reached; it starts when your other jobs end"


def _spelled_out(code: str) -> str:
    """Some reasons are sentences whose blanks became underscores."""
    return code.replace("_", " ")[0].lower() + code.replace("_", " ")[1:] if code.count("_") >= 3 else ""
