"""A rehearsal says whether trials are held in control groups. Without them nothing is wrong."""

import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest

from trainingservice.keeper.agent_client import AgentClient
from trainingservice.keeper.control_groups_finding import control_groups_finding

AGENT = """
from trialkeeper import agent
agent.why_not = lambda: {why_not!r}
agent.folder_of_trials = lambda: {folder}
raise SystemExit(agent.Agent().run())
"""


@pytest.fixture
def agent_that_says() -> Iterator[Callable[..., AgentClient]]:
    """Agents whose machine can hold trials, or not for the reason given."""
    started: list[tuple[subprocess.Popen[bytes], AgentClient]] = []

    def start(why_not: str, folder: str = "agent.own_folder()") -> AgentClient:
        process = subprocess.Popen([sys.executable, "-c", AGENT.format(why_not=why_not, folder=folder)],
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert process.stdin is not None
        assert process.stdout is not None
        client = AgentClient(process.stdout, process.stdin, name="of the test", on_event=lambda folder, state: None,
                             on_closed=lambda: None)
        started.append((process, client))
        client.hello(20)
        return client

    yield start
    for process, client in started:
        client.close()
        process.wait(90)


def test_it_says_that_trials_are_held(agent_that_says: Callable[..., AgentClient]) -> None:
    finding = control_groups_finding(agent_that_says(""), "ada")
    assert (finding.ok, finding.machine) == (True, "ada")
    assert finding.message == (
        "Each trial's processes are in a control group, so that all of them end with their trial. The kernel does not "
        "limit their memory; where trials ask for memory, their keepers watch it.")


def test_it_says_where_the_kernel_limits_them(agent_that_says: Callable[..., AgentClient]) -> None:
    finding = control_groups_finding(agent_that_says("", "'/limited'"), "ada")
    assert finding.message.endswith("with their trial. The kernel keeps them within their memory.")


def test_it_says_why_they_are_not_and_finds_no_fault_in_that(agent_that_says: Callable[..., AgentClient]) -> None:
    finding = control_groups_finding(agent_that_says("There is no room."), "ada")
    assert (finding.ok, finding.blocks, finding.temporary) == (True, False, False)
    assert "not in control groups. There is no room. A process" in finding.message
