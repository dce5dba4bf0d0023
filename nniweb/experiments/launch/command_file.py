"""Whether the file that a trial's command runs is in its code."""

from __future__ import annotations

from pathlib import Path

from nniweb.experiments.config.fields.walk import nearest
from trainingservice.base import RehearsalFinding
from trainingservice.code.trial_command import called_file

#: Files of a folder among which a similar name is looked for.
_MOST_LOOKED_AT = 1000


def command_findings(command: str, code: Path | None, field: str = "trialCommand") -> list[RehearsalFinding]:
    """What is missing, for whoever launches; it forbids nothing, as the text of a command does not tell everything.

    ``code``: the folder on this server that trials get, or a copy of it; None where no code was given. ``field``: where
    the command stands.
    """
    file = called_file(command)
    if not file:
        return []
    if code is None:
        said = f"The command runs {file}, but no code was given. Choose the code folder, or set trialCodeDirectory."
    elif (code / file).exists():
        return [RehearsalFinding("command", True, f"The command runs {file}, which is in the code.")]
    else:
        said = f"The command runs {file}, which is not in the code{_similar(code, file, field)}"
    return [RehearsalFinding("command", False, said, temporary=True)]


def _similar(code: Path, file: str, field: str) -> str:
    """The end of the sentence, with a similar name where there is one."""
    names = []
    for entry in (code / file).parent.glob("*"):
        names.append(entry.name)
        if len(names) == _MOST_LOOKED_AT:
            break
    return nearest(Path(file).name, names) or f". Add it, or correct {field}."
