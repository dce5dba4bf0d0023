"""Where trials find our ``nni`` module: a folder for PYTHONPATH that holds it and nothing else.

In the zipapp it is the folder FOR_TRIALS. A module in an archive is compiled anew by each process that imports it, a
fifth of what a short trial costs; so an agent, which starts many trials, lays the folder beside the archive first.
One that is there already is compared with the archive: a power cut, or a bad disk, may have damaged it.
"""

import os
import shutil
import tempfile
from typing import Dict, List, Optional

import trialkeeper
from trialkeeper.durable_files import flush_folder, flush_tree

FOR_TRIALS = "for_trials"


def folder_for_trials(attempt_folder: str) -> Optional[str]:
    """The folder. None where there is none and none can be made; a trial then needs the official package.

    From a source tree it is made in the attempt's folder, as a link.
    """
    archive = _archive()
    if archive is not None:
        unpacked = folder_beside(archive)
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
    """Lay it beside the archive, whole or not at all; where that cannot be written, trials read the archive.

    Takes some tens of milliseconds. For a process with one thread: a child of it does the work, so that what is loaded
    for it is not held by the agent and each of its keepers.
    """
    archive = _archive()
    if archive is None:
        return
    child = os.fork()
    if child == 0:
        try:
            if damaged_files(archive) or not os.path.isdir(folder_beside(archive)):
                _unpack(archive)
            else:  # Python writes what it compiles without a flush, and would not survive a damaged file
                shutil.rmtree(os.path.join(folder_beside(archive), "nni", "__pycache__"), ignore_errors=True)
        except (OSError, ValueError):
            pass
        finally:
            os._exit(0)
    os.waitpid(child, 0)


def damaged_files(archive: str) -> List[str]:
    """The files beside the archive that are missing or not as in it; [] also where nothing was unpacked.

    Raises OSError, ValueError where the archive itself cannot be read.
    """
    folder = folder_beside(archive)
    if not os.path.isdir(folder):
        return []
    return [os.path.join(folder, name) for name, content in _members(archive).items()
            if _content(os.path.join(folder, name)) != content]


def folder_beside(archive: str) -> str:
    """Where the archive's module for trials is unpacked."""
    return os.path.splitext(archive)[0] + "." + FOR_TRIALS


def _unpack(archive: str) -> None:
    temporary = tempfile.mkdtemp(prefix=".for_trials-", dir=os.path.dirname(archive))
    try:
        fresh, place = os.path.join(temporary, FOR_TRIALS), folder_beside(archive)
        for name, content in _members(archive).items():
            path = os.path.join(fresh, name)
            os.makedirs(os.path.dirname(path), mode=0o755, exist_ok=True)
            with open(path, "wb") as stream:
                stream.write(content)
        flush_tree(temporary)
        if os.path.isdir(place):  # a damaged one; for this moment trials read the archive
            os.rename(place, os.path.join(temporary, "damaged"))
        os.rename(fresh, place)
        flush_folder(os.path.dirname(archive))
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _members(archive: str) -> Dict[str, bytes]:
    """The sources; compiled code is Python's business in a folder."""
    import zipfile
    prefix = FOR_TRIALS + "/"
    try:
        with zipfile.ZipFile(archive) as bundle:
            return {name[len(prefix):]: bundle.read(name) for name in bundle.namelist()
                    if name.startswith(prefix) and name.endswith(".py")}
    except zipfile.BadZipFile as error:
        raise ValueError("%s is damaged: %s" % (archive, error)) from error


def _content(path: str) -> Optional[bytes]:
    try:
        with open(path, "rb") as stream:
            return stream.read()
    except OSError:
        return None


def _archive() -> Optional[str]:
    """The zipapp that we run from, None for a source tree."""
    archive = os.path.dirname(_package())
    return archive if os.path.isfile(archive) else None


def _package() -> str:
    return os.path.dirname(os.path.abspath(trialkeeper.__file__))
