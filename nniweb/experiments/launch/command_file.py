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
    the command stands. Nothing is said of files outside of the code: whoever launches may not be allowed to know which
    there are on this server.
    """
    file = called_file(command)
    if not file:
        return []
    if code is None:
        said = f"The command runs {file}, but no code was given. Choose the code folder, or set trialCodeDirectory."
        return [RehearsalFinding("command", False, said, temporary=True)]
    try:
        path = (code / file).resolve()
        if not path.is_relative_to(code.resolve()):
            return []
        if path.exists():
            return [RehearsalFinding("command", True, f"The command runs {file}, which is in the code.")]
        said = f"The command runs {file}, which is not in the code{_similar(path, field)}"
    except (OSError, RuntimeError, ValueError):  # no path, such as one that is too long, or not to be looked at
        return []
    return [RehearsalFinding("command", False, said, temporary=True)]


def _similar(path: Path, field: str) -> str:
    """The end of the sentence, with a similar name where there is one."""
    names = []
    for entry in path.parent.glob("*"):
        names.append(entry.name)
        if len(names) == _MOST_LOOKED_AT:
            break
    return nearest(path.name, names) or f". Add it, or correct {field}."
