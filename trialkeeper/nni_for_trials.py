"""Where trials find our ``nni`` module: a folder for PYTHONPATH that holds it and nothing else.

In the zipapp it is the folder FOR_TRIALS. A module in an archive is compiled anew by each process that imports it, a
fifth of what a short trial costs; so an agent, which starts many trials, lays the folder beside the archive first.
"""

import contextlib
import os
import shutil
import tempfile
from typing import Optional

import trialkeeper

FOR_TRIALS = "for_trials"


def folder_for_trials(attempt_folder: str) -> Optional[str]:
    """The folder. None where there is none and none can be made; a trial then needs the official package.

    From a source tree it is made in the attempt's folder, as a link.
    """
    archive = _archive()
    if archive is not None:
        unpacked = _beside(archive)
        # the file and not its folder: whoever cleans up may have left that empty
        if os.path.isfile(os.path.join(unpacked, "nni", "__init__.py")):
            return unpacked
        return os.path.join(archive, FOR_TRIALS)
    folder = os.path.join(attempt_folder, FOR_TRIALS)
    try:
        os.makedirs(folder, exist_ok=True)
        if not os.path.islink(os.path.join(folder, "nni")):
            os.symlink(os.path.join(_package(), "nni"), os.path.join(folder, "nni"))
    except OSError:
        return None
    return folder


def unpack_for_trials() -> None:
    """Lay it beside the archive, whole or not at all; where that cannot be written, trials read the archive."""
    archive = _archive()
    if archive is None or os.path.isdir(_beside(archive)):
        return
    import zipfile  # once for a machine: agents that find it unpacked need not hold it
    with contextlib.suppress(OSError, zipfile.BadZipFile):
        temporary = tempfile.mkdtemp(prefix=".for_trials-", dir=os.path.dirname(archive))
        try:
            with zipfile.ZipFile(archive) as bundle:
                bundle.extractall(temporary, [name for name in bundle.namelist() if name.startswith(FOR_TRIALS + "/")])
            folder = os.path.join(temporary, FOR_TRIALS)
            os.chmod(folder, 0o755)
            os.rename(folder, _beside(archive))
        finally:
            shutil.rmtree(temporary, ignore_errors=True)


def _beside(archive: str) -> str:
    return os.path.splitext(archive)[0] + "." + FOR_TRIALS


def _archive() -> Optional[str]:
    """The zipapp that we run from, None for a source tree."""
    archive = os.path.dirname(_package())
    return archive if os.path.isfile(archive) else None


def _package() -> str:
    return os.path.dirname(os.path.abspath(trialkeeper.__file__))
