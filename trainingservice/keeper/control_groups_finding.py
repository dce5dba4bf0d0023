"""What a rehearsal says of the means by which a machine's agent ends all that a trial started."""

from trainingservice.base import RehearsalFinding
from trainingservice.keeper.agent_client import AgentClient


def control_groups_finding(client: AgentClient, machine: str) -> RehearsalFinding:
    """Never a fault: trials run without, too. Raises AgentGone."""
    why_not = str(client.machine().get("no_control_groups", ""))
    if not why_not:
        return RehearsalFinding("processes", True, "Each trial's processes are in a control group, so that all of them "
                                                   "end with their trial.", machine)
    return RehearsalFinding(
        "processes", True, f"Trials' processes are not in control groups. {why_not} A process that leaves its trial's "
                           "session and environment continues to run after its trial if both keeper and agent were "
                           "killed (docs/platforms/local.md).", machine)
