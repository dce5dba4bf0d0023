"""What a configuration file may say about a scheduler that is used by commands of one's own."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, ClassVar, Literal

from pydantic import Field, StringConstraints, field_validator

from trainingservice.cluster_settings import ClusterSettings, TrialOptions
from trainingservice.given_expression import GivenExpression
from trainingservice.memory_size import Megabytes
from trainingservice.ssh.login_settings import SshLoginSettings

_PATH = re.compile(r"/[^\n\r\0]*")
#: Text for sh, not only blanks.
Command = Annotated[str, StringConstraints(min_length=1, strip_whitespace=True)]


class CommandClusterSettings(ClusterSettings):
    """The commands, where they are run, and the folder that all machines share."""

    platform_name: ClassVar[str] = "command"
    fields_of_checks: ClassVar[Mapping[str, str]] = {
        "connection": "loginNode.host", "login": "loginNode.user", "host_key": "loginNode.hostKey",
        "find": "findCommand", "folder": "workingFolder", "disk": "workingFolder"}

    #: The login node alone gets its secrets.
    keeps_secrets: ClassVar[frozenset[str]] = frozenset({
        "submit_command", "status_command", "cancel_command", "find_command", "id_pattern", "waiting_states",
        "running_states", "ended_states", "working_folder", "mounted_here"})

    submit_command: Command = Field(
        description="Command that submits the script $JOB_SCRIPT under the name $JOB_NAME and prints the job's id. It "
                    "may use $GPUS, $CPUS, $MEMORY_MB and $ARGUMENTS.")
    status_command: Command = Field(
        description="Command that prints a line for each job of $JOB_IDS that the scheduler has: id, state, and "
                    "optionally why it waits. With exit status 0, jobs without a line count as removed from the "
                    "scheduler.")
    cancel_command: Command = Field(description="Command that ends the job $JOB_ID. It is not run for a trial that "
                                                "ends by itself.")
    find_command: Command | None = Field(
        default=None, description="Command that prints the ids of jobs named $JOB_NAME, and nothing if there is none. "
                                  "Without it, a trial fails if its submission was not answered.")
    id_pattern: str = Field(
        default=r"\d[\w.\[\]-]*", description="Regular expression (RE2 syntax). Its first match in the output of "
                                              "submitCommand is the job's id; if it has a group, the first group.")
    waiting_states: tuple[str, ...] = Field(
        default=("Q", "H", "W", "T", "PEND", "PSUSP", "WAIT", "PROV", "qw", "hqw", "1", "5"),
        description="The scheduler's names of states in which a job waits.")
    running_states: tuple[str, ...] = Field(
        default=("R", "E", "B", "S", "RUN", "SSUSP", "USUSP", "U", "r", "t", "Rr", "dr", "2", "6", "7"),
        description="The scheduler's names of states in which a job runs.")
    ended_states: tuple[str, ...] = Field(
        default=("C", "F", "X", "DONE", "EXIT", "ZOMBI", "Eqw", "3", "4"),
        description="The scheduler's names of states in which a job has ended or will never run.")
    working_folder: str = Field(
        description="Folder for all files of NNI Web on a file system that all machines share, as jobs see it. The "
                    "folder must exist.")
    mounted_here: Path | None = Field(
        default=None, description="Path of workingFolder on this server, if it differs. With loginNode, files are "
                                  "copied through SSH unless this is given.")
    login_node: SshLoginSettings | None = Field(
        default=None, description="The machine on which the commands are run through SSH. Default: this server, as its "
                                  "own user.")

    def borrowed_from_the_server(self) -> str:
        from trainingservice.ssh.route import borrows_from_the_server  # here: it needs an SSH library

        if self.login_node is None:
            return "its own user's shell, in which the commands are run"
        if borrows_from_the_server(self.login_node):
            return "its SSH keys and settings"
        return "its file system" if self.mounted_here is not None else ""

    @field_validator("id_pattern")
    @classmethod
    def _is_pattern(cls, value: str) -> str:
        try:
            GivenExpression(value)
        except ValueError as error:
            raise ValueError(f"expected a regular expression in RE2 syntax: {error}") from None
        return value

    @field_validator("working_folder", "mounted_here")
    @classmethod
    def _is_absolute(cls, value: Path | str | None) -> Path | str | None:
        if value is not None and not _PATH.fullmatch(str(value)):
            raise ValueError("expected an absolute path")
        return value


class CommandTrialOptions(TrialOptions):
    """What one experiment asks of the scheduler."""

    trial_cpu_number: int = Field(default=1, ge=1, description="CPUs of each job: $CPUS.")
    trial_memory_size: Megabytes | None = Field(
        default=None, ge=1, description='Memory of each job in megabytes, or a size with a unit such as "8gb": '
                                        "$MEMORY_MB, empty if it is not given.")
    submit_arguments: str = Field(default="", description=(
        "Further arguments for submitCommand, such as a queue: $ARGUMENTS."))
    prepare_command: str | None = Field(
        default=None, description="Shell commands (sh) that each job runs first, such as module load python. If they "
                                  "fail, the job does not start its trial.")
    python_path: str | None = Field(
        default=None, description="Folder of the python3 that runs the keeper, if it is not on the jobs' PATH.")
    channel: Literal["auto", "http", "storage"] = Field(
        default="auto", description="How trials report: by calling this server (http), or through workingFolder "
                                    "(storage). auto: they call the server if it has an address for other machines; "
                                    "the server fetches reports that do not arrive from workingFolder.")

    def cpus_of_a_trial(self) -> float:
        return float(self.trial_cpu_number)

    @field_validator("python_path")
    @classmethod
    def _is_absolute(cls, value: str | None) -> str | None:
        if value is not None and not _PATH.fullmatch(value):
            raise ValueError("expected an absolute path")
        return value
