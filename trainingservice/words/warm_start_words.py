"""Why trials are started plainly where a warm start was asked for, as a sentence."""

from __future__ import annotations

#: Cause -> what is said of it; {} is the detail.
PLAIN_START_CAUSES = {
    "no_agent": "the platform starts no agent on the machines of its trials",
    "command": "trialCommand is not a single call of a Python script or module, such as python3 trial.py --epochs 3",
    "variable": "the variable {} changes what the shell does before it calls Python",
    "interpreter": "the trial's Python cannot be forked ({})",
    "import": "a module cannot be imported before the trial: {}. Correct the list in warmStart",
    "reads": "a module reads, while it is imported, a variable that has another value in each trial: {}",
    "cuda": "CUDA is initialised while the modules are imported, and cannot be used in a forked process",
    "files": "modules leave files open: {}",
    "threads": "modules leave threads running after they were imported: {}",
    "memory": "the process with the imported modules takes {}, more than its part of the machine's memory",
    "slow": "the imports take more than {}",
    "failed": "the process that imports the modules ended: {}",
    "shadowed": "the trial's folder has a module {}, which is also the name of an imported one. Rename it",
    "no_process": "no process could be started: {}",
    "parents": "{} experiments on the machine have such processes already",
}


def plain_start(machine: str, cause: str, detail: str) -> str:
    """The sentence of the reason ``plain_start``."""
    said = PLAIN_START_CAUSES.get(cause, cause).format(detail)
    return f"Trials on machine {machine} are started plainly, without warmStart, because {said}."
