"""Names of the nodes of a trial's job: the folder of each, and what a machine calls it."""

from __future__ import annotations

import re

_NODE = re.compile(r"(?P<job>[a-z0-9]+)-node(?P<rank>[1-9][0-9]{0,5})")


def node_name(job_name: str, rank: int) -> str:
    """Rank 0 has the name of the job: it is the one that reports, and the only one of most jobs."""
    return job_name if rank == 0 else f"{job_name}-node{rank}"


def job_and_rank(name: str) -> tuple[str, int]:
    """The reverse of ``node_name``."""
    found = _NODE.fullmatch(name)
    return (found["job"], int(found["rank"])) if found else (name, 0)
