"""NNI's registries of experiments, in which nnictl looks for them: one of NNI 2 and 3, one of NNI 1."""

import fcntl
import json
import logging
import os
from datetime import datetime
from pathlib import Path
from typing import Any

from nniweb.nniapi.nni_folders import new_home, old_home
from trialkeeper.durable_files import put_in_place

logger = logging.getLogger(__name__)

#: Times as NNI 1 has them in its registry, of this machine.
_OLD_TIME = "%Y/%m/%d %H:%M:%S"


def change_registry(experiment_id: str, entry: dict[str, Any] | None, old_port: int | None = None) -> None:
    """Put an entry into NNI's registries of experiments, or take it out. ``old_port``: the one for NNI 1."""
    _change(new_home(), experiment_id, entry)
    _change(old_home(), experiment_id, None if entry is None else _as_of_nni_1(experiment_id, entry, old_port))


def change_entry(experiment_id: str, changes: dict[str, Any]) -> None:
    """Change what the registry of NNI 2 and 3 says of an experiment that somebody else has put there."""
    _change(new_home(), experiment_id, changes, is_whole=False)


def _as_of_nni_1(experiment_id: str, entry: dict[str, Any], port: int | None) -> dict[str, Any]:
    times = {name: datetime.fromtimestamp(entry[name] / 1000).astimezone().strftime(_OLD_TIME)
             if isinstance(entry[name], int) else entry[name] for name in ("startTime", "endTime")}
    return {**{name: entry[name] for name in ("status", "platform", "experimentName")}, **times, "port": port,
            "fileName": experiment_id}


def _change(folder: Path, experiment_id: str, entry: dict[str, Any] | None, *, is_whole: bool = True) -> None:
    try:
        folder.mkdir(exist_ok=True, parents=True)
        with open(folder / ".experiment.nniweb-lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            file = folder / ".experiment"
            entries = _entries(file)
            old = entries.pop(experiment_id, None)
            if not is_whole and not isinstance(old, dict):
                return
            if entry is not None:
                entries[experiment_id] = entry if is_whole else {**old, **entry}
            draft = file.with_name(f".experiment.{os.getpid()}")
            draft.write_text(json.dumps(entries, indent=4))
            put_in_place(str(draft), str(file))
    except OSError as error:
        logger.warning("NNI's registry in %s cannot be written (%s); nnictl does not find the experiment, but "
                       "Experiment.connect does", folder, error)


def _entries(file: Path) -> dict[str, Any]:
    try:
        found = json.loads(file.read_text())
    except FileNotFoundError:
        return {}
    except ValueError:
        raise OSError("it is not JSON") from None
    if not isinstance(found, dict):
        raise OSError("it is not an object")
    return found
