"""Whether a keeper's trial is started warm, and what is told of it."""

from typing import Any, Callable, Dict, Mapping, Optional, Tuple

from trialkeeper import contract
from trialkeeper.nni_for_trials import folder_for_trials
from trialkeeper.wakeups import Wakeups
from trialkeeper.warm_child import WarmChild, WarmRequest
from trialkeeper.warm_command import NotWarm, environment_by_shell, python_call_of


class WarmStart:
    """Of one keeper. ``start`` once or, where the trial could not be started, again."""

    def __init__(self, agent_socket: Optional[str]) -> None:
        """``agent_socket``: where the machine's agent takes requests; None where there is no agent."""
        self._agent_socket = agent_socket
        self._told: Optional[contract.WarmStartDocument] = None

    def start(self, job: contract.JobDocument, command: str, environment: Mapping[str, str], directory: str,
              attempt_folder: str, output: Tuple[str, str], wakeups: Wakeups, wait: Callable[[float], bool],
              clock: Callable[[], float]) -> Optional[WarmChild]:
        """The trial's process; None where it is to be started plainly. ``command``: with the parameters in it;
        ``output``: files for stdout and stderr.

        ``wait`` so many seconds, or until something happens; False: the attempt is to end.
        """
        modules = job.get("warm_start")
        if not modules or "node" in job:  # ranks wait for each other and are ended together: they are started plainly
            return None
        try:
            if self._agent_socket is None:
                raise NotWarm("no_agent")
            call = python_call_of(command, directory, environment)
            request = WarmRequest(
                call, experiment=job.get("experiment_id", ""), modules=modules, directory=directory,
                environment=environment_by_shell(environment, directory, call.path),
                for_trials=folder_for_trials(attempt_folder), attempt_folder=attempt_folder)
            child = WarmChild(self._agent_socket, request, *output, wakeups, wait, clock)
        except NotWarm as not_warm:
            self._told = None
            if not_warm.cause in contract.PLAIN_START_CAUSES:
                self._told = {"warm": False, "cause": not_warm.cause, "detail": not_warm.detail}
            return None
        self._told = {"warm": True, "memory": child.memory, "modules": child.modules, "learns": child.learns}
        return child

    def document(self) -> Dict[str, Any]:
        """What the end of the trial tells of its start: {} where there is nothing to tell."""
        return {} if self._told is None else {"warm_start": self._told}
