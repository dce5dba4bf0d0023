"""Where the copy of a trial's event file belongs: its path is the name of the run that TensorBoard shows."""

import re
from pathlib import Path, PurePosixPath

_EVENTS = "tfevents"
_PLAIN = re.compile(r"[^\w .=+,@()-]", re.ASCII)
_LONGEST = 100
#: Folders that say only where the files are.
_SAYS_NOTHING = ("NNI_OUTPUT_DIR", "tensorboard")


def is_event_file(name: str) -> bool:
    """TensorBoard takes what has this word in its name."""
    return _EVENTS in name.rpartition("/")[2]


def run_path(folder: Path, name: str) -> Path | None:
    """The path below the trial's folder; None for a name that leads out of it. Letters that a trial might have chosen
    for their meaning become ``_``.
    """
    parts = list(PurePosixPath(name).parts)
    if not parts or name.startswith("/") or any(part in ("", ".", "..") for part in name.split("/")):
        return None
    while len(parts) > 1 and parts[0] in _SAYS_NOTHING:
        del parts[0]
    written = [_PLAIN.sub("_", part)[-_LONGEST:] for part in parts]
    return folder.joinpath(*(part if part.strip(".") else f"_{part}" for part in written))
