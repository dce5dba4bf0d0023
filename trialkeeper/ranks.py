"""One rank of a trial that runs on several nodes: the port on which the ranks meet, and the variables that say where.

The names are those that PyTorch, its ``torchrun`` (``PET_...``) and most other programs for several nodes read.
"""

import os
import socket
from typing import Dict, List

from trialkeeper import contract
from trialkeeper.folder_reader import open_plain

#: Of a rank's output, for whoever wonders why it failed: so many lines, and characters.
MOST_LINES, MOST_CHARACTERS = 5, 1000
_READ = 16 * 1024


def free_port() -> int:
    """A port of this machine on which nothing listens now. Raises OSError."""
    with socket.socket() as probe:
        probe.bind(("", 0))
        return int(probe.getsockname()[1])


def rank_variables(node: contract.NodeDocument, job_name: str) -> Dict[str, str]:
    """Variables of the rank's process."""
    rank, count = str(node["rank"]), str(node["count"])
    variables = {"RANK": rank, "NODE_RANK": rank, "LOCAL_RANK": "0", "WORLD_SIZE": count, "LOCAL_WORLD_SIZE": "1",
                 "PET_NNODES": count, "PET_NODE_RANK": rank, "PET_NPROC_PER_NODE": str(node.get("processes", 1)),
                 "PET_RDZV_ID": job_name}
    if "address" in node and "port" in node:
        variables.update(meeting_variables(node["address"], str(node["port"])))
    return variables


def meeting_variables(address: str, port: str) -> Dict[str, str]:
    """Where the ranks meet."""
    host = "[%s]" % address if ":" in address else address
    return {"MASTER_ADDR": address, "MASTER_PORT": port, "PET_MASTER_ADDR": address, "PET_MASTER_PORT": port,
            "PET_RDZV_ENDPOINT": "%s:%s" % (host, port)}


def last_lines(folder: str) -> str:
    """The last lines that a rank wrote to stderr, those of stdout where it wrote none there; "" for none."""
    for name in (contract.STDERR_FILE, contract.STDOUT_FILE):
        lines = _lines_at_end(os.path.join(folder, name))
        if lines:
            return "\n".join(lines[-MOST_LINES:])[-MOST_CHARACTERS:]
    return ""


def _lines_at_end(path: str) -> List[str]:
    try:
        with open_plain(path) as stream:
            stream.seek(max(0, os.fstat(stream.fileno()).st_size - _READ))
            text = stream.read(_READ).decode("utf-8", "replace")
    except OSError:
        return []
    return [line.rstrip() for line in text.splitlines() if line.strip()]
