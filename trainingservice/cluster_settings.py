"""Base classes of what a platform declares in its ``config.py``: settings of a cluster, options of a trial.

A platform's section of an experiment file is the union of both: fields of its ``ClusterSettings``
describe the platform (which machines, which address, which account) and decide whether two
experiments share a cluster; fields of its ``TrialOptions`` describe one experiment's trials there.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Self

from pydantic import BaseModel, ConfigDict, SecretStr, field_validator
from pydantic.alias_generators import to_camel

#: What programs show in place of a secret: somebody who copies it has not got the secret.
_MASK = re.compile(r"\*{3,}")


class SettingsModel(BaseModel):
    """Fields are snake_case in code and camelCase in files; unknown fields are refused.

    Mark a secret with ``pydantic.SecretStr``: it is then sealed in the database and never shown.
    Document a field with ``Field(description=...)``: the reference page is made from it.
    """

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, extra="forbid", frozen=True,
                              validate_default=True, hide_input_in_errors=True)

    #: Names (snake_case) of fields that may change while the stored secrets beside and below them stay: nothing in them
    #: decides where a secret is sent. After a change of any other field such a secret must be given again.
    keeps_secrets: ClassVar[frozenset[str]] = frozenset()
    #: Names (snake_case) of fields that serve instead of a secret, such as a key's file: an entry of a list that has
    #: got one of them needs no stored secret of the entry whose place it takes.
    serves_as_secret: ClassVar[frozenset[str]] = frozenset()
    #: Fields that other platforms have, as files have them -> what to do here instead, for whoever writes one.
    elsewhere: ClassVar[Mapping[str, str]] = {}
    #: How NNI's v1 files spell these fields: v1 path in the file -> path in the v2 section, both with
    #: ``[]`` after a list (``"machineList[].ip": "machineList[].host"``). Where two v1 fields mean the
    #: same, the later one wins. Leave it empty for a platform that has no v1 form.
    v1_fields: ClassVar[Mapping[str, str]] = {}
    #: v1 path -> how its value is written in v2, where that differs. Given values of any type; must not raise.
    v1_values: ClassVar[Mapping[str, Callable[[Any], Any]]] = {}
    #: v1 paths that are accepted and have no counterpart -> a sentence that says what it means here.
    v1_dropped: ClassVar[Mapping[str, str]] = {}
    #: v1 path of ``v1_dropped`` -> its type, so that a slip in a file is found although nothing comes of the value.
    v1_dropped_types: ClassVar[Mapping[str, Any]] = {}
    #: v1 paths that NNI knew and that cannot be done here -> what to write instead, a sentence for the person.
    v1_refused: ClassVar[Mapping[str, str]] = {}

    @field_validator("*")
    @classmethod
    def _is_no_mask(cls, value: Any) -> Any:
        if isinstance(value, SecretStr) and _MASK.fullmatch(value.get_secret_value()):
            raise ValueError("only stands for a secret that is not shown. Write the secret itself, or leave the field "
                             "out where one is stored")
        return value

    def canonical(self) -> dict[str, Any]:
        """JSON-able camelCase form without secrets and without fields left at None.

        Two settings are the same cluster exactly if these are equal.
        """
        return self.model_dump(mode="json", by_alias=True, exclude_none=True, exclude=self.secret_fields())

    @classmethod
    def secret_fields(cls) -> set[str]:
        """Names (snake_case) of the top-level fields whose type is, or is optionally, ``SecretStr``."""
        return {name for name, field in cls.model_fields.items() if "SecretStr" in str(field.annotation)}


class ClusterSettings(SettingsModel):
    """What a platform must know to be used at all. Each platform's ``config.py`` has one subclass."""

    #: Name in experiment files (``trainingService: {platform: ...}``).
    platform_name: ClassVar[str] = ""
    #: What NNI's ``reuseMode`` means on this platform: shown to people whose file sets it (the field
    #: is accepted everywhere, also where no model declares it).
    reuse_mode_meaning: ClassVar[str] = "it has no effect here"
    #: Check of a rehearsal (``RehearsalFinding.check``) -> the field that its findings are about, as files have it, for
    #: forms to show them there. ``machineList[].host``: in the entry whose ``host`` is the finding's machine.
    fields_of_checks: ClassVar[Mapping[str, str]] = {}

    def field_of_check(self, check: str, machine: str) -> str:
        """The path of the field that such a finding is about, "" where none is named: ``machineList[0].host``."""
        head, brackets, tail = self.fields_of_checks.get(check, "").partition("[]")
        if not brackets:
            return head
        name = next(name for name, field in type(self).model_fields.items() if (field.alias or name) == head)
        found = [index for index, entry in enumerate(getattr(self, name))
                 if getattr(entry, "host", None) == machine]
        return f"{head}[{found[0]}]{tail}" if len(found) == 1 else head

    def borrowed_from_the_server(self) -> str:
        """What these settings use that belongs to the user the server runs as (keys, say), in words; "" for nothing.

        A host lets only administrators use such settings of their own.
        """
        return ""

    def lacks_way_for_code(self) -> str:
        """Why the code of an experiment cannot reach trials with these settings, and what to do, in sentences; "" where
        it can."""
        return ""

    def keepers_call_home(self) -> bool:
        """Whether trials must reach the server over the network, on a platform where they usually do."""
        return True

    def must_call_home(self) -> bool:
        """Whether trials must reach the server over the network, on a platform where they usually need not."""
        return False


@dataclass(frozen=True)
class CodePart:
    """The code of one role, or of several that share a folder, where roles of a trial have different folders.

    ``name``: its folder at the top of the code archive. ``folder``: where the files come from, absolute, or relative to
    where the code as a whole comes from. ``place``: the field of the options that names it, as files have it.
    ``commands``: the roles' own commands, in their order; "" for the command of the trial.
    """

    name: str
    folder: str
    place: tuple[str | int, ...]
    commands: tuple[str, ...]


def part_folders(parts: Sequence[CodePart]) -> dict[str, Path]:
    """Name in the archive -> folder, in their order."""
    return {part.name: Path(part.folder) for part in parts}


class TrialOptions(SettingsModel):
    """What one experiment asks of the platform for its trials. Each platform has one subclass."""

    elsewhere: ClassVar[Mapping[str, str]] = dict.fromkeys(("nodes", "gpusPerNode"), (
        "is for the platforms local, remote and slurm, which run a trial on several nodes. Remove it, or, where the "
        "platform has roles, set the number of replicas of a role"))

    def own_command(self) -> str:
        """The trial's command where the file gives it among the options instead of in trialCommand; "" for none."""
        return ""

    def os_user(self) -> str:
        """On a platform of the server's own machine: the user as whom trials run; "" for the server's own."""
        return ""

    def keepers_may_call(self) -> bool:
        """Whether keepers call the server where they are given its address: not where a field ``channel`` chose another
        way."""
        return getattr(self, "channel", "auto") in ("auto", "http")

    def stays_for(self) -> float | None:
        """Seconds for which a job waits for another trial of its experiment (``reuseMode``, ``reuseIdle``); None where
        it ends with its trial. Asked where the platform has places."""
        return None

    def copies_code(self) -> bool:
        """Whether each trial has a copy of the code although the platform would let it run in the folder itself."""
        return False

    def gpus_of_a_trial(self, gpu_number: int | None) -> int:
        """How many GPUs one trial asks for in all, where trialGpuNumber is ``gpu_number``."""
        return gpu_number or 0

    def cpus_of_a_trial(self) -> float:
        """How many CPUs one trial asks for in all; one for each process where the options do not say it."""
        return 1.0

    def cpus_of_a_node(self) -> float | None:
        """CPUs that each node of a trial is limited to where the platform itself sees to that; None: no limit."""
        return None

    def memory_of_a_node(self) -> int | None:
        """The same of main memory, in bytes."""
        return None

    def gpus_of_a_node(self, gpu_number: int | None) -> int | None:
        """How many GPUs one node of a trial gets, where trialGpuNumber is ``gpu_number``; None: they are not looked at.
        """
        return gpu_number

    def code_in_image(self) -> str:
        """Folder of the image in which trials run, so that no code is sent to them; "" where it is sent."""
        return ""

    def code_directories(self) -> Mapping[tuple[str | int, ...], str | None]:
        """Folders of the trial's code, as written, that files may name in these options for each role that gets code:
        place of the field -> folder, None where the role names none. The role that reports comes first."""
        return {}

    def with_code_directories(self, folder_for: Callable[[str | None], str | None]) -> Self:
        """The same with other folders there, each made of the one before; a role that gets no code names none."""
        return self

    def code_parts(self) -> Sequence[CodePart]:
        """The folders of a trial's code where its roles have different ones, the one of the role that reports first;
        () where all of the trial's code is one folder."""
        return ()

    def lacks_share(self, path: str, settings: ClusterSettings) -> str:
        """Of a file with sharedStorage: what to write instead where jobs will certainly have nothing at its
        remoteMountPoint, a sentence; "" where they have it, or may."""
        return ""

    def refused_on(self, settings: ClusterSettings, given: Self, *, by_administrator: bool
                   ) -> Sequence[tuple[str, str]]:
        """What of these options a cluster does not permit: fields, as files have them, and sentences.

        ``given``: what the cluster itself gives to experiments that leave it out. ``by_administrator``: whether an
        administrator launches.
        """
        return []

    def with_shell(self, variables: Mapping[str, str]) -> Self:
        """With PATH, VIRTUAL_ENV and CONDA_PREFIX of the shell that launches the experiment on the machine where its
        trials run, for platforms that let trials have them (default: they do not matter). Raises ValidationError."""
        return self

    def with_gpus(self, gpu_number: int | None) -> Self:
        """For a rehearsal: with trialGpuNumber written where these options leave the number of GPUs to it."""
        return self


def without_secrets(model: BaseModel) -> dict[str, Any]:
    """JSON-able camelCase form of a platform's model without secrets, at any depth, and without empty fields."""
    document: dict[str, Any] = _less_secrets(model.model_dump(by_alias=True, exclude_none=True),
                                             model.model_dump(mode="json", by_alias=True, exclude_none=True))
    return document


def _less_secrets(live: Any, plain: Any) -> Any:
    if isinstance(live, dict):
        return {str(key): _less_secrets(value, plain_value)
                for (key, value), plain_value in zip(live.items(), plain.values(), strict=True)
                if not isinstance(value, SecretStr)}
    if isinstance(live, list | tuple):
        return [_less_secrets(value, plain_value) for value, plain_value in zip(live, plain, strict=True)]
    return plain
