"""``nni.protocol``, ``nni.runtime.protocol``, ``nni.runtime.tuner_command_channel``: what advisors are told and say.

What an advisor says is laid into a box that the process empties. Thread-safe: advisors may have threads of their own.
"""

import queue
from enum import Enum


class CommandType(Enum):
    """The messages, by NNI's names."""

    # to the advisor
    Initialize = "IN"
    RequestTrialJobs = "GE"
    ReportMetricData = "ME"
    UpdateSearchSpace = "SS"
    ImportData = "FD"
    AddCustomizedTrialJob = "AD"
    TrialEnd = "EN"
    Terminate = "TE"
    Ping = "PI"
    # from the advisor
    Initialized = "ID"
    NewTrialJob = "TR"
    SendTrialJobParameter = "SP"
    NoMoreTrialJobs = "NO"
    KillTrialJob = "KI"
    Error = "ER"


_said: "queue.SimpleQueue[tuple[CommandType, str]]" = queue.SimpleQueue()


def send(command: CommandType, data: str) -> None:
    """Say something; ``data`` is JSON text. Any thread."""
    _said.put((command, data))


def take_said() -> list[tuple[CommandType, str]]:
    """What was said since the last call, in order."""
    taken = []
    while True:
        try:
            taken.append(_said.get_nowait())
        except queue.Empty:
            return taken
