"""What a rehearsal says of the means by which a machine's agent ends all that a trial started."""

from trainingservice.base import RehearsalFinding
from trainingservice.keeper.agent_client import AgentClient


def control_groups_finding(client: AgentClient, machine: str) -> RehearsalFinding:
    """Never a fault: trials run without, too. Raises AgentGone."""
    about = client.machine()
    why_not = str(about.get("no_control_groups", ""))
    if not why_not:
        for_trials = about.get("for_trials")
        limits = "keeps them within their memory" if isinstance(for_trials, dict) and for_trials.get("is_kept") \
            else "does not limit their memory; where trials ask for memory, their keepers watch it"
        return RehearsalFinding("processes", True, "Each trial's processes are in a control group, so that all of them "
                                                   f"end with their trial. The kernel {limits}.", machine)
    return RehearsalFinding(
        "processes", True, f"Trials' processes are not in control groups. {why_not} A process that leaves its trial's "
                           "session and environment continues to run after its trial if both keeper and agent were "
                           "killed (docs/platforms/local.md).", machine)
