"""NNI's registry of experiments, ``~/nni-experiments/.experiment``, in which nnictl looks for them."""

import fcntl
import json
import logging
import os
from pathlib import Path
from typing import Any

from trialkeeper.durable_files import put_in_place

logger = logging.getLogger(__name__)


def change_registry(experiment_id: str, entry: dict[str, Any] | None) -> None:
    """Put an entry into NNI's registry of experiments, ~/nni-experiments/.experiment, or take it out."""
    folder = Path.home() / "nni-experiments"
    try:
        folder.mkdir(exist_ok=True)
        with open(folder / ".experiment.nniweb-lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            file = folder / ".experiment"
            entries = _entries(file)
            entries.pop(experiment_id, None)
            if entry is not None:
                entries[experiment_id] = entry
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
